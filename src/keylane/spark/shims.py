"""What the core names differently before and after branch `spark` meets `main`. To be deleted then: see each line."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keylane.contract.model import Key, Window

_read: Any = import_module("keylane.keys.read")
_window: Any = import_module("keylane.keys.window")


def joined_by(key: Key) -> bytes:
    """`key.joined_by` on main."""
    own: bytes | None = getattr(key, "joined_by", None)
    return _read.joiner(key) if own is None else own


def micros(window: Window) -> int:
    """`window.micros` on main."""
    own: int | None = getattr(window, "micros", None)
    return _window.micros(window.size) if own is None else own


def furthest(window: Window) -> tuple[int, int]:
    """`FURTHEST // TICKS[unit]` either side of 1970 on main."""
    ticks = _window.TICKS[window.unit]
    most: int | None = getattr(_window, "FURTHEST", None)
    return (-(2**63 // ticks), (2**63 - 1) // ticks) if most is None else (-(most // ticks), most // ticks)

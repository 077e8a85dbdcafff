"""Keys as they may be shown to others: cut, with a hash that tells two of them apart. Keys are personal data.

Whether a key is shown whole is the user's to say (`--show-keys`); everything that prints keys asks here.
"""

from __future__ import annotations

import hashlib
from typing import Any

__all__ = ["masked", "shown"]


def masked(key: str, salt: bytes) -> str:
    """A key cut to its beginning, with a salted hash that tells two of them apart and leads back to neither.

    At most four characters, and never more than a third of them: of a short key the beginning is all there is.

    >>> masked("merchant_000042", b"a")[:5], masked("7", b"a")[:1]
    ('merc…', '…')
    """
    digest = hashlib.sha256(salt + key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{key[: min(4, len(key) // 3)]}…{digest[:6]}"


def shown(values: tuple[Any, ...]) -> str:
    r"""The fields of a key as one text: bytes as the text they spell, else in hex.

    >>> shown(("shop", 7)), shown((b"m-1",)), shown((b"\xff\x00",))
    ('shop | 7', 'm-1', '0xff00')
    """
    return " | ".join(_text(value) for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return text if text.isprintable() else f"0x{value.hex()}"

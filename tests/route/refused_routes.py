"""Routes that are refused, and what a folder holds: neither a refused route nor a dry run changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.route.killable_routes import contract

from keylane.pipelines.route import Options

if TYPE_CHECKING:
    from pathlib import Path

LONG = "s" * 249
#: What is wrong, words of the refusal, and how the command differs from the right one.
REFUSALS: dict[str, tuple[str, dict[str, Any]]] = {
    "an interval that is none": ("not a length of time", {"options": Options(every="soon")}),
    "a source that is not there": ("no such source", {"source": "nowhere"}),
    "a source without files": ("known kind", {"source": "empty"}),
    "a schema that is none": ("not a list of columns", {"options": Options(schema="k strin g")}),
    "another lane count": ("contradicts", {"options": Options(lanes=7)}),
    "a stream that is not the contract's": ("stream", {"options": Options(stream="other")}),
    "a lane count that nobody gives": ("lanes", {"contract": contract(**{"lanes: 4": "lanes: live"})}),
    "a stream that no folder can hold": ("too long for a folder", {"contract": contract(**{"[orders]": f"[{LONG}]"})}),
    "a target in its own source": ("within each other", {"target": "in/out"}),
    "a target that is a file": ("not a folder", {"target": "file"}),
    "a target with other things in it": ("not a keylane folder", {"target": "full"}),
}


def everything(folder: Path) -> dict[str, bytes | None]:
    """Every folder, and every file's bytes."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}

"""Source files that change under a route. A file is read once, so whatever is put into it afterwards would be lost.

While a batch is made, a change stops it: it has not happened, and is made again (`check_unchanged`). Afterwards it can
only be said (`changed_since`), as far back as manifests are kept. Which files make a batch: `route`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.spark.files import SourceFile
    from keylane.systems.folders import Target

__all__ = ["changed_since", "check_unchanged"]

_WHOLE: Final = "write a file elsewhere on the same disk, and rename it into the source when it is whole"
#: More than these would bury what else is said.
_SHOWN: Final = 3


def check_unchanged(files: Sequence[SourceFile]) -> None:
    """Refuse a batch one of whose files is not what it was when the batch began."""
    for file in files:
        now = _state(Path(file.path))
        if now != (file.size, file.modified):
            raise DataError.of(
                f"{file.path} has changed while it was read",
                got=_shown(now),
                allowed=_shown((file.size, file.modified)),
                hint=_WHOLE,
            )


def changed_since(target: Target, source: Path) -> Iterator[str]:
    """What to say of files that were taken and have changed since. One that is gone has done its work."""
    changed = []
    for manifest in target.manifests():
        for taken in manifest.taken:
            now = _state(source if source.is_file() else source / taken.name)
            if now is not None and now != (taken.size, taken.modified):
                changed.append(f"{taken.name} ({_shown((taken.size, taken.modified))} then, {_shown(now)} now)")
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        yield f"changed since they were routed, and not read again: {', '.join(changed[:_SHOWN])}{more}; {_WHOLE}"


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of change in milliseconds, which is as fine as Java tells it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns // 1_000_000


def _shown(state: tuple[int, int] | None) -> str:
    return "gone" if state is None else f"{state[0]} bytes of {state[1] / 1000:.3f}"

"""The last change of a registry that is one file, noted beside it: what an older copy, put in its place, is found by.

    keys.sqlite         the registry: every change has a version and a digest
    keys.sqlite.last    the version that was written last here, with its digest

The note is written after the change, so that a kill leaves it behind the registry and never before it. A registry that
does not have the noted version with its digest is an older copy, whether or not it was changed again: refused before
it is read. One that was copied without its note is taken as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keylane.errors import TargetError
from keylane.systems.journal import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENDING: Final = ".last"


def note_last_change(path: Path, version: int, digest: str) -> None:
    """Note the change that was committed."""
    write_document(_note(path), {"version": version, "digest": digest})


def check_last_change(path: Path, digest_of: Callable[[int], str], version: int) -> None:
    """Refuse a registry, at this version now, that does not have the change that was noted last."""
    note = _note(path)
    try:
        known = read_document(note)
    except TargetError:
        # It is no source of truth: the next change writes it again.
        return
    if known is None or digest_of(int(known["version"])) == known["digest"]:
        return
    changed = " and was changed since" if version >= int(known["version"]) else ""
    raise TargetError.of(
        f"the registry was restored from an older copy{changed}: what came after that copy is missing",
        got=f"{path}, version {version}",
        allowed=f"version {known['version']} with digest {known['digest']}",
        hint=f"restore the newest copy; where none is left, remove {note}, and add again what is missing before "
        "anything else is added",
    )


def _note(path: Path) -> Path:
    return path.absolute().with_name(path.name + ENDING)

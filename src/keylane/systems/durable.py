"""Writes that are there or not there, never half: what `folders` is built on. POSIX file systems only.

A file is written under another name, forced to the disk and renamed; a rename within one file system is one step for
everybody who looks. Which files there are, and why in that order: `folders`.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["exchange", "force", "force_all", "write_json"]

_AT_CWD: Final = -100
_RENAME_EXCHANGE: Final = 2


def force(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def force_all(paths: Iterable[Path]) -> None:
    """Force each path once."""
    for path in dict.fromkeys(paths):
        force(path)


def write_json(path: Path, document: Any) -> None:
    """Write a document so that a reader sees the old one or the new one, also after the power fails."""
    waiting = path.with_name(f".{path.name}.new")
    with waiting.open("w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    waiting.replace(path)
    force(path.parent)


def exchange(one: Path, other: Path) -> None:
    """Swap two folders in one step: whoever looks sees one or the other under a name, never neither or both."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise _cannot_exchange(one)
    if call(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        if code in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV}:
            raise _cannot_exchange(one)
        raise OSError(code, os.strerror(code), str(one))
    force_all((one.parent, other.parent))


def _cannot_exchange(path: Path) -> TargetError:
    return TargetError.of(
        "this file system cannot exchange two folders in one step, and nothing less is safe for readers",
        got=str(path),
        allowed="ext4, XFS, Btrfs, tmpfs on Linux",
        hint="larger batches make fewer files: --max-files",
    )

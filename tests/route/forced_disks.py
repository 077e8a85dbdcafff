"""A disk that keeps what was forced to it and nothing else, as after a power failure.

Strict POSIX: a file has the content it had when it was forced last, and is empty if it never was; a folder has the
names it had when it was forced last. Forced is what this process
forces: Spark's Java forces nothing, as `strace` shows.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

#: Of a folder: the file numbers of its names, and whether each is a folder itself.
Names = dict[str, tuple[int, bool]]


@dataclass
class ForcedDisk:
    """What was forced below a folder, which is there itself."""

    root: Path
    contents: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, Names] = field(default_factory=dict)
    #: Kept open, so that no file number is given to another file.
    handles: list[int] = field(default_factory=list)

    def record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """See every call of fsync from now on."""
        monkeypatch.setattr(os, "fsync", self._forced)

    def copy(self) -> ForcedDisk:
        """The disk as it is at this moment."""
        return ForcedDisk(self.root, dict(self.contents), dict(self.names))

    def rebuild(self, to: Path) -> Path:
        """Write the disk, as a machine would find it when the power is back."""
        to.mkdir()
        self._fill(self.root.stat().st_ino, to)
        return to

    def close(self) -> None:
        """Let the files go."""
        for handle in self.handles:
            os.close(handle)

    def _forced(self, handle: int) -> None:
        now = os.fstat(handle)
        self.handles.append(os.dup(handle))
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if stat.S_ISDIR(now.st_mode):
            with os.scandir(path) as entries:
                self.names[now.st_ino] = {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}
        else:
            self.contents[now.st_ino] = path.read_bytes()

    def _fill(self, folder: int, to: Path) -> None:
        for name, (number, is_folder) in self.names.get(folder, {}).items():
            if is_folder:
                (to / name).mkdir()
                self._fill(number, to / name)
            else:
                (to / name).write_bytes(self.contents.get(number, b""))

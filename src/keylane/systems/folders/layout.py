"""The files of a target by what they are: those of its lanes, its dead letters, and strays, which are none of these.

A reader that lists a folder goes by names: it skips what begins with `.` or `_`, and takes whatever else there is, at
any depth. So a file under another name than keylane gives is lost for it, or read twice. What is in the files:
`files.stream`; how they come there: `folder`, `compaction`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from keylane.systems.folders.folder import DEAD
from keylane.systems.journal import OWN

_STREAM: Final = re.compile(r"stream=(.+)", re.DOTALL)
#: One form for each number: `lane=00` is not the folder of lane 0.
_LANE: Final = re.compile(r"lane=(0|[1-9][0-9]{0,8})")
_PART: Final = re.compile(r"part-[0-9]{10}(?:-[0-9]{10})?\.(?:parquet|dead)")
_HIDDEN: Final = (".", "_")


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file of a lane, and its place among those."""

    path: Path
    stream: str
    lane: int
    rank: int


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """What is in a target. `strays` are names from the target.

    One that was not `routed` but made by hand may have other names, and files that are hidden from readers.
    """

    path: Path
    routed: bool
    lanes: list[PlacedFile] = field(default_factory=list)
    dead: list[Path] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path, *, routed: bool) -> FolderFiles:
        """List all of a target."""
        found = cls(path, routed)
        for entry in _entries(path) if path.is_dir() else ():
            stream = _STREAM.fullmatch(entry.name)
            if stream is not None and entry.is_dir():
                found._add_stream(entry, stream[1])
            elif entry.name == DEAD and entry.is_dir():
                found.dead.extend(found._data(entry, ".dead"))
            elif entry.name != OWN:
                found._add_stray(entry)
        return found

    def _add_stream(self, folder: os.DirEntry[str], stream: str) -> None:
        for entry in _entries(folder.path):
            lane = _LANE.fullmatch(entry.name)
            if lane is None or not entry.is_dir():
                self._add_stray(entry)
                continue
            files = self._data(entry, ".parquet")
            self.lanes.extend(PlacedFile(file, stream, int(lane[1]), rank) for rank, file in enumerate(files))

    def _data(self, folder: os.DirEntry[str], ending: str) -> list[Path]:
        """What readers take for data of a folder; under a name that keylane does not give, it is a stray, too."""
        files = []
        for entry in _entries(folder.path):
            is_data = entry.is_file() and entry.name.endswith(ending) and not entry.name.startswith(_HIDDEN)
            if is_data:
                files.append(Path(entry.path))
            if not is_data or (self.routed and _PART.fullmatch(entry.name) is None):
                self._add_stray(entry)
        return files

    def _add_stray(self, entry: os.DirEntry[str]) -> None:
        """A file, or those in a folder: one without files is nothing to a reader."""
        if not self.routed and entry.name.startswith(_HIDDEN):
            return
        if not entry.is_dir(follow_symlinks=False):
            self.strays.append(Path(entry.path).relative_to(self.path).as_posix())
            return
        for inner in _entries(entry.path):
            self._add_stray(inner)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)

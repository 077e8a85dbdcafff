"""Files as one side of a mirror: how many there are, which is where they end, and the lanes of a folder of a route.

Files have no offsets that grow: a folder ends at its number of files, and what is copied of it is what a route has
taken (`follow`). The lanes of files are not changed in place. Topics: `keylane.systems.kafka.migration`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.errors import DataError, UnsupportedError
from keylane.systems.files.listing import source_files
from keylane.systems.folders.folder import read_head, read_latest
from keylane.systems.migrations import ObservedStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import NoReturn

    import pyarrow as pa

    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.migration_marks import MigrationMark
    from keylane.systems.migrations import OpenTransaction


class FilesMigrator:
    """A folder of files, or one file."""

    def __init__(self, path: Path, options: StreamOptions) -> None:
        self.path, self.options = path, options

    def observe(self) -> ObservedStream:
        """One lane, which ends at the number of files."""
        return ObservedStream(str(self.path), "", 1, (0,), self.ends(), None, "")

    def marked(self) -> None:
        """A folder of somebody else's is only read."""

    def mark(self, mark: MigrationMark) -> None:
        """As `marked`."""

    def ends(self) -> tuple[int, ...]:
        """How many files there are."""
        if not self.path.exists():
            raise DataError.of("no such file or folder", got=str(self.path))
        return (sum(1 for _ in source_files(self.path, self.options.kind)),)

    def open_transactions(self, ends: Sequence[int] = (), seconds: float = 0.0) -> tuple[OpenTransaction, ...]:  # noqa: ARG002  a file is there or not
        """A file is there or not."""
        return ()

    def starts(self) -> tuple[int, ...]:
        """Nothing is deleted from the front of a folder."""
        return (0,)

    def check(self, lanes: int, groups: Sequence[str]) -> None:  # noqa: ARG002  as the protocol has it
        """Files are copied into lanes, never changed."""
        self._lacks("have their lanes changed in place")

    def committed(self, groups: Sequence[str], lanes: int) -> dict[str, tuple[int, ...]]:  # noqa: ARG002  no groups
        """Nobody commits how far it has read a folder."""
        return {}

    def check_missed(self, groups: Sequence[str]) -> None:
        """As `committed`."""

    def grow(self, lanes: int) -> None:  # noqa: ARG002  as the protocol has it
        """As `check`."""
        self._lacks("have their lanes changed in place")

    def applied(self, groups: Sequence[str], fences: Sequence[int]) -> tuple[int, ...]:  # noqa: ARG002  no groups
        """Nobody commits how far it has read a folder."""
        self._lacks("have reader groups")

    def records(self, ranges: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  have no headers
        """Rows have no headers that name their writer."""
        self._lacks("be read by writer")

    def _lacks(self, ability: str) -> NoReturn:
        raise UnsupportedError.of(f"files cannot {ability}", got=str(self.path))


def ends_of_lanes(path: Path) -> tuple[int, ...]:
    """How many records each lane of a routed folder has; none where there is no such folder yet."""
    head = read_head(path)
    if head is None:
        return ()
    last, stream = read_latest(path), next(iter(head.streams))
    return tuple(last.next[stream]) if last is not None else (0,) * head.streams[stream]

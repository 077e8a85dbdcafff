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


class FilesMigrator:
    """A folder of files, or one file."""

    def __init__(self, path: Path, options: StreamOptions) -> None:
        self.path, self.options = path, options

    def observe(self) -> ObservedStream:
        """One lane, which ends at the number of files."""
        return ObservedStream(str(self.path), "", 1, (0,), self.ends(), None, "")

    def ends(self) -> tuple[int, ...]:
        """How many files there are."""
        if not self.path.exists():
            raise DataError.of("no such file or folder", got=str(self.path))
        return (sum(1 for _ in source_files(self.path, self.options.kind)),)

    def settled(self) -> bool:
        """A file is there or not."""
        return True

    def check(self, lanes: int, groups: Sequence[str]) -> None:  # noqa: ARG002  as the protocol has it
        """Files are copied into lanes, never changed."""
        self._lacks("have their lanes changed in place")

    def missed(self, groups: Sequence[str], ends: Sequence[int]) -> dict[str, list[int]]:  # noqa: ARG002  no groups
        """Nobody commits how far it has read a folder."""
        return {}

    def check_missed(self, groups: Sequence[str]) -> None:
        """As `missed`."""

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

"""A stream as the new side of a mirror: where the copies end in each shard, and the records behind.

The lanes of the mirror are the shards as they are while it copies, and what ends a lane is the sequence number of the
last record in its shard, 0 where it has none: numbers rise along a shard and from parents to children, so that one
still parts copies from what came later when the shard was split since. Readers begin behind it, by
AFTER_SEQUENCE_NUMBER, or at TRIM_HORIZON.

    ShardTips   the last number of each shard; a second look reads on from the first one
    KinesisMigrator   the records between two numbers of each lane
    last_numbers   of each shard the number up to which its records are of its lanes' first part

Splits and merges as a migration of their own: `lineage`. Who copies: `keylane.pipelines.migrate_mirror`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

import pyarrow as pa

from keylane.errors import UnsupportedError
from keylane.placement.ranges import KeySpace
from keylane.systems.kinesis.lineage import KinesisLineage
from keylane.systems.kinesis.reader import Cursor, ShardReader
from keylane.systems.kinesis.shards import number_of, shards_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.keyspace.layout import Shard, ShardLayout
    from keylane.systems.kinesis.access import KinesisAccess
    from keylane.systems.migration_marks import MigrationMark
    from keylane.systems.migrations import ObservedStream, OpenTransaction

#: Bits of an offset that are the position within a shard; the others are the number of the shard.
POSITION_BITS: Final = 40
#: Where a shard without a record is read from.
FROM_THE_BEGINNING: Final = "TRIM_HORIZON"


class ShardTips:
    """The last sequence number of each open shard. The service has no call for it: shards are read to their tips."""

    def __init__(self, access: KinesisAccess, stream: str) -> None:
        self.access, self.stream = access, stream
        self._known: dict[str, Cursor] = {}

    def look(self) -> tuple[int, ...]:
        """In the order of their ranges; 0 of a shard without records."""
        return tuple(self._tip(shard) for shard in shards_of(self.access, self.stream).open)

    def _tip(self, shard: Shard) -> int:
        reader = ShardReader(self.access, self.stream, shard, self._known.get(shard.id, Cursor()))
        for _ in reader.turns():
            pass
        self._known[shard.id] = reader.cursor
        return int(reader.cursor.sequence or 0)


def last_numbers(layout: ShardLayout, space: KeySpace, ends: Sequence[int]) -> dict[int, int]:
    """By the number of a shard: the end of the lane that it lies in.

    A shard that was merged of several lanes since begins behind the ends of all of them.
    """
    return {
        number_of(one.id): max(ends[space.lane_of(one.start) : space.lane_of(one.end) + 1]) for one in layout.shards
    }


class KinesisMigrator:
    """A stream that a mirror copies into."""

    def __init__(self, access: KinesisAccess, stream: str) -> None:
        self.access, self.stream = access, stream

    def records(self, ranges: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        """Those behind the first number of a lane, up to the second; offsets rise from parents to children."""
        layout = shards_of(self.access, self.stream)
        space = self._lanes(layout, len(ranges))
        first, last = (last_numbers(layout, space, ends) for ends in zip(*ranges, strict=True))
        lineage = KinesisLineage(self.access, self.stream)
        for one in lineage.shards():
            number = number_of(one.shard.id)
            lane = space.lane_of(one.shard.start)
            if lane != space.lane_of(one.shard.end):
                self._lacks(f"be read lane by lane: {one.shard.id} was merged of several")
            for batch in lineage.records(one.shard):
                numbers = [int(text) for text in batch.column("number").to_pylist()]
                within = pa.array([first[number] < at <= last[number] for at in numbers], pa.bool_())
                if len(taken := batch.filter(within)):
                    yield _of_lane(taken, lane, number)

    def _lanes(self, layout: ShardLayout, lanes: int) -> KeySpace:
        """The ranges of the shards as they were: those of today, or equal ones that were split since."""
        if len(layout.open) == lanes:
            return layout.key_space
        space, starts = KeySpace.equal(lanes), {one.start for one in layout.shards}
        if not starts.issuperset(space.starts):
            self._lacks(f"be read by its {lanes} lanes: its shards are others now")
        return space

    def observe(self) -> ObservedStream:
        """Nothing is copied out of a stream by a mirror."""
        self._lacks("be mirrored into another stream")

    def check(self, lanes: int, groups: Sequence[str]) -> None:  # noqa: ARG002  as the protocol has it
        """Lanes are changed by splits and merges."""
        self._lacks("have lanes added to it")

    def committed(self, groups: Sequence[str], lanes: int) -> dict[str, tuple[int, ...]]:  # noqa: ARG002  no groups
        """The service keeps no offsets of readers."""
        return {}

    def check_missed(self, groups: Sequence[str]) -> None:
        """As `committed`."""

    def marked(self) -> None:
        """Nothing is copied out of a stream by a mirror, so that none is driven by it."""

    def mark(self, mark: MigrationMark) -> None:
        """As `marked`."""

    def ends(self) -> tuple[int, ...]:
        """By the numbers of the last records."""
        return ShardTips(self.access, self.stream).look()

    def open_transactions(self, ends: Sequence[int] = (), seconds: float = 0.0) -> tuple[OpenTransaction, ...]:  # noqa: ARG002  it has none
        """The service has no transactions."""
        return ()

    def starts(self) -> tuple[int, ...]:
        """Nobody commits offsets, so that none is compared with them."""
        return ()

    def grow(self, lanes: int) -> None:  # noqa: ARG002  as the protocol has it
        """As `check`."""
        self._lacks("have lanes added to it")

    def applied(self, groups: Sequence[str], fences: Sequence[int]) -> tuple[int, ...]:  # noqa: ARG002  no groups
        """The service keeps no offsets of readers."""
        self._lacks("be asked for the offsets of groups")

    def _lacks(self, ability: str) -> NoReturn:
        raise UnsupportedError.of(f"a Kinesis stream cannot {ability}", got=self.stream)


def _of_lane(batch: pa.RecordBatch, lane: int, number: int) -> pa.RecordBatch:
    offsets = [number << POSITION_BITS | position for position in batch.column("position").to_pylist()]
    columns = {
        "lane": pa.repeat(pa.scalar(lane, pa.int32()), len(batch)),
        "offset": pa.array(offsets, pa.int64()),
        **{name: batch.column(name) for name in ("key", "writer", "seq", "epoch", "foreign")},
    }
    return pa.RecordBatch.from_pydict(columns)


def reader_starts(layout: ShardLayout, starts: Sequence[int]) -> list[tuple[str, str]]:
    """For each lane the shard, and the number behind which readers begin in it."""
    lanes = layout.open
    if len(lanes) != len(starts):
        return []
    return [(one.id, str(at) if at else FROM_THE_BEGINNING) for one, at in zip(lanes, starts, strict=True)]

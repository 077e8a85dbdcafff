"""The shards of a stream as a migration by splits and merges asks for them: where each ended, and what is in it.

What a migration does with them: `systems.shard_migrations`. How they are listed: `shards`, and read: `reader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from keylane.systems.kinesis.messages import key_of, own_headers
from keylane.systems.kinesis.reader import ShardReader
from keylane.systems.kinesis.shards import describe_stream, number_of, shards_with_sequences
from keylane.systems.messages.headers import EPOCH, SOURCE, epoch_of, foreign_epoch, origin
from keylane.systems.shard_migrations import LineageShard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.keyspace.layout import Shard
    from keylane.systems.kinesis.access import KinesisAccess
    from keylane.systems.kinesis.reader import ReadRecord


class KinesisLineage:
    """One stream."""

    def __init__(self, access: KinesisAccess, stream: str) -> None:
        self.access, self.stream = access, stream

    def shards(self) -> list[LineageShard]:
        """By their numbers: children have larger ones than their parents."""
        found = []
        for shard, begins, ends in shards_with_sequences(self.access, self.stream):
            # A server that puts the same number at the end of every shard does not say where it ended.
            known = None if ends is None else ends if ends >= begins else 0
            found.append(LineageShard(shard, begins, known))
        return sorted(found, key=lambda one: number_of(one.shard.id))

    def retention(self) -> float:
        """As it is set now."""
        return describe_stream(self.access, self.stream).retention_hours * 3600.0

    def records(self, shard: Shard) -> Iterator[pa.RecordBatch]:
        """User records; an explicit hash key is known only of those inside of aggregated records."""
        for turn in ShardReader(self.access, self.stream, shard).turns():
            if turn:
                yield _batch(turn, shard)


def _batch(turn: list[ReadRecord], shard: Shard) -> pa.RecordBatch:
    headers = [dict(own_headers(one.user)) for one in turn]
    inside = [shard.start <= one.user.hash_key <= shard.end for one in turn]
    writer, seq = origin([one.get(SOURCE) for one in headers])
    columns = {
        "position": pa.array([one.position for one in turn], pa.int64()),
        "number": pa.array([one.sequence for one in turn], pa.string()),
        "key": pa.array([key_of(one.user) for one in turn], pa.binary()),
        # The service does not give back an explicit hash key, which is what put a plain record elsewhere.
        "inside": pa.array(
            [within or (None if one.sub is None else False) for one, within in zip(turn, inside, strict=True)]
        ),
        "writer": writer,
        "seq": seq,
        "epoch": pa.array([epoch_of(one.get(EPOCH)) for one in headers], pa.int64()),
        "foreign": pa.array([foreign_epoch(one.get(EPOCH)) for one in headers], pa.string()),
    }
    columns["inside"] = columns["inside"].cast(pa.bool_())
    return pa.RecordBatch.from_pydict(columns)

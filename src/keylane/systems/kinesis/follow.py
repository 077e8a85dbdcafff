"""A stream as the source of a route: a feed of Spark's whose batches end where the readers of its shards stood.

The service does not say where a shard ends now. So a batch is cut by reading: the driver reads each shard from where
the batch before has ended, as far as a batch may go, and what it read is kept in files of its own until the batch is
committed, in a folder that only this user can enter. Tasks read those files; a task on another machine, or after a
kill, reads the same records from the service again, between the same two sequence numbers. So a batch that is run again
has the same records.

A child is read when a batch before has read its parents to their end: whatever becomes of the records of a batch, they
keep the order of their hash keys over any splits and merges. `shards.readable` is where that is decided.
"""

from __future__ import annotations

import re
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from keylane.contract.fields import FieldSpec
from keylane.contract.shards import SPACE
from keylane.errors import DataError, UsageError
from keylane.keyspace.layout import Shard
from keylane.private import new_folder
from keylane.systems.flow import HandedOverWhole
from keylane.systems.identity import recreated_source
from keylane.systems.kinesis.messages import message_of
from keylane.systems.kinesis.reader import AT_ONCE, Cursor, ShardReader
from keylane.systems.kinesis.shards import describe_stream, number_of, readable, shards_of
from keylane.systems.messages.frames import message_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.spark.messages import Fields, Messages
    from keylane.spark.read_parquet import Batch, SourceFile
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.flow import Standing
    from keylane.systems.kinesis.access import KinesisAccess
    from keylane.systems.kinesis.reader import ReadRecord

#: Bytes of all shards in one batch.
BATCH_BYTES: Final = 128 << 20
#: Shards that are read at a time.
THREADS: Final = 16
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


@dataclass(frozen=True, slots=True)
class ShardSlice:
    """The records of a shard between two cursors: what one task reads."""

    shard: Shard
    start: Cursor
    end: Cursor
    since_ms: int | None = None

    @property
    def file(self) -> str:
        """What it is called among the files of the batch."""
        return f"{self.shard.id}-{self.start.records}-{self.end.records}.arrow"


@dataclass(slots=True)
class ShardFeed:
    """The feed. A position is `{"shards": {id: [records, sequence, ended]}, "since": milliseconds or null}`.

    `since` is the time at which a route began that did not begin with the oldest record. `done` are shards that were
    read as far as they went when only what is there is wanted.
    """

    access: KinesisAccess
    stream: str
    start: str
    most: int
    folder: str
    is_readable: Callable[..., Any] = readable
    only: bool = False
    done: set[str] = field(default_factory=set)
    readers: dict[str, ShardReader] = field(default_factory=dict)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.access, self.stream, self.start, self.most, self.folder, self.is_readable

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # readers begin anew

    def first(self) -> dict[str, Any]:
        """At the oldest record, now, or at a time."""
        return {"shards": {}, "since": since_ms(self.start, self.access.timing.wall())}

    def only_what_is_there(self) -> None:
        """A shard is done when its reader has caught up."""
        self.only = True

    def end(self, start: dict[str, Any]) -> dict[str, Any]:
        """Read on, as far as a batch may go."""
        before = {id_: Cursor(*one) for id_, one in start["shards"].items()}
        layout = shards_of(self.access, self.stream)
        ended = {id_ for id_, cursor in before.items() if cursor.ended}
        next_ = self.is_readable(layout, ended.__contains__, [id_ for id_, one in before.items() if one.sequence])
        shards = [shard for shard in next_ if shard.id not in self.done]
        after = dict(before)
        if shards:
            share = max(1, self.most // len(shards)), BATCH_BYTES // len(shards)
            with ThreadPoolExecutor(min(THREADS, len(shards))) as pool:
                reads = [
                    pool.submit(self._kept, shard, before.get(shard.id, Cursor()), start["since"], *share)
                    for shard in shards
                ]
                for shard, read in zip(shards, reads, strict=True):
                    cursor, caught_up = read.result()
                    after[shard.id] = cursor
                    if self.only and caught_up:
                        self.done.add(shard.id)
        # What the service has forgotten is never asked for again.
        listed = {shard.id for shard in layout.shards}
        kept = {
            id_: [one.records, one.sequence, one.ended]
            for id_, one in sorted(after.items())
            if (id_ in listed or not one.ended) and (one != Cursor() or id_ in before)
        }
        return {"shards": kept, "since": start["since"]}

    def parts(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ShardSlice]:
        """One for each shard that has records in the batch."""
        layout = {shard.id: shard for shard in shards_of(self.access, self.stream).shards}
        found = []
        for id_, one in end["shards"].items():
            first, last = Cursor(*start["shards"].get(id_, ())), Cursor(*one)
            if last.records > first.records:
                # A shard that is no longer listed has kept its records for as long as it could.
                shard = layout.get(id_, Shard(id_, 0, SPACE - 1))
                found.append(ShardSlice(shard, first, last, start["since"]))
        return [*sorted(found, key=lambda one: number_of(one.shard.id))]

    def read(self, part: ShardSlice) -> Iterator[pa.RecordBatch]:
        """From the file that the driver wrote; where that is not, from the service."""
        file = Path(self.folder) / part.file
        if file.exists():
            with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as batches:
                yield from batches
        else:
            yield from self._read_again(part)

    def committed(self, end: dict[str, Any]) -> None:
        """Remove the files of what is committed."""
        for id_, (records, _, _) in end["shards"].items():
            for file in Path(self.folder).glob(f"{id_}-*.arrow"):
                if int(file.stem.rpartition("-")[2]) <= records:
                    file.unlink(missing_ok=True)

    def _kept(self, shard: Shard, cursor: Cursor, since: int | None, records: int, size: int) -> tuple[Cursor, bool]:
        """Read a shard on into a file; where its reader is then, and whether it has caught up."""
        reader = self.readers.get(shard.id)
        if reader is None or reader.cursor != cursor:
            reader = self.readers[shard.id] = ShardReader(self.access, self.stream, shard, cursor, since_ms=since)
        reader.shard = shard
        made = Path(self.folder) / f"{shard.id}.writing"
        with pa.OSFile(str(made), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as writer:
            reader.caught_up = False
            while not reader.caught_up and records > 0 and size > 0:
                taken = reader.turn(min(records, AT_ONCE))
                if taken:
                    writer.write_batch(batch_of(self.stream, shard, taken))
                records, size = records - len(taken), size - sum(one.size for one in taken)
        if reader.cursor.records > cursor.records:
            made.rename(made.with_name(ShardSlice(shard, cursor, reader.cursor).file))
        else:
            made.unlink()
        return reader.cursor, reader.caught_up

    def _read_again(self, part: ShardSlice) -> Iterator[pa.RecordBatch]:
        reader = ShardReader(self.access, self.stream, part.shard, part.start, since_ms=part.since_ms)
        while reader.cursor.records < part.end.records:
            taken = [one for one in reader.turn() if one.position < part.end.records]
            if taken:
                last = taken[-1].position + 1 == part.end.records
                if last and taken[-1].sequence != part.end.sequence:
                    raise _gone(self.stream, part, taken[-1].sequence)
                yield batch_of(self.stream, part.shard, taken)
            elif reader.caught_up:
                raise _gone(self.stream, part, "no record")


def _gone(stream: str, part: ShardSlice, got: str) -> DataError:
    return DataError.of(
        f"records of {stream}/{number_of(part.shard.id)} that a batch was begun with are no longer in the source",
        got=got,
        allowed=f"sequence number {part.end.sequence} at record {part.end.records - 1}",
        hint="they are older than what the stream keeps; a new route (another target, or --state) begins with --start",
    )


def batch_of(stream: str, shard: Shard, records: Sequence[ReadRecord]) -> pa.RecordBatch:
    """Records as messages."""
    number, messages = number_of(shard.id), [message_of(one) for one in records]
    columns = [
        pa.array([one.key for one in messages], pa.binary()),
        pa.array([one.value for one in messages], pa.binary()),
        pa.repeat(pa.scalar(stream), len(records)),
        pa.repeat(pa.scalar(number, pa.int32()), len(records)),
        pa.array([one.position for one in records], pa.int64()),
        pa.array([one.arrived_ms * 1000 for one in records], pa.int64()).cast(pa.timestamp("us", "UTC")),
        pa.array([[{"key": k, "value": v} for k, v in one.headers] for one in messages], SCHEMA.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def since_ms(text: str, now: float) -> int | None:
    """Where a new route begins: None for the oldest record, otherwise a time in milliseconds.

    >>> since_ms("earliest", 0), since_ms("latest", 2.5), since_ms("2026-01-01T00:00Z", 0)
    (None, 2500, 1767225600000)
    """
    if text == "earliest":
        return None
    if text == "latest":
        return int(now * 1000)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        allowed = "earliest, latest, a time (2026-01-01T00:00Z)"
        raise UsageError.of("not a position of a stream to start at", got=text, allowed=allowed) from None
    if at.tzinfo is None or at < datetime.fromtimestamp(0, UTC):
        hint = f"{text}Z" if at.tzinfo is None else "--start earliest"
        raise UsageError.of("a time to start at has no zone, or is before 1970", got=text, hint=hint)
    return int(at.timestamp() * 1000)


def follow_stream(
    spark: SparkSession, contract: Contract, access: KinesisAccess, address: Address, known: str, options: StreamOptions
) -> ShardsFollowed:
    """Follow a stream, for as long as it has the known id."""
    fields = FieldSpec.sent(contract, keys_sent=options.keys_sent)
    return follow_shards(spark, access, address, known, options, message_columns(fields, options))


def follow_shards(
    spark: SparkSession,
    access: KinesisAccess,
    address: Address,
    known: str,
    options: StreamOptions,
    columns: Fields | None = None,
) -> ShardsFollowed:
    """The same, with these columns of its records beside those of a message."""
    fields, unread = columns or ({}, None)
    since_ms(options.start, 0)
    kept = new_folder()
    feed = ShardFeed(access, address.name, options.start, options.max_records, str(kept.path))
    found = ShardsFollowed(spark, feed, str(address), known, fields, unread)
    weakref.finalize(found, kept.remove)
    return found


@dataclass
class ShardsFollowed(HandedOverWhole):
    """A stream with the columns that the contract needs of its records; `malformed` marks what cannot be read."""

    spark: SparkSession
    feed: ShardFeed
    address: str
    known: str
    fields: dict[str, Column]
    malformed: Column | None = None
    counted: str | None = None

    def stream(self) -> DataFrame:
        """One task for each shard."""
        from keylane.spark.feed_source import feed_stream

        name = re.sub(r"\W", "_", Path(self.feed.folder).name)
        return feed_stream(self.spark, self.feed, f"keylane_shards_{name}")

    def taken(self, frame: DataFrame) -> list[SourceFile]:
        """The positions of each shard."""
        from keylane.spark.messages import offset_ranges

        return offset_ranges(frame, self.feed.stream)

    def names(self, taken: Sequence[SourceFile]) -> list[str]:
        """Stream and number of the shard."""
        return [file.name.rpartition("/")[0] for file in taken]

    def rows(self, frame: DataFrame, taken: Sequence[SourceFile], last: Standing) -> Batch:  # noqa: ARG002  has positions
        """The records as rows of a folder."""
        from keylane.spark.messages import rows_of_topic

        return rows_of_topic(frame, taken, self.fields, self.malformed)

    def messages(self, frame: DataFrame, last: Standing) -> Messages:  # noqa: ARG002  records have positions
        """The records of a batch."""
        from keylane.spark.messages import Messages, from_kafka

        return Messages(from_kafka(frame, self.fields, self.malformed), topic=self.feed.stream)

    def where(self) -> dict[str, Column]:
        """Stream, number of the shard and position."""
        from keylane.spark.messages import topic_position

        return topic_position(self.feed.stream)

    def check_unchanged(self, taken: Sequence[SourceFile]) -> None:  # noqa: ARG002  all of it or nothing
        """Records do not change, as long as it is the same stream."""
        now = describe_stream(self.feed.access, self.feed.stream).id
        if self.known and now != self.known:
            raise recreated_source(self.address, self.known, now)

"""Topics as streams to verify: partitions cut into ranges of offsets, as they were when the stream was opened.

A source's records are known by `topic/partition` and their offset; those of a target by the header `keylane.source`,
which `route` gives them, with the contract's fingerprint, its epoch and, where a batch was written again, the attempt
beside it. A target is its topic, the topics of the contract's tiers, and that of the dead letters.

How a range is read: `reader`. What its bytes mean: `values`; its headers: `headers`. Folders: `files.stream`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.fields import FieldSpec
from keylane.errors import DataError, TargetError, UsageError
from keylane.history.digests import joined, of_bytes
from keylane.history.verdict import Unproven
from keylane.keys.arrow_bytes import nulls_of
from keylane.numbers import agree, plural
from keylane.records import NOT_OF_CONTRACT, Reason
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.headers import dead_topic, origin, texts_of, written_by
from keylane.systems.kafka.reader import TopicReader, level_of, of_letter
from keylane.systems.kafka.state import last_planned, read_head, read_last, taken_files
from keylane.systems.kafka.values import fields_for
from keylane.systems.streams import LEFT_OUT, POSITIONS, Part, Stream, begins_of, position_columns
from keylane.systems.texts import (
    SPENT,
    masked,
    message_digest,
    of_headers,
    rendered_digest,
    row_message_digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.contract.model import Contract
    from keylane.systems.endpoint import Address, Endpoint, StreamOptions
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import KafkaCluster, OffsetRange
    from keylane.systems.kafka.reader import RecordChunk
    from keylane.systems.kafka.state import BatchDone, RouteHead
    from keylane.systems.kafka.values import TopicFields

#: Offsets of one part: enough that a worker's connection pays, few enough for a large partition to have several.
OFFSETS: Final = 1_000_000
#: More than any offset: no record of such a source is compared.
NOTHING: Final = 1 << 62


def source_topic(address: Address, contract: Contract | None, options: StreamOptions) -> Stream:
    """The topic that records were taken from."""
    access = kafka_access(address.authority, options.properties)
    with open_cluster(access) as cluster:
        ranges = _offset_ranges(cluster, address.name, DataError)
        compacted = cluster.is_compacted(address.name)
    names = {lane: f"{address.name}/{lane}" for lane in range(len(ranges))}
    begins = {names[lane]: NOTHING if compacted else one.start for lane, one in enumerate(ranges)}
    remarks = [*_open(address.name, ranges)]
    if compacted:
        remarks.append("the source is compacted: records removed from it were not compared")
    elif any(begins.values()):
        gone = sum(first > 0 for first in begins.values())
        remarks.append(f"{_expired(gone, 'the source')}: earlier records were not compared")
    parts = tuple(part for lane in names for part in _cut(Part(address.name, names[lane], lane), ranges[lane]))
    fields = fields_for(FieldSpec.of(contract), options)
    read = ReadSource(_reader(access, fields, options), fields)
    return Stream(
        str(address),
        parts,
        read,
        begins={name: at for name, at in begins.items() if at},
        remarks=tuple(remarks),
        keys=True,
        values="" if options.values else LEFT_OUT,
    )


def target_topic(address: Address, contract: Contract | None, options: StreamOptions, source: Endpoint) -> Stream:
    """The topic that records were put in, with the tiers of the contract and the dead letters."""
    from_messages = source.messages
    access = kafka_access(address.authority, options.properties)
    begun = begun_in(address, options)
    streams = streams_of(address.name, contract)
    with open_cluster(access) as cluster:
        ranges = {topic: _offset_ranges(cluster, topic, TargetError) for topic in streams}
        dead = _dead(cluster, address, options)
    # After the ends were asked for: no batch can have been written before them and planned after this.
    if begun is not None:
        refuse_unfinished(Path(options.state or ""), begun[1])
    fields = fields_in_target(contract, options, from_messages=from_messages)
    parts = [
        part
        for topic, lanes in ranges.items()
        for lane, one in enumerate(lanes)
        for part in _cut(Part(topic, streams[topic], lane), one)
    ]
    parts += [part for lane, one in enumerate(dead[1]) for part in _cut(Part(dead[0], lane=lane, dead=True), one)]
    columns = None if from_messages else source.columns(begun[0].kind or None if begun else None)
    read = ReadTarget(
        replace(_reader(access, fields, options), headers=True), fields, columns, from_messages=from_messages
    )
    open_lanes = [remark for topic, lanes in [*ranges.items(), dead] for remark in _open(topic, lanes)]
    stream = Stream(
        str(address),
        tuple(parts),
        read,
        lanes={streams[topic]: len(lanes) for topic, lanes in ranges.items()},
        excused=excused_in(fields, from_messages=from_messages),
        remarks=tuple(remark for topic, lanes in [*ranges.items(), dead] for remark in _gone(topic, lanes)),
        unproven=tuple(Unproven("duplicated", None, why, "verify again when it has ended") for why in open_lanes),
        keys=True,
        epochs=True,
        bases={} if from_messages else None,
        as_messages=True,
        values="" if options.values else LEFT_OUT,
    )
    return stream if begun is None else as_begun(stream, Path(options.state or ""), *begun, streams)


def streams_of(topic: str, contract: Contract | None) -> dict[str, str]:
    """Topics, and what the contract calls them: a tier is called as its topic, the stream may be called otherwise."""
    if contract is None:
        return {topic: topic}
    tiers = {tier: tier for tier in contract.tiers}
    return {topic: topic if topic in contract.spec.streams else contract.spec.streams[0], **tiers}


def fields_in_target(contract: Contract | None, options: StreamOptions, *, from_messages: bool) -> TopicFields:
    """What is read of a target's records. Those that were not messages have the routing key, unless --value is given.

    An ancestor does not determine the lane of a cell, so lanes by location are always read from the value.
    """
    spec = FieldSpec.of(contract)
    only_key = contract is not None and contract.spec.geo is None and set(spec.names) == set(contract.spec.key.fields)
    if not from_messages and only_key and options.value is None:
        spec = FieldSpec()
    return fields_for(spec, options)


def excused_in(fields: TopicFields, *, from_messages: bool) -> frozenset[str]:
    """Whether a line or a value was readable cannot be decided here as the route did; a key always is."""
    whole = not from_messages or fields.spec.of_value
    return NOT_OF_CONTRACT | {Reason.MALFORMED_RECORD} if whole else NOT_OF_CONTRACT


def _offset_ranges(cluster: KafkaCluster, topic: str, error: type[DataError | TargetError]) -> list[OffsetRange]:
    lanes = cluster.lanes([topic])[topic]
    if not lanes:
        raise error.of(f"no such topic at {cluster.access.brokers}", got=topic)
    if level_of(cluster.access) == "read_committed":
        return cluster.settled_ranges(topic, lanes)
    return cluster.offset_ranges(topic, lanes, committed=False)


def _dead(cluster: KafkaCluster, address: Address, options: StreamOptions) -> tuple[str, list[OffsetRange]]:
    """The topic of the dead letters: it must exist only where it was named."""
    topic = options.dead_letters or dead_topic(address.name)
    if options.dead_letters is None and not cluster.lanes_now(topic):
        return topic, []
    return topic, _offset_ranges(cluster, topic, TargetError)


def _cut(part: Part, span: OffsetRange) -> Iterator[Part]:
    for start in range(span.start, span.end, OFFSETS):
        yield replace(part, start=start, end=min(start + OFFSETS, span.end))


def _gone(topic: str, lanes: Sequence[OffsetRange]) -> Iterator[str]:
    if gone := sum(one.start > 0 for one in lanes):
        yield f"{_expired(gone, topic)}: earlier records count as lost"


def _expired(lanes: int, source: str) -> str:
    return f"{plural(lanes, 'lane')} of {source} no longer {agree(lanes, 'starts', 'start')} at offset 0"


def _open(topic: str, lanes: Sequence[OffsetRange]) -> Iterator[str]:
    if waiting := sum(one.end < one.high for one in lanes):
        open_in = f"a transaction is open in {plural(waiting, 'lane')} of {topic}"
        yield f"{open_in}: records after its first one were not checked"


def begun_in(address: Address, options: StreamOptions) -> tuple[RouteHead, BatchDone] | None:
    """The metadata of the route in the state folder, and its last committed batch."""
    if options.state is None:
        return None
    head = read_head(Path(options.state))
    if head is None or head.target != str(address):
        got = head.target if head else f"no state of a route in {options.state}"
        raise UsageError.of("the state is not of a route into this target", got=got, allowed=str(address))
    return head, read_last(Path(options.state), head)


def refuse_unfinished(state: Path, last: BatchDone) -> None:
    """A batch with a plan may be in the topic, whole or in part, and is not in the counts yet."""
    if (planned := last_planned(state)) > last.batch:
        raise TargetError.of(
            f"batch {planned} of the route was started but not committed: it is still running, or was killed",
            got=str(state),
            hint="run the same `keylane route` again, which finishes it, then verify; or verify without --state",
        )


def as_begun(stream: Stream, state: Path, head: RouteHead, last: BatchDone, streams: Mapping[str, str]) -> Stream:
    """The stream with the state of its route: lane counts when it started, contract, its counts, the files it took."""
    taken = tuple(taken_files(state))
    whole = bool(taken) and len(taken) == last.taken_files
    begun = {streams[topic]: lanes for topic, lanes in head.topics.items() if topic in streams}
    return replace(
        stream,
        contract=head.contract,
        fingerprint=head.fingerprint,
        epoch=head.epoch,
        lanes={**stream.lanes, **begun},
        kind=head.kind or None,
        every_name=head.pattern == "*",
        claimed=last.total,
        source_id=head.source_id,
        csv_null=tuple(head.csv_null),
        delimiter=head.delimiter,
        order=tuple(one.name for one in taken) if whole else None,
        taken=frozenset(one.name for one in taken) if whole else None,
        bases=begins_of(taken, head.kind) if whole else stream.bases,
    )


def _reader(access: KafkaAccess, fields: TopicFields, options: StreamOptions) -> TopicReader:
    values = bool(fields.spec.of_value) or options.values
    return TopicReader(access, values=values, times=fields.spec.of_time, contents=options.values)


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Reads a part of a source topic."""

    reader: TopicReader
    fields: TopicFields

    def __call__(self, part: Part, _fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        for chunk in _chunks(self.reader, part):
            given = {"source": pa.repeat(part.stream, len(chunk)), "position": pa.array(chunk.offsets, pa.int64())}
            columns = _ChunkColumns(chunk, self.reader)
            if self.reader.contents:
                with SPENT.measured():
                    given |= {"digest": columns.digest(chunk.own), "stamp": pa.array(chunk.stamps, pa.int64())}
            yield columns.batch(given, self.fields)


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """Reads a part of a target topic, or of its dead letters. `columns` are those of a source of rows."""

    reader: TopicReader
    fields: TopicFields
    columns: pa.Schema | None = None
    from_messages: bool = True

    def __call__(self, part: Part, _fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        for chunk in _chunks(self.reader, part):
            source, position = origin(chunk.sources)
            given = {"source": source, "position": position, "offset": pa.array(chunk.offsets, pa.int64())}
            given |= written_by(chunk.writers, self.reader.writers)
            given["dead"] = pa.repeat(part.dead, len(chunk))
            if part.dead:
                given |= {"reason": texts_of(chunk.reasons)}
                given |= {"confirmed": self.fields.unreadable(chunk.values)} if self.reader.values else {}
            else:
                lanes = pa.array(chunk.lanes, pa.int32()) if chunk.lanes else pa.repeat(part.lane, len(chunk))
                given |= {"stream": pa.repeat(part.stream, len(chunk)), "lane": lanes}
            columns = _ChunkColumns(chunk, self.reader)
            if self.reader.contents:
                with SPENT.measured():
                    given |= self._contents(chunk, columns, dead=part.dead)
            yield columns.batch(given, self.fields, in_lanes=self.from_messages and not part.dead)

    def _contents(self, chunk: RecordChunk, columns: _ChunkColumns, *, dead: bool) -> dict[str, pa.Array]:
        headers = list(map(of_letter, chunk.own)) if dead else chunk.own
        digest = columns.digest(headers) if self.from_messages else self._of_rows(columns)
        if dead:
            digest = masked(digest, np.array(chunk.cut, bool))
        if self.from_messages:
            return {"digest": digest, "stamp": pa.array(chunk.stamps, pa.int64())}
        # A row has no headers: a record that has some is not what the route made of it.
        strange = pa.array([bool(one) for one in headers], pa.bool_())
        return {"digest": pc.if_else(strange, joined(digest, of_headers(headers)), digest)}

    def _of_rows(self, columns: _ChunkColumns) -> pa.Array:
        if self.columns is None:
            # The line itself. Only a field `value` can be null, and which lines have one is not known here.
            return masked(joined(of_bytes(columns.values)), nulls_of(columns.values))
        own = {
            name: one for name, one in (("key", columns.keys), ("value", columns.values)) if name in self.columns.names
        }
        if "value" in own:
            return row_message_digest(own)
        made = rendered_digest(columns.values, self.columns)
        return masked(joined(*([of_bytes(own["key"])] if own else []), made), nulls_of(made))


class _ChunkColumns:
    """The columns of a chunk that several look at."""

    def __init__(self, chunk: RecordChunk, reader: TopicReader) -> None:
        self.chunk = chunk
        self.keys = pa.array(chunk.keys, pa.binary())
        self.values: Any = pa.array(chunk.values, pa.binary()) if reader.values else None

    def digest(self, headers: Sequence[list[tuple[str, bytes]] | None]) -> pa.Array:
        """Of messages as they are."""
        return message_digest(self.keys, self.values, headers)

    def batch(self, given: dict[str, pa.Array], fields: TopicFields, *, in_lanes: bool = False) -> pa.RecordBatch:
        """Positions, the key's bytes among them, and the fields behind them; in lanes, which are unreadable."""
        times = pa.array(self.chunk.times, pa.timestamp("ms", "UTC")) if fields.spec.of_time else None
        columns, unread = fields.read(self.keys, self.values, times)
        if in_lanes and unread.any():
            # It should be a dead letter: it has no fields, which is not the same as fields that are null.
            given["confirmed"] = pa.array(unread)
        known = position_columns(len(self.chunk), key=self.keys, **given)
        return pa.RecordBatch.from_arrays([*known, *columns.values()], names=[*POSITIONS.names, *columns])


def _chunks(reader: TopicReader, part: Part) -> Iterator[RecordChunk]:
    assert part.lane is not None
    return reader.chunks(part.name, part.lane, part.start, part.end, dead=part.dead)

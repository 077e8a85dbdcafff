"""Topics as streams to verify: partitions cut into ranges of offsets, as they were when the stream was opened.

A source's records are known by `topic/partition` and their offset; those of a target by the header `keylane.source`,
which `route` gives them, with the contract's fingerprint, its epoch and, where a batch was written again, the attempt
beside it. A target is its topic, the topics of the contract's tiers, and that of the dead letters.

How a range is read: `reader`. What is compared of it: `messages.stream`. Folders: `files.stream`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.contract.fields import FieldSpec
from keylane.errors import DataError, TargetError
from keylane.history.verdict import Unproven
from keylane.numbers import agree, plural
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.reader import TopicReader, level_of
from keylane.systems.messages.chunks import WantedColumns
from keylane.systems.messages.headers import dead_topic
from keylane.systems.messages.stream import (
    ReadSource,
    ReadTarget,
    as_begun,
    begun_in,
    excused_in,
    fields_in_target,
    refuse_unfinished,
    streams_of,
)
from keylane.systems.messages.values import fields_for
from keylane.systems.streams import LEFT_OUT, Part, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.contract.model import Contract
    from keylane.systems.endpoint import Address, Endpoint, StreamOptions
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import KafkaCluster, OffsetRange
    from keylane.systems.messages.values import TopicFields

#: Offsets of one part: enough that a worker's connection pays, few enough for a large partition to have several.
OFFSETS: Final = 1_000_000
#: More than any offset: no record of such a source is compared.
NOTHING: Final = 1 << 62


def source_topic(address: Address, contract: Contract | None, options: StreamOptions) -> Stream:
    """The topic that records were taken from."""
    access = kafka_access(address.authority, options.properties)
    with open_cluster(access) as cluster:
        ranges = _up_to(_offset_ranges(cluster, address.name, DataError), options.ends)
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
    fields = fields_for(FieldSpec.sent(contract, keys_sent=options.keys_sent), options)
    read = ReadSource(_reader(access, fields, options), fields)
    return Stream(
        str(address),
        parts,
        read,
        begins={name: at for name, at in begins.items() if at},
        remarks=tuple(remarks),
        keys=True,
        apart=True,
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
        ranges[address.name] = _up_to(ranges[address.name], options.ends)
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
    reader = _reader(access, fields, options, headers=True)
    read = ReadTarget(reader, fields, columns, from_messages=from_messages)
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
        hidden="; ".join(open_lanes),
        bases={} if from_messages else None,
        as_messages=True,
        values="" if options.values else LEFT_OUT,
    )
    return stream if begun is None else as_begun(stream, Path(options.state or ""), *begun, streams)


def _offset_ranges(cluster: KafkaCluster, topic: str, error: type[DataError | TargetError]) -> list[OffsetRange]:
    lanes = cluster.lanes([topic])[topic]
    if not lanes:
        raise error.of(f"no such topic at {cluster.access.brokers}", got=topic)
    if level_of(cluster.access) == "read_committed":
        return cluster.settled_ranges(topic, lanes)
    return cluster.offset_ranges(topic, lanes, committed=False)


def _up_to(ranges: list[OffsetRange], ends: Sequence[int] | None) -> list[OffsetRange]:
    """The part of each lane that is below its end; lanes that have none there are read whole."""
    if ends is None:
        return ranges
    clipped = [
        replace(one, end=min(one.end, end), high=min(one.high, end)) for one, end in zip(ranges, ends, strict=False)
    ]
    return [*clipped, *ranges[len(clipped) :]]


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


def _reader(access: KafkaAccess, fields: TopicFields, options: StreamOptions, *, headers: bool = False) -> TopicReader:
    values = bool(fields.spec.of_value) or options.values
    wanted = WantedColumns(values=values, times=fields.spec.of_time, headers=headers, contents=options.values)
    return TopicReader(wanted, access)

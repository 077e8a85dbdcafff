"""What a topic holds, for the cost of a migration: its bytes by the brokers, and the newest records of some lanes.

Bytes are those of the leaders' log folders. Brokers report them only to who may describe the cluster; otherwise sizes
follow from the records that were read. What is made of both: `keylane.migration.cost`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from keylane.errors import KeylaneError
from keylane.migration.cost import SampledLane, StreamMeasure
from keylane.numbers import count, plural
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.migration_clients import LOOK_SECONDS
from keylane.systems.kafka.reader import TopicReader
from keylane.systems.kafka.reassign import observed, open_admin
from keylane.systems.messages.chunks import WantedColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.systems.kafka.access import KafkaAccess

#: Records that are read at most, and lanes: every lane is asked for on its own.
MOST_READ, MOST_LANES = 20_000, 64
REPORTED: Final = "bytes of the leaders' log folders, as the brokers report them"


def measured_topic(access: KafkaAccess, topic: str) -> StreamMeasure:
    """Its offsets, bytes and newest records."""
    with open_cluster(access) as cluster:
        lanes = cluster.lanes_now(topic)
        ranges = cluster.offset_ranges(topic, lanes, committed=True) if lanes else []
    there = [(one.start, one.end) for one in ranges]
    filled = [lane for lane, (start, end) in enumerate(there) if end > start]
    records = sum(end - start for start, end in there)
    whole = records <= MOST_READ and len(filled) <= MOST_LANES
    step = max(1, len(filled) / MOST_LANES)
    chosen = [filled[int(number * step)] for number in range(min(len(filled), MOST_LANES))]
    each = None if whole else max(1, MOST_READ // max(1, len(chosen)))
    stored, basis = _stored(access, topic)
    read = _which(records, len(filled), len(chosen), each)
    try:
        sample = _sample(access, topic, there, chosen, each)
    except KeylaneError as error:
        # A plan needs no more than the right to describe the topic.
        sample, read, whole = (), f"records cannot be read: {error}", False
    return StreamMeasure(records, stored, basis, sample, read, whole, LOOK_SECONDS)


def _which(records: int, filled: int, chosen: int, each: int | None) -> str:
    """Which records were read."""
    if not records:
        return "the topic holds no record"
    if each is None:
        return "all records"
    lanes = f"each of {plural(chosen, 'lane')}" + (f" of {count(filled)}" if chosen < filled else "")
    return f"the newest {count(each)} records of {lanes}"


def _stored(access: KafkaAccess, topic: str) -> tuple[int | None, str]:
    """The bytes of one replica, and how they are known; None where a lane is not reported."""
    try:
        with open_admin(access) as client:
            found = [lane.size for lane in observed(client, [topic]).lanes]
    except KeylaneError as error:
        return None, f"the brokers do not report the bytes of the topic: {error}"
    sizes = [size for size in found if size is not None]
    if len(sizes) < len(found) or not found:
        return None, "the brokers do not report the bytes of the topic"
    return sum(sizes), REPORTED


def _sample(
    access: KafkaAccess, topic: str, there: Sequence[tuple[int, int]], chosen: Sequence[int], each: int | None
) -> tuple[SampledLane, ...]:
    reader = TopicReader(WantedColumns(lengths=True), access)
    return tuple(_sampled(reader, topic, lane, *there[lane], each) for lane in chosen)


def _sampled(reader: TopicReader, topic: str, lane: int, start: int, end: int, each: int | None) -> SampledLane:
    records, weights = Counter[bytes | None](), Counter[bytes | None]()
    first = start if each is None else max(start, end - each)
    for chunk in reader.chunks(topic, lane, first, end):
        for key, length in zip(chunk.keys, chunk.lengths, strict=True):
            records[key] += 1
            weights[key] += length + len(key or b"")
    keys = {key: (many, weights[key]) for key, many in records.items() if key is not None}
    return SampledLane(lane, end - start, keys, (records[None], weights[None]))

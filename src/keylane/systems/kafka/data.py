"""A topic as columns for `identify` and `check`, and counted in this process for `profile` and `plan`.

`key`, `timestamp`, `lane` (or `partition`) and `offset` are of the record; every other column is a field of its value,
whose format is an option. A record whose value cannot be read is left out and counted. Files as the same: `files.data`.
A topic as `verify` reads it: `stream`. What is counted of a record: `messages.local_scan`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from keylane.errors import DataError, UsageError
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.reader import TopicReader, level_of
from keylane.systems.messages.chunks import WantedColumns
from keylane.systems.messages.columns import POSITION, ReadColumns
from keylane.systems.messages.local_scan import ScannedMessages, ScannedRanges, counted_scan, scanned_spec
from keylane.systems.messages.values import fields_for
from keylane.systems.read_range import ReadRange, newest, stated, stretches
from keylane.systems.streams import Description, Part, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.fields import FieldSpec
    from keylane.profile.scan import LocalScan, ScanRequest
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.messages.local_scan import Ranges


def describe_topic(address: Address, spec: FieldSpec, options: StreamOptions) -> Description:
    """Ask the cluster what there is of a topic, and how far its lanes go now."""
    access = kafka_access(address.authority, options.properties)
    with open_cluster(access) as cluster:
        lanes = cluster.lanes([address.name])[address.name]
        if not lanes:
            raise DataError.of(f"no such topic at {access.brokers}", got=address.name)
        ranges = cluster.offset_ranges(address.name, lanes, committed=level_of(access) == "read_committed")
        wanted = options.read_range or ReadRange()
        there = [(one.start, one.end) for one in ranges]
        inside = cluster.within(address.name, there, wanted)
    taken = stretches(inside, wanted.most)
    parts = tuple(Part(address.name, lane=one.lane, start=one.start, end=one.end) for one in taken)
    columns = (spec.key, *POSITION, "timestamp")
    skipped = Skipped(what="record", fault="with a value that cannot be read")
    read = ReadColumns(lambda wanted: TopicReader(wanted, access), spec, options, skipped)
    many = sum(one.end - one.start for one in taken)
    sampled = stated(there, inside, many, wanted, spread=True)
    return Description(str(address), columns, parts, read, lanes, spec.key, "lane", skipped=skipped, sampled=sampled)


def scan_local(access: KafkaAccess, topic: str, options: StreamOptions, wanted: ScanRequest) -> LocalScan:
    """All that is there when it begins, or the window of it that the options ask for."""
    fields = fields_for(scanned_spec(wanted, options), options)
    found = scanned_ranges(access, topic, options.read_range, wanted, lambda _: None)
    reader = TopicReader(WantedColumns(values=bool(fields.spec.of_value), times=True, lengths=True), access)
    return counted_scan(ScannedMessages(topic, reader, fields), found, wanted)


# Which offsets a scan reads: all that there are now, a part, or what arrives in some seconds. The same for both
# engines: `frames` on Spark, `scan_local` here.


def scanned_ranges(
    access: KafkaAccess, topic: str, asked: ReadRange | None, wanted: ScanRequest, say: Callable[[str], None]
) -> ScannedRanges:
    """What a scan reads; refused where that is nothing, or where a topic cannot be asked for it."""
    if wanted.size is not None:
        raise UsageError.of("records of a topic have their own size", got=wanted.size, hint="leave --bytes out")
    if wanted.seconds is not None and asked is not None:
        raise UsageError.of(
            "a topic is listened to, or read in part",
            hint="leave out --for, or the range: --last, --since and the like",
        )
    ranges, sampled = ranges_of(access, topic, wanted.seconds, say), ""
    if asked is not None:
        ranges, sampled = within(access, topic, ranges, asked)
    if not any(end > start for start, end in ranges):
        empty = "the topic is empty" if asked is None else "the range that was asked for is empty"
        hint = "nothing arrived in this time" if wanted.seconds else empty
        raise DataError.of("no records", got=f"kafka://{access.brokers}/{topic}", hint=hint)
    return ScannedRanges(ranges, sampled, id_of(access, topic))


def ranges_of(access: KafkaAccess, topic: str, seconds: float | None, say: Callable[[str], None]) -> Ranges:
    """From where to where each lane is read. What is not committed by then is not there."""
    with open_cluster(access) as cluster:
        lanes = cluster.lanes([topic])[topic]
        if not lanes:
            raise DataError.of(f"no such topic at {access.brokers}", got=topic)
        before = cluster.offset_ranges(topic, lanes, committed=True)
        if seconds is None:
            return [(one.start, one.end) for one in before]
        say(f"listening to {topic} for {seconds:g} s")
        time.sleep(seconds)
        after = cluster.offset_ranges(topic, lanes, committed=True)
        # A lane that has forgotten records meanwhile begins where it now begins.
        return [(max(then.end, now.start), now.end) for then, now in zip(before, after, strict=True)]


def id_of(access: KafkaAccess, topic: str) -> str:
    """The topic's id: one that is created again has another. Empty where the cluster reports none."""
    with open_cluster(access) as cluster:
        return cluster.topic_ids([topic]).get(topic, "")


def within(access: KafkaAccess, topic: str, there: Ranges, asked: ReadRange) -> tuple[Ranges, str]:
    """What is read, and that in words. Without gaps: what is counted by windows of time takes a gap for silence."""
    with open_cluster(access) as cluster:
        inside = cluster.within(topic, there, asked)
    taken = newest(inside, asked.most)
    return taken, stated(there, inside, sum(end - start for start, end in taken), asked, spread=False)

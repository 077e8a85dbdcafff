"""A topic on Spark, in a batch: what lies between two offsets of each lane, and the fields of its records as columns.

Nothing is written or committed to the cluster. The same records as Arrow batches: `reader`. As a stream: `follow`.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from keylane.contract.fields import TIME, FieldSpec
from keylane.errors import DataError, UsageError
from keylane.spark.messages import from_decoder, from_json, from_message, from_text, key_as_text
from keylane.spark.scan import scan_messages
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.session import kafka_session
from keylane.systems.kafka.values import UNREAD, checked_form, read_fields, schema_for
from keylane.systems.windows import newest, stated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.profile.scan import ScanRequest
    from keylane.spark.context import RunContext
    from keylane.spark.messages import Fields
    from keylane.spark.scan import Scan
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.windows import ReadingWindow

    #: From one offset up to another, for each lane.
    Ranges = Sequence[tuple[int, int]]

#: Offsets at each end of a lane that are read for its first and last time; some of them are marks, not records.
_LOOK: Final = 100


@contextmanager
def scan_topic(run: RunContext, address: Address, options: StreamOptions, wanted: ScanRequest) -> Iterator[Scan]:
    """All that is there when it begins; or, with a length of time, exactly what arrives in it."""
    if wanted.size is not None:
        raise UsageError.of("records of a topic have their own size", got=wanted.size, hint="leave --bytes out")
    access, topic = kafka_access(address.authority, options.properties), address.name
    if wanted.seconds is not None and options.window is not None:
        raise UsageError.of("a topic is listened to, or read in part", hint="leave out --for, or the window")
    ranges = ranges_of(access, topic, wanted.seconds, run.say)
    ranges, sampled = (ranges, "") if options.window is None else in_window(access, topic, ranges, options.window)
    if not any(end > start for start, end in ranges):
        empty = "the topic is empty" if options.window is None else "the window that was asked for is empty"
        hint = "nothing arrived in this time" if wanted.seconds else empty
        raise DataError.of("no records", got=str(address), hint=hint)
    heads = [(start, min(end, start + _LOOK)) for start, end in ranges]
    tails = [(max(start, end - _LOOK), end) for start, end in ranges]
    with kafka_session(run, options, access) as session:
        frame, *ends = (read_between(session, access, topic, part) for part in (ranges, heads, tails))
        fields, unread = _scanned_fields(wanted, options)
        scan = scan_messages(frame, ends[0].union(ends[1]), wanted, fields, unread, ranges)
        known = {name: text for name, text in {"sampled": sampled, "id": id_of(access, topic)}.items() if text}
        yield replace(scan, facts={**scan.facts, **known})


def _scanned_fields(wanted: ScanRequest, options: StreamOptions) -> tuple[dict[str, Column], list[Column]]:
    """The fields of the key and the time by their names, and which messages cannot be read."""
    names = [*wanted.key.fields, *([wanted.time] if wanted.time not in {None, TIME} else [])]
    spec = FieldSpec.of_scan(wanted.key, [str(name) for name in names], wanted.written)
    spec = spec.keyed_by(wanted.key) if wanted.of_contract and options.value is None else spec
    fields, misread = message_columns(replace(spec, names=tuple(name for name in names if name != spec.key)), options)
    # A record without the field has no key, as one whose key is null: they are counted together.
    fields = {name: column for name, column in fields.items() if name in names}
    unread = [] if misread is None else [misread]
    if spec.key in spec.names:
        fields[spec.key], misfit = key_as_text(spec)
        unread.append(misfit)
    return fields, unread


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


def in_window(access: KafkaAccess, topic: str, there: Ranges, window: ReadingWindow) -> tuple[Ranges, str]:
    """What is read, and that in words. Without gaps: what is counted by windows of time takes a gap for silence."""
    with open_cluster(access) as cluster:
        inside = cluster.in_window(topic, there, window)
    taken = newest(inside, window.most)
    return taken, stated(there, inside, sum(end - start for start, end in taken), window, spread=False)


def message_columns(spec: FieldSpec, options: StreamOptions) -> Fields:
    """The fields as columns of a frame of messages, and which messages cannot be read; None when all can."""
    own = from_message(spec)
    checked_form(spec, options.value)
    if not spec.of_value:
        return own, None
    schema = schema_for(spec, options)
    if schema is not None:

        def decode(values: pa.Array) -> pa.Array:
            return read_fields(schema, values)

        found, unread = from_decoder(spec, decode, UNREAD)
    else:
        found, unread = from_text(spec) if options.value == "utf8" else from_json(spec)
    return {**own, **found}, unread


def read_between(spark: SparkSession, access: KafkaAccess, topic: str, ranges: Ranges) -> DataFrame:
    """What lies between two offsets of each lane, as committed."""
    starts, ends = ({str(lane): one[end] for lane, one in enumerate(ranges)} for end in (0, 1))
    options = {
        "kafka.isolation.level": "read_committed",
        **access.java(),
        "subscribe": topic,
        "failOnDataLoss": "true",
        "startingOffsets": json.dumps({topic: starts}),
        "endingOffsets": json.dumps({topic: ends}),
    }
    return spark.read.format("kafka").options(**options).load()

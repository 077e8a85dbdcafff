"""A topic as `profile` counts it: what lies between two offsets of each lane, read once, as committed.

All that is there when it begins; or, with a length of time, exactly what arrives in it. Nothing is written or committed
to the cluster. Files as the same: `pipelines.profile.files`.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane.contract.model import Contract, Key, Metadata, Spec
from keylane.errors import DataError, UsageError
from keylane.pipelines.profile.files import Looked, timed
from keylane.profile.model import time_windows, windows_for
from keylane.spark.context import RunContext
from keylane.spark.count_keys import AT, SIZE, micros_of
from keylane.spark.keys import column_named, field_of
from keylane.spark.messages import key_column
from keylane.spark.read_parquet import MALFORMED
from keylane.spark.scan import LANE
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.follow import fields_of
from keylane.systems.kafka.session import kafka_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.pipelines.profile.run import Options
    from keylane.profile.model import Windows
    from keylane.spark.context import Say
    from keylane.systems.endpoint import Address
    from keylane.systems.kafka.access import KafkaAccess

    #: From one offset up to another, for each lane.
    Ranges = Sequence[tuple[int, int]]

__all__ = ["looked_at_topic", "ranges_of", "read_between", "reading_of"]

#: Offsets at each end of a lane that are looked at for its first and last time; some of them are marks, not records.
_LOOK: Final = 100
_MILLISECOND: Final = 1000
_STAMP: Final = "timestamp"


@contextmanager
def looked_at_topic(
    address: Address, key: Key, contract: Contract | None, given: Options, spark: SparkSession | None, say: Say
) -> Iterator[Looked]:
    """A topic, ready to be counted for as long as this is open."""
    if given.size is not None:
        raise UsageError.of("records of a topic tell their own length", got=given.size, hint="leave --bytes out")
    access = kafka_access(address.authority, given.kafka.properties)
    ranges = ranges_of(access, address.name, given.seconds, say)
    if not any(end > start for start, end in ranges):
        hint = "nothing has arrived in this time" if given.seconds else "nothing can be said of an empty topic"
        raise DataError.of("no records", got=str(address), hint=hint)
    with kafka_session(RunContext(spark, given.master, given.conf, say=say), given.kafka, access) as session:
        yield _looked(session, access, address.name, ranges, key, contract, given)


def ranges_of(access: KafkaAccess, topic: str, seconds: float | None, say: Say) -> Ranges:
    """From where to where each lane is read. What is not committed by then is not there."""
    with open_cluster(access) as cluster:
        lanes = cluster.lanes([topic])[topic]
        if not lanes:
            raise DataError.of(f"no such topic at {access.brokers}", got=topic)
        before = cluster.stretches(topic, lanes, committed=True)
        if seconds is None:
            return [(one.start, one.end) for one in before]
        say(f"listening to {topic} for {seconds:g} s")
        time.sleep(seconds)
        after = cluster.stretches(topic, lanes, committed=True)
        # A lane that has forgotten records meanwhile begins where it now begins.
        return [(max(then.end, now.start), now.end) for then, now in zip(before, after, strict=True)]


def _looked(
    spark: SparkSession,
    access: KafkaAccess,
    topic: str,
    ranges: Ranges,
    key: Key,
    contract: Contract | None,
    given: Options,
) -> Looked:
    frame = read_between(spark, access, topic, ranges)
    columns, unread = _fields(key, contract, given)
    length = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    read = frame.select(
        *(column.alias(name) for name, column in columns.items()),
        F.col(_STAMP).alias("keylane_stamp"),
        length.cast("bigint").alias(SIZE),
        F.col("partition").alias(LANE),
        *([] if unread is None else [F.coalesce(unread, F.lit(False)).alias(MALFORMED)]),
    )
    records = sum(end - start for start, end in ranges)
    at, windows, untimed = _times(
        read, _both_ends(spark, access, topic, ranges), given, windows_for(given.windows, records)
    )
    kept = [*key.fields, SIZE, LANE, *([] if unread is None else [MALFORMED])]
    facts: dict[str, Any] = {"time": given.time or _STAMP, "bytes": "key and value", "seconds": given.seconds}
    facts |= {"unit": given.unit} if given.unit else {}
    facts["offsets"] = [list(one) for one in ranges]
    counted = read.select(*map(column_named, kept), at.alias(AT))
    return Looked(counted, windows, records, False, len(ranges), None, untimed, facts)


def _times(read: DataFrame, ends: tuple[Any, Any], given: Options, count: int) -> tuple[Column, Windows, bool]:
    """Each record's time, the windows, and whether a time may be missing: by the record's own, or by a field."""
    if given.time not in {None, _STAMP}:
        field = field_of(str(given.time), read.schema)
        at = micros_of(field, given.unit)
        return at, *timed(read, at, field, given.unit, None, count)
    at = F.unix_micros("keylane_stamp")
    if ends[0] is None:
        return at, *timed(read, at, field_of("keylane_stamp", read.schema), None, None, count)
    return at, time_windows(ends[0], ends[1], count, _MILLISECOND), False


def read_between(spark: SparkSession, access: KafkaAccess, topic: str, ranges: Ranges) -> DataFrame:
    """What lies between two offsets of each lane, as committed."""
    starts, ends = ({str(lane): one[side] for lane, one in enumerate(ranges)} for side in (0, 1))
    options = {
        "kafka.isolation.level": "read_committed",
        **access.java(),
        "subscribe": topic,
        "failOnDataLoss": "true",
        "startingOffsets": json.dumps({topic: starts}),
        "endingOffsets": json.dumps({topic: ends}),
    }
    return spark.read.format("kafka").options(**options).load()


def _both_ends(spark: SparkSession, access: KafkaAccess, topic: str, ranges: Ranges) -> tuple[Any, Any]:
    """The first and the last time, as the ends of the lanes have them: the whole topic would be a second pass.

    Times need not rise along a lane, so some may lie outside: those are counted in the first or last window.
    """
    heads = [(start, min(end, start + _LOOK)) for start, end in ranges]
    tails = [(max(start, end - _LOOK), end) for start, end in ranges]
    both = read_between(spark, access, topic, heads).union(read_between(spark, access, topic, tails))
    at = F.unix_micros(_STAMP)
    (found,) = both.agg(F.min(at), F.max(at)).collect()
    return found[0], found[1]


def _fields(key: Key, contract: Contract | None, given: Options) -> tuple[dict[str, Column], Column | None]:
    """The fields of the key and the time by their names, and which records cannot be read."""
    own = _key_name(key, contract, given)
    encodings = dict(zip(key.fields, key.encodings, strict=True))
    columns: dict[str, Column] = {}
    unread: list[Column] = []
    if own in encodings:
        columns[own], misfit = _own_key(own, encodings)
        unread += misfit
    if _STAMP in encodings:
        columns[_STAMP] = F.col(_STAMP)
    wanted = [name for name in (*key.fields, given.time) if name and name not in columns and name != _STAMP]
    if wanted:
        reading = reading_of({name: encodings.get(name, "utf8") for name in wanted})
        found, misread = fields_of(reading, given.kafka)
        columns |= found
        unread += [] if misread is None else [misread]
    return columns, (F.greatest(*unread, F.lit(False)) if unread else None)


def _own_key(name: str, encodings: dict[str, Any]) -> tuple[Column, list[Column]]:
    """The record's key. Text is text, so that a contract can name it; bytes that are no text are malformed."""
    if encodings[name] != "utf8":
        key = key_column(encodings[name])
        return key, [F.col("key").isNotNull() & key.isNull()]
    text = F.col("key").cast("string")
    return text, [F.col("key").isNotNull() & ~F.is_valid_utf8(text)]


def _key_name(key: Key, contract: Contract | None, given: Options) -> str:
    """Without a word on values, the only key field of a contract is the record's key, as producers send it."""
    alone = contract is not None and given.kafka.value is None and len(key.fields) == 1 and "key" not in key.fields
    return key.fields[0] if alone else "key"


def reading_of(encodings: dict[str, Any]) -> Contract:
    """What says which fields of the value are read, and which of them are numbers."""
    key = Key(fields=tuple(encodings), encoding=tuple(encodings.values()))
    spec = Spec(streams=("profile",), lanes=1, key=key, partitioner="kafka-java")
    return Contract(
        apiVersion="keylane/v1",
        kind="RoutingContract",
        metadata=Metadata(name="profile", epoch=1, owner=None),
        spec=spec,
    )

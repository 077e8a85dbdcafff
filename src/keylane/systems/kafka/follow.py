"""A topic as the source of a route, through Spark's connector: which records make a batch is in Spark's checkpoint.

Its records are read as committed transactions left them, and are never skipped when they are gone; a topic that is
recreated under the same name is refused, by its id, before a batch of it is committed. Into a folder, key,
value, timestamp and headers are columns of the lanes, and each batch is read twice: once to count its
records, so that the counts can be checked, and once to write it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from keylane.contract.fields import FieldSpec
from keylane.errors import UsageError
from keylane.systems.flow import HandedOverWhole
from keylane.systems.identity import recreated_source
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.messages.frames import message_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.spark.messages import Fields, Messages
    from keylane.spark.read_parquet import Batch, SourceFile
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.flow import Standing
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import KafkaCluster

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d.*")
_PARTITION: Final = re.compile(r"[0-9]{1,10}")


def follow_topic(
    spark: SparkSession, contract: Contract, access: KafkaAccess, address: Address, known: str, options: StreamOptions
) -> TopicFollowed:
    """Follow a topic, for as long as it has the known id; that is nothing where the cluster reports none."""
    return follow_messages(spark, access, address, known, options, fields_of(contract, options))


def follow_messages(
    spark: SparkSession,
    access: KafkaAccess,
    address: Address,
    known: str,
    options: StreamOptions,
    columns: Fields | None = None,
) -> TopicFollowed:
    """The same, with these columns of its records beside those of a message."""
    fields, unread = columns or ({}, None)
    by = (options.start, options.max_records)
    with open_cluster(access) as cluster:
        source = SameTopic(cluster, address, known, options.try_seconds)
        return TopicFollowed(spark, access, address.name, fields, unread, *by, source=source)


@dataclass(frozen=True, slots=True)
class SameTopic:
    """The topic that a route began with."""

    cluster: KafkaCluster
    address: Address
    known: str
    seconds: float

    def check(self) -> None:
        """Refuse a topic that was recreated, or deleted, under the same name."""
        if self.known:
            now = self.cluster.topic_ids([self.address.name], self.seconds).get(self.address.name)
            if now not in {"", self.known}:
                raise recreated_source(str(self.address), self.known, now or "")


@dataclass(frozen=True, slots=True)
class TopicFollowed(HandedOverWhole):
    """A topic with the columns that the contract needs of its records; `malformed` marks what cannot be read."""

    spark: SparkSession
    access: KafkaAccess
    topic: str
    fields: dict[str, Column]
    malformed: Column | None = None
    start: str = "earliest"
    max_records: int = 1_000_000
    counted: str | None = None
    source: SameTopic | None = None

    def stream(self) -> DataFrame:
        """The topic as the connector reads it: one task for each partition."""
        options = {
            **self.access.java_reader(),
            **starting(self.start, self.topic),
            "subscribe": self.topic,
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "maxOffsetsPerTrigger": str(self.max_records),
        }
        return self.spark.readStream.format("kafka").options(**options).load()

    def taken(self, frame: DataFrame) -> list[SourceFile]:
        """The offset range of each partition."""
        from keylane.spark.messages import offset_ranges

        return offset_ranges(frame, self.topic)

    def names(self, taken: Sequence[SourceFile]) -> list[str]:
        """Topic and partition."""
        return [file.name.rpartition("/")[0] for file in taken]

    def rows(self, frame: DataFrame, taken: Sequence[SourceFile], last: Standing) -> Batch:  # noqa: ARG002  has offsets
        """The records as rows of a folder."""
        from keylane.spark.messages import rows_of_topic

        return rows_of_topic(frame, taken, self.fields, self.malformed)

    def messages(self, frame: DataFrame, last: Standing) -> Messages:  # noqa: ARG002  a topic counts for itself
        """The records of a batch; every offset of Kafka's is its own position."""
        from keylane.spark.messages import Messages, from_kafka

        return Messages(from_kafka(frame, self.fields, self.malformed), topic=self.topic)

    def where(self) -> dict[str, Column]:
        """Topic, partition and offset."""
        from keylane.spark.messages import topic_position

        return topic_position(self.topic)

    def check_unchanged(self, taken: Sequence[SourceFile]) -> None:  # noqa: ARG002  all of it or nothing
        """The records of a topic do not change, as long as it is the same topic."""
        if self.source is not None:
            self.source.check()


def starting(text: str, topic: str) -> dict[str, str]:
    """Where a new route begins to read: earliest, latest, a time, or an offset for each partition.

    >>> starting("latest", "t")
    {'startingOffsets': 'latest'}
    >>> starting("2026-01-01T00:00Z", "t")
    {'startingTimestamp': '1767225600000', 'startingOffsetsByTimestampStrategy': 'latest'}
    >>> starting('{"0": 123}', "t")
    {'startingOffsets': '{"t": {"0": 123}}'}
    """
    if text in {"earliest", "latest"}:
        return {"startingOffsets": text}
    if text.startswith("{"):
        return {"startingOffsets": json.dumps({topic: _offsets(text)})}
    if _DAY.fullmatch(text) is None:
        raise _start_error(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _start_error(text) from None
    if at.tzinfo is None:
        raise UsageError.of("a time to start at has no zone", got=text, hint=f"{text}Z")
    millis = int(at.timestamp() * 1000)
    if millis < 0:
        # Kafka reads -1 as the end of the topic.
        raise UsageError.of("a time to start at is before 1970", got=text, hint="--start earliest")
    return {
        "startingTimestamp": str(millis),
        "startingOffsetsByTimestampStrategy": "latest",
    }


def start_offsets(cluster: KafkaCluster, topic: str, text: str) -> list[int]:
    """The same as the offset of each lane, as the cluster says now: of a time the first record of then or later."""
    options = starting(text, topic)
    ranges = cluster.offset_ranges(topic, cluster.lanes([topic])[topic], committed=True)
    if "startingTimestamp" in options:
        found = cluster.offsets_at(topic, len(ranges), int(options["startingTimestamp"]))
        return [one.end if at < 0 else at for one, at in zip(ranges, found, strict=True)]
    given = json.loads(options["startingOffsets"])[topic] if text.startswith("{") else {}
    named = {-2: [one.start for one in ranges], -1: [one.end for one in ranges]}
    usual = -1 if text == "latest" else -2
    chosen = [given.get(str(lane), usual) for lane in range(len(ranges))]
    return [at if at >= 0 else named[at][lane] for lane, at in enumerate(chosen)]


def _offsets(text: str) -> dict[str, int]:
    try:
        offsets = json.loads(text)
    except ValueError:
        raise _start_error(text) from None
    # Java makes another number of one beyond 64 bits, and would start there.
    if not offsets or not all(_PARTITION.fullmatch(key) and _is_offset(n) for key, n in offsets.items()):
        raise _start_error(text)
    return dict(offsets)


def _is_offset(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and -2 <= number < 2**63


def _start_error(text: str) -> UsageError:
    allowed = 'earliest, latest, a time (2026-01-01T00:00Z), offsets by partition ({"0": 123})'
    return UsageError.of("not a position to start at", got=text, allowed=allowed)


def fields_of(contract: Contract, options: StreamOptions) -> Fields:
    """The columns that the contract needs of a topic's records, and which records cannot be read; None when all can."""
    return message_columns(FieldSpec.sent(contract, keys_sent=options.keys_sent), options)

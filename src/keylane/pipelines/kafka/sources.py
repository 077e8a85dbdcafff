"""Where a route into Kafka takes its records from: a topic, through Spark's connector, or files.

A source gives the query its stream (`stream`), and turns what the query hands over as a batch into messages
(`messages`, `keylane.spark.messages`). Which records make a batch is Spark's to say and to remember.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import functions as F

from keylane.errors import UsageError
from keylane.spark.messages import from_kafka

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.systems.kafka_access import KafkaAccess
    from keylane.systems.kafka_state import Done

__all__ = ["KafkaSource", "Messages", "Source", "starting"]

#: Each lets several tasks read one partition, so that records of one key can overtake each other.
UNORDERED: Final = ("minPartitions", "maxRecordsPerPartition")


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a batch; how many lines of it were no records; and where the source stands after it."""

    frame: DataFrame
    filtered: int = 0
    taken: dict[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """What a route into Kafka asks of a source."""

    def stream(self) -> DataFrame:
        """The stream of the query."""
        ...

    def messages(self, frame: DataFrame, last: Done) -> Messages:
        """A batch of that stream as messages; `last` is the batch before."""
        ...

    def where(self) -> dict[str, Column]:
        """A message's place, as the headers of a dead letter name it."""
        ...


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic. Its records are read as committed transactions left them, and are never skipped when they are gone."""

    spark: SparkSession
    access: KafkaAccess
    topic: str
    fields: dict[str, Column]
    malformed: Column | None = None
    start: str = "earliest"
    max_records: int = 1_000_000

    def stream(self) -> DataFrame:
        """The topic as the connector reads it: one task for each partition."""
        options = {
            "kafka.isolation.level": "read_committed",
            **self.access.java(),
            **starting(self.start, self.topic),
            "subscribe": self.topic,
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "maxOffsetsPerTrigger": str(self.max_records),
        }
        return self.spark.readStream.format("kafka").options(**options).load()

    def messages(self, frame: DataFrame, last: Done) -> Messages:  # noqa: ARG002  a topic counts for itself
        """The records of a batch; every offset of Kafka's is its own place."""
        return Messages(from_kafka(frame, self.fields, self.malformed))

    def where(self) -> dict[str, Column]:
        """Topic, partition and offset, as Connect's headers say them."""
        at = {"partition": F.col("keylane_part"), "offset": F.col("keylane_place"), "timestamp": F.col("keylane_time")}
        return {"topic": F.lit(self.topic), **at}


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
    if re.fullmatch(r"\d{4}-\d\d-\d\d.*", text) is None:
        raise _start_error(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _start_error(text) from None
    if at.tzinfo is None:
        raise UsageError.of("a time to start at has no zone", got=text, hint=f"{text}Z")
    return {
        "startingTimestamp": str(int(at.timestamp() * 1000)),
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _offsets(text: str) -> dict[str, int]:
    try:
        found = json.loads(text)
    except ValueError:
        raise _start_error(text) from None
    whole = all(key.isdigit() and isinstance(n, int) and n >= -2 for key, n in found.items())
    if not found or not whole:
        raise _start_error(text)
    return dict(found)


def _start_error(text: str) -> UsageError:
    allowed = 'earliest, latest, a time (2026-01-01T00:00Z), offsets by partition ({"0": 123})'
    return UsageError.of("no place to start at", got=text, allowed=allowed)

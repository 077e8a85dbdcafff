"""Kafka records as frames: what the connector reads, what a contract needs of it, and what a writer is given.

A frame of messages has the contract's fields under their own names, and beside them these columns:

    keylane_key, keylane_value     bytes as they are, null as null
    keylane_time                   milliseconds, or null
    keylane_headers                the headers that the record brought along
    keylane_source                 its position as people read it: `topic/partition/offset`, `file/row`
    keylane_part, keylane_place    the same as numbers: the order that is kept
    keylane_position               what keyless rules read
    keylane_malformed              whether it could not be read at all; only where that can be

The decision is `frames.route`'s. Values other than bytes: `decoding`. Writing to the lanes: `pipelines.kafka.writer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.records import Reason
from keylane.spark.files import MALFORMED, POSITION
from keylane.spark.frames import route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from keylane.router import Router

__all__ = [
    "DEAD_PREFIX",
    "HEADERS",
    "SLOT",
    "WRITER_COLUMNS",
    "dead_headers",
    "decided",
    "from_kafka",
    "slotted",
    "to_writers",
]

DEAD_PREFIX: Final = "__keylane.errors."
HEADERS: Final = "array<struct<key:string,value:binary>>"
SLOT: Final = "keylane_slot"
#: What a writer gets, in this order.
WRITER_COLUMNS: Final = ("slot", "key", "value", "time", "source", "headers", "part", "place")


def from_kafka(frame: DataFrame, fields: Mapping[str, Column], malformed: Column | None = None) -> DataFrame:
    """A frame of the connector's as messages. `fields` are what the contract needs, by name."""
    source = F.concat_ws("/", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))
    return frame.select(
        *(column.alias(name) for name, column in fields.items()),
        F.col("key").alias("keylane_key"),
        F.col("value").alias("keylane_value"),
        F.unix_millis("timestamp").alias("keylane_time"),
        F.col("headers").alias("keylane_headers"),
        source.cast("binary").alias("keylane_source"),
        F.col("partition").alias("keylane_part"),
        F.col("offset").alias("keylane_place"),
        F.col("offset").alias(POSITION),
        *([] if malformed is None else [malformed.alias(MALFORMED)]),
    )


def decided(frame: DataFrame, router: Router) -> DataFrame:
    """Messages with their stream and lane, or the reason why they have none."""
    out = route(frame, router.contract, lanes=router.lane_count, stream=router.stream, position=POSITION)
    if MALFORMED not in frame.columns:
        return out
    unread = F.when(F.col(MALFORMED), F.lit(str(Reason.MALFORMED_RECORD)))
    return out.withColumn("reason", F.coalesce(unread, F.col("reason")))


def slotted(frame: DataFrame, streams: Sequence[tuple[str, int]], dead_lanes: int) -> DataFrame:
    """A slot for every message: the lanes of the streams in their order, then those of the dead letters.

    A dead letter goes to the lane that its source partition has there: what was in one order stays in one.
    """
    first, base = 0, F.lit(0)
    for stream, lanes in streams:
        base = F.when(F.col("stream") == stream, F.lit(first)).otherwise(base) if first else base
        first += lanes
    dead = F.lit(first) + F.pmod(F.col("keylane_part"), F.lit(dead_lanes))
    slot = F.when(F.col("reason").isNull(), base + F.col("lane")).otherwise(dead)
    return frame.withColumn(SLOT, slot.cast("int"))


def dead_headers(frame: DataFrame, about: Mapping[str, Column]) -> DataFrame:
    """Give each dead letter the headers that say why it is one, after those it brought along."""
    own = [
        F.struct(F.lit(f"{DEAD_PREFIX}{name}").alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in about.items()
    ]
    headers = F.concat(F.coalesce("keylane_headers", F.array().cast(HEADERS)), F.array(*own))
    kept = F.col("keylane_headers")
    return frame.withColumn("keylane_headers", F.when(F.col("reason").isNull(), kept).otherwise(headers))


def to_writers(frame: DataFrame, writers: int, *, spelled: bool = True) -> DataFrame:
    """What `pipelines.kafka.writer` is mapped over: by part (0 writers) as the source reads them, else by lane.

    By lane, every slot's messages are in one task, in the order of the source. A position that is not `spelled` is
    left to the writer, who has its numbers: spelling takes Spark several times as long.
    """
    columns = {name: F.col(f"keylane_{name}") for name in WRITER_COLUMNS}
    if not spelled:
        columns["source"] = F.lit(None).cast("binary")
    given = [column.alias(name) for name, column in columns.items()]
    if not writers:
        return frame.select(*given)
    return (
        frame.select(*given)
        .repartitionById(writers, F.pmod("slot", F.lit(writers)).cast("int"))
        .sortWithinPartitions("part", "place")
    )

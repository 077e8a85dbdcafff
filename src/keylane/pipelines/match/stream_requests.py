"""Requests between their arrival and the end of their memory: those that wait, those that are ripe, those answered.

A request waits until the drivers' watermark has passed it: until no ping that it should see is still under way. It is
answered then, in all of its lanes at once, because the watermark is one for all lanes. So the answer is that of event
time, however the records were cut into batches, and partial answers never wait for each other.

An answered request is remembered for as long as it could be told again. One that is older than what lanes remember
when it comes cannot be answered exactly, and is a dead letter: `late-request`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.records import Reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["KNOWN", "judged", "remembered", "told_too_late"]

_REQUEST: Final = ("rider", "ts", "offset", "lat", "lng", "cell")
#: What is kept of a request.
KNOWN: Final = (
    "rider string, ts bigint, offset bigint, lat double, lng double, cell bigint, told bigint, answered boolean"
)


def told_too_late(requests: DataFrame, kept_from: int) -> DataFrame:
    """Requests of a time that lanes no longer know, as dead letters."""
    late = requests.where(F.col("ts") < kept_from)
    return late.select(
        F.lit("riders").alias("side"),
        F.lit(None).cast("string").alias("source"),
        F.lit(str(Reason.LATE_REQUEST)).alias("reason"),
        F.to_json(F.struct(*_REQUEST[:5])).alias("original"),
    )


def judged(known: DataFrame, requests: DataFrame, kept_from: int, ripe_before: int) -> DataFrame:
    """Each request once, with whether it was answered and whether it is now `ripe`.

    Of several tellings the last counts; one that comes after the answer changes nothing.
    """
    new = requests.where(F.col("ts") >= kept_from).select(
        *_REQUEST, F.lit(1).cast("bigint").alias("told"), F.lit(False).alias("answered")
    )
    counts = F.max_by(F.struct(*_REQUEST[2:]), F.struct("answered", "offset")).alias("last")
    each = (
        known.unionByName(new)
        .groupBy("rider", "ts")
        .agg(counts, F.sum("told").alias("told"), F.max("answered").alias("answered"))
    )
    ripe = ~F.col("answered") & (F.col("ts") < ripe_before)
    return each.select("rider", "ts", "last.*", "told", "answered", ripe.alias("ripe"))


def remembered(requests: DataFrame, kept_from: int) -> DataFrame:
    """What is kept of judged requests: those that wait, and those answered that may be told again."""
    answered = F.col("answered") | F.col("ripe")
    kept = requests.where(~answered | (F.col("ts") >= kept_from))
    return kept.select(*_REQUEST, "told", answered.alias("answered"))

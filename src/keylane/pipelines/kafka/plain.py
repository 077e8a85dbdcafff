"""The same records through Spark's own Kafka sink: at least once, and quicker.

Spark's sink commits nothing: what a failed try has written stays, and the next writes it again. Such replays begin at
the batch's first record and are contiguous for each source partition; from the second try on every record of the batch
carries the header `keylane.attempt`, so that a reader can tell. A task that Spark itself tries again inside one job, as
it does on a cluster, is not marked. Each source partition is written by one task in its own order. The sink writes no
timestamps: records get the time at which they are written.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F

from keylane.spark.messages import HEADERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from keylane.systems.kafka_access import KafkaAccess

__all__ = ["ATTEMPT", "SESSION", "write_plainly"]

ATTEMPT: Final = "keylane.attempt"
#: What a session needs: of Spark's two ways into Kafka only the newer one tells what was observed on the way.
SESSION: Final = {"spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text"}


def write_plainly(
    frame: DataFrame, access: KafkaAccess, slots: Sequence[tuple[str, int]], headers: Sequence[tuple[str, bytes]]
) -> dict[int, int]:
    """Write messages that have a slot; the count of each slot's records, taken as they pass.

    A histogram with room for every slot merges none with another, so that its counts are exact; they come in parts.
    """
    seen, first = Observation(), _firsts(slots)
    counted = frame.observe(seen, F.histogram_numeric("keylane_slot", F.lit(len(slots) + 1)).alias("slots"))
    rows = counted.select(
        _topic(first).alias("topic"),
        (F.col("keylane_slot") - _start(first)).alias("partition"),
        F.col("keylane_key").alias("key"),
        F.col("keylane_value").alias("value"),
        _headers(headers).alias("headers"),
    )
    rows.write.format("kafka").options(**access.java()).option("includeHeaders", "true").mode("append").save()
    counts: Counter[int] = Counter()
    for one in seen.get["slots"] or []:
        counts[int(one["x"])] += int(one["y"])
    return dict(counts)


def _firsts(slots: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The first slot of each topic."""
    return {topic: slot for slot, (topic, lane) in enumerate(slots) if lane == 0}


def _topic(firsts: dict[str, int]) -> Column:
    return _by_slot({topic: F.lit(topic) for topic in firsts}, firsts)


def _start(firsts: dict[str, int]) -> Column:
    return _by_slot({topic: F.lit(slot) for topic, slot in firsts.items()}, firsts)


def _by_slot(values: dict[str, Column], firsts: dict[str, int]) -> Column:
    out: Column | None = None
    for topic, slot in firsts.items():
        out = values[topic] if out is None else F.when(F.col("keylane_slot") >= slot, values[topic]).otherwise(out)
    assert out is not None
    return out


def _headers(fixed: Sequence[tuple[str, bytes]]) -> Column:
    own = [F.struct(F.lit("keylane.source").alias("key"), F.col("keylane_source").alias("value"))]
    own += [F.struct(F.lit(name).alias("key"), F.lit(bytearray(value)).alias("value")) for name, value in fixed]
    added = F.array(*own).cast(HEADERS)
    return F.when(F.col("keylane_headers").isNull(), added).otherwise(F.concat("keylane_headers", added))

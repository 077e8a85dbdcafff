"""Pings and copies of requests, lane by lane -> pairs; ghosts dropped; each rider's drivers in order.

A lane answers from what it has. A driver that has moved on to another lane may still be in its answer: a ghost, known
by a newer ping of the driver, anywhere, that is not after the request. In a lane's own answer there is none, so no lane
has to be asked for: the driver and the time are enough. Ghosts are looked for with the pairs broadcast while they are
few, so that pings stay where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from keylane.matching.schemas import PAIRS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

__all__ = ["ANSWERS", "as_matches", "ghosts_among", "lane_answers", "ranked"]

_PAIR: Final = "rider string, rider_ts bigint, driver string, distance_m double, driver_ts bigint, driver_offset bigint"
_COUNTS: Final = ("pings", "copies", "requests", "border", "told")
#: Pairs of a lane, and one row of counts for it, which has no rider.
ANSWERS: Final = f"lane int, {_PAIR}, rider_offset bigint, " + ", ".join(f"{name} bigint" for name in _COUNTS)
_KEYS: Final = ("rider", "rider_ts", "driver", "lane")
#: Pairs up to this number go to all pings; more are exchanged with them.
FEW_PAIRS: Final = 1_000_000


def lane_answers(pings: DataFrame, copies: DataFrame, radius: float, expire: int | None) -> DataFrame:
    """What each lane answers. By lane key on both sides: a lane is a task, and pings that lie in lanes stay there."""
    drivers = pings.select("lane_key", "lane", "driver", "ts", "offset", "lat", "lng", "available")
    asked = drivers.groupBy("lane_key").cogroup(copies.groupBy("lane_key"))
    return asked.applyInArrow(_answerer(radius, expire), ANSWERS)


def _answerer(radius: float, expire: int | None) -> Callable[[pa.Table, pa.Table], pa.Table]:
    names = [one.split()[0] for one in ANSWERS.split(", ")]

    def answer(pings: pa.Table, copies: pa.Table) -> pa.Table:
        from keylane.matching.near import near
        from keylane.matching.timeline import empty_entries, merged

        lane = (pings if len(pings) else copies).column("lane")[0].as_py()
        entries = merged(empty_entries(), _entries(pings)) if len(pings) else empty_entries()
        pairs = near(entries, copies, radius, expire) if len(copies) else PAIRS.empty_table()
        found = pairs.append_column("lane", pa.array(np.full(len(pairs), lane, np.int32)))
        return pa.concat_tables([_counted(lane, pings, copies), found], promote_options="permissive").select(names)

    return answer


def _entries(pings: pa.Table) -> pa.Table:
    kinds = (pa.scalar(int(one), pa.int8()) for one in (Kind.AVAILABLE, Kind.UNAVAILABLE))
    return pings.append_column("kind", pc.if_else(pings.column("available"), *kinds))


def _counted(lane: int, pings: pa.Table, copies: pa.Table) -> pa.Table:
    home = copies.filter(copies.column("home"))
    border = pc.sum(pc.greater(home.column("copies"), 1)).as_py() or 0
    told = pc.sum(home.column("told")).as_py() or 0
    counts = (len(pings), len(copies), len(home), int(border), int(told))
    return pa.table(
        {
            "lane": pa.array([lane], pa.int32()),
            **{name: pa.array([count], pa.int64()) for name, count in zip(_COUNTS, counts, strict=True)},
        }
    )


def ghosts_among(pairs: DataFrame, pings: DataFrame, count: int) -> DataFrame:
    """The pairs, by their keys, whose driver had pinged again, somewhere, before the request."""
    seen = pings.select(F.col("driver").alias("pinged"), F.col("ts").alias("at"), F.col("offset").alias("place"))
    slim = pairs.select(*_KEYS, "driver_ts", "driver_offset")
    few = F.broadcast(slim) if count <= FEW_PAIRS else slim
    newer = (F.col("at") > F.col("driver_ts")) | (
        (F.col("at") == F.col("driver_ts")) & (F.col("place") > F.col("driver_offset"))
    )
    same = (F.col("pinged") == F.col("driver")) & newer & (F.col("at") <= F.col("rider_ts"))
    return seen.join(few, same).select(*_KEYS).distinct()


def ranked(pairs: DataFrame, ghosts: DataFrame | None, nearest: int | None) -> DataFrame:
    """Pairs that are no ghosts, each with its rank among its rider's; the first `nearest` of them."""
    real = pairs if ghosts is None else pairs.join(ghosts, list(_KEYS), "left_anti")
    order = Window.partitionBy("rider", "rider_ts").orderBy("distance_m", "driver")
    found = real.withColumn("rank", F.row_number().over(order))
    return found if nearest is None else found.where(F.col("rank") <= nearest)


def as_matches(pairs: DataFrame) -> DataFrame:
    """Ranked pairs as they are written: a row for each driver of a rider, times as times."""
    return pairs.select(
        F.col("rider").alias("rider_id"),
        F.timestamp_micros("rider_ts").alias("rider_ts"),
        F.col("driver").alias("driver_id"),
        "distance_m",
        F.timestamp_micros("driver_ts").alias("driver_ts"),
        F.col("rank").cast("int").alias("rank"),
    )

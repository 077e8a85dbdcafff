"""Requests -> a copy for each lane that can hold a driver near them; pings and copies, lane by lane -> pairs.

Drivers stay in one lane, riders are fanned out: which lanes is decided in `keylane.matching.cover`. Every copy knows
whether it is at home, and how many there are of its request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from keylane.matching.tables import PAIRS, Kind
from keylane.placement.lane_keys import lane_keys
from keylane.spark.cells import cell_lane_column
from keylane.spark.read_parquet import picked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from keylane.placement.cell_lanes import CellLanes


#: A copy of a request: `reports` is how often the request was reported, `copies` how many lanes were asked.
COPIES: Final = (
    "rider string, ts bigint, offset bigint, lat double, lng double, reports bigint, cell bigint, "
    "lane int, home boolean, copies int, lane_key int"
)
_REQUEST: Final = ("rider", "ts", "offset", "lat", "lng", "reports", "cell")
#: Requests whose disks are in memory at one time.
_AT_ONCE: Final = 2048


def in_lanes(pings: DataFrame, lanes: CellLanes) -> DataFrame:
    """Pings with the lane of their cell and its key; those that lie in lanes already as they are."""
    if "lane_key" in pings.columns:
        return pings
    keys = list(lane_keys(lanes.count))
    placed = pings.select("*", cell_lane_column(pings.sparkSession, lanes, F.col("cell")).alias("lane"))
    return placed.select("*", picked(keys, "int", F.col("lane")).alias("lane_key"))


def distinct_requests(requests: DataFrame) -> DataFrame:
    """Each request once. Of several reports of it, maybe from several locations, the last one counts."""
    last = F.max_by(F.struct("lat", "lng", "cell"), "offset").alias("last")
    grouped = requests.groupBy("rider", "ts").agg(
        F.max("offset").alias("offset"), F.count(F.lit(1)).alias("reports"), last
    )
    return grouped.select("rider", "ts", "offset", "last.lat", "last.lng", "reports", "last.cell")


def fanned_out(requests: DataFrame, lanes: Sequence[CellLanes], radius: float) -> DataFrame:
    """The copies of distinct requests. Several lane functions, as of two epochs, give the lanes of all of them."""
    return requests.select(*_REQUEST).mapInArrow(_copier(lanes, radius), COPIES)


def _copier(
    lanes: Sequence[CellLanes], radius: float
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    keys = np.array(lane_keys(lanes[0].count), np.int32)

    def one_lane(cells: Any) -> Any:
        return np.all([one.one_lane(cells) for one in lanes], axis=0)

    def copies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keylane.matching.cover import covers

        for batch in batches:
            for start in range(0, len(batch), _AT_ONCE):
                part = batch.slice(start, _AT_ONCE)
                lat, lng, cells = (part.column(name).to_numpy(zero_copy_only=False) for name in ("lat", "lng", "cell"))
                rows, lane, home = covers(lat, lng, cells, radius, [one.of for one in lanes], one_lane)
                yield _copied(part, rows, lane, home, keys)

    return copies


def _copied(
    part: pa.RecordBatch, rows: NDArray[Any], lane: NDArray[Any], home: NDArray[Any], keys: NDArray[np.int32]
) -> pa.RecordBatch:
    each = np.bincount(rows, minlength=len(part)).astype(np.int32)
    chosen = part.select(list(_REQUEST)).take(pa.array(rows))
    more = [pa.array(lane.astype(np.int32)), pa.array(home), pa.array(each[rows]), pa.array(keys[lane])]
    return pa.RecordBatch.from_arrays([*chosen.columns, *more], names=[*_REQUEST, "lane", "home", "copies", "lane_key"])


# Pings and copies of requests, lane by lane -> pairs; ghosts dropped; each rider's drivers in order.

_PAIR: Final = "rider string, rider_ts bigint, driver string, distance_m double, driver_ts bigint, driver_offset bigint"
_COUNTS: Final = ("pings", "copies", "requests", "border", "reports")
#: Pairs of a lane, and one row of counts for it, which has no rider.
ANSWERS: Final = f"lane int, {_PAIR}, rider_offset bigint, " + ", ".join(f"{name} bigint" for name in _COUNTS)
_KEYS: Final = ("rider", "rider_ts", "driver", "lane")
#: Pairs up to this number go to all pings; more are exchanged with them.
FEW_PAIRS: Final = 1_000_000


def lane_answers(pings: DataFrame, copies: DataFrame, radius: float, expire: int | None) -> DataFrame:
    """What each lane answers. By lane key on both inputs: a lane is a task, and pings that lie in lanes stay there."""
    drivers = pings.select("lane_key", "lane", "driver", "ts", "offset", "lat", "lng", "available")
    asked = drivers.groupBy("lane_key").cogroup(copies.groupBy("lane_key"))
    return asked.applyInArrow(_answerer(radius, expire), ANSWERS)


def _answerer(radius: float, expire: int | None) -> Callable[[pa.Table, pa.Table], pa.Table]:
    names = [one.split()[0] for one in ANSWERS.split(", ")]

    def answer(pings: pa.Table, copies: pa.Table) -> pa.Table:
        from keylane.matching.near import near
        from keylane.matching.timeline import empty_entries, merged

        lane = (pings if len(pings) else copies).column("lane")[0].as_py()
        entries = merged(empty_entries(), as_entries(pings)) if len(pings) else empty_entries()
        pairs = near(entries, copies, radius, expire) if len(copies) else PAIRS.empty_table()
        found = pairs.append_column("lane", pa.array(np.full(len(pairs), lane, np.int32)))
        return pa.concat_tables([_counted(lane, pings, copies), found], promote_options="permissive").select(names)

    return answer


def as_entries(pings: pa.Table) -> pa.Table:
    """Pings as entries of a timeline."""
    kinds = (pa.scalar(int(one), pa.int8()) for one in (Kind.AVAILABLE, Kind.UNAVAILABLE))
    return pings.append_column("kind", pc.if_else(pings.column("available"), *kinds))


def _counted(lane: int, pings: pa.Table, copies: pa.Table) -> pa.Table:
    home = copies.filter(copies.column("home"))
    border = pc.sum(pc.greater(home.column("copies"), 1)).as_py() or 0
    reports = pc.sum(home.column("reports")).as_py() or 0
    counts = (len(pings), len(copies), len(home), int(border), int(reports))
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
    """Pairs that are not ghosts, each with its rank among its rider's; the first `nearest` of them."""
    real = pairs if ghosts is None else pairs.join(ghosts, list(_KEYS), "left_anti")
    order = Window.partitionBy("rider", "rider_ts").orderBy("distance_m", "driver")
    found = real.withColumn("rank", F.row_number().over(order))
    return found if nearest is None else found.where(F.col("rank") <= nearest)


def as_matches(pairs: DataFrame, *more: str) -> DataFrame:
    """Ranked pairs as they are written: a row for each driver of a rider, times as times; `more` columns stay."""
    return pairs.select(
        *more,
        F.col("rider").alias("rider_id"),
        F.timestamp_micros("rider_ts").alias("rider_ts"),
        F.col("driver").alias("driver_id"),
        "distance_m",
        F.timestamp_micros("driver_ts").alias("driver_ts"),
        F.col("rank").cast("int").alias("rank"),
    )

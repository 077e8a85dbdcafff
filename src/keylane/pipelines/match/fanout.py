"""Requests -> a copy for each lane that can hold a driver near them; and lanes with their keys for pings.

Drivers stay in one lane, riders are fanned out: which lanes is decided in `keylane.matching.cover`. Every copy knows
whether it is at home, and how many there are of its request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from keylane.placement.lane_keys import lane_keys
from keylane.spark.cells import cell_lane_column
from keylane.spark.files import picked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from keylane.placement.cell_lanes import CellLanes

__all__ = ["COPIES", "distinct_requests", "fanned_out", "in_lanes"]

#: A copy of a request: `told` is how often the request was told, `copies` how many lanes were asked.
COPIES: Final = (
    "rider string, ts bigint, offset bigint, lat double, lng double, told bigint, cell bigint, "
    "lane int, home boolean, copies int, lane_key int"
)
_REQUEST: Final = ("rider", "ts", "offset", "lat", "lng", "told", "cell")
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
    """Each request once. Of one that was told several times, maybe from several places, the last telling counts."""
    last = F.max_by(F.struct("lat", "lng", "cell"), "offset").alias("last")
    told = requests.groupBy("rider", "ts").agg(F.max("offset").alias("offset"), F.count(F.lit(1)).alias("told"), last)
    return told.select("rider", "ts", "offset", "last.lat", "last.lng", "told", "last.cell")


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

"""What a page shows of a match beside its document: cells with their lanes and loads, and lanes by the hour.

Two aggregations, one of each side, and only when a page is asked for. The page: `keylane.report.match`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from keylane.geo.bits import ancestor, cell_name
from keylane.spark.arrow import arrow_udf

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

    from keylane.placement.cell_lanes import CellLanes

__all__ = ["RESOLUTION", "picture_of", "shown_cells"]

#: Cells of about 250 km2: some thousand for the towns of a country.
RESOLUTION: Final = 5
_FINEST: Final = 9
_MICROS_OF_HOUR: Final = 3_600_000_000


def picture_of(pings: DataFrame, copies: DataFrame, lanes: CellLanes) -> dict[str, Any]:
    """Cells by pings, requests and guest copies; pings of every lane by the hour of the day, in UTC."""
    hour = F.pmod(F.floor(F.col("ts") / _MICROS_OF_HOUR), F.lit(24)).cast("int").alias("hour")
    cell = _shown_column(lanes, F.col("cell")).alias("at")
    placed = pings.select(cell, "lane", hour).groupBy("at", "lane", "hour").count().sort("at", "hour").collect()
    asked = copies.select(cell, "home").groupBy("at").agg(F.count_if("home"), F.count_if(~F.col("home"))).collect()
    cells: dict[int, dict[str, Any]] = {}
    hours = [[0] * 24 for _ in range(lanes.count)]
    busiest: dict[int, int] = {}
    for at, lane, when, count in placed:
        found = _cell(cells, lanes, at)
        found["pings"] += count
        hours[lane][when] += count
        if count > busiest.get(at, 0):
            busiest[at], found["hour"] = count, when
    for at, requests, guests in asked:
        _cell(cells, lanes, at).update(requests=requests, copies=guests)
    for one in cells.values():
        one["records"] = one["pings"] + one["requests"]
    return {"cells": [cells[at] for at in sorted(cells)], "hours": hours, "resolution": RESOLUTION}


def shown_cells(lanes: CellLanes, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The coarsest ancestor of each cell, from resolution 5 on, that is one lane throughout."""
    shown = ancestor(cells, RESOLUTION)
    for finer in range(RESOLUTION + 1, _FINEST + 1):
        mixed = np.flatnonzero(~lanes.one_lane(shown))
        shown[mixed] = ancestor(cells[mixed], finer)
    return shown


def _shown_column(lanes: CellLanes, cell: Column) -> Column:
    def shown(cells: pa.Array) -> pa.Array:
        return pa.array(shown_cells(lanes, cells.to_numpy(zero_copy_only=False)))

    return arrow_udf(shown, "bigint")(cell)


def _cell(cells: dict[int, dict[str, Any]], lanes: CellLanes, at: int) -> dict[str, Any]:
    if at not in cells:
        lane = int(lanes.of(np.array([at]))[0])
        cells[at] = {"cell": cell_name(at), "lane": lane, "pings": 0, "requests": 0, "copies": 0, "hour": None}
    return cells[at]

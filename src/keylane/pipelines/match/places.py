"""Cells and problems of places as columns, over Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from keylane.spark.arrow import arrow_udf

if TYPE_CHECKING:
    from pyspark.sql import Column

    from keylane.geo.places import Region

__all__ = ["cell_column", "place_problem_column"]


def cell_column(lat: Column, lng: Column) -> Column:
    def cells(lat: pa.Array, lng: pa.Array) -> pa.Array:
        from keylane.geo.cells import cells_of

        return pa.array(cells_of(lat.to_numpy(zero_copy_only=False), lng.to_numpy(zero_copy_only=False)))

    return arrow_udf(cells, "bigint")(lat, lng)


def place_problem_column(lat: Column, lng: Column, region: Region) -> Column:
    def problems(lat: pa.Array, lng: pa.Array) -> pa.Array:
        from keylane.geo.places import place_problems

        return pa.array(place_problems(*map(_masked, (lat, lng)), region).astype("int32"))

    return arrow_udf(problems, "int")(lat, lng)


def _masked(column: pa.Array) -> Any:
    import numpy as np

    return np.ma.array(column.fill_null(0.0).to_numpy(zero_copy_only=False), mask=column.is_null().to_numpy(zero_copy_only=False))

"""`route` for a key that is a place, as columns: the decision of `keylane.router`, row for row.

What is no place has its own reason, and no lane; every other row has its home cell's. How these are found: `cells`.
Keys that are cells or bytes, `lane` as a column alone, and sessions of Spark Connect go over Arrow (`arrow.placed`),
which comes to the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, FloatType
from pyspark.sql.utils import is_remote

from keylane.errors import DataError
from keylane.geo.places import PLACE_REASONS
from keylane.keys.places import region_of
from keylane.spark.calls import java_way
from keylane.spark.cells import ancestor_column, cell_lane_column, place_columns
from keylane.spark.checks import PREFIX
from keylane.spark.keys import big_endian
from keylane.spark.kinds import field_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from keylane.router import Router

__all__ = ["placed_natively", "routed_places"]

_FRACTIONS: Final = (FloatType, DoubleType, DecimalType)
CELL, PROBLEM = f"{PREFIX}cell", f"{PREFIX}problem"


def placed_natively(router: Router) -> bool:
    """Whether a route by place needs no Python workers beside those that may find the cells."""
    return router.contract.spec.key.is_place and not is_remote()


def routed_places(df: DataFrame, router: Router) -> tuple[DataFrame, tuple[Column, Column, Column, Column]]:
    """The frame with what the added columns are made of; and these: stream, lane, routing key, reason."""
    geo, way = router.contract.spec.geo, java_way(df.sparkSession)
    assert geo is not None
    assert router.cells is not None
    latitude, longitude = (_coordinate(df, name) for name in router.contract.spec.key.fields)
    place = place_columns(latitude, longitude, region_of(geo))
    frame = df.select("*", place.cell.alias(CELL), place.problem.alias(PROBLEM))
    cell = F.col(CELL)
    lane = cell_lane_column(df.sparkSession, router.cells, cell)
    key = big_endian(ancestor_column(cell, geo.resolution), 8, way)
    return frame, (F.lit(router.stream), lane, key, _reason(F.col(PROBLEM)))


def _coordinate(df: DataFrame, name: str) -> Column:
    """A column of numbers: text that looks like one is none, as everywhere."""
    field = field_of(name, df.schema)
    if field.kind not in ("integer", "void") and not isinstance(df.schema[name].dataType, _FRACTIONS):
        raise DataError.of(f"column {name!r} holds no places", got=field.written, allowed="integer, floating, decimal")
    return field.column


def _reason(problem: Column) -> Column:
    """The words of a problem's number; null for a place."""
    words = F.array(*(F.lit(str(reason)) for reason in PLACE_REASONS))
    return F.when(problem >= 0, F.get(words, problem))

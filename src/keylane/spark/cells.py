"""Places, cells and their lanes as columns, value for value those of `keylane.geo` and `placement.cell_lanes`.

    place_columns       latitude and longitude -> the home cell, or the number of the reason why there is none
    ancestor_column     a cell -> its ancestor, by its bits alone
    cell_lane_column    a cell -> its lane: the leaf it is in, else the hash of its ancestor

The cell is H3's own Java library inside Spark's tasks where the session has it (`cells_java`), else H3 in the Python
workers, over Arrow. Both are the same function and give the same cells; the first is about twice as fast. No value can
stop a query: what is no place gets a number and no cell.

The lane comes from ancestors of the home cell. H3 asked for the cell of the place at a coarse resolution would give
another one for about one place in fifteen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from keylane.geo.bits import ancestor
from keylane.geo.places import EARTH, PLACE_REASONS
from keylane.records import Reason
from keylane.spark.arrow import arrow_udf
from keylane.spark.calls import java_way
from keylane.spark.cells_java import java_cell, java_leaf_lane
from keylane.spark.hashes import hash_column, murmur2_of_long
from keylane.spark.keys import Bytes, big_endian
from keylane.spark.lanes import fold
from keylane.spark.ranges import range_lane

if TYPE_CHECKING:
    from pyspark.sql import Column

    from keylane.geo.places import Region
    from keylane.placement.cell_lanes import CellLanes

__all__ = ["CellWay", "Place", "ancestor_column", "cell_lane_column", "cell_way", "place_columns"]

CellWay: TypeAlias = Literal["java", "arrow"]
#: No problem.
GOOD: Final = -1


@dataclass(frozen=True, slots=True)
class Place:
    """The home cell of each row, null where there is no place; and -1, or the number of its reason."""

    cell: Column
    problem: Column


def place_columns(latitude: Column, longitude: Column, region: Region = EARTH, way: CellWay | None = None) -> Place:
    """Cell and problem of every row; columns of numbers. `way`, when it is not to be the session's fastest.

    Both columns are computed once for each expression that holds them: give them names before they are used again.
    """
    lat, lng = latitude.cast("double"), longitude.cast("double")
    problem = _problem(lat, lng, region)
    # What is no place goes in as null: Python functions are computed for every row, whatever stands around them, and a
    # Java one that stands in no branch is computed once where several columns need it.
    good = problem == GOOD
    lat, lng = F.when(good, lat), F.when(good, lng)
    found = None if way == "arrow" or is_remote() else java_cell(SparkSession.active(), lat, lng)
    assert way != "java" or found is not None
    cell = _arrow_cell(lat, lng) if found is None else found
    return Place(cell.alias("cell"), problem.alias("problem"))


def cell_way(spark: SparkSession) -> CellWay:
    """How `place_columns` finds cells in this session."""
    return "arrow" if is_remote() or java_cell(spark, F.lit(0.0), F.lit(0.0)) is None else "java"


def _problem(lat: Column, lng: Column, region: Region) -> Column:
    """The rules of `geo.places`, in their order. To Spark NaN is larger than any number, so it is asked for early."""
    infinite = [F.isnan(value) | (F.abs(value) == float("inf")) for value in (lat, lng)]
    rules = [
        (lat.isNull() | lng.isNull(), Reason.NULL_PLACE),
        (infinite[0] | infinite[1], Reason.PLACE_NOT_FINITE),
        (~EARTH.holds(lat, lng) & EARTH.holds(lng, lat), Reason.PLACE_SWAPPED),
        (~EARTH.holds(lat, lng), Reason.PLACE_OUT_OF_RANGE),
        ((lat == 0) & (lng == 0), Reason.PLACE_ZERO),
    ]
    if region != EARTH:
        rules += [
            (~region.holds(lat, lng) & region.holds(lng, lat), Reason.PLACE_SWAPPED),
            (~region.holds(lat, lng), Reason.PLACE_OUT_OF_RANGE),
        ]
    # Spark asks one condition after the other, and not those after the first that holds.
    cases = reduce(lambda out, rule: out.when(rule[0], PLACE_REASONS.index(rule[1])), rules, cast("Any", F))
    return cast("Column", cases.otherwise(GOOD))


def _arrow_cell(lat: Column, lng: Column) -> Column:
    """In the workers; both are null where there is no place."""

    def cells(lats: pa.Array, lngs: pa.Array) -> pa.Array:
        import numpy as np

        from keylane.geo.cells import cells_of

        null = lats.is_null().to_numpy(zero_copy_only=False)
        found = np.zeros(len(lats), np.int64)
        found[~null] = cells_of(lats.drop_null(), lngs.drop_null())
        return pa.array(found, mask=null)

    return arrow_udf(cells, "bigint")(lat, lng)


def ancestor_column(cell: Column, at: int) -> Column:
    """The ancestor at a resolution that is not finer than the cell's own: two operations on its bits."""
    # What `bits.ancestor` keeps of a cell, and what it sets: of all ones, and of none.
    kept, filled = ancestor(0, at), ancestor(-1, at)
    return cell.bitwiseAND(F.lit(filled)).bitwiseOR(F.lit(kept))


def cell_lane_column(spark: SparkSession, lanes: CellLanes, cell: Column) -> Column:
    """The lane of each cell, null where the cell is; as `CellLanes.of`."""
    if is_remote():
        return _arrow_lane(lanes, cell)
    hashed = _hashed_lane(spark, lanes, cell)
    if not len(lanes.starts):
        return hashed
    # Asked in order, so that only a cell in no leaf is hashed.
    return F.coalesce(java_leaf_lane(spark, lanes, cell), hashed)


def _hashed_lane(spark: SparkSession, lanes: CellLanes, cell: Column) -> Column:
    rule, way = lanes.hashed_by, java_way(spark)
    assert rule.hash is not None
    number = ancestor_column(cell, lanes.resolution)
    key = Bytes(big_endian(number, 8, way), number=number, width=8)
    # The short form of the usual hash: this stands in a branch, where Spark shares nothing.
    is_usual = rule.hash.name == "murmur2"
    hash_ = murmur2_of_long(number, way) if is_usual else hash_column(rule.hash.name, key, way)
    if rule.facts.fold == "ranges":
        return range_lane(hash_, lanes.count, way).cast("int")
    return fold(rule.facts.fold, hash_, lanes.count).cast("int")


def _arrow_lane(lanes: CellLanes, cell: Column) -> Column:
    """All of it in the workers, where there is no Java to reach. What is sent: arrays and a name."""
    told: dict[str, Any] = {
        name: getattr(lanes, name) for name in ("starts", "ends", "leaf_lane", "resolution", "count")
    }
    rule = lanes.hashed_by.name

    def find(cells: pa.Array) -> pa.Array:
        import numpy as np

        from keylane.placement.cell_lanes import CellLanes
        from keylane.placement.partitioners import partitioner

        null = cells.is_null().to_numpy(zero_copy_only=False)
        found = np.zeros(len(cells), np.int32)
        there = cells.drop_null().to_numpy(zero_copy_only=False)
        found[~null] = CellLanes(**told, hashed_by=partitioner(rule, "h3")).of(there)
        return pa.array(found, mask=null)

    return arrow_udf(find, "int")(cell)

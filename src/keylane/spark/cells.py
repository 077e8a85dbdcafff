"""Locations, cells and their lanes as columns, value for value those of `keylane.geo` and `placement.cell_lanes`.

    place_columns       latitude and longitude -> the home cell, or the number of the reason why there is none
    ancestor_column     a cell -> its ancestor, by its bits alone
    cell_lane_column    a cell -> its lane: the leaf it is in, otherwise the hash of its ancestor

The cell is H3's own Java library inside Spark's tasks where the session has it, otherwise H3 in the Python
workers, over Arrow. Both are the same function and give the same cells; the first is about twice as fast. No value can
stop a query: an invalid location gets the number of its reason and no cell.

The lane comes from ancestors of the home cell. H3 asked for the cell of the location at a coarse resolution would give
another one for about one location in fifteen.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, FloatType
from pyspark.sql.utils import is_remote

from keylane.errors import DataError
from keylane.geo.bits import HOME_RESOLUTION, ancestor
from keylane.geo.coordinates import EARTH, PLACE_REASONS
from keylane.keys.cells import region_of
from keylane.private import check_file
from keylane.records import Reason
from keylane.spark.hashes import arrow_udf, hash_column, murmur2_of_long, range_lane
from keylane.spark.java_calls import java_backend, java_column
from keylane.spark.jvm import cache_folder, java_class
from keylane.spark.keys import PREFIX, Bytes, big_endian, field_of
from keylane.spark.lanes import fold

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from keylane.geo.coordinates import Region
    from keylane.placement.cell_lanes import CellLanes
    from keylane.router import Router
    from keylane.spark.keys import Field


# Cells and leaves as Java functions: used where the session has them.

#: As `systems/jars.lock` pins it.
H3_JAR: Final = "h3-4.5.0.jar"
H3_SHA256: Final = "c61e00973d986270e693649c18623acdbc845d36feb60c834595dc7ea64db59e"
#: The start of the file name of a session's own copy of it, of any version.
GIVEN: Final = "/h3-4."
SOURCES: Final = Path(__file__).parent / "jvm"
#: A location and its home cell: what a library must return before it is trusted with lanes.
PROBE: Final = ((33.4484, -112.0740), 0x8929B6D357BFFFF)


def java_cell(spark: SparkSession, latitude: Column, longitude: Column) -> Column | None:
    """The home cell of two columns of doubles, null where one is; None when this classic session has no H3."""
    function = _cell_of(spark, _archives(spark))
    return None if function is None else java_column(function, latitude, longitude)


def _archives(spark: SparkSession) -> tuple[Path, ...] | None:
    """Archives the function needs that the session does not have; None when H3 is not available."""
    folder = cache_folder()
    kept = folder / "jars" / H3_JAR if folder else None
    if kept and kept.exists():
        return (kept,)
    context: Any = spark.sparkContext._jsc.sc()
    return () if GIVEN in context.listJars().mkString(" ") else None


def h3_archives(spark: SparkSession) -> tuple[Path, ...] | None:
    """Archives that Java code with H3 needs and the session does not have; None when this session has no H3."""
    archives = _archives(spark)
    return archives if _cell_of(spark, archives) is not None else None


@lru_cache(maxsize=8)
def _cell_of(spark: SparkSession, archives: tuple[Path, ...] | None) -> Any:
    """The function, tried on one known location; once for each session and path of the library."""
    if archives is None or not all(map(_is_pinned, archives)):
        return None
    (latitude, longitude), known = PROBE
    try:
        folders = (SOURCES / "cells", SOURCES / "h3")
        function = java_class(spark, folders, "keylane.CellOf", archives).newInstance().at(HOME_RESOLUTION)
        return function if function.of(latitude, longitude) == known else None
    except (Py4JError, PySparkException):
        return None


def _is_pinned(archive: Path) -> bool:
    """Whether an archive of the cache is safe to load, and whole: a power cut may have left it empty."""
    check_file(archive)
    return hashlib.sha256(archive.read_bytes()).hexdigest() == H3_SHA256


def java_leaf_lane(spark: SparkSession, lanes: CellLanes, cell: Column) -> Column:
    """The lane of the leaf that each cell is in, null outside all leaves. Classic sessions only."""
    numbers = lanes.starts.astype(">i8"), lanes.ends.astype(">i8"), lanes.leaf_lane.astype(">i4")
    arrays = (bytearray(column.tobytes()) for column in numbers)
    return java_column(_leaf_lane(spark).newInstance().of(*arrays), cell)


@lru_cache(maxsize=8)
def _leaf_lane(spark: SparkSession) -> Any:
    return java_class(spark, SOURCES / "leaves", "keylane.LeafLane")


CellBackend: TypeAlias = Literal["java", "arrow"]
#: No problem.
GOOD: Final = -1


@dataclass(frozen=True, slots=True)
class Place:
    """The home cell of each row, null where the location is invalid; and -1, or the number of its reason."""

    cell: Column
    problem: Column


def place_columns(
    latitude: Column, longitude: Column, region: Region = EARTH, backend: CellBackend | None = None
) -> Place:
    """Cell and problem of every row; columns of numbers. `backend`, to use another one than the session's fastest.

    Both columns are computed once for each expression that holds them: give them names before they are used again.
    """
    lat, lng = (region.degrees(column.cast("double")) for column in (latitude, longitude))
    problem = _problem(lat, lng, region)
    # Invalid locations go in as null: Python functions are computed for every row, whatever the branch, and a Java
    # one outside all branches is computed once where several columns need it.
    good = problem == GOOD
    lat, lng = F.when(good, lat), F.when(good, lng)
    native = None if backend == "arrow" or is_remote() else java_cell(SparkSession.active(), lat, lng)
    assert backend != "java" or native is not None
    cell = _arrow_cell(lat, lng) if native is None else native
    return Place(cell.alias("cell"), problem.alias("problem"))


def cell_backend(spark: SparkSession) -> CellBackend:
    """The backend of `place_columns` in this session."""
    return "arrow" if is_remote() or java_cell(spark, F.lit(0.0), F.lit(0.0)) is None else "java"


def _problem(lat: Column, lng: Column, region: Region) -> Column:
    """The rules of `geo.coordinates`, in their order. Spark sorts NaN above any number, so it is tested first."""
    infinite = [F.isnan(value) | (F.abs(value) == float("inf")) for value in (lat, lng)]
    rules = [
        (lat.isNull() | lng.isNull(), Reason.NULL_PLACE),
        (infinite[0] | infinite[1], Reason.PLACE_NOT_FINITE),
        (~EARTH.holds(lat, lng) & EARTH.holds(lng, lat), Reason.PLACE_SWAPPED),
        (~EARTH.holds(lat, lng), Reason.PLACE_OUT_OF_RANGE),
        ((lat == 0) & (lng == 0), Reason.PLACE_ZERO),
    ]
    if region.scale != 1:
        near = F.greatest(F.abs(lat), F.abs(lng)) <= region.unscaled
        rules.append((near, Reason.PLACE_UNSCALED))
    if region != EARTH:
        rules += [
            (~region.holds(lat, lng) & region.holds(lng, lat), Reason.PLACE_SWAPPED),
            (~region.holds(lat, lng), Reason.PLACE_OUT_OF_RANGE),
        ]
    # Spark evaluates the conditions in order, up to the first that holds.
    cases = reduce(lambda out, rule: out.when(rule[0], PLACE_REASONS.index(rule[1])), rules, cast("Any", F))
    return cast("Column", cases.otherwise(GOOD))


def _arrow_cell(lat: Column, lng: Column) -> Column:
    """In the workers; both are null where the location is invalid."""

    def cells(lats: pa.Array, lngs: pa.Array) -> pa.Array:
        import numpy as np

        from keylane.geo.cells import cells_of

        null = lats.is_null().to_numpy(zero_copy_only=False)
        out = np.zeros(len(lats), np.int64)
        out[~null] = cells_of(lats.drop_null(), lngs.drop_null())
        return pa.array(out, mask=null)

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
    # Evaluated in order, so that only a cell outside all leaves is hashed.
    return F.coalesce(java_leaf_lane(spark, lanes, cell), hashed)


def _hashed_lane(spark: SparkSession, lanes: CellLanes, cell: Column) -> Column:
    rule, backend = lanes.hashed_by, java_backend(spark)
    assert rule.hash is not None
    number = ancestor_column(cell, lanes.resolution)
    key = Bytes(big_endian(number, 8, backend), number=number, width=8)
    # The short form of the usual hash: this is in a branch, where Spark shares nothing.
    is_usual = rule.hash.name == "murmur2"
    hash_ = murmur2_of_long(number, backend) if is_usual else hash_column(rule.hash.name, key, backend)
    if rule.facts.fold == "ranges":
        return range_lane(hash_, lanes.count, backend).cast("int")
    return fold(rule.facts.fold, hash_, lanes.count).cast("int")


def _arrow_lane(lanes: CellLanes, cell: Column) -> Column:
    """All of it in the workers, without Java. What is sent: arrays and a name."""
    table: dict[str, Any] = {
        name: getattr(lanes, name) for name in ("starts", "ends", "leaf_lane", "resolution", "count")
    }
    rule = lanes.hashed_by.name

    def find(cells: pa.Array) -> pa.Array:
        import numpy as np

        from keylane.placement.cell_lanes import CellLanes
        from keylane.placement.partitioners import partitioner

        null = cells.is_null().to_numpy(zero_copy_only=False)
        out = np.zeros(len(cells), np.int32)
        known = cells.drop_null().to_numpy(zero_copy_only=False)
        out[~null] = CellLanes(**table, hashed_by=partitioner(rule, "h3")).of(known)
        return pa.array(out, mask=null)

    return arrow_udf(find, "int")(cell)


# `route` for a key that is a location, as columns: the decision of `keylane.router`, row for row.

_FRACTIONS: Final = (FloatType, DoubleType, DecimalType)
CELL, PROBLEM = f"{PREFIX}cell", f"{PREFIX}problem"


def placed_natively(router: Router) -> bool:
    """Whether a route by location needs no Python workers but those that may compute the cells."""
    return router.contract.spec.key.is_place and not is_remote()


def routed_places(df: DataFrame, router: Router) -> tuple[DataFrame, tuple[Column, Column, Column, Column]]:
    """The frame with what the added columns are made of; and these: stream, lane, routing key, reason."""
    geo, backend = router.contract.spec.geo, java_backend(df.sparkSession)
    assert geo is not None
    assert router.cells is not None
    latitude, longitude = (_coordinate(df, name) for name in router.contract.spec.key.fields)
    place = place_columns(latitude.column, longitude.column, region_of(geo))
    frame = df.select("*", place.cell.alias(CELL), place.problem.alias(PROBLEM))
    cell = F.col(CELL)
    lane = cell_lane_column(df.sparkSession, router.cells, cell)
    key = big_endian(ancestor_column(cell, geo.resolution), 8, backend)
    absent = [
        F.when(one.absent, F.lit(str(Reason.MISSING_FIELD))) for one in (latitude, longitude) if one.absent is not None
    ]
    return frame, (F.lit(router.stream), lane, key, F.coalesce(*absent, _reason(F.col(PROBLEM))))


def _coordinate(df: DataFrame, name: str) -> Field:
    """A column of numbers; text that looks like a number is refused, as everywhere."""
    field = field_of(name, df.schema)
    if field.kind not in ("integer", "void") and not isinstance(field.held, _FRACTIONS):
        raise DataError.of(
            f"column {name!r} holds no coordinates", got=field.written, allowed="integer, floating, decimal"
        )
    return field


def _reason(problem: Column) -> Column:
    """The reason of a problem's number; null for a valid location."""
    words = F.array(*(F.lit(str(reason)) for reason in PLACE_REASONS))
    return F.when(problem >= 0, F.get(words, problem))

"""Cells and leaves as Java functions of a session: what `cells` takes where it can, and which sessions have it.

H3's own Java library is an archive that Spark does not bring along. It is found where fetched ones are kept (`keylane
dev jars geo`), or the session was given it by `spark.jars`; nothing is fetched here. The session's executors get it
from the driver, with the few lines of Java in `jvm/` that call it. A session over Spark Connect has no Java to reach,
and one whose library does not load gets none either: both compute cells in Python workers.

Measured with the other ways by `benchmarks/cells.py`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from keylane.geo.bits import HOME_RESOLUTION
from keylane.spark.cache import cache_folder
from keylane.spark.compiled import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from keylane.placement.cell_lanes import CellLanes

__all__ = ["H3_JAR", "java_cell", "java_leaf_lane"]

#: As `systems/jars.lock` pins it.
H3_JAR: Final = "h3-4.5.0.jar"
#: How a session's own copy of it is called, whatever its version.
GIVEN: Final = "/h3-4."
SOURCES: Final = Path(__file__).parent / "jvm"
#: A place and its home cell: what a library must give before it is trusted with lanes.
PROBE: Final = ((33.4484, -112.0740), 0x8929B6D357BFFFF)


def java_cell(spark: SparkSession, latitude: Column, longitude: Column) -> Column | None:
    """The home cell of two columns of doubles, null where one is; None when this classic session has none."""
    found = _cell_of(spark, _archives(spark))
    return None if found is None else _column(found, latitude, longitude)


def _archives(spark: SparkSession) -> tuple[Path, ...] | None:
    """What the function leans on, besides what the session has; None when the library is nowhere."""
    folder = cache_folder()
    kept = folder / "jars" / H3_JAR if folder else None
    if kept and kept.exists():
        return (kept,)
    given: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001
    return () if GIVEN in given.listJars().mkString(" ") else None


@lru_cache(maxsize=8)
def _cell_of(spark: SparkSession, archives: tuple[Path, ...] | None) -> Any:
    """The function, tried on one known place; asked once for each session and place of the library."""
    if archives is None:
        return None
    (latitude, longitude), known = PROBE
    try:
        found = java_class(spark, SOURCES / "cells", "keylane.CellOf", archives).newInstance().at(HOME_RESOLUTION)
        return found if found.of(latitude, longitude) == known else None
    except (Py4JError, PySparkException):
        return None


def java_leaf_lane(spark: SparkSession, lanes: CellLanes, cell: Column) -> Column:
    """The lane of the leaf that each cell is in, null where it is in none. Classic sessions only."""
    numbers = lanes.starts.astype(">i8"), lanes.ends.astype(">i8"), lanes.leaf_lane.astype(">i4")
    told = (bytearray(column.tobytes()) for column in numbers)
    return _column(_leaf_lane(spark).newInstance().of(*told), cell)


@lru_cache(maxsize=8)
def _leaf_lane(spark: SparkSession) -> Any:
    return java_class(spark, SOURCES / "leaves", "keylane.LeafLane")


def _column(function: Any, *arguments: Column) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(function.column(*(cast("ClassicColumn", argument)._jc for argument in arguments)))  # noqa: SLF001

"""What the cell of a place costs on Spark, by each way, against an Arrow function that only hands back a column.

Places all over the earth in Parquet, read, made into cells and thrown away (Spark's noop sink): every ratio holds the
reading of both sides, and the checks of `place_columns` too. The way that is taken must cost at most twice the peer's.

    java        H3's Java library inside Spark's tasks: taken where the session has it
    arrow       H3 in Python workers, one place after the other: taken where it has not
    h3ronpy     a bulk library in Python workers; measured only, keylane does not use it

The lane of a cell by 6,000 leaves is held against the scan that it adds to.
"""

from __future__ import annotations

import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.timing import Figure, best

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.placement.cell_lanes import CellLanes

ROWS = 3_000_000
ROUNDS = 5
MASTER = "local[2]"
LEAVES = 6_000
LANES = 60


def run() -> Iterator[Figure]:
    """All sides in turn, in one session."""
    from keylane.spark import local_session
    from keylane.systems.jars import has_geo

    has_geo(print)
    spark = local_session(MASTER, {"spark.driver.memory": "4g"})
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield from _figures(spark, f"{folder}/places")
    finally:
        spark.stop()


def _figures(spark: SparkSession, path: str) -> Iterator[Figure]:
    from keylane.spark.cells import cell_backend

    _write(spark, path)
    taken, seconds = cell_backend(spark), best(ROUNDS, **_sides(spark, path))
    yield Figure("Arrow identity on Spark, the peer", ROWS / seconds["identity"] / 1e6, "M records/s")
    for way in ("java", "arrow", "h3ronpy"):
        if way in seconds:
            name = f"cells by {way}" + (", the way taken" if way == taken else "")
            yield Figure(name, ROWS / seconds[way] / 1e6, "M records/s")
            most = 2.0 if way == taken else None
            yield Figure(
                f"{name}, against the identity", seconds[way] / seconds["identity"], "of its cost", at_most=most
            )
    extra = seconds["lanes"] - seconds["scan"]
    yield Figure(f"lane of a cell by {LEAVES:,} leaves", extra / ROWS * 1e9, "ns/record over the scan")
    yield Figure("the same, against the identity", extra / seconds["identity"], "of its cost")


def _write(spark: SparkSession, path: str) -> None:
    from pyspark.sql import functions as F

    from keylane.spark.cells import place_columns

    latitude = F.degrees(F.asin(F.rand(1) * 2 - 1)).alias("lat")
    places = spark.range(ROWS, numPartitions=4).select(latitude, (F.rand(2) * 360 - 180).alias("lng"))
    cell = place_columns(F.col("lat"), F.col("lng")).cell
    places.withColumn("cell", cell).write.parquet(path)


def _sides(spark: SparkSession, path: str) -> dict[str, Callable[[], None]]:
    from pyspark.sql import functions as F

    from keylane.spark.cells import cell_backend, cell_lane_column, place_columns

    lat, lng, frame = F.col("lat"), F.col("lng"), spark.read.parquet(path)
    columns: dict[str, Column] = {
        "scan": F.col("cell"),
        "identity": _identity(lat, lng),
        "arrow": place_columns(lat, lng, backend="arrow").cell,
        "lanes": cell_lane_column(spark, _table(frame), F.col("cell")),
    }
    if cell_backend(spark) == "java":
        columns["java"] = place_columns(lat, lng, backend="java").cell
    if _has_h3ronpy():
        columns["h3ronpy"] = _in_bulk(lat, lng)
    return {name: partial(_run, frame.select(column.alias("x"))) for name, column in columns.items()}


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _has_h3ronpy() -> bool:
    from importlib.util import find_spec

    return find_spec("h3ronpy") is not None


def _identity(lat: Column, lng: Column) -> Column:
    from keylane.spark.hashes import arrow_udf

    # Inside of its caller, so that it is sent to the workers, who know nothing of this folder.
    def first(latitudes: pa.Array, _longitudes: pa.Array) -> pa.Array:
        return latitudes

    return arrow_udf(first, "double")(lat, lng)


def _in_bulk(lat: Column, lng: Column) -> Column:
    from keylane.geo.bits import HOME_RESOLUTION
    from keylane.spark.hashes import arrow_udf

    def cells(latitudes: pa.Array, longitudes: pa.Array) -> pa.Array:
        from h3ronpy.vector import coordinates_to_cells

        return pa.array(coordinates_to_cells(latitudes, longitudes, HOME_RESOLUTION)).cast(pa.int64())

    return arrow_udf(cells, "bigint")(lat, lng)


def _table(frame: DataFrame) -> CellLanes:
    """So many leaves, each with the next lane: about one place in eight is in one, and the others are hashed."""
    import numpy as np

    from keylane.geo.bits import ancestor, curve_end, curve_start
    from keylane.placement.cell_lanes import CellLanes
    from keylane.placement.partitioners import partitioner

    rows: list[Any] = frame.select("cell").limit(LEAVES * 2).collect()
    leaves = np.unique(ancestor(np.array([row.cell for row in rows], np.int64), 4))[:LEAVES]
    leaves = leaves[np.argsort(curve_end(leaves))]
    starts = np.array([curve_start(cell) for cell in leaves.tolist()], np.int64)
    lanes = (np.arange(len(leaves)) % LANES).astype(np.int32)
    return CellLanes(starts, curve_end(leaves), lanes, 3, LANES, partitioner("kafka-java", "h3"))

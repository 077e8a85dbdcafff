"""Places, cells and lanes as columns are those of `geo` and `placement.cell_lanes`, bit for bit, by every way."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from h3.api import basic_int as h3
from pyspark.sql import functions as F

from keylane.geo.bits import ancestor, curve_end, curve_start
from keylane.geo.cells import cell_of, cells_of
from keylane.geo.coordinates import EARTH, PLACE_REASONS, Region, place_problems
from keylane.placement.cell_lanes import CellLanes
from keylane.placement.partitioners import partitioner
from keylane.records import Reason
from keylane.spark import cells
from keylane.spark import cells as cells_java
from keylane.spark.cells import ancestor_column, cell_backend, cell_lane_column, place_columns
from keylane.spark.java_calls import java_column

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from keylane.spark.cells import CellBackend

NAN, INF = float("nan"), float("inf")
BAD = [
    *[(None, 1.0), (1.0, None), (None, None), (None, NAN)],
    *[(NAN, 1.0), (1.0, NAN), (INF, 1.0), (1.0, -INF), (NAN, 500.0)],
    *[(-112.1, 33.4), (90.1, 0.0), (180.0, -90.0)],
    *[(91.0, 200.0), (5.0, 180.1), (-1e300, 1e300), (5e-324, 181.0)],
    *[(0.0, 0.0), (-0.0, 0.0), (0.0, -0.0)],
]
#: Every place on a border of some rule, and yet a place.
EDGES = [
    *[(lat, lng) for lat in (90.0, -90.0, 89.9999999, -89.9999999) for lng in (-180.0, -90.0, 0.0, 1e-9, 179.5, 180.0)],
    *[(lat, lng) for lat in (-16.9, 0.0, 65.0) for lng in (-180.0, -179.9999999, 179.9999999, 180.0)],
    *[(0.0, 1e-300), (5e-324, 0.0), (0.1, -0.0), (90.0, 0.0)],
]
OVER_THE_DATE_LINE = Region(-50.0, 160.0, 10.0, -140.0)
INDIA = Region(6.0, 68.0, 36.0, 98.0)


@pytest.fixture(scope="module", autouse=True)
def _library(start_up_archive: None) -> None:
    from keylane.systems.jars import has_geo

    assert has_geo(print), "the Java way is one of those that are held equal here"


def on_the_sphere(count: int, seed: int = 7) -> list[tuple[float, float]]:
    chance = np.random.default_rng(seed)
    lat = np.degrees(np.arcsin(chance.uniform(-1, 1, count)))
    return list(zip(lat.tolist(), chance.uniform(-180, 180, count).tolist(), strict=True))


def around_pentagons() -> list[tuple[float, float]]:
    chance = np.random.default_rng(8)
    centres = [h3.cell_to_latlng(cell) for at in (2, 9) for cell in h3.get_pentagons(at)]
    steps = chance.normal(0, 1, (20, 2)) * np.repeat([1e-4, 1e-2, 1.0, 5.0], 5)[:, None]
    return [(lat + float(up), lng + float(along)) for lat, lng in centres for up, along in steps]


def places() -> list[tuple[float | None, float | None]]:
    good: list[Any] = [*on_the_sphere(2000), *EDGES, *around_pentagons()]
    return [pair for at, pair in enumerate(good) for pair in ([BAD[at % len(BAD)], pair] if at % 9 == 0 else [pair])]


def framed(spark: SparkSession, rows: list[Any], kind: str = "double") -> DataFrame:
    numbered = [(number, *pair) for number, pair in enumerate(rows)]
    return spark.createDataFrame(numbered, f"n int, lat {kind}, lng {kind}").repartition(3)


def columns(frame: DataFrame, *wanted: Any) -> list[tuple[Any, ...]]:
    found = frame.select("n", *wanted).collect()
    return [tuple(row)[1:] for row in sorted(found)]


def expected(rows: list[tuple[float | None, float | None]], region: Region) -> tuple[list[int], list[int | None]]:
    lat, lng = (
        np.ma.array([v or 0.0 for v in side], mask=[v is None for v in side]) for side in zip(*rows, strict=True)
    )
    problem = place_problems(lat, lng, region)
    known = iter(cells_of(np.ma.getdata(lat)[problem < 0], np.ma.getdata(lng)[problem < 0]).tolist())
    return problem.tolist(), [next(known) if code < 0 else None for code in problem]


@pytest.mark.parametrize("way", ["java", "arrow"])
@pytest.mark.parametrize("region", [EARTH, OVER_THE_DATE_LINE, INDIA], ids=["earth", "over-the-date-line", "india"])
def test_every_place_has_the_cell_of_h3_and_every_other_row_its_reason(
    spark: SparkSession, way: CellBackend, region: Region
) -> None:
    rows = places()
    problems, known = expected(rows, region)
    unscaled = PLACE_REASONS.index(Reason.PLACE_UNSCALED)
    assert {*problems} == {-1, *range(len(PLACE_REASONS))} - {unscaled}, "each reason that needs no scale is here"
    place = place_columns(F.col("lat"), F.col("lng"), region, way)
    assert columns(framed(spark, rows), place.problem, place.cell) == [*zip(problems, known, strict=True)]


def test_this_session_finds_cells_in_java(spark: SparkSession) -> None:
    assert cell_backend(spark) == "java"


def test_a_cell_that_several_columns_need_is_found_once_for_each_row(spark: SparkSession) -> None:
    place = place_columns(F.col("lat"), F.col("lng"))
    shown = [place.cell, ancestor_column(place.cell, 3), ancestor_column(place.cell, 5)]
    frame = spark.range(4).select(F.rand(1).alias("lat"), F.rand(2).alias("lng"))
    once = calls_in(spark, frame.select(place.cell))
    assert calls_in(spark, frame.select(*shown)) == once > 0
    branched = [F.when(F.col("lat") > 0, column) for column in shown]
    assert calls_in(spark, frame.select(*branched)) > once


def calls_in(spark: SparkSession, frame: DataFrame) -> int:
    """How often the code that Spark made of a frame calls a function that it was given."""
    java: Any = spark.sparkContext._jvm
    plan = frame._jdf.queryExecution().executedPlan()
    return str(java.org.apache.spark.sql.execution.debug.package.codegenString(plan)).count(".apply(")


def test_a_second_session_of_the_process_finds_cells_in_java_too(spark: SparkSession) -> None:
    assert cell_backend(spark.newSession()) == "java"


def test_the_native_library_leaves_no_file_behind(spark: SparkSession) -> None:
    assert cell_backend(spark) == "java"
    java: Any = spark.sparkContext._jvm
    folder = Path(str(java.java.lang.System.getProperty("java.io.tmpdir")))
    process = Path(f"/proc/{java.java.lang.ProcessHandle.current().pid()}/maps")
    assert "libh3-java" in process.read_text()
    assert [path for path in folder.glob("libh3-java*") if path.name in process.read_text() and path.exists()] == []


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("float", [(33.25, -112.125), (91.0, 200.0), (None, 1.0)]),
        ("int", [(33, -112), (91, 200), (None, 1), (0, 0)]),
        ("decimal(9,6)", [(Decimal("33.448400"), Decimal("-112.074000")), (None, Decimal(1))]),
    ],
)
def test_any_kind_of_number_will_do(spark: SparkSession, kind: str, rows: list[Any]) -> None:
    wide: list[Any] = [tuple(None if value is None else float(value) for value in pair) for pair in rows]
    place = place_columns(F.col("lat"), F.col("lng"))
    found = columns(framed(spark, rows, kind), place.problem, place.cell)
    assert found == [*zip(*expected(wide, EARTH), strict=True)]


def test_without_the_library_cells_are_found_in_the_workers(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells_java, "H3_JAR", "h3-0.0.jar")
    monkeypatch.setattr(cells_java, "GIVEN", "no such jar")
    assert cell_backend(spark) == "arrow"
    rows: list[Any] = [*BAD, *on_the_sphere(50)]
    place = place_columns(F.col("lat"), F.col("lng"))
    assert columns(framed(spark, rows), place.problem, place.cell) == [*zip(*expected(rows, EARTH), strict=True)]


def test_a_library_that_gives_another_cell_is_not_believed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = cells_java._archives(spark)
    assert cells_java._cell_of.__wrapped__(spark, archives) is not None
    monkeypatch.setattr(cells_java, "PROBE", ((33.4484, -112.0740), 1))
    assert cells_java._cell_of.__wrapped__(spark, archives) is None


@pytest.mark.parametrize("at", [0, 3, 5, 9])
def test_an_ancestor_is_the_one_h3_knows(spark: SparkSession, at: int) -> None:
    found = home_cells(300)
    frame = spark.createDataFrame([(n, cell) for n, cell in enumerate(found.tolist())], "n int, c bigint")
    known = [(h3.cell_to_parent(cell, at),) for cell in found.tolist()]
    assert columns(frame, ancestor_column(F.col("c"), at)) == known


def home_cells(count: int) -> NDArray[np.int64]:
    lat, lng = zip(*on_the_sphere(count), strict=True)
    return cells_of(lat, lng)


def test_the_cell_of_a_place_at_a_coarse_resolution_is_another_than_its_ancestor(spark: SparkSession) -> None:
    """The planted bug: who asks H3 for the routing cell itself comes to other lanes."""
    rows = on_the_sphere(2000)
    at_three = cells_java._cell_of(spark, cells_java._archives(spark)).getClass().newInstance().at(3)
    asked = java_column(at_three, F.col("lat"), F.col("lng"))
    place = place_columns(F.col("lat"), F.col("lng"))
    lane = [cell_lane_column(spark, table([], "kafka-java"), cell) for cell in (asked, place.cell)]
    found = columns(framed(spark, rows), asked, ancestor_column(place.cell, 3), *lane)
    assert [row[0] for row in found] == [cell_of(*pair, 3) for pair in rows]
    assert 0.03 < np.mean([row[0] != row[1] for row in found]) < 0.12
    assert np.mean([row[2] != row[3] for row in found]) > 0.03


def table(leaves: list[int], name: str, lanes: int = 60, seed: int = 1) -> CellLanes:
    """Lanes by chance for these leaves."""
    ordered = np.array(sorted(leaves, key=curve_end), np.int64)
    starts = np.array([curve_start(cell) for cell in ordered.tolist()], np.int64)
    leaf_lane = np.random.default_rng(seed).integers(0, lanes, len(ordered)).astype(np.int32)
    return CellLanes(starts, curve_end(ordered), leaf_lane, 3, lanes, partitioner(name, "h3"))


def leaves_of(found: NDArray[np.int64]) -> list[int]:
    """Of half of the cells an ancestor, at one of four resolutions; none within another."""
    half = found[np.isin(ancestor(found, 2) >> 40 & 1, [1])]
    return sorted({int(ancestor(int(cell), 3 + int(ancestor(int(cell), 3) >> 30 & 1) * 6)) for cell in half})


@pytest.mark.parametrize("way", ["java", "arrow"])
@pytest.mark.parametrize(
    "name", ["kafka-java", "librdkafka-consistent", "kinesis-md5", "spark-hash", "abs-long-hashcode"]
)
def test_every_cell_has_the_lane_of_its_leaf_or_of_its_ancestors_hash(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, way: str, name: str
) -> None:
    found = home_cells(1500)
    lanes = table(leaves_of(found), name)
    inside = lanes.from_leaves(found) >= 0
    assert 0.2 < inside.mean() < 0.8, "both kinds are among the cells"
    frame = spark.createDataFrame([(n, cell) for n, cell in enumerate([None, *found.tolist()])], "n int, c bigint")
    monkeypatch.setattr(cells, "is_remote", lambda: way == "arrow")
    known = [(None,), *((lane,) for lane in lanes.of(found).tolist())]
    assert columns(frame, cell_lane_column(spark, lanes, F.col("c"))) == known
    other = table(leaves_of(found), name, seed=2)
    differs = [a != b for a, b in zip(columns(frame, cell_lane_column(spark, other, F.col("c"))), known, strict=True)]
    assert not any(np.array(differs[1:])[~inside]), "another table moves no cell that is in no leaf"
    assert sum(np.array(differs[1:])[inside]) > inside.sum() / 2


def test_the_first_and_last_cell_of_a_leaf_are_in_it_and_their_neighbours_on_the_curve_are_not(
    spark: SparkSession,
) -> None:
    leaf, before, after = 0x8429B69FFFFFFFF, 0x8429B67FFFFFFFF, 0x8429B6BFFFFFFFF
    first, last = (h3.cell_to_center_child(leaf, 9), max(h3.cell_to_children(leaf, 9)))
    given = [max(h3.cell_to_children(before, 9)), first, last, h3.cell_to_center_child(after, 9)]
    lanes = table([leaf], "kafka-java")
    frame = spark.createDataFrame([*enumerate(given)], "n int, c bigint")
    found = columns(frame, cells_java.java_leaf_lane(spark, lanes, F.col("c")))
    lane = int(lanes.leaf_lane[0])
    assert found == [(None,), (lane,), (lane,), (None,)]

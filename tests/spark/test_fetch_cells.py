"""H3 for Java is fetched where a pipeline is about to find cells without it, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from keylane import parse_contract
from keylane.pipelines.geo_table import TableWish, geo_table
from keylane.pipelines.match.batch import match
from keylane.pipelines.match.options import Options
from keylane.pipelines.route import route
from keylane.systems import jars

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

HEAD = "apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {name: t}\nspec:\n  streams: [t]\n  lanes: 4\n"
PLACES = HEAD + "  partitioner: kafka-java\n  key: {fields: [lat, lng], encoding: place}\n  geo: {resolution: 3}\n"
IDS = HEAD + "  partitioner: kafka-java\n  key: {fields: [id], encoding: utf8}\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "pings").mkdir()
    rows = {"id": ["a", "b"], "ts": [1_763_208_000_000, 1_763_208_060_000], "lat": [40.7, 51.5], "lng": [-74.0, -0.1]}
    parquet.write_table(pa.table(rows), tmp_path / "pings" / "one.parquet")
    return tmp_path / "pings"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was told of the jar, as a session without it would hear it from a world without a network."""
    told: list[str] = []

    def away(tell: Callable[[str], None]) -> bool:
        tell("no network")
        told.append("asked")
        return False

    monkeypatch.setattr("keylane.spark.cells.cell_backend", lambda _: "arrow")
    monkeypatch.setattr(jars, "has_geo", away)
    return told


def test_a_table_a_route_and_a_match_ask_for_it_and_go_on_without(
    spark: SparkSession, source: Path, tmp_path: Path, asked: list[str]
) -> None:
    said: list[str] = []
    from_here = str(source)
    geo_table(from_here, wish=TableWish(4), spark=spark, say=said.append)
    assert len(asked) == 1
    route(parse_contract(PLACES), from_here, str(tmp_path / "lanes"), spark=spark, say=said.append)
    assert len(asked) == 2
    match(from_here, from_here, str(tmp_path / "out"), Options(500.0, lanes=2), spark=spark, say=said.append)
    assert len(asked) == 3
    assert said.count("no network") == 3


def test_keys_that_are_no_places_ask_for_nothing(
    spark: SparkSession, source: Path, tmp_path: Path, asked: list[str]
) -> None:
    route(parse_contract(IDS), str(source), str(tmp_path / "lanes"), spark=spark, say=lambda _: None)
    assert asked == []


def test_a_session_that_has_it_asks_for_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.setattr("keylane.spark.cells.cell_backend", lambda _: "java")
    jars.fetch_cells(spark, print)
    assert asked == []

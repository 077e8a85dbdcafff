"""A route that is refused has written nothing, and the corrected one works. Into Kafka: `test_route_kafka_refused`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import contract, faults, write_files
from tests.route.refused_routes import REFUSALS, everything

from keylane.errors import DataError, KeylaneError, TargetError
from keylane.pipelines.route import Options, route
from keylane.spark import session as sessions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("refused")
    write_files(base / "in", range(1))
    for name in ("empty", "full"):
        (base / name).mkdir()
    (base / "full" / "mine.txt").write_text("mine")
    (base / "file").write_text("a file")
    return base


def command(world: Path, spark: SparkSession, **said: Any) -> Any:
    given, source, target = said.get("contract", contract()), said.get("source", "in"), said.get("target", "out")
    options = said.get("options", Options())
    return route(given, str(world / source), str(world / target), options=options, spark=spark)


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refused_command_has_written_nothing(world: Path, spark: SparkSession, case: str) -> None:
    words, said = REFUSALS[case]
    before = everything(world)
    with pytest.raises(KeylaneError, match=words):
        command(world, spark, **said)
    assert everything(world) == before


def test_a_session_that_cannot_be_used(world: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(world)
    monkeypatch.setattr(sessions, "is_remote", lambda: True)
    with pytest.raises(KeylaneError, match="classic Spark session"):
        command(world, spark)
    assert everything(world) == before


def test_the_corrected_command_works(world: Path, spark: SparkSession) -> None:
    """Last: after every refusal, into the same target."""
    assert command(world, spark).counts.in_ == 100
    assert faults(world / "out", world / "in") == []


def test_a_target_that_was_refused_in_its_first_batch_is_taken_over(spark: SparkSession, tmp_path: Path) -> None:
    """What a batch finds out comes after the target was made; nothing was committed, so another contract may come."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"key": ["a", "b"]}), tmp_path / "in" / "a.parquet")
    for given in (contract(), contract(**{"lanes: 4": "lanes: 8"})):
        with pytest.raises(DataError):
            route(given, str(tmp_path / "in"), str(tmp_path / "out"), spark=spark)
    right = contract(**{"fields: [k]": "fields: [key]"})
    assert route(right, str(tmp_path / "in"), str(tmp_path / "out"), spark=spark).counts.out == 2
    with pytest.raises(TargetError, match="another contract"):
        route(contract(), str(tmp_path / "in"), str(tmp_path / "out"), spark=spark)


def test_a_stream_of_the_longest_name_that_a_folder_can_hold(
    contract: Callable[..., Any], tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": ["a"]}), tmp_path / "in" / "a.parquet")
    longest = contract(streams=["s" * 248])
    assert route(longest, str(tmp_path / "in"), str(tmp_path / "out"), spark=spark).counts.out == 1

"""`route` into a folder, through kills, restores and damage that meet each other (`route_machine`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import LANES, contract
from tests.route.route_machine import World, drive

from keylane.pipelines.route import Options, route
from keylane.systems.folders.folder import Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


class FolderWorld(World):
    """The target is the folder of the state."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        super().__init__(folder, contract())
        self.spark = spark

    def route(self, probe: Callable[[str, int], None]) -> None:
        options = Options(max_files=2)
        ends = str(self.source), str(self.state)
        route(self.contract, *ends, options=options, spark=self.spark, say=lambda _: None, probe=probe)

    def records(self) -> list[list[tuple[str, int]]]:
        return [self._lane(lane) for lane in range(LANES)]

    def faults(self, known: int) -> list[str]:
        """Offsets count up from 0 without a hole, too."""
        offsets = [[row["keylane_offset"] for row in self._rows(lane, "keylane_offset")] for lane in range(LANES)]
        holes = [f"lane {lane} has the offsets {got}" for lane, got in enumerate(offsets) if got != [*range(len(got))]]
        return [*super().faults(known), *holes]

    def _lane(self, lane: int) -> list[tuple[str, int]]:
        return [(row["k"], row["n"]) for row in self._rows(lane, "k", "n")]

    def _rows(self, lane: int, *columns: str) -> list[dict[str, Any]]:
        files = sorted((self.state / "stream=orders" / f"lane={lane}").glob("*.parquet"))
        return [row for file in files for row in pq.ParquetFile(file).read(list(columns)).to_pylist()]


def test_a_few_steps(spark: SparkSession, tmp_path: Path) -> None:
    few = {"max_examples": 2, "stateful_step_count": 8, "derandomize": True}
    drive(lambda folder: FolderWorld(folder, spark), tmp_path, **few)


@pytest.mark.faults
def test_many_steps(spark: SparkSession, tmp_path: Path) -> None:
    drive(lambda folder: FolderWorld(folder, spark), tmp_path, max_examples=20, stateful_step_count=30)


@pytest.mark.faults
def test_a_target_that_does_not_finish_its_last_batch_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted twin: with recovery that moves nothing, the machine has to fail."""
    monkeypatch.setattr(Target, "_move", lambda *_: None)
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        drive(lambda folder: FolderWorld(folder, spark), tmp_path, max_examples=5, stateful_step_count=10)

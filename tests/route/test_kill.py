"""kill -9 of the whole process tree, in the middle of a route: run again, it is as if nothing had happened.

The steps of a commit are in `tests/unit/systems/folders/test_folder.py`, without Spark. Here are real routes: the
planted points all lie between Spark's log of offsets and its log of commits; the long series has every point, and
kills by the clock.
"""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING

import pytest
from tests.route.killable_routes import (
    contract,
    faults,
    kill_after,
    run_and_die,
    run_to_the_end,
    start,
    write_files,
)

from keylane.pipelines.route import Options, route
from keylane.systems.folders.folder import Counts
from keylane.testing.folders import dead_letters, seen

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.testing.folders import Seen

POINTS = ["begun", "half staged", "staged", "forced", "committed", "renamed", "moved"]


def undisturbed(spark: SparkSession, source: Path, target: Path) -> None:
    route(contract(), str(source), str(target), options=Options(max_files=2), spark=spark)


def same(one: Path, other: Path) -> None:
    """The same records, lanes, offsets and dead letters."""
    assert seen(one) == seen(other)
    left, right = dead_letters(one), dead_letters(other)
    assert left is not None
    assert right is not None
    assert left.to_pylist() == right.to_pylist()


def spark_logs(target: Path) -> tuple[set[str], set[str]]:
    """The batches in Spark's log of offsets, and in its log of commits."""
    logs = [target / "_keylane" / "checkpoint" / name for name in ("offsets", "commits")]
    offsets, commits = ({path.name for path in log.glob("[0-9]*")} for log in logs)
    return offsets, commits


def test_killed_between_the_logs_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    source, target, other = tmp_path / "in", tmp_path / "out", tmp_path / "other"
    write_files(source, range(4))
    undisturbed(spark, source, other)
    assert run_and_die(source, target, point="staged", batch=1)[-1] == ["staged", 1]
    assert spark_logs(target) == ({"0", "1"}, {"0"}), "the kill was not between the two logs"
    early = seen(target)
    undisturbed(spark, source, target)
    assert early < seen(target)
    same(target, other)
    assert faults(target, source) == []


@pytest.mark.faults
def test_a_kill_before_and_after_a_batch_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    source, target, other = tmp_path / "in", tmp_path / "out", tmp_path / "other"
    write_files(source, range(6))
    undisturbed(spark, source, other)
    assert run_and_die(source, target, point="staged", batch=1)[-1] == ["staged", 1]
    assert spark_logs(target) == ({"0", "1"}, {"0"}), "the kill was not between the two logs"
    early = seen(target)
    assert ["begun", 1] in run_and_die(source, target, point="renamed", batch=1, times=2)
    assert spark_logs(target) == ({"0", "1"}, {"0"})
    middle = seen(target)
    begun: list[int] = []
    last = route(
        contract(),
        str(source),
        str(target),
        options=Options(max_files=2),
        spark=spark,
        probe=lambda point, batch: begun.append(batch) if point == "begun" else None,
    )
    assert begun == [2], "a committed batch is moved, not made again"
    assert early < middle < seen(target)
    assert last.total == Counts(600, 588, 12, 0)
    same(target, other)
    assert faults(target, source) == []


@pytest.mark.faults
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(spark: SparkSession, tmp_path: Path, point: str) -> None:
    source, target, other = tmp_path / "in", tmp_path / "out", tmp_path / "other"
    write_files(source, range(6))
    undisturbed(spark, source, other)
    run_and_die(source, target, point=point, batch=1)
    early = seen(target)
    run_to_the_end(source, target)
    assert early <= seen(target)
    same(target, other)
    assert faults(target, source) == []


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(4))
def test_killed_by_the_clock(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    source, target, other = tmp_path / "in", tmp_path / "out", tmp_path / "other"
    write_files(source, range(12))
    undisturbed(spark, source, other)
    rng = random.Random(seed)
    before: set[Seen] = set()
    for _ in range(12):
        if not kill_after(start(source, target, max_files=1), rng.uniform(4, 20)):
            break
        now = seen(target)
        assert before <= now, "what a reader has seen never goes and never changes"
        before = now
    run_to_the_end(source, target)
    assert before <= seen(target)
    same(target, other)
    assert faults(target, source) == []


@pytest.mark.faults
def test_the_next_route_waits_for_the_java_of_a_killed_one(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write_files(source, range(8))
    process = start(source, target, max_files=1)
    assert process.stdout is not None
    while '"moved", 1' not in process.stdout.readline():
        assert process.poll() is None
    # The Python process alone: Spark's Java lives on for some seconds, on the same checkpoint.
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    run_to_the_end(source, target, max_files=1)
    assert faults(target, source) == []

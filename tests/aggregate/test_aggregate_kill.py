"""kill -9 of an aggregation, with its Java: started again it delivers what one that nothing disturbed delivers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.aggregate.killable import POINTS, run_and_die
from tests.aggregate.reference import MINUTE, QUERIES, START, events, expected, results, write_lines
from tests.aggregate.runs import registered, run

from keylane.pipelines.aggregate.verify import verify_results
from keylane.systems.query_registry import open_queries

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.aggregate.reference import Event


def three_files(folder: Path) -> list[Event]:
    """Three files, each later than the one before: a batch each."""
    parts = [events(150, number, START + 3 * number * MINUTE, START + 3 * (number + 1) * MINUTE) for number in range(3)]
    for number, part in enumerate(parts):
        path = folder / f"{number}.jsonl"
        write_lines(path, part)
        # Spark takes files by the millisecond of their last change, and these are written within one.
        os.utime(path, (1_700_000_000 + number,) * 2)
    return [event for part in parts for event in part]


@pytest.mark.faults
def test_killed_before_a_batch_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    given, registry = three_files(tmp_path / "in"), registered(tmp_path)
    steps = run_and_die(tmp_path / "in", tmp_path / "out", registry, "staged", 1)
    assert steps[-1] == ["staged", 1]
    early = results(tmp_path / "out")
    run(spark, tmp_path, registry, lanes=2, max_files=1)
    found = results(tmp_path / "out")
    assert found == expected(given)
    assert [row for row in found if row in early] == early, "what was delivered before the kill stays"
    assert verify_results(str(tmp_path / "out")).is_right


@pytest.mark.faults
def test_a_batch_that_is_made_again_has_the_queries_of_the_first_try(spark: SparkSession, tmp_path: Path) -> None:
    given, registry = three_files(tmp_path / "in"), registered(tmp_path)
    run_and_die(tmp_path / "in", tmp_path / "out", registry, "bordered", 0)
    with open_queries(registry) as found:
        found.change(["clicks"], "pause")
    run(spark, tmp_path, registry, lanes=2, max_files=1)
    first = [event for event in given if event["ts"] < START + 3 * MINUTE]
    own = [row for row in results(tmp_path / "out") if row["query_id"] == "clicks"]
    assert own == expected(first, [QUERIES[0]]), "of the batch before the change, and of no other"
    assert own != expected(given, [QUERIES[0]])
    others = [row for row in results(tmp_path / "out") if row["query_id"] != "clicks"]
    assert others == expected(given, QUERIES[1:])


@pytest.mark.faults
def test_killed_ten_times_at_every_step(spark: SparkSession, tmp_path: Path) -> None:
    given, registry = three_files(tmp_path / "in"), registered(tmp_path)
    for number, point in enumerate(POINTS):
        # The last batch of the other stages has the end of the source, too.
        batch = 1 if number < 4 else (0, 0, 1, 1, 1, 2)[number - 4]
        assert run_and_die(tmp_path / "in", tmp_path / "out", registry, point, batch)[-1][0] == point
    run(spark, tmp_path, registry, lanes=2, max_files=1)
    assert results(tmp_path / "out") == expected(given)
    assert verify_results(str(tmp_path / "out")).is_right

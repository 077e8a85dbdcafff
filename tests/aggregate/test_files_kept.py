"""What an aggregation leaves in its state folder: so many files, however many batches it has made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.aggregate.reference import MINUTE, START, events, write_lines
from tests.aggregate.runs import registered, run

from keylane.pipelines.stateful import state_folder
from keylane.pipelines.stateful.block_files import BlockFiles
from keylane.spark.blocks import KEPT_BATCHES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BATCHES = KEPT_BATCHES + 3
#: Files of each folder that may be left of any number of batches, checksums among them. Spark keeps the batch before
#: those that it was asked for, too; of blocks there are the two newest and the last that was taken.
BUDGET = {
    "batches": KEPT_BATCHES,
    "blocks": 3 * 3 + 3,
    "queries": 3,
    "checkpoint/offsets": 2 * (KEPT_BATCHES + 1),
    "checkpoint/commits": 2 * (KEPT_BATCHES + 1),
    "files/offsets": 2 * (KEPT_BATCHES + 1),
    "files/commits": 2 * (KEPT_BATCHES + 1),
}


def over_budget(spark: SparkSession, folder: Path) -> set[str]:
    """The folders of the state that have more files than they may, after a batch for each of some files."""
    for number in range(BATCHES):
        path = folder / "in" / f"{number}.jsonl"
        write_lines(path, events(5, number, START + number * MINUTE, START + (number + 1) * MINUTE))
        os.utime(path, (1_700_000_000 + number,) * 2)
    document = run(spark, folder, registered(folder), lanes=1, max_files=1)
    assert document.batches >= BATCHES
    state = folder / "out" / "_state"
    return {name for name, most in BUDGET.items() if sum(one.is_file() for one in (state / name).iterdir()) > most}


def test_a_state_folder_does_not_grow_with_the_batches(spark: SparkSession, tmp_path: Path) -> None:
    assert not over_budget(spark, tmp_path)


@pytest.mark.faults
def test_files_that_nobody_removes_are_over_the_budget(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BlockFiles, "forget", lambda *_: None)
    monkeypatch.setattr(state_folder, "KEPT_BATCHES", 100)
    assert over_budget(spark, tmp_path) == {"batches", "blocks", "queries"}

"""The net over what is left on disk: folders of lanes, before and after they are compacted, and a match that goes on.

Folders of profiles and of routes into Kafka: `test_plain`. How snapshots are rewritten: `tests.net.snapshots`.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.net import internals
from tests.net.fixed_inputs import contract_file
from tests.net.running import document_held
from tests.net.snapshots import held, normalised
from tests.net.trees import tree_held

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.net.conftest import Routed

#: How many bytes a file takes is Parquet's to say.
SIZES = frozenset({"size"})
#: When a batch was, and how long ago its requests were made; and a digest of a file that has more such values.
CLOCK = frozenset({"at", "p50", "p99", "seal"})


def test_a_folder_of_lanes(routed: Routed) -> None:
    tree_held("route-folder", routed.base / "out", routed.base, volatile=SIZES)


def test_a_compacted_folder_of_lanes(routed: Routed, tmp_path: Path) -> None:
    shutil.copytree(routed.base / "out", tmp_path / "out")
    document_held("compact-routed", "compact", tmp_path / "out", places=[tmp_path])
    tree_held("compact-folder", tmp_path / "out", tmp_path, routed.base, volatile=SIZES)
    sides = ["--source", routed.base / "in", "--target", tmp_path / "out", "-c", routed.contract]
    document_held("verify-compacted-routed", "verify", *sides, places=[tmp_path, routed.base])


@pytest.mark.faults
def test_a_match_that_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    contract = contract_file(tmp_path, "geo")
    world = internals.world_of_two()
    target = tmp_path / "out"
    drivers, riders = world.write(tmp_path / "in", range(1))
    first = internals.followed(spark, drivers, riders, target, contract)
    world.write(tmp_path / "in")
    second = internals.followed(spark, drivers, riders, target, contract)
    held("match-followed", normalised([first, second], tmp_path, volatile=CLOCK))
    tree_held("match-state", target, tmp_path, volatile=CLOCK)

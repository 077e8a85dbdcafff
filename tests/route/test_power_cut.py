"""The power fails: only what was forced is on the disk, and the next start recovers or refuses, and is never wrong.

A route runs over a disk that is recorded (`forced_disks`); at its steps, what was forced is written elsewhere, and
the route goes on there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.route.forced_disks import ForcedDisk
from tests.route.killable_routes import contract, faults, write_files

from keylane.errors import KeylaneError
from keylane.pipelines.route import Options, route
from keylane.systems.folders import target as folder_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

FILES = 3
ONE = Options(max_files=1)
#: Steps of a batch, each where it differs from the one before it in what depends on Spark's log.
FEW = [("forced", 1, 1), ("renamed", 1, 2)]
ALL = [
    ("committed", 1, 1),
    *(("begun", 0, 1), ("staged", 0, 1), ("forced", 0, 1), ("committed", 0, 1), ("renamed", 0, 1), ("moved", 0, 1)),
    *(("begun", 1, 1), ("staged", 1, 1), ("renamed", 1, 1), ("renamed", 1, 3), ("moved", 1, 1), ("moved", 2, 1)),
]


@pytest.fixture
def disks(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ForcedDisk]]:
    """The disk of a route at the n-th time that a batch comes to a step."""
    source, root = tmp_path / "in", tmp_path / "root"
    write_files(source, range(FILES), rows=50)
    root.mkdir()
    disk = ForcedDisk(root)
    seen: dict[tuple[str, int, int], ForcedDisk] = {}

    def probe(step: str, batch: int) -> None:
        times = 1 + sum((at, of) == (step, batch) for at, of, _ in seen)
        seen[step, batch, times] = disk.copy()

    def at(step: str, batch: int, times: int) -> ForcedDisk:
        if not seen:
            with monkeypatch.context() as patched:
                disk.record(patched)
                route(contract(), str(source), str(root / "out"), options=ONE, spark=spark, probe=probe)
        return seen[step, batch, times]

    yield at
    disk.close()


def gone_on(disk: ForcedDisk, tmp_path: Path, spark: SparkSession, name: str) -> list[str]:
    """What is wrong with the target after the route went on over what is left."""
    target = disk.rebuild(tmp_path / name) / "out"
    found = route(contract(), str(tmp_path / "in"), str(target), options=ONE, spark=spark)
    assert found.total.in_ == FILES * 50
    return faults(target, tmp_path / "in", rows=50)


@pytest.mark.parametrize("steps", [FEW, pytest.param(ALL, marks=pytest.mark.faults)], ids=["few", "all"])
def test_a_route_recovers_from_what_was_forced(
    disks: Callable[..., ForcedDisk], tmp_path: Path, spark: SparkSession, steps: list[tuple[str, int, int]]
) -> None:
    for number, step in enumerate(steps):
        assert gone_on(disks(*step), tmp_path, spark, f"after-{number}") == [], step


def test_twin_without_forcing_sparks_log_nothing_can_go_on(
    disks: Callable[..., ForcedDisk], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest outlives the power failure, and what it is bound to does not: the route is stuck, if not wrong."""
    monkeypatch.setattr(folder_target, "force_batch", lambda *_: None)
    disk = disks("committed", 1, 1)
    with pytest.raises(KeylaneError, match="checkpoint"):
        gone_on(disk, tmp_path, spark, "after")

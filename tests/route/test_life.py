"""The life of a stream on folders (`tests.worlds.life`): kills, restores and damage that meet each other."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.worlds import face
from tests.worlds.life import (
    VERBS,
    FolderWorld,
    Life,
    LifeError,
    Outcome,
    drawn,
    lived,
    new_seeds,
    read_steps,
    report,
)

from keylane.systems.folders import folder
from keylane.systems.folders.folder import Target
from keylane.systems.folders.target import FolderTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.worlds.life import Step

#: Lives of `make test`, and what they have to reach together. Found by drawing: few, and each is of use.
SEEDS = (3,)
LONG = "produce:2 kill:2 kill:4 back_up:0 kill:6 restore:0 damage:3 verify:0 other_clock:1 kill:0 hide:4 route:0"


class FolderHands:
    """Routes from files into a folder."""

    def __init__(self, world: FolderWorld, spark: SparkSession) -> None:
        self.world, self.spark = world, spark
        self.contract = world.folder / "contract.yaml"
        spec = {"streams": ["orders"], "lanes": world.lane_count, "key": {"fields": ["k"]}}
        document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "life"}}
        self.contract.write_text(json.dumps({**document, "spec": {**spec, "partitioner": "kafka-java"}}))

    def route(self, **how: Any) -> Outcome:
        ends = str(self.world.source_folder), str(self.world.state)
        found: Outcome = face.route(self.contract, *ends, spark=self.spark, **how)
        return found

    def migrate(self) -> Outcome:
        raise NotImplementedError

    def verify(self) -> str:
        return face.verified(str(self.world.source_folder), str(self.world.state), self.contract)


@pytest.fixture
def live(spark: SparkSession, tmp_path: Path) -> Callable[[Sequence[Step]], Counter[str]]:
    """Run a life in a folder of its own, and give what it reached."""
    count = [0]

    def run(steps: Sequence[Step]) -> Counter[str]:
        count[0] += 1
        (tmp_path / f"{count[0]}").mkdir()
        world = FolderWorld(tmp_path / f"{count[0]}")
        life = Life(world, FolderHands(world, spark))
        life.run(steps)
        return life.reached

    return run


def test_lives_of_fixed_seeds(live: Callable[[Sequence[Step]], Counter[str]]) -> None:
    reached = live(read_steps(LONG))
    for seed in SEEDS:
        reached += live(drawn(seed, 6, VERBS))
    print(*report(reached), sep="\n")
    wanted = {"killed staged", "killed committed", "refused hidden", "verify certified"}
    wanted |= {f"verb {verb}" for verb in ("kill", "restore", "damage", "hide", "other clock", "verify")}
    assert not wanted - reached.keys()


@pytest.mark.faults
def test_new_lives(live: Callable[[Sequence[Step]], Counter[str]]) -> None:
    """Each with a seed of its own; one that fails is made smaller."""
    reached: Counter[str] = Counter()
    for seed in new_seeds(20):
        reached += lived(live, seed, drawn(seed, 25, VERBS))
    print(*report(reached), sep="\n")
    assert not {f"verb {verb}" for verb in VERBS} - reached.keys()


# Faults of the package, each with a life that has to fail by it.


def _never_finished(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Target, "recover", lambda self: folder.check_whole(self.path))


def _trusts_checkpoints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("keylane.systems.folders.target.check_checkpoint", lambda *_: None)
    patch.setattr("keylane.systems.folders.target.FolderTarget._is_committed", lambda *_: True)


def _ends_early(patch: pytest.MonkeyPatch) -> None:
    """A batch is committed without the last of its lanes."""
    whole = FolderTarget._staged

    def staged(self: FolderTarget, *given: Any) -> Any:
        manifest = whole(self, *given)
        return replace(manifest, placed=manifest.placed[:-1])

    patch.setattr(FolderTarget, "_staged", staged)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("plant", "life"),
    [
        (_never_finished, "produce:3 kill:4 route:0"),
        (_trusts_checkpoints, "produce:3 route:0 back_up:0 produce:3 route:0 produce:1 restore_part:0"),
        (_ends_early, "produce:4 route:0"),
    ],
)
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    life: str,
    live: Callable[[Sequence[Step]], Counter[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises(LifeError):
        live(read_steps(life))

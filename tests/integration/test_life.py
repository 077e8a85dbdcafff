"""The life of a stream on a real broker (`tests.worlds.life`): routes, growth, migrations and restores that meet."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.worlds import face
from tests.worlds.life import (
    ON_TOPICS,
    VERBS,
    Life,
    LifeError,
    Outcome,
    TopicWorld,
    drawn,
    lived,
    new_seeds,
    read_steps,
    report,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession
    from tests.worlds.life import Step

    from keylane.systems.broker import Cluster

#: The life of `make test`: every verb that only a topic has, and a route that goes on behind a migration.
SHORT = (
    "produce:4 other_state:0 lose_state:0 migrate:1 open_transaction:0 forget_groups:0 other_address:0 grow:0 verify:0"
)
#: The other ways past a migration, and older states beside a cluster that has forgotten.
MORE = (
    "produce:4 migrate:4 verify:0 migrate:9 forget_groups:0 lose_state:0",
    "produce:4 mirror:0 produce:2 route:0 other_state:0",
    "produce:4 mirror:1 migrate:1 route:0",
    "produce:4 migrate:0 verify:0",
    "produce:4 migrate:2 verify:0 migrate:3 other_state:0 verify:0",
    "produce:4 route:0 back_up:0 produce:4 route:0 forget_groups:0 restore:0 verify:0",
    "produce:4 kill:7 back_up:0 kill:9 restore:0 kill:0 restore_part:4 damage:7 other_group:0 other_clock:2",
)


class TopicHands:
    """Routes from a topic into a topic, and migrations of the target."""

    def __init__(self, world: TopicWorld, spark: SparkSession) -> None:
        self.world, self.spark = world, spark

    def route(self, **how: Any) -> Outcome:
        world = self.world
        state = how.pop("state", None) or str(world.state)
        state = world.other_state(0) if state == "fresh" else state
        contract = world.folder / f"{how.pop('epoch', 1)}.yaml"
        ends = world.address(world.source), world.address(world.target)
        found: Outcome = face.route(contract, *ends, spark=self.spark, state=state, **how)
        return found

    def verify(self) -> str:
        world = self.world
        contract = world.folder / f"{max(world.lanes)}.yaml"
        return face.verified(world.address(world.source), world.address(world.target), contract)

    def migrate(self) -> Outcome:
        world, epoch = self.world, max(self.world.lanes)
        old, new = (world.folder / f"{one}.yaml" for one in (epoch - 1, epoch))
        into = world.address(world.target) if world.former != world.target else None
        groups = [] if into else ["reader"]
        found: Outcome = face.migrate(old, new, world.address(world.former), Path(world.plan), groups, into)
        return found


@pytest.fixture
def live(broker: Cluster, spark: SparkSession, tmp_path: Path) -> Callable[..., Counter[str]]:
    """Run a life on topics of its own, and give what it reached."""
    numbers = count()

    def run(steps: Sequence[Step], *, known_failures: bool = False) -> Counter[str]:
        number = next(numbers)
        folder = tmp_path / f"{number}"
        folder.mkdir()
        world = TopicWorld(folder, broker.bootstrap, f"life-{abs(hash(tmp_path)) % 10**8}-{number}")
        life = Life(world, TopicHands(world, spark), known_failures=known_failures)
        life.run(steps)
        return life.reached

    return run


def test_a_life_of_every_verb(live: Callable[..., Counter[str]]) -> None:
    reached = live(read_steps(SHORT))
    print(*report(reached), sep="\n")
    wanted = {"refused other state", "refused after migrate, new", "way --after", "way --after, to finish a batch"}
    wanted |= {"refused grown", "refused without a state", "verify under a transaction", "way --state"}
    assert not wanted - reached.keys()


@pytest.mark.faults
@pytest.mark.parametrize("steps", MORE)
def test_other_ways(steps: str, live: Callable[..., Counter[str]]) -> None:
    print(*report(live(read_steps(steps))), sep="\n")


@pytest.mark.faults
@pytest.mark.xfail(
    strict=True, reason="turns green where verify reads the position of a record from the target's commit"
)
def test_a_mirrored_target_is_certified_against_the_first_source(
    live: Callable[..., Counter[str]],
) -> None:
    """verify goes by the last `keylane.source`: copies name the mirrored topic, and count as invented."""
    live(read_steps("produce:4 mirror:1 verify:0"))


@pytest.mark.faults
@pytest.mark.xfail(strict=True, reason="turns green where a mirror copies old lanes up to their fences before new ones")
def test_a_mirror_of_a_topic_that_has_grown_keeps_the_order(live: Callable[..., Counter[str]]) -> None:
    """A key that is in two lanes of it is copied as its lanes come, and nobody says so."""
    live(read_steps("produce:4 produce:4 route:0 migrate:0 produce:4 produce:4 route:0 mirror:1"))


@pytest.mark.faults
def test_new_lives(live: Callable[..., Counter[str]]) -> None:
    """Each with a seed of its own; one that fails is made smaller."""
    reached: Counter[str] = Counter()
    verbs = {name: by for name, by in {**VERBS, **ON_TOPICS}.items() if name not in {"hide", "bring back"}}
    for seed in new_seeds(6):
        reached += lived(partial(live, known_failures=True), seed, drawn(seed, 16, verbs), tries=8)
    print(*report(reached), sep="\n")
    assert not {f"verb {verb}" for verb in verbs} - reached.keys()


# Faults of the package, each with a life that has to fail by it.

_TARGET, _PROGRESS = "keylane.systems.kafka.target", "keylane.systems.kafka.progress"


def _second_state(patch: pytest.MonkeyPatch) -> None:
    for name in ("check_first", "check_not_routed"):
        patch.setattr(f"{_TARGET}.{name}", lambda *_: None)
    patch.setattr(f"{_PROGRESS}.refuse_second", lambda *_: None)


def _only_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_TARGET}.check_not_routed", lambda *_: None)


def _trusts_the_state(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_PROGRESS}.TargetProgress._check_newest", lambda *_: None)


def _not_followed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("keylane.systems.messages.target._followed", lambda *_: (None, None))


def _by_brokers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("keylane.systems.messages.state.same_stream", lambda known, now, *_: known == now)


def _open_unseen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("keylane.systems.kafka.stream._open", lambda *_: iter(()))


@pytest.mark.faults
@pytest.mark.parametrize(
    ("plant", "steps"),
    [
        (_second_state, "produce:4 other_state:0"),
        (_only_groups, "produce:4 route:0 forget_groups:0"),
        (_trusts_the_state, "produce:4 route:0 back_up:0 produce:4 route:0 forget_groups:0 restore:0"),
        (_not_followed, "produce:4 migrate:4"),
        (_by_brokers, "produce:4 other_address:0"),
        (_open_unseen, "produce:4 open_transaction:0"),
    ],
)
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    steps: str,
    live: Callable[..., Counter[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises(LifeError):
        live(read_steps(steps))

"""An owner with many lanes whose snapshots take long is at work, and not stuck. On a broker: tests/integration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keylane.groups.ownership import Lease, Terms, claim_of
from keylane.systems.kafka import JsonStep, LaneOwner, OwnerPlan, kafka_access
from keylane.systems.kafka.owner import _Holding
from keylane.systems.leases.keeper import LeaseKeeper
from keylane.systems.leases.sqlite import sqlite_leases

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.systems.kafka import InputRecord, OutputRecord

LANES, SECONDS = 6, 40.0


class Slow(JsonStep):
    """Takes 40 s of a clock that only this moves for each snapshot, and for each that it reads."""

    def __init__(self) -> None:
        self.now = 0.0
        self.keeper: LeaseKeeper | None = None
        self.idle: list[float] = []

    def apply(self, state: dict[str, Any], record: InputRecord) -> list[OutputRecord]:
        return []

    def dump(self, state: dict[str, Any]) -> bytes:
        return self.worked(super().dump(state))

    def load(self, data: bytes) -> dict[str, Any]:
        return self.worked(super().load(data))

    def worked(self, made: Any) -> Any:
        self.now += SECONDS
        assert self.keeper is not None
        self.idle.append(self.keeper.idle_seconds())
        return made


def test_each_lane_that_is_kept_or_restored_is_progress(tmp_path: Path) -> None:
    step = Slow()
    plan = OwnerPlan(kafka_access("127.0.0.1:1"), "g", "payments", "balances", tmp_path / "snapshots", Terms(ttl=10))
    with sqlite_leases(tmp_path / "l.db", "g", 1) as store:
        owner = LaneOwner(plan, step, store, clock=lambda: step.now)
        step.keeper = keeper = LeaseKeeper(store, claim_of("a", 1, plan.terms), lambda: step.now)
        lanes = tuple(range(LANES))
        held = _Holding[dict[str, Any]](Lease(0, 1), lanes, {lane: {} for lane in lanes}, dict.fromkeys(lanes, 7))
        owner._take_snapshots(held, keeper)
        assert owner.health()[1]["snapshots"] == LANES
        owner._restore(_Holding(Lease(0, 2), lanes), {}, keeper)
    assert step.idle == [SECONDS] * (2 * LANES), "as long as one lane takes, and not all of them together"


def test_health_ends_when_the_lease_does_and_not_before(tmp_path: Path) -> None:
    """A broker may be waited for for a time to live, which may be longer than `stuck_seconds`."""
    now = [0.0]
    plan = OwnerPlan(kafka_access("127.0.0.1:1"), "g", "payments", "balances", tmp_path, Terms(ttl=40))
    with sqlite_leases(tmp_path / "l.db", "g", 1) as store:
        owner = LaneOwner(plan, Slow(), store, clock=lambda: now[0])
        healthy = []
        for now[0] in (61.0, 119.0, 121.0):
            healthy.append(owner.health()[0])
        assert healthy == [True, True, False]

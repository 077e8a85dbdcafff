"""Simulated hours of leases: with the fence no zombie writes; without it some do, however early owners stop."""

from __future__ import annotations

from random import Random

import pytest

from keylane.groups.lease_simulation import LeaseOutcome, LeaseSetup, LeaseSimulation
from keylane.groups.ownership import Acquire, LeaseTable, Terms


def simulated(seed: int, hours: float, setup: LeaseSetup | None = None) -> LeaseOutcome:
    return LeaseSimulation(Random(seed).random, setup or LeaseSetup()).run(hours)


def rules_broken(outcome: LeaseOutcome) -> set[str]:
    return {one.rule for one in outcome.broken}


@pytest.mark.parametrize("seed", [1, 2])
def test_three_hours_of_faults_break_no_rule(seed: int) -> None:
    outcome = simulated(seed, 3)
    assert outcome.broken == ()
    assert outcome.refused > 0, "zombies tried"
    assert outcome.terms > 30
    assert outcome.longest_free < 2
    assert len(outcome.faults) == 10


@pytest.mark.parametrize("drift", [0.1, 0.3], ids=["as it is", "owners stop 30 % earlier"])
def test_twin_without_the_fence_is_caught_however_early_owners_stop(drift: float) -> None:
    outcome = simulated(1, 3, LeaseSetup(fenced=False, terms=Terms(ttl=10.0, drift=drift)))
    assert {"no zombie writes", "every record once"} <= rules_broken(outcome)


def test_twin_of_a_store_that_gives_a_live_lease_away_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    given = LeaseTable.answer

    def careless(table: LeaseTable, request: object, now: float) -> object:
        # A clock that runs ahead: for those who ask, a lease is over when half of it is.
        return given(table, request, now + (5.0 if isinstance(request, Acquire) else 0.0))  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(LeaseTable, "answer", careless)
    assert "one live lease of an id" in rules_broken(simulated(1, 3))


def test_lanes_that_nobody_could_take_break_no_rule() -> None:
    """With as many processes as ids nobody is there to take over."""
    outcome = simulated(1, 3, LeaseSetup(processes=3))
    assert rules_broken(outcome) == set()
    assert outcome.longest_free > 0


@pytest.mark.faults
def test_a_thousand_hours_break_no_rule() -> None:
    outcomes = [simulated(seed, 100) for seed in range(10)]
    print(*(outcome._replace(broken=()) for outcome in outcomes), sep="\n")
    assert [outcome.broken for outcome in outcomes] == [()] * 10
    assert max(outcome.longest_free for outcome in outcomes) < 2

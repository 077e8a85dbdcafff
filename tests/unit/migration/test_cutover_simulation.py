"""Simulated hours of migrations under faults: no rule is broken; without one of the guards some are."""

from __future__ import annotations

from random import Random

import pytest

from keylane.migration.cutover_simulation import CutoverOutcome, CutoverSetup, CutoverSimulation


def simulated(seed: int, hours: float, setup: CutoverSetup | None = None) -> CutoverOutcome:
    return CutoverSimulation(Random(seed).random, setup or CutoverSetup()).run(hours)


def test_two_hours_of_migrations_break_no_rule() -> None:
    outcome = simulated(1, 2)
    assert outcome.broken == ()
    assert outcome.migrations > 100
    assert outcome.refused > 0, "drivers were late"
    assert outcome.held > 0, "the gate was needed"
    assert len(outcome.faults) == 10


@pytest.mark.parametrize(
    ("twin", "rule"),
    [
        ("gated", "no old record after a new one"),
        ("acknowledged", "no old record after a new one"),
        ("fenced", "one entry open"),
    ],
)
def test_a_twin_without_one_guard_is_caught(twin: str, rule: str) -> None:
    outcome = simulated(1, 2, CutoverSetup()._replace(**{twin: False}))  # type: ignore[arg-type]  # a flag
    assert rule in {one.rule for one in outcome.broken}


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (CutoverSimulation(Random(3).random, CutoverSetup()).simulation.digest(600) for _ in range(2))
    assert first == second


@pytest.mark.faults
def test_a_thousand_hours_break_no_rule() -> None:
    outcomes = [simulated(seed, 100) for seed in range(10)]
    print(*(outcome._replace(broken=()) for outcome in outcomes), sep="\n")
    assert [outcome.broken for outcome in outcomes] == [()] * 10
    assert sum(outcome.migrations for outcome in outcomes) > 50_000

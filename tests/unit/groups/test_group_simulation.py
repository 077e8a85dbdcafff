"""Simulated hours of groups: every rule holds under faults, and each planted fault is caught by its rule."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.unit.groups.planted_assignors import forgetful, sticky

from keylane.groups import coordinator
from keylane.groups.assignors.round_robin import round_robin
from keylane.groups.group_simulation import GroupOutcome, GroupSetup, GroupSimulation

if TYPE_CHECKING:
    from keylane.groups.coordinator import GroupRules, GroupState, Step

DIGEST = """
from random import Random
from tests.unit.groups.planted_assignors import sticky
from keylane.groups.group_simulation import GroupSetup, GroupSimulation
print(GroupSimulation(Random({seed}).random, sticky, GroupSetup()).simulation.digest(900.0))
"""


def rules_broken(outcome: GroupOutcome) -> set[str]:
    return {one.rule for one in outcome.broken}


@pytest.mark.parametrize("seed", [1, 2])
def test_two_hours_of_faults_break_no_rule(seed: int) -> None:
    outcome = GroupSimulation(Random(seed).random, sticky, GroupSetup()).run(2)
    assert outcome.broken == ()
    assert outcome.accepted > 2 * 4 * 800, "each group has read each lane"
    assert outcome.refused > 0
    assert outcome.longest_free < 2
    assert len(outcome.faults) == 10


def test_twin_without_the_fence_is_caught() -> None:
    outcome = GroupSimulation(Random(1).random, sticky, GroupSetup(fenced=False)).run(2)
    assert {"no stale generation", "no zombie writes", "every record once"} <= rules_broken(outcome)


def test_twin_whose_assignor_moves_more_than_it_must_is_caught() -> None:
    outcome = GroupSimulation(Random(1).random, round_robin, GroupSetup()).run(2)
    assert rules_broken(outcome) == {"members keep their lanes"}


def test_twin_whose_assignor_forgets_a_lane_is_caught() -> None:
    outcome = GroupSimulation(Random(1).random, forgetful, GroupSetup()).run(1)
    assert rules_broken(outcome) == {"free lanes are taken", "every record once"}


def test_twin_whose_sessions_never_end_is_caught() -> None:
    groups = GroupSimulation(Random(1).random, sticky, GroupSetup())
    groups.rules = groups.rules._replace(session=1e9)
    assert "free lanes are taken" in rules_broken(groups.run(1))


def test_twin_that_gives_a_lane_before_it_was_let_go_of_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = coordinator._begin_generation

    def at_once(rules: GroupRules, group: GroupState) -> Step:
        everyone = tuple(member._replace(let_go=True) for member in group.members)
        group, _ = begin(rules, group._replace(members=everyone))
        again = tuple(member._replace(joined=True, let_go=True) for member in group.members)
        return begin(rules, group._replace(members=again))

    monkeypatch.setattr(coordinator, "_begin_generation", at_once)
    outcome = GroupSimulation(Random(1).random, sticky, GroupSetup()).run(1)
    assert "lanes are let go of first" in rules_broken(outcome)


def test_a_seed_gives_the_same_events_in_every_process() -> None:
    code = [sys.executable, "-c", DIGEST.format(seed=5)]
    seeds = [os.environ | {"PYTHONHASHSEED": seed} for seed in ("1", "2")]
    digests = [subprocess.run(code, capture_output=True, text=True, check=True, env=env).stdout for env in seeds]
    assert digests[0] == digests[1]
    other = GroupSimulation(Random(6).random, sticky, GroupSetup()).simulation.digest(900.0)
    assert other != digests[0].strip(), "twin: another seed"


@pytest.mark.faults
def test_a_thousand_hours_break_no_rule() -> None:
    outcomes = [GroupSimulation(Random(seed).random, sticky, GroupSetup()).run(100) for seed in range(10)]
    print(*(outcome._replace(broken=()) for outcome in outcomes), sep="\n")
    assert [outcome.broken for outcome in outcomes] == [()] * 10
    assert max(outcome.longest_free for outcome in outcomes) < 2

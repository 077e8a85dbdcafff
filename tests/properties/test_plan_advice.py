"""Of any contract of today and any traffic: what a plan advises is never worse than today, on the basis it states."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.cell_profiles import cities
from tests.unit.plan.conftest import made

from keylane.contract.parse import parse_contract
from keylane.plan import planner
from keylane.plan.advice import advice
from keylane.plan.contract_text import Means
from keylane.plan.planner import Question, make_plan

if TYPE_CHECKING:
    from keylane.contract.model import Contract
    from keylane.plan.planner import Plan
    from keylane.profile.model import Profile

KEYS, LANES = 120, 6
HOT = [f"key-{i:05}" for i in range(3)]
#: Every kind of contract that somebody may have today: what its spec has besides lanes, key and streams.
KINDS: dict[str, dict[str, Any]] = {
    "hash": {},
    "consistent hash": {"partitioner": "librdkafka-consistent-random"},
    "ranges of the hash": {"partitioner": "kinesis-md5"},
    "no key": {"partitioner": "librdkafka-random"},
    "pins": {"hot_keys": [{"keys": HOT, "pin": {"lanes": [0, 2, 4]}}]},
    "one lane for all": {"hot_keys": [{"keys": HOT, "pin": {"lanes": [1, 1, 1]}}]},
    "table": {"table": {"values": dict(zip(HOT, (5, 3, 1), strict=True))}},
    "table with several lanes": {"table": {"values": {HOT[0]: [0, 1, 2]}, "by": "order"}},
    "table of ranges": {"table": {"ranges": [{"from": HOT[0], "below": HOT[2], "lane": 4}]}},
    "spread": {"hot_keys": [{"keys": HOT, "spread": {"over": 4, "by": "order"}}]},
    "spread by position": {"hot_keys": [{"keys": HOT[:1], "spread": {"lanes": [0, 3], "by_position": True}}]},
    "tier": {"hot_keys": [{"keys": HOT[:2], "tier": {"stream": "t.hot", "lanes": 3}}]},
    "spread in a tier": {
        "hot_keys": [{"keys": HOT, "tier": {"stream": "t.hot", "lanes": 2, "spread": {"over": 2, "by": "order"}}}]
    },
    "window": {"key": {"fields": ["k"], "window": {"field": "at", "size": "1h"}}},
}


def today_of(kind: str, lanes: int | str = LANES) -> Contract:
    spec = {"streams": ["t"], "lanes": lanes, "key": {"fields": ["k"]}, "partitioner": "kafka-java", **KINDS[kind]}
    head = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "t"}}
    return parse_contract(json.dumps({**head, "spec": spec}))


def traffic(seed: int, steepness: float, drift: float) -> Profile:
    """Keys that are the heavier the earlier, and wander from window to window."""
    rng = np.random.default_rng(seed)
    weights = (np.arange(KEYS) + 1.0) ** -steepness
    walks = np.exp(drift * rng.normal(size=(KEYS, 8)).cumsum(axis=1))
    return made(rng.poisson(30_000 / 8 * (weights[:, None] * walks) / (weights[:, None] * walks).sum(axis=0)))


def planned(profile: Profile, today: Contract, *counts: int) -> Plan:
    return make_plan(profile, Question(counts or (LANES,), Means("t", ("t",), today=today)))


def wrong(plan: Plan) -> list[str]:
    """What the advice has against it: a loss, a change that is no gain, today's contract kept out of the choice."""
    assert plan.standing is not None
    before, after, found = plan.standing.candidate, plan.choice.chosen.candidate, advice(plan).answer
    out = [] if plan.standing.because is None else [f"today's contract is refused: {plan.standing.because}"]
    out += [] if after.fullest_share <= before.fullest_share else ["its fullest lane is fuller"]
    out += [] if after.work >= before.work else ["its lanes do less work"]
    out += [] if found == ("worth-it" if plan.changes else "leave-it") else [f"{found}, and changes: {plan.changes}"]
    lost = any(own > 1.05 * other for own, other in zip(after.shares, before.shares, strict=True))
    return [*out, *(["it lost to today under a cut of the time"] if lost else [])]


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 2**31), st.floats(0.2, 2.0), st.sampled_from([0.0, 0.1, 0.5]))
@settings(deadline=None, max_examples=8)
def test_the_advice_is_never_worse_than_today(kind: str, seed: int, steepness: float, drift: float) -> None:
    assert not wrong(planned(traffic(seed, steepness, drift), today_of(kind)))


@pytest.mark.parametrize("kind", ["spread", "window", "no key", "spread by position"])
def test_twin_a_choice_without_todays_contract_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    profile, today = traffic(1, 1.5, 0.1), today_of(kind)
    assert not wrong(planned(profile, today))
    monkeypatch.setattr(planner, "_in_range", lambda *_: False)
    assert wrong(planned(profile, today))


def test_todays_count_is_a_candidate_in_the_middle_of_a_range() -> None:
    """Of 4..10 the counts 4, 8 and 10 are compared; today has 6, and spreads what no other contract may."""
    plan = planned(traffic(1, 1.5, 0.1), today_of("spread"), 4, 8, 10)
    assert (plan.changes, advice(plan).answer) == (False, "leave-it")


def test_todays_lanes_by_location_are_a_candidate() -> None:
    profile = cities(0.02, 6_000)
    first = make_plan(profile, Question((12,), Means("pings", ("pings",))))
    plan = make_plan(profile, Question((12,), Means("pings", ("pings",), today=first.contract)))
    assert not wrong(plan)
    assert (plan.changes, advice(plan).answer) == (False, "leave-it")

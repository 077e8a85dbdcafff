"""A plan that was applied is left alone by the next plan of the same records; its pins are where a later one starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from keylane import partitioner
from keylane.contract.model import Contract
from keylane.contract.parse import parse_contract
from keylane.plan.choose import Constraints
from keylane.plan.contract_text import Means
from keylane.plan.planner import Question, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.plan.planner import Plan
    from keylane.profile.model import Profile

    Made = Callable[..., Profile]


def hashed(lanes: int) -> Contract:
    return parse_contract(
        "apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {name: t}\n"
        f"spec: {{streams: [t], lanes: {lanes}, key: {{fields: [k]}}, partitioner: kafka-java}}"
    )


def planned(profile: Profile, today: Contract, lanes: int) -> Plan:
    means = Means("t", ("t",), today=today)
    return make_plan(profile, Question((lanes,), means, Constraints(keep_lanes=lanes)))


def wandering(seed: int) -> Any:
    """A few hundred keys, some of them heavy, whose weights wander: what was fitted does not fit for ever."""
    rng = np.random.default_rng(seed)
    weights = 1 / (np.arange(600) + rng.choice([1.0, 3.0])) ** rng.choice([0.8, 1.0, 1.3])
    rate = np.outer(weights / weights.sum(), np.full(8, rng.choice([600, 5_000])))
    return rng.poisson(rate * np.exp(np.cumsum(rng.normal(0, 0.3, rate.shape), axis=1)))


@pytest.mark.parametrize("lanes", [6, 16])
def test_a_plan_that_was_applied_is_left_alone(profile: Made, lanes: int) -> None:
    changed = 0
    for seed in range(8):
        records = profile(wandering(seed))
        first = planned(records, hashed(lanes), lanes)
        again = planned(records, first.contract, lanes)
        changed += first.changes
        assert not again.changes, (seed, again.choice.chosen.candidate.title)
        assert again.contract is first.contract
    assert changed >= 3  # the twin: with nothing to propose, nothing would be shown


def with_giants(profile: Made, third: int) -> Profile:
    rng = np.random.default_rng(3)
    names = ["big-1", "big-2", "big-3", *(f"small-{n}" for n in range(800))]
    rates = [[900] * 8, [800] * 8, [third] * 8, *[[4] * 8] * 800]
    return profile(rng.poisson(rates), names)


def pinned(lanes: int, *to: int) -> Contract:
    document = hashed(lanes).model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    pins = [{"key": f"big-{n}", "lane": lane} for n, lane in enumerate(to, 1)]
    document |= {"apiVersion": "keylane/v1", "kind": "RoutingContract"}
    document["spec"]["hot_keys"] = [{"pins": pins}]
    return Contract.model_validate(document)


def moved(found: Plan) -> set[str]:
    """The giants that the candidate with pins has elsewhere than today's contract."""
    one = next(one.candidate for one in found.judged if one.candidate.strategy == "pin")
    keys, home = found.stream.profile.keys["k"].to_pylist(), one.home(found.stream).copy()
    for rank, to in one.fitted.moves.items():
        home[rank] = to[0]
    assert found.today is not None
    return {keys[rank] for rank in np.flatnonzero(home != found.today.home) if keys[rank].startswith("big")}


def test_pins_of_today_are_where_the_next_plan_starts(profile: Made) -> None:
    """A third giant comes, on the lane that a pinned one has: one of the two moves, and no other pin of today's."""
    records, lanes = with_giants(profile, 850), 8
    third = partitioner("kafka-java").lane(b"big-3", lanes)
    assert third is not None
    found = planned(records, pinned(lanes, third, (third + 1) % lanes), lanes)
    assert found.changes
    assert len(moved(found)) == 1
    assert moved(found) < {"big-1", "big-3"}


def test_twin_without_a_third_giant_no_pin_moves(profile: Made) -> None:
    assert moved(planned(with_giants(profile, 4), pinned(8, 0, 1), 8)) == set()


def test_twin_pins_that_share_a_lane_do_not_stay(profile: Made) -> None:
    assert moved(planned(with_giants(profile, 4), pinned(8, 1, 1), 8)) & {"big-1", "big-2"}

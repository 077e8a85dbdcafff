"""The choice keeps the constraints, prefers what asks least, and says so when nothing keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from keylane.contract.parse import parse_contract
from keylane.errors import UsageError
from keylane.plan.choose import Constraints, lane_counts
from keylane.plan.contract_text import Means
from keylane.plan.planner import Question, make_plan
from keylane.plan.sizing import Demand

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.plan.planner import Plan
    from keylane.profile.model import Profile

    Made = Callable[..., Profile]


def planned(profile: Profile, *counts: int, means: Means | None = None, **wanted: Any) -> Plan:
    return make_plan(profile, Question(counts, means or Means("t", ("t",)), Constraints(**wanted)))


@pytest.fixture(scope="module")
def hot(profile: Made) -> Profile:
    """One key with a third of all records."""
    rng = np.random.default_rng(5)
    return profile(rng.poisson([[4_000] * 8, *[[150] * 8] * 12, *[[3] * 8] * 2_500]))


def test_order_per_key_is_kept_by_default(hot: Profile) -> None:
    assert planned(hot, 8).choice.chosen.order_scope == "per-key"


def test_less_order_allows_more_balance(hot: Profile) -> None:
    strict, free = planned(hot, 8), planned(hot, 8, keep_order="none")
    assert free.choice.chosen.candidate.max_over_mean < strict.choice.chosen.candidate.max_over_mean / 1.5


def test_a_sub_key_makes_spreads_possible(hot: Profile) -> None:
    without = {one.candidate.strategy: one.because for one in planned(hot, 8, keep_order="per-sub-key").judged}
    assert "--sub-key" in (without["spread"] or "")
    means = Means("t", ("t",), sub_key="order_id")
    found = planned(hot, 8, means=means, keep_order="per-sub-key").choice.chosen
    assert found.order_scope == "per-sub-key"
    assert found.candidate.strategy in ("spread", "concentrate", "tier-spread")


def test_a_balance_that_nothing_keeps_is_reported_as_unmet(hot: Profile) -> None:
    found = planned(hot, 8, max_over_mean=1.3)
    assert not found.choice.met
    assert planned(hot, 8, max_over_mean=9.0).choice.met


def test_more_lanes_than_the_hottest_key_allows_are_not_taken(hot: Profile) -> None:
    assert planned(hot, 4, 8, 16, 32, 64).choice.chosen.candidate.lanes == 4


def test_where_the_hash_is_as_good_it_is_taken(profile: Made) -> None:
    even = profile(np.random.default_rng(1).poisson(np.full((20_000, 4), 5)))
    found = planned(even, 8).choice.chosen.candidate
    assert (found.strategy, found.fitted.moves) == ("hash", {})


def test_another_hash_is_never_taken(hot: Profile) -> None:
    for one in planned(hot, 8).judged:
        if one.candidate.strategy.startswith("hash-"):
            assert "re-rolls the dice" in (one.because or "")


@pytest.mark.slow
def test_a_throughput_that_binds_keeps_small_counts_out(profile: Made) -> None:
    even = profile(np.random.default_rng(1).poisson(np.full((20_000, 4), 5)))
    question = Question((4, 8, 16, 32), Means("t", ("t",)), demand=Demand(peak_mb_s=96.0), binding=True)
    assert make_plan(even, question).choice.chosen.candidate.lanes >= 16
    free = Question((4, 8, 16, 32), Means("t", ("t",)), demand=Demand(peak_mb_s=96.0))
    assert make_plan(even, free).sizing == make_plan(even, question).sizing


def test_todays_contract_is_left_alone_when_it_is_as_good(profile: Made) -> None:
    even = profile(np.random.default_rng(1).poisson(np.full((20_000, 4), 5)))
    today = parse_contract(
        "apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {name: t}\n"
        "spec: {streams: [t], lanes: 8, key: {fields: [k]}, partitioner: kafka-java}"
    )
    found = planned(even, 8, means=Means("t", ("t",), today=today))
    assert not found.changes
    assert found.contract is today


@pytest.mark.parametrize(("low", "high"), [(0, 4), (9, 8), (-1, 1)])
def test_a_range_that_is_none_is_refused(low: int, high: int) -> None:
    with pytest.raises(UsageError, match=rf"got '{low}\.\.{high}'"):
        lane_counts(low, high)


def test_lane_counts_are_few_and_hold_both_ends() -> None:
    counts = lane_counts(3, 5_000)
    assert len(counts) <= 9
    assert (counts[0], counts[-1]) == (3, 5_000)


def test_a_throughput_that_no_candidate_carries_is_reported_as_unmet(hot: Profile) -> None:
    def met(peak: float, **more: Any) -> bool:
        means = Means("t", ("t",), sub_key="order_id")
        question = Question((8, 16), means, Constraints(**more), Demand(peak_mb_s=peak), binding=True)
        return make_plan(hot, question).choice.met

    assert met(10)
    assert not met(40)  # the hottest key alone brings 13 MB/s to a lane of 7
    assert met(40, keep_order="per-sub-key")  # spread, it does not
    assert not met(4_000, keep_order="per-sub-key")

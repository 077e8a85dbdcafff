"""What a plan advises: never a loss as a gain, leave it where that is right, and what does not hold is said to."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.plan.conftest import drawn

from keylane import numbers
from keylane.contract.parse import examine, parse_contract
from keylane.contract.partitioners import FACTS
from keylane.plan.advice import advice, basis, duration, holding, length_of, tempting
from keylane.plan.bounds import floor
from keylane.plan.candidates import Candidate, FoldScore, Score, clearly_beats
from keylane.plan.choose import Constraints, Judged, choose, compared
from keylane.plan.contract_text import Means
from keylane.plan.cost import MovedShares
from keylane.plan.planner import Question, make_plan
from keylane.plan.reasons import verdict, why
from keylane.plan.sizing import Demand
from keylane.plan.strategies import Fitted
from keylane.profile.model import Windows, WithoutKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.answers import OrderScope
    from keylane.contract.model import Contract
    from keylane.plan.planner import Plan
    from keylane.profile.model import Profile

    Made = Callable[..., Profile]

GAINS = {"worth-it", "needed", "only-for-throughput"}


def today_of(lanes: int | str, **spec: Any) -> Contract:
    given = {"streams": ["t"], "lanes": lanes, "key": {"fields": ["k"]}, "partitioner": "kafka-java", **spec}
    head = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "t"}}
    return parse_contract(json.dumps({**head, "spec": given}))


def planned(profile: Profile, *counts: int, today: Contract | None = None, **more: Any) -> Plan:
    return make_plan(profile, Question(counts, Means("t", ("t",), today=today), **more))


@pytest.fixture(scope="module")
def even(profile: Made) -> Profile:
    """Many light keys: the hash is even, and pins could still make it a little more so."""
    return profile(drawn(20_000, 400_000, flat=400))


@pytest.fixture(scope="module")
def skewed(profile: Made) -> Profile:
    """The two heaviest keys are on one lane of twelve, steadily."""
    return profile(drawn(2_000, 80_000))


@pytest.fixture(scope="module")
def fleeting(profile: Made) -> Profile:
    """Every window has other heavy keys: what was fitted on earlier ones is of no use later."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(2, (3_000, 8))
    for window in range(8):
        counts[window * 40 : window * 40 + 40, window] += 150
    return profile(counts)


def test_where_nothing_is_hot_today_stays_and_so_does_its_lane_count(even: Profile) -> None:
    plan = planned(even, 12, today=today_of(12))
    assert any(one.candidate.fitted_share < plan.choice.chosen.candidate.fitted_share for one in plan.judged)
    assert (plan.changes, advice(plan).answer, advice(plan).leave) == (False, "leave-it", "nothing-hot")
    assert advice(plan).headline.startswith("Leave it: nothing is hot. 12 lanes (partitions) do the work of 1")


def test_a_lane_that_is_hot_is_worth_a_change_at_the_same_count(skewed: Profile) -> None:
    plan = planned(skewed, 12, today=today_of(12))
    found, chosen = advice(plan), plan.choice.chosen.candidate
    assert plan.standing is not None
    assert (found.answer, chosen.lanes) == ("worth-it", 12)
    before, after = plan.standing.candidate, chosen
    for figure in (
        f"do the work of {before.work:.1f} today",
        f"do the work of {after.work:.1f}",
        "this plan makes them",
    ):
        assert figure in found.headline
    assert f"from {before.fullest_share:.1%} to {after.fullest_share:.1%} of the records" in found.headline


@pytest.mark.parametrize("lanes", [1, 3, 6, 11, 13, 24, 256, pytest.param(1024, marks=pytest.mark.faults)])
def test_a_gain_is_never_a_loss_whatever_the_lane_count(skewed: Profile, even: Profile, lanes: int) -> None:
    """max/mean rises with the lanes; the share of the fullest lane, and so the words, do not follow it."""
    for profile in (skewed, even):
        plan = planned(profile, lanes, today=today_of(12))
        assert plan.standing is not None
        before, after = plan.standing.candidate, plan.choice.chosen.candidate
        if advice(plan).answer in GAINS:
            assert after.fullest_share < before.fullest_share
            assert after.work > before.work
        else:
            assert advice(plan).answer in {"no-better", "worse-than-today"}


def test_fewer_lanes_that_were_asked_for_are_called_worse_than_today(even: Profile) -> None:
    plan = planned(even, 6, today=today_of(12))
    assert advice(plan).answer == "worse-than-today"
    assert advice(plan).headline.startswith("Worse than today: 12 lanes (partitions) do the work of 1")
    assert all(one.against_today == "worse" for one in plan.judged)


def test_more_lanes_are_only_for_more_throughput(skewed: Profile) -> None:
    plan = planned(skewed, 48, today=today_of(12))
    assert advice(plan).answer == "only-for-throughput"
    assert advice(plan).headline.startswith("Only if you need more throughput: 12 lanes")


def test_lanes_that_are_needed_are_called_needed_and_todays_count_stays_where_it_is_enough(even: Profile) -> None:
    def asked(readers: int) -> Plan:
        demand = Demand(None, 0.0, readers=readers)
        return planned(
            even, 12, 24, 48, today=today_of(12), demand=demand, binding=True, constraints=Constraints(keep_lanes=12)
        )

    enough, more = asked(8), asked(20)
    assert (enough.changes, advice(enough).answer) == (False, "leave-it")
    assert (more.choice.chosen.candidate.lanes, advice(more).answer) == (24, "needed")


def test_an_order_that_was_asked_for_rules_today_out_and_a_loss_is_called_one(skewed: Profile) -> None:
    """Readers live with a spread key, until somebody wants its order back."""
    heavy = [f"key-{rank:05}" for rank in range(20)]
    spread = today_of(12, hot_keys=[{"keys": heavy, "spread": {"over": 12, "by": "order"}}])
    orders: tuple[OrderScope | None, ...] = (None, "per-key")
    free, asked = (planned(skewed, 12, today=spread, constraints=Constraints(one)) for one in orders)
    assert (free.changes, advice(free).answer) == (False, "leave-it")
    assert asked.standing is not None
    assert (asked.standing.misses, advice(asked).answer) == ("order", "needed")
    assert asked.choice.chosen.against_today == "worse"
    assert advice(asked).headline.startswith("Needed for the order that was asked for, and worse than today: 12 lanes")


def test_a_balance_that_was_asked_for_is_a_need(skewed: Profile) -> None:
    plan = planned(skewed, 12, today=today_of(12), constraints=Constraints(max_over_mean=1.8))
    assert plan.standing is not None
    assert (plan.standing.misses, plan.choice.met, advice(plan).answer) == ("balance", True, "worth-it")


def test_what_nothing_reaches_is_called_not_possible_and_names_no_more_keys_for_it(skewed: Profile) -> None:
    """A limit below what whole keys allow: the advice is that of no limit, and does not call itself worth it."""
    free = planned(skewed, 12, today=today_of(12))
    held = planned(skewed, 12, today=today_of(12), constraints=Constraints(max_over_mean=1.01))
    assert (held.choice.met, advice(held).answer, advice(free).answer) == (False, "not-met", "worth-it")
    assert advice(held).headline.startswith("Not possible: no candidate keeps the fullest lane at 1.01 times the mean")
    assert "The best of the rest: 12 lanes" in advice(held).headline
    assert (held.choice.chosen.candidate.strategy, held.choice.chosen.candidate.listed) == (
        free.choice.chosen.candidate.strategy,
        free.choice.chosen.candidate.listed,
    )


def test_a_throughput_that_one_key_overruns_is_said_to_be_that(skewed: Profile) -> None:
    """The heaviest key alone is more than a lane takes: no lane count is enough, and that is the headline."""

    def asked(lane: float) -> str:
        demand = Demand(None, 1_000.0, lane_records_s=lane)
        wanted = Constraints(keep_lanes=12)
        plan = planned(skewed, 12, 24, today=today_of(12), demand=demand, binding=True, constraints=wanted)
        return advice(plan).headline

    assert asked(20).startswith("Not possible: the hottest key alone brings ")
    assert not asked(2_000).startswith("Not possible")


def test_why_so_many_lanes_has_the_figures_of_what_was_asked_for(skewed: Profile) -> None:
    def lanes_of(demand: Demand, *counts: int, today: Contract | None = None) -> str:
        wanted = Constraints(keep_lanes=counts[0])
        plan = planned(skewed, *counts, today=today, demand=demand, binding=True, constraints=wanted)
        return next(line for line in why(plan) if line.startswith("Lanes: "))

    eight, twenty = (Demand(None, 0.0, readers=readers) for readers in (8, 20))
    kept = "Lanes: 12, as today, which is enough: 8 parallel readers, a lane each."
    assert lanes_of(eight, 12, 24, today=today_of(12)) == kept
    more = "Lanes: 24, the fewest of those compared that are enough: 20 parallel readers, a lane each."
    assert lanes_of(twenty, 12, 24, 48, today=today_of(12)) == more
    rate = lanes_of(Demand(None, 1_000.0, lane_records_s=1_000.0, growth=1.5), 12, 24, today=today_of(12))
    assert re.search(r"the fullest gets [\d.]+ of the 700 records/s that it may take, at 1.5 times the peak\.", rate)
    assert lanes_of(eight, 8, 16) == more.replace("24", "8").replace("20 parallel", "8 parallel")


def test_more_lanes_come_with_what_to_do_where_none_are_needed(skewed: Profile) -> None:
    """Of a range that has today's count in it, that is what would be taken there."""
    alone, ranged = (planned(skewed, *counts, today=today_of(4)) for counts in ((4,), (4, 48)))
    assert (advice(ranged).answer, ranged.choice.chosen.candidate.lanes) == ("only-for-throughput", 48)
    assert ranged.otherwise is not None
    assert ranged.otherwise.candidate.strategy == alone.choice.chosen.candidate.strategy
    assert f"Otherwise use `{alone.choice.chosen.candidate.strategy}`" in verdict(ranged)
    other = planned(skewed, 48, today=today_of(4))
    assert other.otherwise is None
    assert verdict(other).endswith("Otherwise stay at 4 lanes: keylane plan without --lanes says what these can do.")
    assert "Otherwise" not in verdict(alone)


def test_lanes_that_today_has_in_a_tier_are_not_held_against_it(skewed: Profile) -> None:
    """By lanes of the stream alone a tier of today looks worse than the hash that it is better than."""
    tier = today_of(12, hot_keys=[{"keys": ["key-00000"], "tier": {"stream": "t.hot", "lanes": 12}}])
    plan = planned(skewed, 12, today=tier)
    assert plan.standing is not None
    before = plan.standing.candidate
    assert before.compared == before.shares
    hashed = next(one.candidate for one in plan.judged if one.candidate.strategy == "hash")
    assert before.fullest_share < hashed.fullest_share < before.max_over_mean / 12
    assert plan.choice.chosen.candidate.fullest_share <= before.fullest_share


def test_a_change_that_lost_to_today_under_a_cut_is_not_made() -> None:
    today = judged(candidate("today", 0.20, 0.20, 0.20))
    lucky, steady = judged(candidate("pin", 0.10, 0.22, 0.15)), judged(candidate("table", 0.16, 0.18, 0.16))
    assert clearly_beats(lucky.candidate, today.candidate)
    assert choose([lucky], Constraints(), today).chosen is today
    assert choose([lucky, steady], Constraints(), today).chosen is steady


def test_a_change_that_would_not_hold_is_not_made(fleeting: Profile) -> None:
    plan = planned(fleeting, 12, today=today_of(12))
    best = tempting(plan)
    assert plan.standing is not None
    assert best is not None
    assert best.fitted_share < 0.95 * plan.standing.candidate.fitted_share
    assert best.folds[0].share > 0.95 * plan.standing.candidate.fullest_share
    assert (plan.changes, advice(plan).leave) == (False, "would-not-hold")
    told = next(line for line in why(plan) if "looked better" in line)
    assert numbers.share(best.folds[0].fitted_share) in told
    assert numbers.share(best.folds[0].share) in told


def wearing_off(profile: Made, *held: int) -> Plan:
    """A plan worth its while whose lanes were as even as fitted for so many of the windows after each cut."""
    plan = planned(
        profile(np.where(np.arange(3_000)[:, None] < 6, 2_000, 3) * np.ones((1, 16))), 12, today=today_of(12)
    )
    chosen = plan.choice.chosen
    folds = tuple(replace(fold, held=one) for fold, one in zip(chosen.candidate.folds, held, strict=True))
    worn = replace(chosen, candidate=replace(chosen.candidate, folds=folds))
    return replace(plan, choice=replace(plan.choice, chosen=worn))


def test_what_wears_off_is_worth_it_all_the_same_and_one_length_of_time_is_given(profile: Made) -> None:
    """Under the cuts of 4, 8 and 4 later windows it lasted 3, 8 and 1: a window is one record long here."""
    plan = wearing_off(profile, 3, 8, 1)
    found = holding(plan)
    assert advice(plan).answer == "worth-it"
    assert found is not None
    assert (found.as_even, found.held_windows, found.windows) == (False, 1, 4)
    assert (found.held_for, found.plan_again) == ("1 records", None), "nobody plans again after so many records"
    assert re.findall(r"\d+ records", found.says) == ["1 records"]
    assert "hold" not in found.says, "one verdict, and it is the headline's"
    timed = replace(plan.stream.profile, windows=Windows("time", tuple(86_400_000_000 * n for n in range(17))))
    daily = holding(replace(plan, stream=replace(plan.stream, profile=timed)))
    assert daily is not None
    assert (daily.held_for, daily.plan_again) == ("1 day", "1 day")
    assert daily.says.startswith("Plan again every 1 day")
    at_once = holding(wearing_off(profile, 0, 8, 4))
    assert at_once is not None
    assert (at_once.held_windows, at_once.held_for) == (0, "1 records"), "no less than a window is known"


def test_what_is_as_even_later_needs_no_other_plan(profile: Made) -> None:
    steady = holding(wearing_off(profile, 4, 8, 4))
    assert steady is not None
    assert (steady.as_even, steady.held_for, steady.plan_again) == (True, "4 records", None)
    assert steady.says.startswith("It holds")


def test_every_figure_stands_on_the_records_that_the_basis_names(profile: Made) -> None:
    counts = drawn(300, 20_000, windows=8)
    plan = planned(profile(counts, without_key=WithoutKey(7, 5)), 12, today=today_of(12))
    found, cut = basis(plan), plan.stream.folds[0].score.first
    later = plan.stream.profile.by_window[:, cut:]
    assert (found.records, found.of, found.later, found.without_key) == (later.sum(), counts.sum(), True, 12)
    for figure in (found.records, found.of, found.without_key):
        assert numbers.count(int(figure)) in found.says
    assert plan.standing is not None
    for one in (plan.standing.candidate, plan.choice.chosen.candidate):
        loads = one.loads if one.strategy in ("today", "hash") else None
        if loads is not None:
            lanes = loads[:, cut:].sum(axis=1)
            assert one.fullest_share == pytest.approx(lanes.max() / lanes.sum())
    least = floor(later.sum(axis=1), 12).max_over_mean
    assert f"goes below {least:.2f}x" in " ".join(why(plan))
    alone = basis(planned(profile(counts.sum(axis=1, keepdims=True)), 12))
    assert (alone.records, alone.later) == (counts.sum(), False)


def test_lengths_of_time_and_of_records_are_said_as_people_do() -> None:
    day = 86_400_000_000
    assert length_of(Windows("time", (0, day, 45 * day)), [1, 1], 0, 2) == "45 days"
    assert length_of(Windows("position", (0, 1_500)), [1_400], 0, 1) == "1,500 records"
    assert [duration(timedelta(seconds=one)) for one in (86_400, 5_400, 60, 3)] == [
        "1 day",
        "90 minutes",
        "1 minute",
        "3 seconds",
    ]


# The choice, with candidates made by hand.


def candidate(strategy: str, *shares: float, keys: int = 0, tier: int = 0, lanes: int = 12) -> Candidate:
    over = [share * (lanes + tier) for share in shares]
    folds = tuple(FoldScore(6, 8, 1.0, one, 0.1, share, 1e6, 2) for one, share in zip(over, shares, strict=True))
    loads = np.ones((lanes + tier, 8))
    fitted = Fitted(dict.fromkeys(range(keys), (0,)), tier)
    return Candidate(strategy, "kafka-java", lanes, folds, Score(1, 0, 1, 1, 0), 0.1, loads, fitted)


def judged(one: Candidate, moved: float = 0.0) -> Judged:
    return Judged(one, "per-key", 1, readers_merge=False, moved=MovedShares(moved, moved), because=None)


def test_of_candidates_within_the_noise_the_one_that_moves_least_and_names_fewest_is_taken() -> None:
    table, pin = (
        judged(candidate("table", 0.100, 0.101, keys=1_000), 0.4),
        judged(candidate("pin", 0.102, 0.1, keys=9), 0.1),
    )
    assert choose([table, pin], Constraints()).chosen is pin
    better = judged(candidate("table", 0.090, 0.091, keys=1_000), 0.4)
    assert choose([better, pin], Constraints()).chosen is better


def test_of_candidates_that_ask_for_as_much_the_higher_score_is_taken() -> None:
    pin = judged(candidate("pin", 0.182, 0.19, keys=1), 0.08)
    table = judged(candidate("table", 0.178, 0.16, keys=1), 0.08)
    assert choose([pin, table], Constraints()).chosen is table
    named = judged(candidate("table", 0.178, 0.16, keys=2), 0.08)  # the twin: one name more
    assert choose([pin, named], Constraints()).chosen is pin


def test_of_other_lane_counts_what_is_worse_than_today_is_taken_last() -> None:
    """The least change loses to today; another, which is no better than that by every cut, does not."""
    worse = replace(judged(candidate("hash", 0.30, 0.20), 0.4), against_today="worse")
    same = replace(judged(candidate("pin", 0.25, 0.25, keys=2), 0.5), against_today="same")
    assert choose([worse, same], Constraints()).chosen is same
    assert choose([worse], Constraints()).chosen is worse
    unknown = [replace(one, against_today=None) for one in (worse, same)]  # the twin: no contract of today
    assert choose(unknown, Constraints()).chosen.candidate.strategy == "hash"


def test_what_comes_to_todays_contract_is_no_change_and_has_to_be_beaten_too() -> None:
    """Today's contract was fitted on the records that it is counted on; its twin was scored on others."""
    today, fresh = judged(candidate("today", 0.20, 0.20)), candidate("pin", 0.17, 0.17, keys=1)
    again = replace(judged(fresh), against_today="identical")
    other = judged(candidate("table", 0.168, 0.168, keys=3), 0.1)
    assert choose([again, other], Constraints(), today).chosen is today
    assert choose([other], Constraints(), today).chosen is other
    clear = judged(candidate("table", 0.15, 0.15, keys=3), 0.1)
    assert choose([again, clear], Constraints(), today).chosen is clear


def test_a_candidate_that_moves_no_key_is_the_same_as_today() -> None:
    today, none, some = candidate("today", 0.2, 0.2), MovedShares(0.0, 0.0), MovedShares(0.01, 0.0)
    assert compared(candidate("hash", 0.2, 0.2), today, none) == "identical"
    assert compared(candidate("hash", 0.2, 0.2), today, some) == "same"
    assert compared(candidate("hash", 0.2, 0.2, lanes=24), today, none) != "identical"


def test_what_asks_for_more_must_beat_all_that_asks_for_less() -> None:
    """857 pins that are tied with the best, and no better than the plain hash, are not taken."""
    plain = judged(candidate("hash", 0.1665, 0.159), 0.72)
    pins = judged(candidate("pin", 0.169, 0.140, keys=857), 0.76)
    table = judged(candidate("table", 0.1637, 0.135, keys=921), 0.82)
    assert choose([plain, pins, table], Constraints()).chosen is plain


def test_one_cut_alone_decides_nothing() -> None:
    steady, lucky = candidate("hash", 0.20, 0.20, 0.20), candidate("pin", 0.15, 0.22, 0.25)
    assert not clearly_beats(lucky, steady)
    assert compared(lucky, steady) == "same"
    assert compared(candidate("pin", 0.15, 0.15, 0.15), steady) == "better"
    assert compared(candidate("pin", 0.25, 0.25, 0.25), steady) == "worse"


def test_few_records_make_more_noise() -> None:
    one, other = candidate("pin", 0.16, 0.16), candidate("hash", 0.20, 0.20)
    assert clearly_beats(one, other)
    few = tuple(FoldScore(6, 8, 1.0, fold.scored, 0.1, fold.share, 50, 2) for fold in one.folds)
    assert not clearly_beats(replace(one, folds=few), other)


def test_that_a_tier_has_lanes_of_its_own_is_no_gain() -> None:
    plain = judged(candidate("pin", 0.10, 0.10, keys=5))
    tier = judged(candidate("tier", 0.095, 0.095, keys=2, tier=5))
    assert tier.candidate.work > plain.candidate.work
    assert choose([plain, tier], Constraints()).chosen is plain


@pytest.mark.parametrize("name", sorted(FACTS))
@pytest.mark.parametrize("rule", ["hash", "reject", "round_robin"])
def test_what_todays_contract_rules_out_is_left_out_and_never_fatal(profile: Made, name: str, rule: str) -> None:
    """`on_empty: hash` cannot go with a client that ignores keys, and is no reason to give no advice."""
    spec = {"streams": ["t"], "lanes": 4, "key": {"fields": ["k"], "on_empty": rule}, "partitioner": name}
    head = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "t"}}
    found, problems = examine(json.dumps({**head, "spec": spec}))
    if found is None:
        assert problems
        return
    plan = planned(profile(drawn(60, 2_000)), 4, today=found, constraints=Constraints(keep_order="none"))
    keyless = next(one for one in plan.judged if one.candidate.strategy == "keyless")
    if rule == "hash":
        assert "today's contract rules it out" in (keyless.because or "")
        assert "on_empty" in (keyless.because or "")
    else:
        assert keyless.because is None


def test_a_topic_that_was_loaded_at_once_says_nothing_about_time() -> None:
    minute = 60_000_000
    assert length_of(Windows("time", (0, minute // 2, minute)), [1_500, 2_500], 0, 1) == "1,500 records"
    assert length_of(Windows("time", (0, minute, 2 * minute)), [1_500, 2_500], 0, 1) == "1 minute"


@pytest.mark.parametrize(("heaviest", "leave"), [(20_000, "one-key"), (20, "within-noise")])
def test_where_one_key_is_the_fullest_lane_no_placement_of_whole_keys_is_advised(
    profile: Made, heaviest: int, leave: str
) -> None:
    """The rest of the keys is even: without the heavy one nothing is hot."""
    counts = np.where(np.arange(4_000)[:, None] < 1, heaviest, 2) * np.ones((1, 8))
    plan = planned(profile(counts), 16, today=today_of(16))
    found = advice(plan)
    assert (plan.changes, found.answer, found.leave) == (False, "leave-it", leave)
    assert ("divide a key" in found.headline) == (leave == "one-key")

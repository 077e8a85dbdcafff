"""Of any lane counts and keys: the gcd rule leaves out no key, no placement beats the floor, the size is enough."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keylane.measure.balance import cv, max_over_mean
from keylane.plan.bounds import floor
from keylane.plan.cost import drain_by_gcd, drain_by_keys, moved
from keylane.plan.sizing import Demand, lanes_for

COUNTS = st.integers(1, 60)


@given(COUNTS, COUNTS)
@settings(deadline=None)
def test_the_gcd_rule_has_each_wait_and_no_other(old: int, new: int) -> None:
    hashes = np.arange(np.lcm(old, new))
    assert drain_by_keys(hashes % old, hashes % new, old, new).parents == drain_by_gcd(old, new).parents
    share = 1 - np.gcd(old, new) / max(old, new)
    assert abs(moved(hashes % old, hashes % new, np.ones(len(hashes))).keys - share) < 1e-12


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=80), st.integers(1, 20), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_no_placement_is_below_the_floor(keys: list[int], lanes: int, seed: int) -> None:
    """Neither one drawn by chance nor the heaviest key to the emptiest lane."""
    drawn = np.bincount(np.random.default_rng(seed).integers(lanes, size=len(keys)), keys, lanes)
    packed = np.zeros(lanes)
    for records in sorted(keys, reverse=True):
        packed[packed.argmin()] += records
    found = floor(keys, lanes)
    for loads in (drawn, packed):
        assert found.max_over_mean <= max_over_mean(loads) + 1e-9
        assert found.cv <= cv(loads) + 1e-9


@given(
    st.floats(0, 5_000),
    st.floats(1, 100),
    st.floats(0, 0.9),
    st.integers(1, 500),
    st.lists(st.floats(1, 4), min_size=7, max_size=7),
)
@settings(deadline=None)
def test_the_fullest_lane_of_the_answer_carries_what_it_may(
    peak: float, lane: float, headroom: float, readers: int, skews: list[float]
) -> None:
    found = lanes_for(
        Demand(peak, lane_mb_s=lane, headroom=headroom, readers=readers), lambda lanes: skews[lanes % len(skews)]
    )
    for lanes in (found.lanes, found.suggested):
        if lanes is not None:
            assert lanes >= readers
            assert peak * skews[lanes % len(skews)] / lanes <= lane * (1 - headroom) * (1 + 1e-6)

"""Whatever the keys: a lane is judged once, by a cause from the list, and no bound is below the truth."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keylane.measure.chance import Runs, keys_chance, records_chance
from keylane.measure.hot_lanes import CAUSES, why_hot

WEIGHTS = st.lists(st.integers(1, 10**6), min_size=1, max_size=200).map(lambda keys: sorted(keys, reverse=True))
FEW = st.lists(st.integers(1, 30), min_size=1, max_size=6).map(lambda keys: sorted(keys, reverse=True))


@given(FEW, st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_the_bound_is_never_below_the_chance_of_all_placements(keys: list[int], lanes: int) -> None:
    every = np.array([np.bincount(where, keys, lanes) for where in product(range(lanes), repeat=len(keys))])
    for loads in every[:: max(1, len(every) // 50)]:
        true = np.mean(every.max(axis=1) >= loads.max())
        assert keys_chance(Runs.of(keys), loads)[loads.argmax()] >= true - 1e-9


@given(st.integers(2, 60), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_a_fuller_lane_is_never_more_likely(records: int, lanes: int) -> None:
    chances = [records_chance(fullest, records, lanes) for fullest in range(records + 1)]
    assert all(later <= before + 1e-12 for before, later in pairwise(chances))


@given(WEIGHTS, st.integers(2, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_every_hot_lane_is_above_the_mean_and_has_its_cause(keys: list[int], lanes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    at = rng.integers(lanes, size=len(keys))
    loads = np.bincount(at, keys, lanes)
    heat = why_hot(loads, at, np.array(keys), lanes, rng=rng)
    shown = [lane.over_mean for lane in heat.hot]
    assert shown == sorted(shown, reverse=True)
    assert len({lane.lane for lane in heat.hot}) == len(heat.hot)
    for lane in heat.hot:
        assert lane.over_mean > 1
        assert lane.cause in CAUSES
        assert 0 < lane.chance <= 1
        assert all(at[key] == lane.lane for key in lane.keys)
        assert (lane.cause == "unlucky-hash") <= (lane.chance < heat.alpha)

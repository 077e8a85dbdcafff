"""One key over several lanes: within its set, and one more lane moves sub-keys to itself only."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keylane.contract.model import Spread
from keylane.placement.spread import by_position, by_sub_key, by_sub_keys, lane_set

hashes = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=60)
lane_sets = st.sets(st.integers(0, 99_999), min_size=1, max_size=16).map(lambda lanes: tuple(sorted(lanes)))


@given(sub_keys=hashes, among=lane_sets)
def test_a_sub_key_is_within_the_set_and_the_same_in_a_batch(sub_keys: list[int], among: tuple[int, ...]) -> None:
    chosen = [by_sub_key(sub_key, among) for sub_key in sub_keys]
    assert set(chosen) <= set(among)
    assert by_sub_keys(np.array(sub_keys, np.uint32), np.array(among)).tolist() == chosen


@given(sub_keys=hashes, among=lane_sets, new=st.integers(0, 99_999))
def test_one_more_lane_moves_sub_keys_to_itself_only(sub_keys: list[int], among: tuple[int, ...], new: int) -> None:
    wider = tuple(sorted({*among, new}))
    for sub_key in sub_keys:
        assert by_sub_key(sub_key, wider) in {by_sub_key(sub_key, among), new}


@given(home=st.integers(0, 99), over=st.integers(2, 100))
def test_a_spread_key_has_as_many_lanes_as_it_says_and_its_own_is_one(home: int, over: int) -> None:
    lanes = lane_set(Spread(over=over, by="b"), home, 100)
    assert home in lanes
    assert len(set(lanes)) == over
    assert list(lanes) == sorted(lanes)


@given(position=st.integers(-(2**63), 2**63 - 1), among=lane_sets)
def test_a_position_is_within_the_set(position: int, among: tuple[int, ...]) -> None:
    assert by_position(position, among) in among

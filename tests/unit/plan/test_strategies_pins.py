"""Few keys moved make lanes even; and what cannot be made even is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.plan.strategies import evened, packed


def loads_of(lanes: Any, weights: Any, count: int) -> Any:
    out = np.zeros((count, weights.shape[1]))
    np.add.at(out, lanes, weights)
    return out


def after(start: Any, weights: Any, count: int, moved: dict[int, int]) -> Any:
    lanes = start.copy()
    for key, lane in moved.items():
        lanes[key] = lane
    return loads_of(lanes, weights, count)


def normalised(records: Any, count: int) -> Any:
    weights = np.asarray(records, float).reshape(len(records), -1)
    return weights * count / weights.sum(axis=0)


def test_lanes_of_many_keys_come_within_a_hundredth_of_even() -> None:
    rng = np.random.default_rng(3)
    weights = normalised(rng.pareto(1.5, 4_000) + 0.01, 16)
    start = rng.integers(0, 16, 4_000).astype(np.int32)
    before = loads_of(start, weights, 16)
    moved = evened(start, weights, before)
    assert before.max() > 1.2
    assert after(start, weights, 16, moved).max() <= 1.0101
    assert len(moved) < 200


def test_a_key_heavier_than_a_lane_ends_with_little_beside_it() -> None:
    """Its lane is the floor; what is below the floor already is not worth a pin."""
    weights = normalised([600, *[1] * 400], 4)
    start = np.zeros(401, np.int32)
    moved = evened(start, weights, loads_of(start, weights, 4))
    assert after(start, weights, 4, moved).max() == pytest.approx(2.4, abs=0.025)
    assert len(moved) == 1


def test_no_more_keys_move_than_are_allowed() -> None:
    weights = normalised([1] * 100, 4)
    start = np.zeros(100, np.int32)
    assert len(evened(start, weights, loads_of(start, weights, 4), most=7)) == 7


def test_even_lanes_are_left_alone() -> None:
    weights = normalised([1] * 8, 4)
    start = np.array([0, 0, 1, 1, 2, 2, 3, 3], np.int32)
    assert evened(start, weights, loads_of(start, weights, 4)) == {}


def test_what_is_even_on_the_whole_and_not_of_late_is_fixed_too() -> None:
    """The keys of lane 0 have grown; all records together do not show it."""
    weights = normalised([[1, 3]] * 10 + [[1, 1]] * 10, 2)
    start = np.array([0] * 10 + [1] * 10, np.int32)
    assert evened(start, weights[:, :1], loads_of(start, weights[:, :1], 2)) == {}
    both = evened(start, weights, loads_of(start, weights, 2))
    assert both
    left = after(start, weights, 2, both)
    assert left[:, 1].max() < loads_of(start, weights, 2)[:, 1].max()


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=60), st.integers(2, 9), st.randoms(use_true_random=False))
def test_the_fullest_lane_never_gets_fuller(records: list[int], count: int, rng: Any) -> None:
    weights = normalised(records, count)
    start = np.array([rng.randrange(count) for _ in records], np.int32)
    before = loads_of(start, weights, count)
    moved = evened(start, weights, before)
    assert after(start, weights, count, moved).max() <= before.max() + 1e-9
    assert all(0 <= lane < count for lane in moved.values())


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=60), st.integers(1, 9))
def test_a_packing_is_at_most_a_third_above_the_least_possible(records: list[int], count: int) -> None:
    volumes = np.array(records, float)
    lanes = packed(volumes, np.zeros(count))
    fullest = np.bincount(lanes, volumes, minlength=count).max()
    assert fullest <= (4 / 3) * max(volumes.sum() / count, volumes.max()) + volumes.max() / 3 + 1e-9


def test_a_packing_goes_round_what_lies_there_already() -> None:
    assert packed(np.array([1.0, 1.0]), np.array([5.0, 0.0, 0.0])) == [1, 2]

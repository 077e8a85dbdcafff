"""How even lanes are and how even they could be: against definitions, against chance, and against all placements."""

from __future__ import annotations

from itertools import product
from statistics import fmean, pstdev

import numpy as np
import pytest

from keylane.measure.balance import cv, least_cv, max_over_mean, noise_floor


@pytest.mark.parametrize("lanes", [[6, 2], [5, 5, 5], [7, 0, 0, 1], [1020, 3000, 1020, 960, *[0] * 56]])
def test_cv_is_the_deviation_over_the_mean_idle_lanes_included(lanes: list[int]) -> None:
    assert cv(lanes) == pytest.approx(pstdev(lanes) / fmean(lanes))


def test_a_cv_that_forgets_the_idle_lanes_would_be_noticed() -> None:
    lanes = [3000, 1020, 1020, 960, *[0] * 56]
    assert cv([count for count in lanes if count]) < 0.6 < cv(lanes)


def test_max_over_mean() -> None:
    assert max_over_mean([6, 2]) == 1.5
    assert max_over_mean(np.array([3, 0, 0])) == 3


def test_nothing_is_even() -> None:
    assert (cv([0, 0]), max_over_mean([0, 0]), noise_floor(60, 0), least_cv([], 3)) == (0, 0, 0, 0)


@pytest.mark.parametrize(("lanes", "records"), [(60, 6_000), (8, 200), (60, 23_600)])
def test_the_noise_floor_is_what_drawn_lanes_show(lanes: int, records: int) -> None:
    rng = np.random.default_rng(5)
    drawn = [cv(np.bincount(rng.integers(lanes, size=records), minlength=lanes)) for _ in range(300)]
    assert fmean(one**2 for one in drawn) == pytest.approx(noise_floor(lanes, records) ** 2, rel=0.1)


def test_keys_that_keep_together_are_no_noise() -> None:
    """The twin: lanes drawn for each key instead of each record are far above the floor."""
    rng = np.random.default_rng(5)
    keyed = np.repeat(rng.integers(60, size=100), 60)
    assert cv(np.bincount(keyed, minlength=60)) > 5 * noise_floor(60, len(keyed))


KEYS = [[1] * 6, [5, 1, 1], [4, 4, 1, 1, 1, 1], [9, 3, 3, 1], [2, 2, 2], [7]]


def best(keys: list[int], lanes: int) -> float:
    """The least CV of all placements, each key on one lane, found by trying them."""
    return min(
        cv(np.bincount(where, weights=keys, minlength=lanes)) for where in product(range(lanes), repeat=len(keys))
    )


@pytest.mark.parametrize("lanes", [1, 2, 3, 5])
@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_no_placement_is_below_the_least(keys: list[int], lanes: int) -> None:
    assert least_cv(keys, lanes) <= best(keys, lanes) + 1e-12


@pytest.mark.parametrize("keys", [[5, 4, 3], [1, 1], [3]], ids=str)
def test_with_a_lane_for_each_key_the_least_is_reached(keys: list[int]) -> None:
    assert least_cv(keys, 5) == pytest.approx(best(keys, 5))


def heaviest_to_the_emptiest(keys: list[int], lanes: int) -> float:
    """A good placement, which is not a bound."""
    loads = [0] * lanes
    for key in sorted(keys, reverse=True):
        loads[loads.index(min(loads))] += key
    return cv(loads)


def test_a_bound_that_is_too_high_would_be_noticed() -> None:
    """The twin: what a good placement reaches is above what the best one does."""
    assert heaviest_to_the_emptiest([3, 3, 2, 2, 2], 2) > best([3, 3, 2, 2, 2], 2) + 0.1


def test_six_keys_on_sixty_lanes() -> None:
    assert least_cv([1000] * 6, 60) == pytest.approx(3)
    assert least_cv([1000] * 60, 60) == 0


def test_the_least_is_the_same_in_any_order_of_the_keys() -> None:
    keys = np.random.default_rng(3).zipf(1.5, size=500)
    for lanes in (3, 12, 60, 499, 600):
        assert least_cv(keys, lanes) == pytest.approx(least_cv(np.sort(keys)[::-1], lanes))
        assert least_cv(keys, lanes) == pytest.approx(least_cv(np.sort(keys), lanes))

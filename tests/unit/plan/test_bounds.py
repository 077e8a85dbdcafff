"""What no placement can beat: against every placement there is, and fast for millions of keys."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from keylane.errors import LaneCountError, UsageError
from keylane.measure.balance import cv, least_cv, max_over_mean, useful_lanes
from keylane.plan.bounds import ceiling, floor

KEYS = [[1] * 5, [4, 3, 3], [9, 1, 1, 1], [5, 5, 5, 5, 5], [3, 3, 2, 2, 2], [7], [6, 5, 4, 3, 2, 1]]


def best(keys: list[int], lanes: int) -> tuple[float, float]:
    """The least max/mean and the least CV of all placements, each key on one lane, found by trying them."""
    loads = [np.bincount(where, keys, lanes) for where in product(range(lanes), repeat=len(keys))]
    return min(map(max_over_mean, loads)), min(map(cv, loads))


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_no_placement_is_below_the_floor(keys: list[int], lanes: int) -> None:
    least, even = best(keys, lanes)
    found = floor(keys, lanes)
    assert 1 <= found.max_over_mean <= least + 1e-12
    assert found.cv <= even + 1e-12


@pytest.mark.parametrize(
    ("keys", "lanes", "held"),
    [
        ([4, 3, 3], 2, "shared-lane"),
        ([9, 1, 1, 1], 3, "heaviest-key"),
        ([5] * 5, 2, "shared-lane"),
        ([1] * 4, 2, "mean"),
    ],
)
def test_the_floor_is_reached_where_keys_must_share(keys: list[int], lanes: int, held: str) -> None:
    found = floor(keys, lanes)
    assert found.held_by == held
    assert found.max_over_mean == pytest.approx(best(keys, lanes)[0])


def test_a_floor_that_knows_the_heaviest_key_only_would_be_too_low() -> None:
    """The twin: five equal keys on two lanes are at 1.2 at best; the heaviest key and the mean know only 1."""
    assert best([5] * 5, 2)[0] == floor([5] * 5, 2).max_over_mean == pytest.approx(1.2)
    assert max(1, 5 * 2 / 25) == 1


def test_keys_that_must_share_raise_the_least_cv_too() -> None:
    assert least_cv([5] * 5, 2) == 0
    assert floor([5] * 5, 2).cv == pytest.approx(best([5] * 5, 2)[1]) == pytest.approx(0.2)


def test_the_order_of_keys_does_not_matter() -> None:
    assert floor([1, 9, 1, 1], 3) == floor([9, 1, 1, 1], 3)
    assert floor(np.array([1, 9, 1, 1], np.uint32), 3) == floor([9, 1, 1, 1], 3)


def test_nothing_has_no_floor() -> None:
    assert (floor([], 3).max_over_mean, floor([0, 0], 3).cv) == (0, 0)


def test_what_are_no_keys_or_lanes_is_refused() -> None:
    with pytest.raises(UsageError):
        floor([3, -1], 2)
    with pytest.raises(LaneCountError):
        floor([3], 0)


@pytest.mark.parametrize("share", [0, -0.1, 1.01])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="share"):
        useful_lanes(share)


@pytest.mark.parametrize("lanes", range(1, 200))
def test_a_share_of_one_in_n_has_n_useful_lanes(lanes: int) -> None:
    assert useful_lanes(1 / lanes) == lanes
    assert floor([*[10] * lanes], lanes).max_over_mean == 1


def test_more_than_the_useful_lanes_make_no_lane_smaller() -> None:
    keys = [100, *[1] * 900]
    useful = useful_lanes(0.1)
    loads = {lanes: floor(keys, lanes).max_over_mean / lanes for lanes in (useful - 1, useful, useful + 1, 64)}
    assert loads[useful - 1] > loads[useful] == pytest.approx(loads[useful + 1]) == pytest.approx(loads[64])


def test_it_says_what_would_help_when_no_lane_count_does() -> None:
    found = ceiling(0.083, 64)
    assert (found.useful_lanes, found.helps) == (12, False)
    assert "5.31 times" in found.says
    assert "over 5 lanes" in found.says
    assert "tier" in found.says


def test_it_promises_no_help_where_none_is_needed() -> None:
    found = ceiling(0.01, 12)
    assert (found.useful_lanes, found.helps) == (100, True)
    assert "spread" not in found.says


def test_the_floor_of_millions_of_keys_rises_with_the_lanes() -> None:
    records = (1e6 / np.arange(1, 1_000_001) ** 1.05).astype(np.int64) + 1
    found = [floor(records, lanes) for lanes in (12, 64, 1_024)]
    assert found[0].max_over_mean < found[1].max_over_mean < found[2].max_over_mean

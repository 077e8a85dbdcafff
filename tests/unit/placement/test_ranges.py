from __future__ import annotations

import numpy as np
import pytest

from keylane.placement.ranges import SPACE, range_lane, range_lanes, range_start

COUNTS = [1, 2, 3, 7, 64, 1000]


def halves(numbers: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return np.array([divmod(number, 1 << 64) for number in numbers], np.uint64)


@pytest.mark.parametrize("lanes", COUNTS)
def test_a_boundary_belongs_to_the_range_it_begins(lanes: int) -> None:
    for lane in range(1, lanes):
        start = range_start(lane, lanes)
        assert (range_lane(start - 1, lanes), range_lane(start, lanes)) == (lane - 1, lane)


@pytest.mark.parametrize("lanes", COUNTS)
def test_the_last_range_takes_the_rest(lanes: int) -> None:
    assert range_lane(SPACE - 1, lanes) == lanes - 1


def test_seven_ranges_are_not_cut_where_proportion_would_cut_them() -> None:
    assert range_start(6, 7) == 6 * (SPACE // 7) != 6 * SPACE // 7


@pytest.mark.parametrize("lanes", COUNTS)
def test_arrays_are_right_on_both_sides_of_every_boundary(lanes: int) -> None:
    starts = [range_start(lane, lanes) for lane in range(lanes)]
    numbers = [n for start in starts for n in (start - 1, start, start + 1) if n >= 0] + [SPACE - 1]
    assert range_lanes(halves(numbers), lanes).tolist() == [range_lane(number, lanes) for number in numbers]

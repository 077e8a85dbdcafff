"""Where windows lie."""

from __future__ import annotations

import numpy as np
import pytest

from keylane.errors import UsageError
from keylane.profile.model import position_windows, time_windows, windows_for


@pytest.mark.parametrize(("first", "last", "count"), [(0, 0, 24), (-5, 100, 7), (10**15, 10**15 + 23, 24), (3, 10, 48)])
def test_windows_of_time_are_of_one_length_and_hold_both_ends(first: int, last: int, count: int) -> None:
    edges = time_windows(first, last, count).edges
    assert len(set(np.diff(edges))) == 1
    assert edges[0] <= first < edges[1]
    assert edges[-2] <= last < edges[-1]
    assert len(edges) - 1 <= count


def test_edges_lie_where_people_look_for_them_at_no_more_than_a_hundredth() -> None:
    hour = 3_600_000_000
    first, last = 7 * hour + 123_456_789, 7 * hour + 123_456_789 + 23 * hour
    windows = time_windows(first, last, 23)
    assert all(edge % 1_000_000 == 0 for edge in windows.edges)
    length = windows.edges[1] - windows.edges[0]
    assert hour <= length <= hour * 1.01
    assert first - windows.edges[0] <= hour / 100


@pytest.mark.parametrize(("positions", "count"), [(1, 24), (10, 3), (1_000_003, 24), (24, 24), (5, 48)])
def test_windows_of_positions_are_of_equal_numbers_to_within_one(positions: int, count: int) -> None:
    edges = position_windows(positions, count).edges
    assert (edges[0], edges[-1]) == (0, positions)
    assert max(np.diff(edges)) - min(np.diff(edges)) <= 1
    assert len(edges) - 1 == min(count, positions)


def test_there_are_fewer_windows_where_each_costs_more() -> None:
    assert [windows_for(None, n) for n in (None, 20_000_000, 20_000_001)] == [24, 24, 8]
    assert windows_for(48, 10**9) == 48
    for count in (0, 49, -1):
        with pytest.raises(UsageError, match="1 to 48"):
            windows_for(count, None)

"""A driver that changes lanes is told of to the lane it left: in order, late, twice."""

from __future__ import annotations

from tests.unit.matching.example_tables import rows, stays

from keylane.matching.tables import STAYS
from keylane.matching.timeline import moves, stays_pruned


def test_the_lane_that_is_left_is_told() -> None:
    known, left = moves(STAYS.empty_table(), stays(("a", 30, 0, 2), ("a", 10, 0, 1), ("b", 20, 0, 5)))
    assert rows(known, "driver", "ts", "lane") == [("a", 10, 1), ("a", 30, 2), ("b", 20, 5)]
    assert rows(left) == [("a", 30, 0, 1)]


def test_a_late_ping_is_told_to_the_lane_before_it_and_its_own_lane_is_told_of_the_next() -> None:
    known, _ = moves(STAYS.empty_table(), stays(("a", 10, 0, 1), ("a", 30, 0, 2)))
    known, left = moves(known, stays(("a", 20, 0, 3)))
    assert rows(left) == [("a", 20, 0, 1), ("a", 30, 0, 3)]
    assert len(known) == 3


def test_a_ping_in_the_same_lane_tells_nobody() -> None:
    known, left = moves(stays(("a", 10, 0, 1)), stays(("a", 11, 0, 1)))
    assert left.num_rows == 0
    assert len(known) == 2


def test_a_ping_that_is_known_changes_nothing() -> None:
    known = stays(("a", 10, 0, 1), ("a", 30, 0, 2))
    again, left = moves(known, stays(("a", 30, 0, 2), ("a", 10, 0, 7)))
    assert again.equals(known)
    assert left.num_rows == 0


def test_the_stay_as_of_a_moment_is_kept_and_what_is_older_is_forgotten() -> None:
    known = stays(("a", 10, 0, 1), ("a", 20, 0, 2), ("a", 30, 0, 3), ("b", 1, 0, 1))
    assert rows(stays_pruned(known, 25), "driver", "ts") == [("a", 20), ("a", 30), ("b", 1)]
    assert rows(stays_pruned(known, 25, expire=10), "driver", "ts") == [("a", 20), ("a", 30)]
    assert stays_pruned(STAYS.empty_table(), 5).num_rows == 0

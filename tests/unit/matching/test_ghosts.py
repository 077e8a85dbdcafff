"""A pair whose driver had pinged again before the request is a ghost."""

from __future__ import annotations

from tests.unit.matching.tables import pairs, rows, stays

from keylane.matching.ghosts import ghosts, without_ghosts

PAIRS = pairs(("r", 10, "a", 1.0, 5, 3), ("r", 10, "b", 1.0, 5, 3), ("q", 4, "a", 1.0, 2, 0))


def test_a_newer_ping_not_after_the_request_makes_a_ghost() -> None:
    pings = stays(("a", 2, 0, 1), ("a", 5, 3, 1), ("a", 10, 0, 2), ("b", 11, 0, 2), ("b", 5, 3, 1))
    assert ghosts(PAIRS, pings).tolist() == [True, False, False]
    kept, dropped = without_ghosts(PAIRS, pings)
    assert rows(kept, "driver") == [("b",), ("a",)]
    assert dropped == 1


def test_of_equal_times_the_larger_offset_is_newer() -> None:
    assert ghosts(PAIRS, stays(("b", 5, 4, 2), ("a", 5, 2, 2))).tolist() == [False, True, False]


def test_pings_of_other_drivers_and_none_at_all_are_no_matter() -> None:
    assert not ghosts(PAIRS, stays(("c", 9, 9, 1), ("0", 9, 9, 1))).any()
    assert not ghosts(PAIRS, stays()).any()
    assert ghosts(pairs(), stays(("a", 1, 1, 1))).tolist() == []

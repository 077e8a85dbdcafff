"""Partial answers become one: each pair once, the newest ping, the newest telling, the nearest K."""

from __future__ import annotations

import pytest
from tests.unit.matching.example_tables import pairs, rows

from keylane.errors import UsageError
from keylane.matching.near import merged_pairs

LANE_4 = pairs(("r", 1, "a", 300.0), ("r", 1, "b", 500.0))
LANE_9 = pairs(("r", 1, "c", 400.0), ("q", 1, "a", 1.0))


def test_the_parts_of_a_request_are_put_together_and_cut_to_the_nearest() -> None:
    assert rows(merged_pairs([LANE_4, LANE_9]), "rider", "driver") == [("q", "a"), ("r", "a"), ("r", "c"), ("r", "b")]
    assert rows(merged_pairs([LANE_4, LANE_9], 2), "rider", "driver") == [("q", "a"), ("r", "a"), ("r", "c")]


def test_the_order_of_the_parts_does_not_show() -> None:
    assert merged_pairs([LANE_9, LANE_4]).equals(merged_pairs([LANE_4, LANE_9]))
    assert merged_pairs(merged_pairs([LANE_9, LANE_4])).equals(merged_pairs([LANE_4, LANE_9]))


def test_a_driver_that_two_lanes_name_is_where_it_pinged_last() -> None:
    old, new = pairs(("r", 1, "a", 3.0, 5, 9)), pairs(("r", 1, "a", 7.0, 6, 1))
    assert rows(merged_pairs([old, new]), "distance_m") == [(7.0,)]
    assert rows(merged_pairs([old, old]), "distance_m") == [(3.0,)]


def test_of_a_request_that_was_told_twice_the_later_telling_counts() -> None:
    first, second = pairs(("r", 1, "a", 3.0, 0, 0, 1)), pairs(("r", 1, "b", 7.0, 0, 0, 2))
    assert rows(merged_pairs([first, second]), "driver") == [("b",)]


def test_nothing_is_merged_to_nothing() -> None:
    assert merged_pairs([]).num_rows == merged_pairs(pairs()).num_rows == 0


def test_no_nearest_is_refused() -> None:
    with pytest.raises(UsageError, match="1 or more"):
        merged_pairs([LANE_4], 0)

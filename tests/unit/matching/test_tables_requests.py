"""A request that is told more than once counts once, by its larger offset."""

from __future__ import annotations

from tests.unit.matching.example_tables import asked, requests, rows

from keylane.matching.tables import distinct, distinct_rows


def test_the_larger_offset_counts() -> None:
    told = requests(asked("r", 1, 5, east=9.0), asked("r", 1, 7, east=3.0), asked("r", 2, 1), asked("q", 1, 9))
    assert rows(distinct(told), "rider", "ts", "offset") == [("q", 1, 9), ("r", 1, 7), ("r", 2, 1)]
    assert distinct_rows(told).tolist() == [3, 1, 2]


def test_no_requests_are_none() -> None:
    assert distinct(requests()).num_rows == 0

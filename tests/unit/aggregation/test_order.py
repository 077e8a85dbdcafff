"""Results in the order in which they were delivered: what is right, and every way in which it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keylane.aggregation.order import Delivered, OrderCheck

MINUTE = 60_000_000


def right() -> list[Delivered]:
    """Two queries, interleaved; of the second two groups a window."""
    one = [Delivered("a", n * MINUTE, (n + 1) * MINUTE, n) for n in range(5)]
    other = [Delivered("b", n // 2 * MINUTE, (n // 2 + 1) * MINUTE, n, (n % 2,)) for n in range(6)]
    return [row for pair in zip(one, other, strict=False) for row in pair] + other[5:]


def test_results_in_order_are_right() -> None:
    check = OrderCheck().take(right())
    assert (check.problems, check.queries, check.results) == ([], 2, 11)
    check.counted("a", 5)
    assert check.problems == []


def swapped(rows: list[Delivered]) -> list[Delivered]:
    return [rows[2], rows[1], rows[0], *rows[3:]]


@pytest.mark.parametrize(
    ("kind", "planted"),
    [
        ("missing", lambda rows: [*rows[:4], *rows[5:]]),
        ("twice", lambda rows: [*rows, rows[-1]]),
        ("missing", swapped),
        ("order", lambda rows: [*rows[:4], replace(rows[4], start=-MINUTE, end=0), *rows[5:]]),
        ("twice", lambda rows: [*rows, replace(rows[-1], sequence=6)]),
        ("window", lambda rows: [*rows[:4], replace(rows[4], end=rows[4].end + 1), *rows[5:]]),
    ],
)
def test_what_is_not_right_is_found(kind: str, planted: object) -> None:
    assert callable(planted)
    check = OrderCheck().take(planted(right()))
    assert check.count[kind] > 0
    assert check.problems


def test_results_that_are_missing_at_the_end_are_found_by_their_number() -> None:
    check = OrderCheck().take(right()[:-1])
    assert check.problems == []
    check.counted("b", 6)
    check.counted("never", 1)
    assert check.count["missing"] == 2

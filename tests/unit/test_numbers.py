from __future__ import annotations

import pytest

from keylane.numbers import count, lanes, percent, times


def test_numbers() -> None:
    assert (count(1_745_240), times(3.785), times(1.249, 1)) == ("1,745,240", "3.79×", "1.2×")


def test_a_whole_number_is_written_to_its_last_digit() -> None:
    assert count(2**63 - 1) == "9,223,372,036,854,775,807"
    assert (count(1e6), count(0.4)) == ("1,000,000", "0")


@pytest.mark.parametrize(
    ("share", "said"), [(0, "0"), (1, "100"), (0.0001, "<0.1"), (0.001, "0.1"), (0.9999, ">99.9"), (0.5, "50.0")]
)
def test_a_share_is_never_rounded_to_nothing_or_to_all(share: float, said: str) -> None:
    assert percent(share) == f"{said}%"


def test_lanes_that_follow_each_other_are_one_run() -> None:
    assert lanes([7, 0, 1, 2, 9, 8]) == "0–2, 7–9"
    assert lanes([1, 3, 5, 7, 9], most=3) == "1, 3, 5, …"

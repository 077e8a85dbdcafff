from __future__ import annotations

from itertools import pairwise

import pytest

from keylane.report.svg_charts import Scale, decades, mark, spaced, steps, whole_steps


def test_a_value_outside_its_scale_is_drawn_at_the_end() -> None:
    scale = Scale(1, 10, 100, 0)
    assert (scale.at(0), scale.at(1), scale.at(10), scale.at(99)) == (100, 100, 0, 0)


def test_a_scale_without_width_is_a_point() -> None:
    assert Scale(3, 3, 10, 20).at(3) == Scale(3, 3, 10, 20, log=True).at(3) == 10


def test_each_decade_is_as_wide_as_the_next() -> None:
    scale = Scale(0.001, 1, 0, 300, log=True)
    assert [scale.at(value) for value in decades(0.001, 1)] == [0, 100, 200, 300]


@pytest.mark.parametrize("high", [1.001, 1.1, 1.3, 2, 3.7, 9, 14, 60, 1_000])
def test_steps_are_few_rounded_and_leave_no_long_gap(high: float) -> None:
    found = steps(1, high, 9)
    assert found[0] == 1
    assert len(found) <= 9
    assert all(b / a <= (2.5 if high <= 100 else 10) for a, b in pairwise([*found, high]))


@pytest.mark.parametrize("high", [0.5, 1, 2.46, 7, 1_999, 123_456])
def test_even_steps_begin_with_nothing_and_end_below_the_top(high: float) -> None:
    found = whole_steps(high)
    assert found[0] == 0
    assert 2 <= len(found) <= 6
    assert found[-1] <= high


def test_labels_that_would_touch_are_left_out() -> None:
    assert spaced([0, 10, 35, 40, 80], 30) == [True, False, True, False, True]


def test_a_mark_says_its_title_as_text() -> None:
    assert mark("<b>\nmore", kind="dot") == '<g class="mark dot"><title>&lt;b&gt;\nmore</title></g>'

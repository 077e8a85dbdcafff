from __future__ import annotations

import re

import pytest

from keylane.report.svg_charts import bar, lane_profile, legend, stacked


def widths(svg: str) -> list[str]:
    return re.findall(r'width="([\d.]+%)"', svg)


def test_a_bar_is_as_long_as_its_share_and_never_longer_than_its_track() -> None:
    assert widths(bar(0.25, "a quarter")) == ["100%", "25.00%"]
    assert widths(bar(1.7, "too much")) == ["100%", "100.00%"]
    assert 'class="mark"' not in bar(0.25, "a quarter")
    assert 'x1="50.00%"' in bar(0.25, "a quarter", mark=0.5)


def test_every_picture_says_in_words_what_it_shows() -> None:
    pictures = (bar(0.5, "half"), stacked([(1, "kept")], "all"), lane_profile([3, 1], [2, 2]), legend(10, 80, "s"))
    assert all('role="img"' in picture and "aria-label=" in picture for picture in pictures)


def test_stacked_shares_lie_side_by_side() -> None:
    assert re.findall(r'x="([\d.]+%)" width="([\d.]+%)"', stacked([(0.8, "kept"), (0.2, "sub")], "")) == [
        ("0.00%", "80.00%"),
        ("80.00%", "20.00%"),
    ]


def test_a_profile_is_sorted_and_in_mean_lanes() -> None:
    drawn = lane_profile([0, 0, 8], [1, 1, 1])
    assert "from 3.00× to 0.00×" in drawn
    assert 'd="M0 0.00V0.00H33.33V100.00H66.67V100.00H100.00V100H0Z"' in drawn


def test_a_profile_of_idle_lanes_is_drawn() -> None:
    assert "M0" in lane_profile([0, 0], [0, 0])


@pytest.mark.parametrize(("most", "ticks"), [(80, ["0×", "1×", "2×", "4×", "8.0×"]), (15, ["0×", "1×", "1.5×"])])
def test_the_scale_ends_with_the_fullest_cell(most: int, ticks: list[str]) -> None:
    assert re.findall(r"<text[^>]*>([^<]+)</text>", legend(10, most, "s")) == ticks

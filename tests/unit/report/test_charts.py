"""Charts: what they draw, what they say in words, and that each stands alone."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from tests.unit.report.plan_documents import plan_document

from keylane.documents.profile import KeyRank, ProfileWindows
from keylane.errors import DataError, UsageError
from keylane.numbers import share
from keylane.report import svg_charts
from keylane.report.charts import Chart, heat_map, key_ranks, lane_loads, strategies
from keylane.report.heatmap import waits_for
from keylane.report.svg_charts import strategies as dots

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.documents.plan import PlanDocument

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def plan() -> PlanDocument:
    return plan_document()


@pytest.fixture(scope="module")
def charts(plan: PlanDocument) -> dict[str, Chart]:
    after = plan.over_time.after
    return {
        "heat": heat_map(after, plan.profile.windows),
        "ranks": key_ranks(plan),
        "of a profile": key_ranks(plan.profile),
        "strategies": strategies(plan),
        "loads": lane_loads(after),
    }


def test_what_a_command_printed_gives_the_same_charts(plan: PlanDocument, charts: dict[str, Chart]) -> None:
    printed = json.loads(json.dumps(plan.as_json()))
    after = printed["over_time"]["after"]
    assert charts == {
        "heat": heat_map(after, printed["profile"]["windows"]),
        "ranks": key_ranks(printed),
        "of a profile": key_ranks(printed["profile"]),
        "strategies": strategies(printed),
        "loads": lane_loads(after),
    }


def test_a_plan_that_was_saved_before_places_were_known_is_drawn(plan: PlanDocument) -> None:
    printed = plan.as_json()
    del printed["geo"]
    for row in (printed["today"], printed["chosen"], *printed["candidates"]):
        del row["resolution"]
    assert strategies(printed) == strategies(plan)


def test_what_is_no_plan_is_refused_with_the_field_that_is_wrong(plan: PlanDocument) -> None:
    with pytest.raises(DataError, match="not a document of keylane plan: profile is missing"):
        strategies({})
    rows = [{**row.as_json(), "lanes": "many"} for row in plan.candidates]
    with pytest.raises(DataError, match=r"candidates\.0\.lanes is wrong; allowed: a whole number"):
        strategies({**plan.as_json(), "candidates": rows})


def test_each_chart_is_an_svg_that_needs_nothing_else(charts: dict[str, Chart]) -> None:
    for name, chart in charts.items():
        root = ET.fromstring(chart.svg)
        assert root.tag == f"{SVG}svg", name
        assert root.get("aria-label"), name
        assert len(root.findall(f"{SVG}style")) == 1, name
        used = [value for one in root.iter() for key, value in one.attrib.items() if key.endswith("href")]
        assert all(value.startswith("data:image/png;base64,") for value in used), name


def test_a_notebook_gets_the_same_picture_either_way(charts: dict[str, Chart]) -> None:
    for chart in charts.values():
        assert chart._repr_svg_() == chart._repr_html_() == chart.svg


def test_a_chart_is_saved_as_svg_and_as_nothing_else(charts: dict[str, Chart], tmp_path: Path) -> None:
    made = charts["ranks"].save(tmp_path / "ranks.svg")
    assert made.read_text(encoding="utf-8") == charts["ranks"].svg
    with pytest.raises(UsageError, match=r"ends with \.svg"):
        charts["ranks"].save(tmp_path / "ranks.png")


def test_styles_touch_nothing_but_charts(charts: dict[str, Chart]) -> None:
    style = re.sub(r"@media[^{]+", "", re.findall(r"<style>(.*?)</style>", charts["ranks"].svg, re.DOTALL)[0])
    selectors = [one.strip() for block in re.findall(r"([^{}]+)\{", style) for one in block.split(",")]
    assert selectors
    assert not [one for one in selectors if one and not one.startswith((".keylane-chart", ".keylane-page"))]


def test_hostile_names_stay_text(plan: PlanDocument) -> None:
    hostile = '</text><script>alert(1)</script>"'
    side = {**plan.over_time.after.as_json(), "title": hostile}
    root = ET.fromstring(heat_map(side).svg)
    assert not list(root.iter(f"{SVG}script"))
    assert hostile in [one.text for one in root.iter(f"{SVG}text")]
    rows = [row.model_copy(update={"because": hostile, "strategy": hostile}) for row in plan.candidates]
    one = plan.model_copy(update={"candidates": rows})
    assert not list(ET.fromstring(strategies(one).svg).iter(f"{SVG}script"))


def test_every_candidate_has_one_mark_and_says_why_it_is_refused(plan: PlanDocument) -> None:
    drawn = dots(plan)
    marks = re.findall(r'<g class="mark dot( refused)?" data-lanes="\d+"><title>([^<]*)</title>', drawn)
    others = [one for one in plan.candidates if one.strategy != "today"]
    assert len(marks) == len(others)
    assert sum(bool(refused) for refused, _ in marks) == sum(not one.allowed for one in others)
    assert all(("refused: " in says) == bool(refused) for refused, says in marks)
    assert drawn.count('class="mark today"') == 1
    assert f"chosen: 12 lanes, {share(plan.chosen.fullest_share)}" in drawn


def test_a_more_even_candidate_is_further_left_and_more_lanes_are_larger(plan: PlanDocument) -> None:
    drawn = dots(plan)
    found = re.findall(
        r"<title>([a-z0-9-]+), (\d+) lanes\nfullest lane ([\d.]+)% of .*?"
        r'</title><circle cx="([\d.]+)" cy="[\d.]+" r="([\d.]+)"',
        drawn,
        re.DOTALL,
    )
    by_balance = sorted(found, key=lambda one: (float(one[2]), float(one[3])))
    assert [float(one[3]) for one in by_balance] == sorted(float(one[3]) for one in by_balance)
    sizes = {int(one[1]): float(one[4]) for one in found}
    assert [sizes[n] for n in (12, 24, 48, 96)] == sorted(sizes.values())


def test_the_curve_falls_and_has_a_line_where_a_key_fills_a_lane() -> None:
    ranks = [KeyRank(rank=rank, share=0.2 / rank, cumulative=0.5) for rank in (1, 10, 100)]
    drawn = svg_charts.key_ranks(ranks, [12, 24, 12])
    path = re.findall(r'<path d="M([^"]+)" class="curve"', drawn)[0]
    points = [tuple(map(float, point.split())) for point in path.split("L")]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted(y for _, y in points)
    assert re.findall(r"1/(\d+): fills one", drawn) == ["12", "24"]
    assert "fills one" not in svg_charts.key_ranks(ranks)


def test_lanes_are_sorted_by_load_and_measured_in_means() -> None:
    drawn = svg_charts.lane_loads([2, 0, 10, 4])
    assert re.findall(r"<title>lane (\d)\n", drawn) == ["2", "3", "0", "1"]
    assert "lane 2\n10 records, 2.50× the mean" in drawn
    assert "2.50× the mean" in drawn


def test_a_thousand_lanes_are_one_outline() -> None:
    drawn = svg_charts.lane_loads(list(range(1_000)))
    assert drawn.count("<rect") == 0
    assert len(drawn) < 40_000


def test_new_keys_are_part_of_the_distinct_ones() -> None:
    windows = ProfileWindows(kind="position", edges=[0, 5, 9], records=[5, 4], distinct_keys=[4, 3], new_keys=[4, 1])
    drawn = svg_charts.distinct_keys(windows)
    assert "3 distinct keys, 1" in drawn
    heights = re.findall(r'height="([\d.]+)" class="(all|new)"', drawn)
    assert heights[0][0] == heights[1][0]
    assert float(heights[2][0]) == pytest.approx(3 * float(heights[3][0]), rel=0.01)


def test_a_square_stands_where_a_new_lane_waits_for_an_old_one() -> None:
    drawn = waits_for([[0, 2], [1]], 3)
    squares = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="109', drawn)
    assert squares == [("44.00", "30.00"), ("264.00", "30.00"), ("154.00", "140.00")]
    assert "old lane 0, 2" in drawn


def test_a_thousand_lanes_that_wait_are_a_small_picture() -> None:
    drawn = waits_for([[lane, (lane * 7) % 1_000] for lane in range(1_000)], 1_000)
    assert len(drawn) < 60_000
    assert drawn.count('class="mark"') <= 64


def test_a_lane_that_waits_for_none_is_marked() -> None:
    assert "old lane none" in waits_for([[], [0]], 1)

"""The demo's page in a real browser: it draws, it logs no error, it asks nothing of the network.

Each twin plants the fault that its test is there to notice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.conftest import browser_programs
from tests.browser.planted_faults import broken, planted

from keylane.documents.demo import DemoFigures
from keylane.report.demo_page import demo_page

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import Browser
    from tests.running import DemoRun

MAPS = """
return [...document.querySelectorAll(".map")].map((map) => {
  const canvas = map.querySelector("canvas"), box = canvas.getBoundingClientRect();
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < pixels.length; i += 4) colours.add(pixels.slice(i, i + 3).join());
  return {columns: canvas.width, rows: canvas.height, width: box.width, height: box.height, colours: colours.size,
          label: canvas.getAttribute("aria-label"), bars: map.querySelector(".totals path")?.getBBox().height ?? 0};
});
"""
FIRST_PIXELS = '[...document.querySelector("canvas").getContext("2d").getImageData(0, 0, 48, 1).data].join()'


@pytest.fixture(scope="module")
def page(demo_run: DemoRun) -> Path:
    return demo_run.page


#: Columns, rows and fewest colours of every map: two of each stream, three of the standing queries. Of partial
#: aggregates a lane has a handful in a minute, so few colours; what is blank has one.
CELLS = [(48, 64, 11)] * 6 + [(60, 16, 11)] * 2 + [(60, 16, 3)]


def undrawn(maps: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the heat maps of a page."""
    wrong = [] if len(maps) == len(CELLS) else [f"{len(maps)} maps"]
    for i, (one, (columns, rows, colours)) in enumerate(zip(maps, CELLS, strict=False)):
        if (one["columns"], one["rows"]) != (columns, rows):
            wrong.append(f"map {i} has {one['columns']} by {one['rows']} cells")
        if one["width"] / columns <= 4 or one["height"] / rows <= 4:
            wrong.append(f"map {i} has cells too small to see")
        if one["colours"] < colours or one["bars"] <= 90:
            wrong.append(f"map {i} is blank")
    return wrong


def complaints(browser: Browser, page: Path) -> list[str]:
    """Everything that may not be of a page that was opened and given time: blank, errors, requests."""
    blank = undrawn(browser.run(MAPS))
    errors, asked = browser.errors(), browser.requests()
    return [*blank, *errors, *(f"asks for {url}" for url in asked if url != page.as_uri())]


def test_every_heat_map_is_drawn(browser: Browser, page: Path) -> None:
    maps = browser.open(page).drawn().run(MAPS)
    assert undrawn(maps) == []
    said = [re.match(r"(\d+) lanes: the fullest holds .* the mean over (the \w+)\.", one["label"]) for one in maps]
    assert [one and one.groups() for one in said] == [("64", "the day")] * 6 + [("16", "the hour")] * 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_draws_logs_no_error_and_asks_for_itself_alone(
    browser: Browser, page: Path, width: int, scheme: str
) -> None:
    browser.open(page, width=width, scheme=scheme).drawn()
    assert complaints(browser, page) == []


@pytest.mark.parametrize(
    ("good", "bad", "complaint"),
    [
        ("context.putImageData(image, 0, 0);", "", "map 0 is blank"),
        ("canvas.height = rows.length;", "canvas.height = 1;", "map 0 has 48 by 1 cells"),
        ("function shade(share, colours, power) {", "function shade() { undefined.stop;", "TypeError"),
        ("drawAll();", 'drawAll(); fetch("http://127.0.0.1:9/who");', "asks for http://127.0.0.1:9/who"),
        ("drawAll();", 'drawAll(); console.error("planted");', "planted"),
    ],
    ids=["draws nothing", "draws one row", "script error", "asks the network", "logs an error"],
)
def test_a_fault_in_the_script_is_noticed(
    browser: Browser, page: Path, tmp_path: Path, good: str, bad: str, complaint: str
) -> None:
    made = broken(page, tmp_path, good, bad)
    browser.open(made).loaded()
    assert any(complaint in found for found in complaints(browser, made))


def test_taking_the_policy_off_is_not_what_is_noticed(browser: Browser, page: Path, tmp_path: Path) -> None:
    made = broken(page, tmp_path, "drawAll();", "drawAll(); ")
    browser.open(made).loaded()
    assert complaints(browser, made) == []


def test_no_browser_is_a_failure_and_not_a_gap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match="make browser"):
        browser_programs()


def test_a_planted_request_is_refused_by_the_policy_and_noticed(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(planted(page, tmp_path, '<img src="http://127.0.0.1:9/beacon.png">')).drawn()
    assert any("Content Security Policy" in error for error in browser.errors())


def test_a_planted_request_without_the_policy_is_noticed(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(planted(page, tmp_path, '<img src="http://127.0.0.1:9/beacon.png">', policy=False)).drawn()
    assert "http://127.0.0.1:9/beacon.png" in browser.requests()


def test_a_planted_script_does_not_run(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(planted(page, tmp_path, "<script>window.harm = 1</script>")).drawn()
    assert browser.run("return window.harm") is None


def test_light_and_dark_have_colours_of_their_own_and_follow_the_reader(browser: Browser, page: Path) -> None:
    light = browser.open(page).drawn().run(f"return {FIRST_PIXELS}")
    browser.prefer("dark")
    browser.until(f"return {FIRST_PIXELS} != arguments[0]", light)
    browser.prefer("light")
    browser.until(f"return {FIRST_PIXELS} == arguments[0]", light)


def test_another_contract_is_drawn_when_it_is_chosen(browser: Browser, page: Path) -> None:
    browser.open(page).drawn()
    more = "#queries .switch input[value='1']"
    browser.run(f'document.querySelector("{more}").click()')
    assert browser.run('return document.querySelectorAll("#queries canvas")[1].height') == 128
    assert browser.run('return document.querySelectorAll("#queries .map")[1].dataset.drawn') == "twice the lanes"
    assert browser.errors() == []


def test_cells_can_be_read_by_keys_and_by_pointer(browser: Browser, page: Path) -> None:
    browser.open(page).drawn()
    tip = 'return document.getElementById("tip").innerText'
    press = 'document.querySelector("canvas").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown"}))'
    browser.run(press)
    assert re.match(r"lane 1, 00:00–00:30\s+[\d,]+ records, [\d.]+×", browser.run(tip))
    point = """const canvas = document.querySelectorAll("canvas")[1], box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: box.right - 2, clientY: box.bottom - 2}));"""
    browser.run(point)
    assert browser.run(tip).startswith("lane 63, 23:30–24:00")


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_nothing_sticks_out_sideways(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width).drawn()
    assert browser.run("return document.documentElement.scrollWidth") <= width


def with_lanes(document: dict[str, Any], lanes: int) -> dict[str, Any]:
    """The same figures with streams on another number of lanes; the aggregation always has 16."""
    for case in document["cases"]:
        for trial in case["trials"]:
            trial["cells"] = [trial["cells"][lane % len(trial["cells"])] for lane in range(lanes)]
    return document


@pytest.mark.parametrize(("lanes", "rows", "each"), [(1_000, 334, 3), (1, 1, 1)])
def test_it_draws_any_number_of_lanes(
    browser: Browser, demo_run: DemoRun, tmp_path: Path, lanes: int, rows: int, each: int
) -> None:
    made = tmp_path / "lanes.html"
    made.write_text(demo_page(DemoFigures.model_validate(with_lanes(demo_run.figures, lanes))), encoding="utf-8")
    maps = browser.open(made).drawn().run(MAPS)[:6]
    assert {(one["columns"], one["rows"]) for one in maps} == {(48, rows)}
    assert all(one["height"] / rows >= 1 for one in maps), "no row thinner than a pixel"
    assert all((f"fullest of {each} lanes" in one["label"]) == (each > 1) for one in maps)
    assert browser.errors() == []


def test_lanes_that_share_a_row_never_hide_the_hottest(browser: Browser, demo_run: DemoRun, tmp_path: Path) -> None:
    document = with_lanes(demo_run.figures, 1_000)
    cells = document["cases"][0]["trials"][0]["cells"]
    cells[500] = [10 * max(map(max, cells))] * 48
    made = tmp_path / "hot.html"
    made.write_text(demo_page(DemoFigures.model_validate(document)), encoding="utf-8")
    browser.open(made).drawn()
    hottest = "return [...document.querySelector('canvas').getContext('2d').getImageData(0, 166, 1, 1).data]"
    last = "return getComputedStyle(document.documentElement).getPropertyValue('--h8').trim()"
    colour = "#" + "".join(f"{part:02x}" for part in browser.run(hottest)[:3])
    assert colour == browser.run(last)

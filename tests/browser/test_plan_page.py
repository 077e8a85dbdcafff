"""The pages of plan and profile in a real browser: drawn, readable, quiet, in light, dark, on a phone and on paper.

Each twin plants the fault that its test is there to notice.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.planted_faults import broken, planted, without_policy
from tests.unit.report.plan_documents import changed, plan_document, profile_document

from keylane.report.plan_page import plan_page, profile_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.browser.conftest import Browser

    from keylane.documents.plan import LanesOverTime, PlanDocument

    Pages = Callable[[str], Path]

HOSTILE = '</script><img src=x onerror="window.harm=1"><svg onload="window.harm=2">'
#: Pixels between the margins of an A4 page.
PAPER = 703
WINDOWS = 24
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
ROW = '[...document.querySelector("canvas").getContext("2d").getImageData(0, %d, 24, 1).data].join()'
TIP = 'return document.getElementById("tip").innerText'
#: Where a section begins and ends, from top to bottom.
PLACES = """
return [...document.querySelectorAll("section")].map((one) => {
  const box = one.getBoundingClientRect();
  return [one.id, box.top + scrollY, box.bottom + scrollY];
});
"""
#: What is cut off inside: areas that hold more than they show.
CLIPPED = """
return [...document.querySelectorAll(".scroll, pre, .facts")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1)
  .map((one) => one.getAttribute("aria-label") ?? one.className);
"""
COLUMN = """
const rows = [...document.querySelectorAll("table.candidates tbody tr")].filter((row) => row.offsetParent);
return rows.map((row) => Number(row.cells[arguments[0]].dataset.value));
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Pages by name, each made once."""
    folder = tmp_path_factory.mktemp("pages")
    makers: dict[str, Callable[[], str]] = {
        "plan": lambda: plan_page(plan_document()),
        "new stream": lambda: plan_page(plan_document(today=None, kind="position")),
        "thousand": lambda: plan_page(thousand()),
        "profile": lambda: profile_page(profile_document()),
        "no lanes": lambda: profile_page(profile_document(lanes=None)),
        "hostile": lambda: plan_page(plan_document(key=HOSTILE)),
    }

    def made(name: str) -> Path:
        page = folder / f"{name}.html"
        if not page.exists():
            page.write_text(makers[name](), encoding="utf-8")
        return page

    return made


def thousand() -> PlanDocument:
    """A plan from 600 lanes to 1,000, in which one lane is far hotter than all others; its keys are not shown."""

    def hotter(plain: dict[str, Any]) -> None:
        before = plain["over_time"]["before"]
        before["cells"][333] = [3 * max(map(max, before["cells"]))] * WINDOWS
        before["totals"][333] = sum(before["cells"][333])
        plain["contract"] = None

    return changed(plan_document(counts=(1_000,), today=600, keys=20_000, records=2_000_000, flat=400), hotter)


def before() -> LanesOverTime:
    found = plan_document().over_time.before
    assert found is not None
    return found


def undrawn(maps: list[dict[str, Any]], rows: tuple[int, ...]) -> list[str]:
    """What is wrong with the heat maps of a page."""
    wrong = [] if len(maps) == len(rows) else [f"{len(maps)} maps"]
    for i, (one, wanted) in enumerate(zip(maps, rows, strict=False)):
        if (one["columns"], one["rows"]) != (WINDOWS, wanted):
            wrong.append(f"map {i} has {one['columns']} by {one['rows']} cells")
        if one["width"] / WINDOWS < 5 or one["height"] / wanted < (1 if wanted > 100 else 10):
            wrong.append(f"map {i} has cells too small to see")
        if one["colours"] <= 10 or one["bars"] <= 90:
            wrong.append(f"map {i} is blank")
    return wrong


def complaints(browser: Browser, page: Path, rows: tuple[int, ...] = (12, 12)) -> list[str]:
    """Everything that may not be of a page that was opened and given time: blank, errors, requests, too wide."""
    blank = undrawn(browser.run(MAPS), rows)
    errors, asked = browser.errors(), browser.requests()
    wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    sideways = [f"{wide[0]} wide on {wide[1]}"] if wide[0] > wide[1] else []
    return [*blank, *errors, *(f"asks for {url}" for url in asked if url != page.as_uri()), *sideways]


#: Screens between the widest and the narrowest.
BETWEEN = [pytest.param(width, scheme, marks=pytest.mark.faults) for width, scheme in ((1280, "dark"), (768, "light"))]


@pytest.mark.parametrize(("width", "scheme"), [(1600, "light"), *BETWEEN, (360, "dark")])
def test_it_draws_logs_no_error_asks_for_itself_alone_and_fits(
    browser: Browser, pages: Pages, width: int, scheme: str
) -> None:
    browser.open(pages("plan"), width=width, scheme=scheme).drawn()
    assert complaints(browser, pages("plan")) == []


@pytest.mark.parametrize(
    ("name", "rows"), [("new stream", (12,)), ("profile", (12,)), ("no lanes", ()), ("hostile", (12, 12))]
)
def test_so_does_every_other_page(browser: Browser, pages: Pages, name: str, rows: tuple[int, ...]) -> None:
    browser.open(pages(name), width=360).drawn()
    assert complaints(browser, pages(name), rows) == []


@pytest.mark.parametrize(
    ("good", "bad", "complaint"),
    [
        ("context.putImageData(image, 0, 0);", "", "map 0 is blank"),
        ("canvas.height = rows.length;", "canvas.height = 1;", "map 0 has 24 by 1 cells"),
        ("function shade(share, colours, power) {", "function shade() { undefined.stop;", "TypeError"),
        ("\n  drawAll();", '\n  drawAll(); fetch("http://127.0.0.1:9/who");', "asks for http://127.0.0.1:9/who"),
        ("\n  drawAll();", '\n  drawAll(); console.error("planted");', "planted"),
        (".scroll { overflow-x: auto;", ".scroll { overflow-x: visible; width: 900px;", " wide on 360"),
        ("\n  drawAll();", "\n  drawAll(); ", None),
    ],
    ids=["draws nothing", "draws one row", "script error", "asks the network", "logs", "sticks out", "no fault"],
)
def test_a_fault_is_noticed_and_its_absence_too(
    browser: Browser, pages: Pages, tmp_path: Path, good: str, bad: str, complaint: str | None
) -> None:
    made = broken(pages("plan"), tmp_path, good, bad)
    browser.open(made, width=360).loaded()
    found = complaints(browser, made)
    assert any(complaint in one for one in found) if complaint else found == []


def test_the_verdict_stands_on_top_and_every_section_below_it_in_order(browser: Browser, pages: Pages) -> None:
    browser.open(pages("plan")).drawn()
    found = browser.run(PLACES)
    assert [name for name, _, _ in found] == [
        *("lanes", "ranks", "strategies", "before-after", "hot", "keys", "change", "sizing", "folds", "how", "contract")
    ]
    assert all(bottom - top > 90 for _, top, bottom in found)
    assert all(before[2] <= after[1] for before, after in pairwise(found))
    title = browser.run(
        'const box = document.querySelector("h1").getBoundingClientRect(); return [box.top, box.bottom]'
    )
    assert 0 < title[0] < title[1] < found[0][1]


def test_light_and_dark_have_colours_of_their_own_and_follow_the_reader(browser: Browser, pages: Pages) -> None:
    style = "getComputedStyle(document.%s)"
    curve = style % 'querySelector(".curve")'
    look = f"return {ROW % 0} + {style % 'body'}.backgroundColor + {curve}.stroke"
    light = browser.open(pages("plan")).drawn().run(look)
    browser.prefer("dark")
    browser.until(look.replace("return ", "return arguments[0] != "), light)
    browser.prefer("light")
    browser.until(look.replace("return ", "return arguments[0] == "), light)


def test_lanes_stand_in_order_or_the_fullest_first(browser: Browser, pages: Pages) -> None:
    browser.open(pages("plan")).drawn()
    lanes = 'return [...document.querySelector(".gutter").children].map((one) => Number(one.textContent))'
    totals = before().totals
    fullest = totals.index(max(totals))
    assert browser.run(lanes) == list(range(12))
    hot = browser.run(f"return {ROW % fullest}")
    browser.run('document.querySelector("[name=rows][value=load]").click()')
    assert browser.run(lanes) == sorted(range(12), key=lambda lane: -totals[lane])
    assert browser.run(f"return {ROW % 0}") == hot


def test_both_maps_have_one_scale(browser: Browser, pages: Pages, tmp_path: Path) -> None:

    def alike(plain: dict[str, Any]) -> None:
        for side in plain["over_time"].values():
            side["cells"][0] = [500] * WINDOWS

    made = tmp_path / "scale.html"
    made.write_text(plan_page(changed(plan_document(), alike)), encoding="utf-8")
    colours = """return [...document.querySelectorAll("canvas")].map((canvas) =>
      [...canvas.getContext("2d").getImageData(0, 0, 24, 1).data].join())"""
    before, after = browser.open(made).drawn().run(colours)
    assert before == after
    scaled = broken(
        made, tmp_path, "[fullest(side, row, x)][x] / most,", "[fullest(side, row, x)][x] / Math.max(...side.totals),"
    )
    before, after = browser.open(scaled).drawn().run(colours)
    assert before != after


def test_cells_can_be_read_by_keys_and_by_pointer(browser: Browser, pages: Pages) -> None:
    browser.open(pages("plan")).drawn()
    browser.run('document.querySelector("canvas").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown"}))')
    assert re.match(r"lane 1, 12 Nov 00:00–02:00\s+[\d,]+ records, [\d.]+×", browser.run(TIP))
    browser.run("""const canvas = document.querySelectorAll("canvas")[1], box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: box.right - 2, clientY: box.bottom - 2}));""")
    cells = plan_document().over_time.after.cells
    assert browser.run(TIP).startswith("lane 11, 13 Nov 22:00–14 Nov 00:00")
    assert f"{cells[11][-1]:,} records" in browser.run(TIP)


def test_marks_of_a_chart_can_be_read_by_keys_and_say_why_they_are_refused(browser: Browser, pages: Pages) -> None:
    browser.open(pages("plan")).drawn()
    browser.run('document.querySelector("#strategies details").open = true')
    press = """const chart = document.querySelector("#strategies .for-wide");
    chart.focus();
    chart.dispatchEvent(new KeyboardEvent("keydown", {key: arguments[0]}));"""
    browser.run(press, "ArrowRight")
    assert "lanes\nfullest lane" in browser.run(TIP)
    browser.run(press, "ArrowLeft")
    assert "today, 12 lanes" in browser.run(TIP)
    refused = """const mark = document.querySelector("#strategies .for-wide .mark.refused circle");
    mark.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 9, clientY: 9}));"""
    browser.run(refused)
    assert "refused: " in browser.run(TIP)
    browser.run(press, "Escape")
    assert browser.run('return document.getElementById("tip").hidden')


def test_the_table_sorts_both_ways_and_says_so(browser: Browser, pages: Pages, tmp_path: Path) -> None:
    press = """const head = document.querySelectorAll("table.candidates thead th")[4];
    head.querySelector("button").click();
    return head.getAttribute("aria-sort");"""
    browser.open(pages("plan")).drawn()
    browser.run('document.querySelector("[name=candidates][value=all]").click()')
    ranks = [rank for rank in browser.run(COLUMN, 0) if rank]
    assert ranks == sorted(ranks)
    assert browser.run(press) == "ascending"
    up = browser.run(COLUMN, 4)
    assert up == sorted(up)
    assert len(up) == len(plan_document().candidates)
    assert browser.run(press) == "descending"
    assert browser.run(COLUMN, 4) == up[::-1]
    assert browser.run('return document.querySelectorAll("table.candidates [aria-sort]").length') == 1
    idle = broken(pages("plan"), tmp_path, "body.append(...rows);", "")
    browser.open(idle).drawn()
    browser.run('document.querySelector("[name=candidates][value=all]").click()')
    browser.run(press)
    assert browser.run(COLUMN, 4) != up


def lane_counts(browser: Browser) -> set[int]:
    """Those of the candidates that the table shows."""
    return {int(lanes) for lanes in browser.run(COLUMN, 2)}


def test_candidates_of_one_lane_count_are_compared_first_and_others_on_request(browser: Browser, pages: Pages) -> None:
    browser.open(pages("plan")).drawn()
    bright = (
        'return [...document.querySelectorAll(".for-wide .mark[data-lanes]:not(.dim)")].map((one) => one.dataset.lanes)'
    )
    assert len(browser.run(COLUMN, 2)) == 4, "the best ones"
    browser.run("document.querySelector(\"[name=candidates][value='12']\").click()")
    assert lane_counts(browser) == {12}
    assert set(browser.run(bright)) == {"12"}
    browser.run("document.querySelector(\"[name=candidates][value='24']\").click()")
    assert lane_counts(browser) == {12, 24}
    assert len(browser.run(COLUMN, 2)) == 14, "twelve strategies, the chosen one and today's"
    browser.run('document.querySelector("[name=candidates][value=all]").click()')
    assert lane_counts(browser) == {12, 24, 48, 96}


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.faults), 360])
def test_a_thousand_lanes_are_readable_and_the_hottest_is_never_lost(
    browser: Browser, pages: Pages, width: int
) -> None:
    browser.open(pages("thousand"), width=width).drawn()
    assert complaints(browser, pages("thousand"), (300, 334)) == []
    labels = [one["label"] for one in browser.run(MAPS)]
    assert "fullest of 2 lanes" in labels[0]
    assert "fullest of 3 lanes" in labels[1]
    end = browser.run("return getComputedStyle(document.documentElement).getPropertyValue('--h8').trim()")
    for choice, row in (("load", 0), ("order", 166)):
        browser.run(f'document.querySelector("[name=rows][value={choice}]").click()')
        found = browser.run(f"return {ROW % row}").split(",")[:3]
        assert "#" + "".join(f"{int(part):02x}" for part in found) == end, choice


def test_a_key_that_is_markup_is_text(browser: Browser, pages: Pages, tmp_path: Path) -> None:
    browser.open(pages("hostile")).drawn().loaded()
    assert browser.run("return window.harm") is None
    assert browser.run('return document.querySelectorAll("img").length') == 0
    assert HOSTILE in browser.run('return document.querySelector("#keys").innerText')
    assert browser.errors() == []
    harmful = planted(pages("plan"), tmp_path, HOSTILE, policy=False)
    browser.open(harmful).loaded()
    browser.until("return window.harm > 0")


def test_without_escaping_the_policy_still_holds(browser: Browser, pages: Pages, tmp_path: Path) -> None:
    browser.open(planted(pages("plan"), tmp_path, HOSTILE)).loaded()
    assert browser.run("return window.harm") is None
    assert any("Content Security Policy" in error for error in browser.errors())


def test_on_paper_nothing_is_cut_off_and_colours_are_for_white(browser: Browser, pages: Pages, tmp_path: Path) -> None:
    light = browser.open(pages("plan")).drawn().run(f"return {ROW % 0}")
    browser.open(pages("plan"), scheme="dark").drawn()
    browser.on_paper(PAPER)
    browser.until(f"return {ROW % 0} == arguments[0]", light)
    assert browser.run(CLIPPED) == []
    assert browser.run("return document.documentElement.scrollWidth") <= PAPER
    assert len(browser.run(COLUMN, 0)) == len(plan_document().candidates)
    crowded = broken(pages("plan"), tmp_path, ".candidates { font-size: 7.5px; }", ".candidates { font-size: 30px; }")
    browser.open(crowded).drawn()
    browser.on_paper(PAPER)
    browser.loaded()
    assert browser.run(CLIPPED) == ["Candidates"]


@pytest.mark.parametrize(
    "name", ["plan", *(pytest.param(name, marks=pytest.mark.faults) for name in ("thousand", "profile"))]
)
def test_it_prints(browser: Browser, pages: Pages, name: str) -> None:
    made = browser.open(pages(name)).drawn().printed()
    assert made.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", made)) <= 20


def test_the_contract_can_be_taken_along(browser: Browser, pages: Pages) -> None:
    browser.open(pages("plan")).drawn()
    browser.run('document.querySelector(".copy").click()')
    browser.until('return document.querySelector(".copy").textContent != "Copy"')
    taken = browser.run('return getSelection().toString() || document.querySelector(".copy").textContent')
    contract = plan_document().contract or ""
    assert taken in (contract.rstrip("\n"), contract, "Copied")


def test_without_its_script_all_but_the_maps_can_be_read(browser: Browser, pages: Pages, tmp_path: Path) -> None:
    text = pages("plan").read_text(encoding="utf-8")
    made = tmp_path / "still.html"
    made.write_text(re.sub(r"<script>.*?</script>", "", without_policy(text), flags=re.DOTALL), encoding="utf-8")
    browser.open(made).loaded()
    assert len(browser.run(COLUMN, 0)) == len(plan_document().candidates)
    assert browser.run('return document.querySelectorAll("#strategies .for-wide .mark > title").length') > 40

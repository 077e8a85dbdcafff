"""The pages of geo table and match in a real browser: land, cells and borders drawn, read by pointer and by keys.

Each twin plants the fault that its test is there to notice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.browser.planted_faults import broken
from tests.unit.report.geo_documents import city_places, geo_table_document, match_document, match_picture_document

from keylane.documents.geo_table import GeoLeaf, GeoTableDocument
from keylane.geo.bits import cell_name
from keylane.geo.cells import cell_of
from keylane.report.geo_pages import geo_table_page, match_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.browser.conftest import Browser

    Pages = Callable[[str], Path]

#: What the questions below begin with: the pixels of the map, and the style sheet's colours as a pixel has them.
LOOK = """
const canvas = document.querySelector(".stage canvas"), style = getComputedStyle(document.documentElement);
const named = (name) => style.getPropertyValue(name).trim().slice(1).match(/../g).map((part) => parseInt(part, 16));
const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const pixel = (i) => [...data.slice(i * 4, i * 4 + 3)], pixels = data.length / 4;
const sea = named("--sea").join(), land = named("--land").join();
"""
#: Pixels that are sea, that are land, and that are neither and coloured, as cells are and coasts are not.
PIXELS = f"""{LOOK}
const counts = {{sea: 0, land: 0, cells: 0}}, colours = new Set();
for (let i = 0; i < pixels; i++) {{
  const found = pixel(i), colour = found.join();
  if (colour == sea) counts.sea++;
  else if (colour == land) counts.land++;
  else if (Math.max(...found) - Math.min(...found) > 40) {{ counts.cells++; colours.add(colour); }}
}}
return {{...counts, colours: colours.size, width: canvas.width, height: canvas.height}};
"""
#: How much of the row that has the most of it is neither sea nor land: a line across the map would be all of one.
ACROSS = f"""{LOOK}
let most = 0;
for (let y = 0; y < canvas.height; y++) {{
  let covered = 0;
  for (let x = 0; x < canvas.width; x++) if (![sea, land].includes(pixel(y * canvas.width + x).join())) covered++;
  most = Math.max(most, covered);
}}
return most / canvas.width;
"""
#: Pixels that are nearly black.
DARK = f"""{LOOK}
let found = 0;
for (let i = 0; i < pixels; i++) if (pixel(i).reduce((a, b) => a + b) < 200) found++;
return found;
"""
PICTURE = 'return document.querySelector(".stage canvas").toDataURL()'
TIP = 'return document.getElementById("tip").innerText'
STAGE = 'return {...document.querySelector(".stage").dataset}'
POINT = """
const canvas = document.querySelector(".stage canvas"), box = canvas.getBoundingClientRect();
const place = {clientX: box.left + box.width * arguments[0], clientY: box.top + box.height * arguments[1]};
canvas.dispatchEvent(new PointerEvent("pointermove", place));
"""
PRESS = 'document.querySelector(".stage canvas").dispatchEvent(new KeyboardEvent("keydown", {key: arguments[0]}))'
CHOOSE = "document.querySelector(arguments[0]).click()"
FIJI = ((-17.8, 179.95, 1.0), (-16.9, -179.95, 1.0))


def city(lat: float, lng: float, records: int = 3_000) -> Any:
    return city_places(records, cities=((lat, lng, 1.0),))


def many() -> GeoTableDocument:
    """Ten thousand leaves."""
    rng = np.random.default_rng(3)
    grid = np.stack([rng.uniform(-50, 65, 14_000), rng.uniform(-179, 179, 14_000)], axis=1)
    document = geo_table_document(grid, lanes=60, most=1)
    return document.model_copy(update={"cells": document.cells[:10_000]})


def ends() -> GeoTableDocument:
    """Cells over the 180th meridian and around both poles."""
    document = geo_table_document(city_places(2_000, cities=FIJI), most=20)
    poles = [cell_of(90.0, 0.0, 3), cell_of(-90.0, 0.0, 3), cell_of(66.0, 180.0, 3), cell_of(64.0, -179.9, 3)]
    more = [GeoLeaf(cell=cell_name(cell), lane=i, records=9, hour=None) for i, cell in enumerate(poles)]
    return document.model_copy(update={"cells": [*document.cells, *more]})


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Pages by name, each made once."""
    folder = tmp_path_factory.mktemp("maps")
    makers: dict[str, Callable[[], str]] = {
        "table": lambda: geo_table_page(geo_table_document()),
        "city": lambda: geo_table_page(geo_table_document(city(40.71, -74.0), most=60)),
        "match": lambda: match_page(match_document(), match_picture_document()),
        "nobody": lambda: match_page(match_document()),
        "many": lambda: geo_table_page(many()),
        "ends": lambda: geo_table_page(ends()),
    }

    def made(name: str) -> Path:
        page = folder / f"{name}.html"
        if not page.exists():
            page.write_text(makers[name](), encoding="utf-8")
        return page

    return made


def undrawn(found: dict[str, int]) -> list[str]:
    """What is wrong with the pixels of a map."""
    size = found["width"] * found["height"]
    wrong = [f"no {name}" for name in ("sea", "land") if found[name] < size * 0.02]
    wrong += ["no cells"] if found["cells"] < size * 0.003 or found["colours"] < 20 else []
    return wrong


def complaints(browser: Browser, page: Path, *, mapped: bool = True) -> list[str]:
    """Everything that may not be of a page that was opened: no land, no cells, errors, requests, too wide."""
    blank = undrawn(browser.run(PIXELS)) if mapped else []
    errors, asked = browser.errors(), browser.requests()
    wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    sideways = [f"{wide[0]} wide on {wide[1]}"] if wide[0] > wide[1] else []
    return [*blank, *errors, *(f"asks for {url}" for url in asked if url != page.as_uri()), *sideways]


#: Screens between the widest and the narrowest.
BETWEEN = [pytest.param(width, scheme, marks=pytest.mark.faults) for width, scheme in ((1280, "dark"), (768, "light"))]


@pytest.mark.parametrize(("width", "scheme"), [(1600, "light"), *BETWEEN, (360, "dark")])
@pytest.mark.parametrize("name", ["table", "match"])
def test_it_draws_logs_no_error_asks_for_itself_alone_and_fits(
    browser: Browser, pages: Pages, name: str, width: int, scheme: str
) -> None:
    browser.open(pages(name), width=width, scheme=scheme).drawn().loaded()
    assert complaints(browser, pages(name)) == []


@pytest.mark.parametrize(
    ("good", "bad", "complaint"),
    [
        ("    const drawn = drawCells();", "    const drawn = 0;", "no cells"),
        ('context.fill("evenodd");', "", "no land"),
        ("  function draw() {", "  function draw() { undefined.stop;", "TypeError"),
        ("\n  draw();", '\n  draw(); fetch("http://127.0.0.1:9/who");', "asks for http://127.0.0.1:9/who"),
        (".stage { position: relative;", ".stage { position: relative; width: 700px;", " wide on 360"),
        ("\n  draw();", "\n  draw(); ", None),
    ],
    ids=["no cells", "no land", "script error", "asks the network", "sticks out", "no fault"],
)
def test_a_fault_is_noticed_and_its_absence_too(
    browser: Browser, pages: Pages, tmp_path: Path, good: str, bad: str, complaint: str | None
) -> None:
    made = broken(pages("table"), tmp_path, good, bad)
    browser.open(made, width=360).loaded()
    found = complaints(browser, made)
    assert any(complaint in one for one in found) if complaint else found == [], found


def test_lane_and_load_have_colours_of_their_own(browser: Browser, pages: Pages) -> None:
    browser.open(pages("table")).drawn().loaded()
    by_lane = browser.run(PICTURE)
    browser.run(CHOOSE, "[name=colour][value=load]")
    browser.loaded()
    by_load = browser.run(PICTURE)
    assert by_lane != by_load
    shown = """return [...document.querySelectorAll("[data-legend]")]
      .filter((one) => !one.hidden).map((one) => one.dataset.legend)"""
    assert browser.run(shown) == ["load"]
    assert browser.run('return document.querySelectorAll(".load-ticks text").length') >= 2
    browser.run(CHOOSE, "[name=colour][value=lane]")
    browser.loaded()
    assert browser.run(PICTURE) == by_lane


def test_borders_can_be_left_out(browser: Browser, pages: Pages) -> None:
    browser.open(pages("city")).drawn()
    browser.run(CHOOSE, "[data-view=City]")
    browser.loaded()
    with_borders = browser.run(DARK)
    browser.run(CHOOSE, "[name=borders]")
    browser.loaded()
    assert with_borders > browser.run(DARK) + 500


def test_the_views_go_closer_and_show_finer_cells_and_coasts(browser: Browser, pages: Pages) -> None:
    browser.open(pages("table")).drawn().loaded()
    levels, bars, layers = [], [], []
    for view in ("World", "Country", "City"):
        browser.run(CHOOSE, f"[data-view={view}]")
        browser.loaded()
        stage = browser.run(STAGE)
        levels.append(int(stage["level"]))
        layers.append(int(stage["layer"]))
        bars.append(browser.run('return document.querySelector(".scale-bar").textContent'))
        assert int(stage["cells"]) > 0, view
        pressed = browser.run(
            'return [...document.querySelectorAll("[aria-pressed=true]")].map((one) => one.textContent)'
        )
        assert pressed == [view]
    assert levels == sorted(set(levels))
    assert layers == sorted(set(layers), reverse=True), "the world's coast last, the city's first"
    assert all(re.fullmatch(r"[125]0*(,000)? k?m", bar) for bar in bars)
    assert len(set(bars)) == 3


def test_deep_down_every_cell_is_a_leaf(browser: Browser, pages: Pages) -> None:
    browser.open(pages("table")).drawn()
    browser.run(CHOOSE, "[data-view=City]")
    for _ in range(6):
        browser.run(PRESS, "+")
    browser.loaded()
    assert "resolution" in browser.run(TIP)
    assert browser.run('return document.querySelectorAll("[aria-pressed=true]").length') == 0


def test_a_cell_is_read_by_pointer_and_by_keys(browser: Browser, pages: Pages) -> None:
    browser.open(pages("city")).drawn()
    browser.run(CHOOSE, "[data-view=City]")
    browser.loaded()
    browser.run(POINT, 0.5, 0.5)
    read = browser.run(TIP)
    assert re.match(r"lane \d+\s+cell [0-9a-f]{15}, resolution \d+\s+[\d,]+ records?, [\d,.]+ per km²", read)
    lane, cell = re.findall(r"lane (\d+)\s+cell ([0-9a-f]{15})", read)[0]
    records = re.findall(r"([\d,]+) records?", read)[0].replace(",", "")
    document = geo_table_document(city(40.71, -74.0), most=60)
    known = next(one for one in document.cells if one.cell == cell)
    assert (known.lane, known.records) == (int(lane), int(records))
    browser.run(PRESS, "Escape")
    assert browser.run('return document.getElementById("tip").hidden')
    browser.run(PRESS, "ArrowRight")
    assert browser.run(TIP)


def test_one_lane_can_be_shown_alone(browser: Browser, pages: Pages) -> None:
    browser.open(pages("table")).drawn().loaded()
    all_of_them = browser.run(PIXELS)["cells"]
    browser.run(
        'const one = document.querySelector("[name=lane]"); one.value = "3"; one.dispatchEvent(new Event("change"))'
    )
    browser.loaded()
    alone = browser.run(PIXELS)
    assert 0 < alone["cells"] < all_of_them
    assert alone["land"] > 0


def test_it_is_moved_by_dragging_and_goes_on_beyond_the_180th_meridian(browser: Browser, pages: Pages) -> None:
    drag = """
    const canvas = document.querySelector(".stage canvas"), box = canvas.getBoundingClientRect();
    canvas.setPointerCapture = () => {};
    const fire = (type, x) =>
      canvas.dispatchEvent(new PointerEvent(type, {pointerId: 1, clientX: box.left + x, clientY: box.top + 200}));
    fire("pointerdown", 100);
    fire("pointermove", 100 + box.width / 2);
    fire("pointerup", 100);
    """
    browser.open(pages("table")).drawn().loaded()
    before = browser.run(PICTURE)
    browser.run(drag)
    browser.loaded()
    assert browser.run(PICTURE) != before
    assert undrawn(browser.run(PIXELS)) == []
    browser.run(drag)
    browser.loaded()
    assert undrawn(browser.run(PIXELS)) == []


def test_no_line_runs_across_the_map(browser: Browser, pages: Pages, tmp_path: Path) -> None:
    browser.open(pages("ends")).drawn()
    browser.run(CHOOSE, "[data-view=World]")
    browser.run(CHOOSE, "[name=borders]")
    browser.loaded()
    plain = browser.run(ACROSS)
    rolled = broken(
        pages("ends"),
        tmp_path,
        "const px = x * scale, py = north(y * scale);",
        "const px = ((x * scale + 180) % 360 + 360) % 360 - 180, py = north(y * scale);",
    )
    browser.open(rolled).drawn()
    browser.run(CHOOSE, "[data-view=World]")
    browser.run(CHOOSE, "[name=borders]")
    browser.loaded()
    assert plain < 0.6
    assert browser.run(ACROSS) > 0.8


def test_cells_are_on_both_ends_of_the_map(browser: Browser, pages: Pages) -> None:
    browser.open(pages("ends")).drawn()
    browser.run(CHOOSE, "[data-view=World]")
    browser.loaded()
    found = set()
    for y in range(200, 560, 3):
        for x in (0.001, 0.999):
            browser.run(POINT, x, y / 640)
            found |= {x} if browser.run('return !document.getElementById("tip").hidden') else set()
    assert found == {0.001, 0.999}


def test_without_a_place_it_is_a_page_all_the_same(browser: Browser, pages: Pages) -> None:
    browser.open(pages("nobody")).drawn().loaded()
    assert complaints(browser, pages("nobody"), mapped=False) == []
    assert "no cell" in browser.run('return document.querySelector("#map").innerText')


def test_ten_thousand_leaves_are_drawn_from_a_page_of_a_moderate_size(browser: Browser, pages: Pages) -> None:
    browser.open(pages("many")).drawn().loaded()
    assert complaints(browser, pages("many")) == []
    assert pages("many").stat().st_size < 2_500_000


def test_lanes_by_hour_are_drawn_and_read(browser: Browser, pages: Pages) -> None:
    browser.open(pages("table")).drawn()
    canvas = "#hours canvas"
    size = browser.run("const one = document.querySelector(arguments[0]); return [one.width, one.height]", canvas)
    assert size == [24, 12]
    browser.run(
        'document.querySelector(arguments[0]).dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown"}))', canvas
    )
    assert browser.run(TIP).startswith("lane 1, 00:00–01:00")


def test_light_and_dark_have_colours_of_their_own_and_follow_the_reader(browser: Browser, pages: Pages) -> None:
    light = browser.open(pages("table")).drawn().loaded().run(PICTURE)
    browser.prefer("dark")
    browser.until(PICTURE.replace("return ", "return arguments[0] != "), light)
    assert undrawn(browser.run(PIXELS)) == []
    browser.prefer("light")
    browser.until(PICTURE.replace("return ", "return arguments[0] == "), light)


def test_what_the_map_shows_can_be_read_in_tables_without_it(browser: Browser, pages: Pages) -> None:
    browser.open(pages("table")).drawn()
    tables = browser.run(
        'return [...document.querySelectorAll("#map details table")].map((one) => one.tBodies[0].rows.length)'
    )
    assert len(tables) == 2
    assert all(1 <= rows <= 50 for rows in tables)
    label = browser.run('return document.querySelector(".stage canvas").getAttribute("aria-label")')
    assert re.match(r"Map: [\d,]+ cells on 12 lanes, [\d,]+ borders", label)


def test_it_prints(browser: Browser, pages: Pages) -> None:
    made = browser.open(pages("table")).drawn().printed()
    assert made.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", made)) <= 12


WORDS = """
const found = document.querySelector(".stage").dataset, view = document.querySelector("[data-view][aria-pressed=true]");
return {towns: Number(found.towns), numbers: Number(found.numbers), open: view.innerText}
"""
LANE = """
const chip = document.querySelector("[data-lane='7']"), colour = getComputedStyle(chip.querySelector("i"));
return [document.querySelector("[name=lane]").value, chip.getAttribute("aria-pressed"), colour.backgroundColor]
"""


def test_towns_and_lanes_are_named_where_the_map_opens(browser: Browser, pages: Pages, tmp_path: Path) -> None:
    browser.open(pages("city")).drawn()
    found = browser.run(WORDS)
    assert found["open"] == "90% of the load"
    assert found["towns"] > 0
    browser.run(CHOOSE, "[data-view=City]")
    browser.loaded()
    assert (
        browser.run(WORDS.replace('document.querySelector("[data-view][aria-pressed=true]").innerText', "''"))[
            "numbers"
        ]
        > 0
    )
    browser.open(broken(pages("city"), tmp_path, "    drawWords();", "")).loaded()
    assert not browser.run(WORDS)["towns"], "the twin: a map without words"


def test_the_legend_shows_a_lane_alone(browser: Browser, pages: Pages) -> None:
    browser.open(pages("city")).drawn()
    before = browser.run(PICTURE)
    value, pressed, colour = browser.run(LANE)
    assert (value, pressed) == ("", "false")
    assert colour not in {"rgba(0, 0, 0, 0)", ""}
    browser.run(CHOOSE, "[data-lane='7']")
    browser.loaded()
    assert browser.run(LANE)[:2] == ["7", "true"]
    assert browser.run(PICTURE) != before
    browser.run(CHOOSE, "[data-lane='7']")
    browser.loaded()
    assert browser.run(LANE)[:2] == ["", "false"]

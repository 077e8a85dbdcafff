"""The pages of geo table and of match as text: well-formed, in one file, escaped. In a browser: tests/browser."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from tests.unit.report.geo_documents import city_places, geo_table_document, match_document, match_picture_document
from tests.unit.report.html_reader import read
from tests.unit.report.plan_documents import changed
from tests.unit.report.schema_problems import problems

from keylane.documents.geo_table import GeoLeaf
from keylane.documents.match import PictureCell
from keylane.errors import DataError
from keylane.report.geo_pages import geo_table_page, match_page
from keylane.report.map import LOAD, map_data, match_picture, picture

HOSTILE = '</script><img src=x onerror="window.harm=1">'


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return {
        "table": geo_table_page(geo_table_document()),
        "no time": geo_table_page(geo_table_document(timed=False)),
        "hostile": geo_table_page(geo_table_document(source=HOSTILE)),
        "match": match_page(match_document(), match_picture_document()),
        "no picture": match_page(match_document()),
    }


def test_the_made_up_documents_are_what_the_commands_print() -> None:
    assert problems(geo_table_document().as_json()) == []
    assert problems(geo_table_document(timed=False).as_json()) == []
    printed = match_document().as_json()
    assert problems(printed) == []
    assert problems({**printed, "pairs": "many"}), "the twin: a document that no command prints"


def sections(text: str) -> list[str | None]:
    return [found["id"] for tag, found in read(text).elements if tag == "section"]


@pytest.mark.parametrize("name", ["table", "no time", "hostile", "match", "no picture"])
def test_every_page_is_well_formed_and_points_nowhere_else(made: dict[str, str], name: str) -> None:
    found = read(made[name])
    assert (found.problems, found.open) == ([], [])
    assert len(found.ids) == len(set(found.ids))
    assert all(target.startswith("#") and target[1:] in found.ids for target in found.targets)
    assert set(re.findall(r"[a-z]+://[^\s\"'<)]+", made[name])) == {"http://www.w3.org/2000/svg"}
    assert not [one for _, one in found.elements if "style" in one or any(key[:2] == "on" for key in one)]


def test_a_page_that_is_not_well_formed_is_noticed(made: dict[str, str]) -> None:
    assert read(made["table"].replace("</section>", "", 1)).problems


def test_the_map_comes_first_and_what_there_is_nothing_of_is_left_out(made: dict[str, str]) -> None:
    assert sections(made["table"]) == ["map", "hours", "beside", "loads", "how"]
    assert sections(made["no time"]) == ["map", "beside", "loads", "how"]
    assert sections(made["match"]) == ["map", "unmatched", "hours", "loads", "lag", "dead", "how"]
    assert sections(made["no picture"]) == ["map", "loads", "lag", "dead", "how"]


def test_a_source_that_is_markup_is_text(made: dict[str, str]) -> None:
    assert [tag for tag, _ in read(made["hostile"]).elements].count("script") == 2
    assert "&lt;/script&gt;&lt;img" in made["hostile"]


def headline(text: str) -> str:
    return re.sub(r"<.*?>", "", re.findall(r"<h1>.*?</h1>", text)[0])


def test_the_headline_says_what_was_promised_on_records_that_were_not_fitted_on(made: dict[str, str]) -> None:
    assert headline(made["table"]) == (
        "A request for drivers within 1 km goes to 1.07 of 12 lanes (partitions) on average; "
        "the fullest carries 1.0% more than the average of records it was not fitted on."
    )
    assert "176%" in made["table"], "a CV above 100 % is said as it is"


def test_copies_above_two_are_red_and_others_are_not(made: dict[str, str]) -> None:
    def dear(plain: dict[str, Any]) -> None:
        plain["balance"]["held_out"]["copies"] = 2.01

    reds = r'<(?:div|em|td) class="(?:n )?bad">'
    assert len(re.findall(reds, made["table"])) == 1, "a strategy beside it, in the table"
    assert len(re.findall(reds, geo_table_page(changed(geo_table_document(), dear)))) == 4


def test_a_match_says_who_was_served_and_what_brute_force_found(made: dict[str, str]) -> None:
    text = re.sub(r"<.*?>", "", made["match"])
    assert "1,874 of 2,000 requests" in text
    assert "0 missing, 0 too many" in text
    unchecked = match_document().model_copy(update={"recall": None, "verified": None})
    assert "not checked" in match_page(unchecked)


def test_requests_without_a_driver_are_on_the_map_and_say_how_far_the_nearest_was(made: dict[str, str]) -> None:
    text = re.sub(r"<.*?>", "", made["match"])
    assert "126 requests had no driver within 1 km. Of these, 61 were looked at." in text
    assert "Half of them had one within 3.71 km, nine in ten within 5.87 km." in text
    assert "no driver known" in text
    assert "For 60 a driver came within the radius later: half of these waited at most 9 min 40 s" in text
    assert "none came" in text
    assert len(map_data(match_picture([], 1e3, match_picture_document().unmatched), 12)["marks"]) == 61
    assert "Requests without a driver" not in made["no picture"]


def test_a_match_frightens_nobody_with_its_own_words(made: dict[str, str]) -> None:
    text = re.sub(r"<.*?>", "", made["match"])
    assert "ghost" not in text.lower()
    assert "7 stale positions were dropped: a lane that a driver had left" in text


def test_a_match_without_what_only_streams_have_is_a_page_too() -> None:
    def of_a_batch(plain: dict[str, Any]) -> None:
        unknown = ("match_latency_ms", "lag", "tombstones", "late_pings", "pending")
        plain["metrics"].update(dict.fromkeys(unknown))
        plain.update(offers=None, expire_s=None, riders=0)

    text = match_page(changed(match_document(), of_a_batch), match_picture_document())
    assert read(text).problems == []
    assert sections(text) == ["map", "unmatched", "hours", "loads", "dead", "how"]
    assert "No request was found" in text


def test_every_leaf_is_on_the_map_and_its_ancestors_hold_what_it_holds() -> None:
    document = geo_table_document()
    data = map_data(picture(document.cells, 1000.0), document.lanes)
    names = str(data["cells"]["names"]).split(" ")
    assert {one.cell.rstrip("f") for one in document.cells} <= set(names)
    coarse = sum(name[1] == "3" for name in names)
    assert coarse < len(document.cells) < len(names)


def test_a_cell_of_a_match_may_have_several_lanes() -> None:
    cell = geo_table_document().cells[0].cell
    one = PictureCell(cell=cell, lane=3, pings=10, requests=2, copies=1, hour=None, records=12)
    found = match_picture([one, one.model_copy(update={"lane": 5, "pings": 4})], 1000.0)
    (leaf,) = found.leaves.values()
    assert (leaf.lane, leaf.records) == (3, 14)
    (node,) = found.shown.values()
    assert (node.requests, node.copies, len(node.lanes)) == (4, 2, 2)


def test_a_cell_that_is_none_is_refused() -> None:
    with pytest.raises(DataError, match="a cell that is none"):
        picture([GeoLeaf(cell="8" + "f" * 14, lane=0, records=1, hour=None)], 1000.0)


@pytest.mark.parametrize(
    ("places", "view"),
    [
        (city_places(800, cities=((40.71, -74.0, 1.0),)), LOAD),
        (city_places(800), "World"),
        (np.array([[40.71, -74.0], [40.72, -74.01]]), LOAD),
        (city_places(800, cities=((-17.8, 179.99, 1.0),)), LOAD),
    ],
)
def test_the_page_opens_where_most_of_the_load_is(places: Any, view: str) -> None:
    document = geo_table_document(places)
    data = map_data(picture(document.cells, 1000.0), 12)
    assert data["open"] == view
    if view == LOAD:
        box = next(one["box"] for one in data["views"] if one["name"] == LOAD)
        held = sum(box.holds(lat, lng) for lat, lng in places)
        assert held >= 0.8 * len(places), "by the middles of cells it is 90 %"
        assert box.north - box.south < 10


def test_towns_are_named_where_the_page_opens_and_all_the_world_knows_the_rest() -> None:
    city = geo_table_document(city_places(800, cities=((40.71, -74.0, 1.0),)))
    names = [name for name, *_ in map_data(picture(city.cells, 1000.0), 12)["towns"]]
    assert {"New York", "Newark", "Tokyo"} <= set(names)
    assert "Yonkers" not in names or len(names) < 400
    assert len(names) < 400


def test_the_legend_says_which_colour_is_which_lane(made: dict[str, str]) -> None:
    buttons = [found for tag, found in read(made["table"]).elements if tag == "button" and "data-lane" in found]
    assert [found["data-lane"] for found in buttons] == [str(lane) for lane in range(12)]
    assert str(buttons[7]["aria-label"]).startswith("lane 7: 8.")


def test_without_a_cell_the_page_opens_with_the_world() -> None:
    assert map_data(picture([], 1000.0), 12)["open"] == "World"


def test_the_page_of_a_city_has_no_coast_of_the_world_beyond_the_coarsest() -> None:
    city = geo_table_document(city_places(800, cities=((40.71, -74.0, 1.0),)))
    small, large = (
        len(json.dumps(map_data(picture(one.cells, 1e3), 12)["land"])) for one in (city, geo_table_document())
    )
    assert small < 60_000 < large < 200_000

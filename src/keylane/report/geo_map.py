"""The map of a page: its tools, its stage, its legends, and the same in tables for who cannot see it.

Mercator's projection: cells keep their shape at every zoom, and sizes grow to the poles, which the scale bar says.
What is drawn: `map_data`; how: `assets/map.js`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keylane.geo.bits import cell_name
from keylane.report.draw import STOPS
from keylane.report.markup import Markup, join, tag
from keylane.report.parts import intro_of, section, table
from keylane.report.words import count, share

if TYPE_CHECKING:
    from keylane.report.map_data import Picture

__all__ = ["map_section"]

Document = dict[str, Any]
#: Rows of a table under the map.
MOST_ROWS = 50


def map_section(found: Picture, data: Document) -> Markup:
    """The map with all around it; without a cell, one sentence."""
    if not found.leaves:
        return section("map", intro_of("map", "intro_none"))
    return section("map", intro_of("map"), _tools(data), _stage(data, found), _legends(found), _tables(found))


def _tools(data: Document) -> Markup:
    colours = [_radio("lane", "lane", checked=True), _radio("load", "load", checked=False)]
    views = [tag("button", one["name"], type="button", data_view=one["name"]) for one in data["views"]]
    lanes = [tag("option", "all", value=""), *(tag("option", lane, value=lane) for lane in range(data["lanes"]))]
    borders = tag("input", type="checkbox", name="borders", checked=True)
    return tag(
        "div",
        tag("fieldset", tag("legend", "Colour"), *colours, class_="switch"),
        tag("div", tag("span", "Go to"), *views, class_="views", role="group", aria_label="Go to"),
        tag("fieldset", tag("label", borders, tag("span", "borders")), class_="switch"),
        tag("label", "Lane ", tag("select", *lanes, name="lane"), class_="one-lane"),
        class_="tools",
    )


def _radio(value: str, text: str, *, checked: bool) -> Markup:
    return tag("label", tag("input", type="radio", name="colour", value=value, checked=checked), tag("span", text))


def _stage(data: Document, found: Picture) -> Markup:
    zooms = (("+", "1.8", "Zoom in"), ("−", "0.5556", "Zoom out"))
    buttons = [tag("button", sign, type="button", data_zoom=by, aria_label=label) for sign, by, label in zooms]
    return tag(
        "div",
        tag("canvas", tabindex=0, role="img", aria_label=_says(found)),
        tag("div", *buttons, class_="zoom"),
        tag("div", class_="scale-bar", aria_hidden="true"),
        tag("p", "Mercator. Land: Natural Earth", class_="credit"),
        class_="stage",
        data_open=data["open"],
    )


def _says(found: Picture) -> str:
    lanes = len({leaf.lane for leaf in found.leaves.values()})
    cells = (
        f"{count(len(found.leaves))} cells on {count(lanes)} lanes, {count(len(found.borders))} borders between lanes."
    )
    return f"Map: {cells} Arrow keys move it, plus and minus zoom, and what is in the middle is read out."


def _legends(found: Picture) -> Markup:
    stops = [tag("stop", offset=f"{i / (STOPS - 1) * 100:.1f}%", class_=f"h{i}") for i in range(STOPS)]
    scale = tag(
        "svg",
        tag("defs", tag("linearGradient", *stops, id="load-scale")),
        tag("rect", width="100%", height="10", rx="2", fill="url(#load-scale)"),
        tag("g", class_="load-ticks"),
        role="img",
        aria_label=f"Colour scale: {found.unit} per square kilometre, logarithmic.",
    )
    lines = [tag("i", class_=f"line-{i}") for i in range(3)]
    return tag(
        "div",
        tag(
            "p",
            "One colour a lane. Far out, a cell has the colour of the lane with the most of it.",
            data_legend="lane",
        ),
        tag(
            "figure",
            scale,
            tag("figcaption", f"{found.unit.capitalize()} per km², logarithmic"),
            class_="legend",
            data_legend="load",
            hidden=True,
        ),
        tag(
            "p",
            tag("span", *lines, class_="lines"),
            f"Borders between lanes, the thicker the more copies: {_copies(found)}.",
        ),
        class_="map-legends",
    )


def _copies(found: Picture) -> str:
    if found.counted:
        return "requests of both cells that were sent to other lanes, shared out over the borders of their cell"
    return f"records within {count(round(found.radius_m))} m of the border, estimated from the density of both cells"


def _tables(found: Picture) -> Markup:
    return join(_heavy_cells(found), _heavy_borders(found))


def _heavy_cells(found: Picture) -> Markup:
    total = sum(leaf.records for leaf in found.leaves.values()) or 1
    order = sorted(found.leaves.items(), key=lambda item: (-item[1].records, item[0]))
    rows = [
        _row(cell_name(cell), leaf.lane, count(leaf.records), share(leaf.records / total))
        for cell, leaf in order[:MOST_ROWS]
    ]
    made = table(
        ("Cell", *_heads("Lane", found.unit.capitalize(), "Of all")), rows, f"Cells with the most {found.unit}", "small"
    )
    return tag("details", tag("summary", _title("cells", len(order), found.unit)), made)


def _heavy_borders(found: Picture) -> Markup | None:
    if not found.borders:
        return None
    rows = [
        _row(
            f"{cell_name(border.cell)} – {cell_name(border.other)}",
            f"{found.leaves[border.cell].lane} – {found.leaves[border.other].lane}",
            f"{border.copies:,.1f}",
        )
        for border in found.borders[:MOST_ROWS]
    ]
    made = table(
        ("Cells", *_heads("Lanes", "Copies" if found.counted else "Copies, estimated")),
        rows,
        "Borders with the most copies",
        "small",
    )
    return tag("details", tag("summary", _title("borders", len(found.borders), "copies")), made)


def _title(things: str, number: int, by: str) -> str:
    most = (
        f"the {count(MOST_ROWS)} with the most {by} of {count(number)}"
        if number > MOST_ROWS
        else f"all {count(number)}"
    )
    return f"The {things} as a table: {most}"


def _heads(*names: str) -> list[Markup]:
    return [tag("th", name, scope="col", class_="n") for name in names]


def _row(name: str, *values: str | int) -> Markup:
    return tag("tr", tag("th", tag("code", name), scope="row"), *(tag("td", value, class_="n") for value in values))

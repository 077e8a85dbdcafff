"""What the map of a page is drawn from: cells with their outlines, borders, land, and where to look first.

A lane table has leaves of several resolutions, of which the finest are far smaller than a pixel of a world map. So
the page also has what they are together: for each resolution, the ancestor that stands for all finer leaves in it. A
leaf is shown from its own resolution on, an ancestor at its own alone; `assets/map.js` chooses it by the zoom.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from math import cos, radians
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from keylane.errors import DataError
from keylane.geo.bits import ancestor, cell_name, cell_named, resolution
from keylane.geo.shapes import Leaf, area_km2, beside_finer, borders, boundary, counted, outline_of_parts
from keylane.numbers import count, length, share
from keylane.report.html import Markup, join, tag
from keylane.report.land import Box, layer_text, numbers_text, ring_text, towns_near
from keylane.report.sections import intro_of, section, table
from keylane.report.svg_charts import STOPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from keylane.documents.geo_table import GeoLeaf
    from keylane.documents.match import PictureCell, UnmatchedRequest
    from keylane.geo.shapes import Border

# Where a reader of a map looks first: the world, the heaviest part of it as large as a country, the heaviest city.

#: Without the ice at both ends, where Mercator's map is far too large.
WORLD = Box(-57.0, -180.0, 74.0, 180.0)
#: Degrees of latitude that a window is high.
COUNTRY, CITY = 13.0, 0.5
#: No view is less high than this to both sides of its middle: about 2 km.
NEAREST = 0.02
BINS = 3
Place = tuple[float, float]


class Spot(NamedTuple):
    """A place with its records; `reach` are the degrees of latitude that it extends to north and south."""

    lat: float
    lng: float
    records: int
    reach: float = 0.0


def around(spots: Iterable[Spot]) -> Box | None:
    """The box that holds all places; None without any."""
    found = list(spots)
    if not found:
        return None
    lats, lngs = [spot.lat for spot in found], [spot.lng for spot in found]
    return Box(min(lats), min(lngs), max(lats), max(lngs))


def heaviest(spots: Sequence[Spot], height: float, most: int = 1) -> list[Box]:
    """The windows of a height with the most records, the heaviest first.

    >>> [tuple(round(edge, 2) for edge in box) for box in heaviest([Spot(48.1, 11.6, 9), Spot(53.6, 10.0, 5)], 0.5)]
    [(47.85, 10.85, 48.35, 12.35)]
    """
    size, found = height / BINS, list[Place]()
    sums = _sums(spots, size)
    for window in sorted(sums, key=lambda window: (-sums[window], window)):
        if len(found) == most:
            break
        if not any(_near(_centre(window, size), middle, height) for middle in found):
            found.append(_weighed([spot for spot in spots if _within(_bin(spot, size), window, size)]))
    return [_window(*middle, height) for middle in found]


def most_of(spots: Sequence[Spot], share: float) -> Box | None:
    """The box around the middle of the records that holds this share of them, twice as wide as it is high.

    None where it would be no closer than a country.

    >>> most_of([Spot(48.1, 11.6, 8), Spot(48.2, 11.6, 1), Spot(53.6, 10.0, 1)], 0.9).north < 49
    True
    """
    total = sum(spot.records for spot in spots)
    if not total:
        return None
    lat, lng = _median(spots)
    narrow = _narrow(lat)
    away = [max(abs(spot.lat - lat), _turned(spot.lng - lng) * narrow / 2) + spot.reach for spot in spots]
    seen = 0
    for far, records in sorted(zip(away, (spot.records for spot in spots), strict=True)):
        seen += records
        if seen >= share * total:
            high = max(far * 1.08, NEAREST)
            return (
                Box(lat - high, lng - 2 * high / narrow, lat + high, lng + 2 * high / narrow)
                if high < COUNTRY
                else None
            )
    return None


def _median(spots: Sequence[Spot]) -> Place:
    """Half of the records are south of it, and half west, from the heaviest place on."""
    heavy = max(spots, key=lambda spot: spot.records)
    lats = sorted((spot.lat, spot.records) for spot in spots)
    lngs = sorted(((spot.lng - heavy.lng + 180) % 360 - 180, spot.records) for spot in spots)
    east = heavy.lng + _half(lngs)
    return _half(lats), (east + 180) % 360 - 180


def _half(weighed: list[tuple[float, int]]) -> float:
    seen, total = 0, sum(records for _, records in weighed)
    return next(value for value, records in weighed if (seen := seen + records) * 2 >= total)


def _turned(degrees: float) -> float:
    return abs((degrees + 180) % 360 - 180)


def _sums(spots: Sequence[Spot], size: float) -> Counter[tuple[int, int]]:
    """The records of every window, by the bin at its south-western corner."""
    bins: Counter[tuple[int, int]] = Counter()
    for spot in spots:
        bins[_bin(spot, size)] += spot.records
    sums: Counter[tuple[int, int]] = Counter()
    for (row, column), records in bins.items():
        wide = _columns(row, size)
        for i, j in product(range(BINS), range(wide)):
            sums[row - i, column - j] += records
    return sums


def _bin(spot: Spot, size: float) -> tuple[int, int]:
    return int((spot.lat + 90) // size), int((spot.lng + 180) // size)


def _columns(row: int, size: float) -> int:
    """Bins side by side that are twice as wide on the ground as a window is high."""
    return round(2 * BINS / _narrow(row * size - 90))


def _within(found: tuple[int, int], window: tuple[int, int], size: float) -> bool:
    rows, columns = found[0] - window[0], found[1] - window[1]
    return 0 <= rows < BINS and 0 <= columns < _columns(found[0], size)


def _narrow(lat: float) -> float:
    """How much shorter a degree of longitude is than one of latitude; near a pole, as at 80 degrees."""
    return cos(radians(min(80.0, abs(lat))))


def _weighed(spots: Sequence[Spot]) -> Place:
    """The middle of the records."""
    weights = [spot.records or 1 for spot in spots]
    total = sum(weights)
    lat = sum(spot.lat * weight for spot, weight in zip(spots, weights, strict=True)) / total
    return lat, sum(spot.lng * weight for spot, weight in zip(spots, weights, strict=True)) / total


def _window(lat: float, lng: float, height: float) -> Box:
    wide = height / _narrow(lat)
    return Box(lat - height / 2, lng - wide, lat + height / 2, lng + wide)


def _centre(window: tuple[int, int], size: float) -> Place:
    row, column = window
    return (row + BINS / 2) * size - 90, (column + _columns(row, size) / 2) * size - 180


def _near(one: Place, other: Place, height: float) -> bool:
    beside = abs(one[1] - other[1]) * _narrow(other[0])
    return abs(one[0] - other[0]) < height and beside < 2 * height


#: Cities whose coast is there at the finest scale, and the degrees around each.
CITIES, AROUND_CITY = 16, 1.2
#: The page opens with the view that holds this share of the records, where that is not most of the world.
MOST = 0.9
LOAD = "90% of the load"
#: Towns that are named in each view.
TOWNS = 60
#: Lanes that the legend names.
LEGEND = 64
#: Degrees: data in a smaller box has one land layer cut to it.
SMALL, WIDE = 6.0, 80.0
#: Resolutions below its own down to which a leaf beside finer ones is drawn by its parts.
FINER = 2
#: Degrees of a unit of the grid that outlines of resolution 9 are on; every step coarser, cells are 2.6 times as large.
UNIT, LARGER = 0.00001, 2.6457513


@dataclass(slots=True)
class Node:
    """A cell of the map: a leaf, or the ancestor that stands for the finer leaves in it."""

    lanes: Counter[int] = field(default_factory=Counter)
    leaves: int = 0
    is_leaf: bool = False
    hour: int | None = None
    requests: int = 0
    copies: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """The cells of a document, and the borders between their lanes at a radius.

    `shown` are the cells with all that is known of each; `counted` says that copies were counted and not estimated;
    `marks` are requests without a driver.
    """

    leaves: dict[int, Leaf]
    shown: dict[int, Node]
    borders: list[Border]
    radius_m: float
    counted: bool = False
    marks: tuple[UnmatchedRequest, ...] = ()

    @property
    def unit(self) -> str:
        """What is counted in a cell."""
        return "pings" if self.counted else "records"


def picture(cells: Iterable[GeoLeaf], radius_m: float) -> Picture:
    """From the leaves of a lane table."""
    shown = {_named(one.cell): Node(Counter({one.lane: one.records}), hour=one.hour) for one in cells}
    leaves = _leaves(shown)
    return Picture(leaves, shown, borders(leaves, radius_m), radius_m)


def match_picture(cells: Iterable[PictureCell], radius_m: float, marks: Iterable[UnmatchedRequest] = ()) -> Picture:
    """From the cells of a match.

    A cell may come with several lanes, where the lane table is finer: it has the colour of the one with the most.
    """
    shown: dict[int, Node] = {}
    for one in cells:
        node = shown.setdefault(_named(one.cell), Node(hour=one.hour))
        node.lanes[one.lane] += one.pings
        node.requests += one.requests
        node.copies += one.copies
    leaves = _leaves(shown)
    found = counted(borders(leaves, radius_m), {cell: node.copies for cell, node in shown.items()})
    return Picture(leaves, shown, found, radius_m, counted=True, marks=tuple(marks))


def _named(name: str) -> int:
    cell = cell_named(name)
    if cell is None:
        raise DataError.of("the document has a cell that is none", got=name, allowed="the name of an H3 cell")
    return cell


def _leaves(shown: dict[int, Node]) -> dict[int, Leaf]:
    return {cell: Leaf(_top(node)[0], node.lanes.total()) for cell, node in shown.items()}


def _top(node: Node) -> tuple[int, int]:
    """The lane with the most of a cell, and how much."""
    return max(node.lanes.items(), key=lambda item: (item[1], -item[0]))


class View(TypedDict):
    """Where a reader can go at once."""

    name: str
    box: Box


class MapData(TypedDict):
    """What `assets/map.js` draws."""

    lanes: int
    counted: bool
    unit: str
    cells: dict[str, object]
    parts: dict[str, str]
    borders: str
    copies: float
    land: list[dict[str, object]]
    views: list[View]
    open: str
    towns: list[tuple[str, float, float, int]]
    marks: list[tuple[float, float, float]]


def map_data(found: Picture, lanes: int) -> MapData:
    """What the script finds under `map`."""
    nodes = _nodes(found)
    order = sorted(nodes, key=lambda cell: (resolution(cell), cell))
    outlines = {cell: boundary(cell) for cell in order}
    spots = [_spot(outlines[cell], leaf.records) for cell, leaf in found.leaves.items()]
    views = _views(spots)
    return {
        "lanes": lanes,
        "counted": found.counted,
        "unit": found.unit,
        "cells": _cells(order, nodes, outlines),
        "parts": _parts(found, {cell: i for i, cell in enumerate(order)}),
        "borders": _borders(found.borders, {cell: i for i, cell in enumerate(order)}),
        "copies": round(max((border.copies for border in found.borders), default=0), 3),
        "land": _land(spots),
        "views": views,
        "open": views[-1]["name"] if views[-1]["name"] == LOAD else "World",
        "towns": [(one.name, one.lat, one.lng, one.rank) for one in towns_near(_named_boxes(views), TOWNS)],
        "marks": [(one.lat, one.lng, -1.0 if one.nearest_m is None else one.nearest_m) for one in found.marks],
    }


def _nodes(found: Picture) -> dict[int, Node]:
    """Leaves, and the ancestors of those that are finer than the coarsest."""
    nodes: dict[int, Node] = {}
    coarsest = min((resolution(cell) for cell in found.leaves), default=0)
    for cell, shown in found.shown.items():
        for at in range(min(3, coarsest), resolution(cell) + 1):
            _add(nodes.setdefault(ancestor(cell, at), Node()), shown)
        nodes[cell].is_leaf, nodes[cell].hour = True, shown.hour
    return nodes


def _add(node: Node, shown: Node) -> None:
    node.lanes.update(shown.lanes)
    node.leaves += 1
    node.requests += shown.requests
    node.copies += shown.copies


def _cells(
    order: list[int], nodes: dict[int, Node], outlines: dict[int, list[tuple[float, float]]]
) -> dict[str, object]:
    """Columns: the facts of each cell that take a few characters."""
    shown = [nodes[cell] for cell in order]
    top = [_top(node) for node in shown]
    units = _units()
    rings = [ring_text([(lng, lat) for lat, lng in outlines[cell]], units[resolution(cell)]) for cell in order]
    return {
        "units": units,
        "names": " ".join(cell_name(cell).rstrip("f") for cell in order),
        "rings": "".join(rings),
        "lane": numbers_text(lane for lane, _ in top),
        "records": numbers_text(node.lanes.total() for node in shown),
        "top": numbers_text(records for _, records in top),
        "on": numbers_text(len(node.lanes) for node in shown),
        "leaves": numbers_text(0 if node.is_leaf else node.leaves for node in shown),
        "area": [float(f"{area_km2(cell):.4g}") for cell in order],
        "hour": numbers_text(-1 if node.hour is None else node.hour for node in shown),
        "requests": numbers_text(node.requests for node in shown),
        "copies": numbers_text(node.copies for node in shown),
    }


def _units() -> list[float]:
    """Degrees of a unit of the grid, by resolution."""
    return [round(UNIT * LARGER ** (9 - at), 7) for at in range(16)]


def _parts(found: Picture, index: dict[int, int]) -> dict[str, str]:
    """What leaves beside finer ones really cover: between two resolutions hexagons leave gaps, their parts do not."""
    units = _units()
    made = [
        (
            index[cell],
            ring_text(
                [(lng, lat) for lat, lng in outline_of_parts(cell, _parts_at(cell, at))], units[resolution(cell)]
            ),
        )
        for cell, at in beside_finer(found.leaves).items()
    ]
    return {"cells": numbers_text(number for number, _ in made), "rings": "".join(ring for _, ring in made)}


def _parts_at(cell: int, at: int) -> int:
    return min(at, resolution(cell) + FINER)


def _borders(found: list[Border], index: dict[int, int]) -> str:
    """For each: its cell, the cell beyond, the first corner, how many, and the copies in hundredths."""
    return numbers_text(
        number
        for border in found
        for number in (
            index[border.cell],
            index[border.other],
            border.first,
            border.corners,
            round(border.copies * 100),
        )
    )


def _spot(outline: list[tuple[float, float]], records: int) -> Spot:
    lat, lng = (sum(corner[i] for corner in outline) / len(outline) for i in (0, 1))
    reach = max(abs(corner[0] - lat) for corner in outline)
    return Spot(lat, (lng + 180) % 360 - 180, records, reach)


def _views(spots: list[Spot]) -> list[View]:
    """Those that a reader can go to at once; the last is where the page opens, where most of the load is near."""
    country, city, most = heaviest(spots, COUNTRY), heaviest(spots, CITY), most_of(spots, MOST)
    named = [("World", [WORLD]), ("Country", country), ("City", city), (LOAD, [most] if most else [])]
    return [{"name": name, "box": boxes[0]} for name, boxes in named if boxes]


def _named_boxes(views: list[View]) -> list[Box]:
    """Where towns are named: around the views that are not the world."""
    return [view["box"].wider((view["box"].north - view["box"].south) / 2) for view in views if view["name"] != "World"]


def _land(spots: list[Spot]) -> list[dict[str, object]]:
    """Layers, the finest first: each is good inside of its box, the last everywhere."""
    extent = around(spots)
    if extent is None:
        return [layer_text("world")]
    size = max(extent.north - extent.south, extent.east - extent.west)
    fine = [extent.wider(2)] if size < SMALL else _city_boxes(spots)
    near = extent.wider(10) if size < WIDE else None
    return [
        *({**layer_text("fine", box), "from": 60 if size < SMALL else 200} for box in fine),
        {**layer_text("near", near), "from": 7},
        {**layer_text("world"), "from": 0},
    ]


def _city_boxes(spots: list[Spot]) -> list[Box]:
    return [box.wider(AROUND_CITY) for box in heaviest(spots, CITY, CITIES)]


# The map of a page: its tools, its stage, its legends, and the same in tables for who cannot see it.

#: Rows of a table under the map.
MOST_ROWS = 50


def map_section(found: Picture, data: MapData) -> Markup:
    """The map with all around it; without a cell, one sentence."""
    if not found.leaves:
        return section("map", intro_of("map", "intro_none"))
    return section("map", intro_of("map"), _tools(data), _stage(data, found), _legends(found), _tables(found))


def _tools(data: MapData) -> Markup:
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


def _stage(data: MapData, found: Picture) -> Markup:
    zooms = (("+", "1.8", "Zoom in"), ("−", "0.5556", "Zoom out"))
    buttons = [tag("button", sign, type="button", data_zoom=by, aria_label=label) for sign, by, label in zooms]
    return tag(
        "div",
        tag("canvas", tabindex=0, role="img", aria_label=_says(found)),
        tag("div", *buttons, class_="zoom"),
        tag("div", class_="scale-bar", aria_hidden="true"),
        tag("p", "Mercator. Land and towns: Natural Earth", class_="credit"),
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
    stops = [tag("stop", offset=length(i / (STOPS - 1)), class_=f"h{i}") for i in range(STOPS)]
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
        _lane_legend(found),
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
        tag("p", tag("i", class_="mark"), f"{count(len(found.marks))} requests without a driver near.")
        if found.marks
        else None,
        class_="map-legends",
    )


def _lane_legend(found: Picture) -> Markup:
    """Which colour is which lane, and what it holds; a button shows the lane alone."""
    loads = Counter[int]()
    for leaf in found.leaves.values():
        loads[leaf.lane] += leaf.records
    total, lanes = loads.total() or 1, sorted(loads)
    shown = [
        tag(
            "button",
            tag("i"),
            f"{lane}",
            type="button",
            data_lane=lane,
            aria_pressed="false",
            aria_label=f"lane {lane}: {share(loads[lane] / total)} of the {found.unit}; show it alone",
        )
        for lane in lanes[:LEGEND]
    ]
    more = f" {count(len(lanes) - LEGEND)} more lanes have colours of their own." if len(lanes) > LEGEND else ""
    return tag(
        "div",
        tag("div", tag("span", "Lane"), *shown, class_="lane-legend", role="group", aria_label="Lanes by colour"),
        tag("p", f"Far out, a cell has the colour of the lane with the most of it.{more}"),
        data_legend="lane",
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
            f"{border.copies:.1f}",
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

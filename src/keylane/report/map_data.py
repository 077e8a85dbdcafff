"""What the map of a page is drawn from: cells with their outlines, borders, land, and where to look first.

A lane table has leaves of several resolutions, of which the finest are far smaller than a pixel of a world map. So
the page also has what they are together: for each resolution, the ancestor that stands for all finer leaves in it. A
leaf is shown from its own resolution on, an ancestor at its own alone; `assets/map.js` chooses it by the zoom.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from keylane.errors import DataError
from keylane.geo.bits import ancestor, cell_name, cell_named, resolution
from keylane.geo.borders import Leaf, beside_finer, borders, counted
from keylane.geo.shapes import area_km2, boundary, outline_of_parts
from keylane.report.land import layer_text
from keylane.report.steps import numbers_text, ring_text
from keylane.report.views import CITY, COUNTRY, WORLD, Spot, around, heaviest

if TYPE_CHECKING:
    from keylane.geo.borders import Border
    from keylane.report.land import Box

__all__ = ["Picture", "map_data", "match_picture", "picture"]

Document = dict[str, Any]
#: Cities whose coast is there at the finest scale, and the degrees around each.
CITIES, AROUND_CITY = 16, 1.2
#: The page opens with the closest view that holds this share of the records.
MOST = 0.8
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

    `shown` are the cells with all that is known of each; `counted` says that copies were counted and not estimated.
    """

    leaves: dict[int, Leaf]
    shown: dict[int, Node]
    borders: list[Border]
    radius_m: float
    counted: bool = False

    @property
    def unit(self) -> str:
        """What is counted in a cell."""
        return "pings" if self.counted else "records"


def picture(cells: list[Document], radius_m: float) -> Picture:
    """From the cells of a document: each with `cell`, `lane`, `records` and, where it is known, its busiest `hour`."""
    shown = {_named(one): Node(Counter({one["lane"]: one["records"]}), hour=one.get("hour")) for one in cells}
    leaves = _leaves(shown)
    return Picture(leaves, shown, borders(leaves, radius_m), radius_m)


def match_picture(cells: list[Document], radius_m: float) -> Picture:
    """From the cells of a match: each with `cell`, `lane`, `pings`, `requests`, guest `copies`, and its `hour`.

    A cell may come with several lanes, where the lane table is finer: it has the colour of the one with the most.
    """
    shown: dict[int, Node] = {}
    for one in cells:
        node = shown.setdefault(_named(one), Node(hour=one.get("hour")))
        node.lanes[one["lane"]] += one["pings"]
        node.requests += one["requests"]
        node.copies += one["copies"]
    leaves = _leaves(shown)
    found = counted(borders(leaves, radius_m), {cell: node.copies for cell, node in shown.items()})
    return Picture(leaves, shown, found, radius_m, counted=True)


def _named(one: Document) -> int:
    cell = cell_named(one["cell"])
    if cell is None:
        raise DataError.of("the document has a cell that is none", got=one["cell"], allowed="the name of an H3 cell")
    return cell


def _leaves(shown: dict[int, Node]) -> dict[int, Leaf]:
    return {cell: Leaf(_top(node)[0], node.lanes.total()) for cell, node in shown.items()}


def _top(node: Node) -> tuple[int, int]:
    """The lane with the most of a cell, and how much."""
    return max(node.lanes.items(), key=lambda item: (item[1], -item[0]))


def map_data(found: Picture, lanes: int) -> Document:
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
        "open": _opens_with(views, spots),
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


def _cells(order: list[int], nodes: dict[int, Node], outlines: dict[int, list[tuple[float, float]]]) -> Document:
    """Columns: what can be said of each cell in a few characters."""
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


def _parts(found: Picture, index: dict[int, int]) -> Document:
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
    return Spot(lat, (lng + 180) % 360 - 180, records)


def _views(spots: list[Spot]) -> list[Document]:
    """The three that a reader can go to at once."""
    country, city = heaviest(spots, COUNTRY), heaviest(spots, CITY)
    named = [("World", [WORLD]), ("Country", country), ("City", city)]
    return [{"name": name, "box": boxes[0]} for name, boxes in named if boxes]


def _opens_with(views: list[Document], spots: list[Spot]) -> str:
    """The closest view that holds most of what there is."""
    total = sum(spot.records for spot in spots)
    for one in reversed(views):
        if sum(spot.records for spot in spots if one["box"].holds(spot.lat, spot.lng)) >= MOST * total:
            return str(one["name"])
    return "World"


def _land(spots: list[Spot]) -> list[Document]:
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

"""Cells on a flat map: outlines, neighbours by side, and the borders between lanes with the copies that cross them.

A map is cut somewhere: a cell that crosses the 180th meridian has corners at 179 and at -179, and a line drawn from one
to the other would run across the whole map. So outlines are unrolled here: each longitude is within half a turn of the
one before it, and may be above 180 or below -180. A cell around a pole has no two sides; it is drawn as a band from its
outline up to the pole, one turn wide. Code that draws repeats the map every 360 degrees.

The map itself is drawn by `report.map`. The corners of many cells at once, for search: `cells.outlines`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from keylane.errors import MissingExtraError
from keylane.geo.bits import ancestor, resolution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

try:
    from h3.api import basic_int as h3
except ImportError:
    raise MissingExtraError.named("geo", "h3") from None


Place = tuple[float, float]


class Side(NamedTuple):
    """The neighbour beyond a side, and where the side is: a number of corners of the outline, from the first on."""

    neighbour: int
    first: int
    corners: int


def boundary(cell: int) -> list[Place]:
    """Latitude and longitude of the corners, unrolled; with a pole inside, the band up to it.

    >>> [round(lng, 1) for _, lng in boundary(0x831749fffffffff)]     # in the Bering Sea
    [178.2, 177.9, 178.9, 180.1, 180.4, 179.5]
    >>> [(round(lat), round(lng)) for lat, lng in boundary(0x80f3fffffffffff)[-3:]]     # around the South Pole
    [(-73, -180), (-90, -180), (-90, 180)]
    """
    return _flat(h3.cell_to_boundary(cell))


def _flat(places: tuple[Place, ...]) -> list[Place]:
    """Unrolled; and where that ends a turn away from where it began, a pole is inside: the band up to it."""
    corners = unrolled(places)
    end = _beside(corners[-1][1], corners[0][1])
    if abs(end - corners[0][1]) < 180:
        return corners
    pole = 90.0 if corners[0][0] > 0 else -90.0
    band = [*corners, (corners[0][0], end), (pole, end), (pole, corners[0][1])]
    turns = 360 * round((corners[0][1] + end) / 720)
    return [(lat, lng - turns) for lat, lng in band]


def outline_of_parts(cell: int, at: int) -> list[Place]:
    """The outline of a cell's descendants at a resolution, as `boundary` has it: what a leaf stands for, no hexagon.

    >>> len(boundary(0x8528308bfffffff)), len(outline_of_parts(0x8528308bfffffff, 6))
    (6, 18)
    """
    return _flat(h3.cells_to_h3shape(h3.cell_to_children(cell, at)).outer)


def unrolled(corners: tuple[Place, ...]) -> list[Place]:
    """Points whose longitudes never jump by more than half a turn from one to the next."""
    made = [corners[0]]
    for lat, lng in corners[1:]:
        made.append((lat, _beside(made[-1][1], lng)))
    return made


def _beside(last: float, lng: float) -> float:
    """A longitude, some full turns away, within half a turn of the one before it."""
    return lng + 360 * round((last - lng) / 360)


def sides(cell: int) -> list[Side]:
    """Every neighbour of a cell, with the corners of the outline that the two share.

    >>> [side.corners for side in sides(0x8928308280fffff)]
    [2, 2, 2, 2, 2, 2]
    """
    corners = h3.cell_to_boundary(cell)
    return [_side(edge, corners) for edge in h3.origin_to_directed_edges(cell)]


def _side(edge: int, corners: tuple[Place, ...]) -> Side:
    shared = h3.directed_edge_to_boundary(edge)
    first = min(range(len(corners)), key=lambda i: _apart(corners[i], shared[0]))
    return Side(h3.get_directed_edge_destination(edge), first, len(shared))


def _apart(one: Place, other: Place) -> float:
    turn = abs(one[1] - other[1]) % 360
    return abs(one[0] - other[0]) + min(turn, 360 - turn)


def area_km2(cell: int) -> float:
    """The area of a cell in square kilometres."""
    return float(h3.cell_area(cell, "km^2"))


def side_km(resolution: int) -> float:
    """How long a side is, on average over the cells of a resolution, in kilometres."""
    return float(h3.average_hexagon_edge_length(resolution, "km"))


# Borders: where the lanes of a lane table meet, and about how many copies cross there.


class Leaf(NamedTuple):
    """What stands in a lane table for a cell: its lane, and the records that were seen there."""

    lane: int
    records: int


class Border(NamedTuple):
    """A side of `cell` beyond which `other` has another lane; `first` and `corners` are of the outline of `cell`."""

    cell: int
    other: int
    first: int
    corners: int
    copies: float


def borders(leaves: Mapping[int, Leaf], radius_m: float) -> list[Border]:
    """Every border, each once, the one with the most copies first."""
    areas = {cell: area_km2(cell) for cell in leaves}
    coarsest = min((resolution(cell) for cell in leaves), default=0)
    found = [
        Border(cell, other, side.first, side.corners, _copies((cell, other), leaves, areas, radius_m / 1000))
        for cell in leaves
        for side, other in _beyond(cell, leaves, coarsest)
        if leaves[other].lane != leaves[cell].lane
    ]
    return sorted(found, key=lambda border: (-border.copies, border.cell, border.other))


def counted(found: Iterable[Border], copies: Mapping[int, int]) -> list[Border]:
    """The same borders with what was counted: the copies of a cell, shared out evenly over its borders.

    >>> [border.copies for border in counted([Border(1, 2, 0, 2, 9.0), Border(1, 3, 1, 2, 9.0)], {1: 4, 3: 1})]
    [3.0, 2.0]
    """
    listed = list(found)
    sides = Counter(cell for border in listed for cell in (border.cell, border.other))
    each = {cell: copies.get(cell, 0) / number for cell, number in sides.items()}
    made = [border._replace(copies=each[border.cell] + each[border.other]) for border in listed]
    return sorted(made, key=lambda border: (-border.copies, border.cell, border.other))


def beside_finer(leaves: Mapping[int, Leaf]) -> dict[int, int]:
    """Leaves that lie beside finer ones, with the resolution of the finest of those."""
    coarsest = min((resolution(cell) for cell in leaves), default=0)
    found: dict[int, int] = {}
    for cell in leaves:
        for _, other in _beyond(cell, leaves, coarsest):
            if resolution(other) < resolution(cell):
                found[other] = max(found.get(other, 0), resolution(cell))
    return found


def _beyond(cell: int, leaves: Mapping[int, Leaf], coarsest: int) -> Iterator[tuple[Side, int]]:
    """The sides of a leaf with the leaf beyond each, where that is coarser, or equal and not looked at from there."""
    for side in sides(cell):
        other = next((one for one in _ancestors(side.neighbour, coarsest) if one in leaves), None)
        if other is not None and (other != side.neighbour or cell < other):
            yield side, other


def _ancestors(cell: int, coarsest: int) -> Iterable[int]:
    return (ancestor(cell, at) for at in range(resolution(cell), coarsest - 1, -1))


def _copies(pair: tuple[int, int], leaves: Mapping[int, Leaf], areas: Mapping[int, float], radius_km: float) -> float:
    strip = side_km(resolution(pair[0])) * radius_km
    return sum(leaves[cell].records * min(1.0, strip / areas[cell]) for cell in pair)

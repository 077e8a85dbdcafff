"""What a cell looks like on a flat map: its outline, and which side of it which neighbour lies on.

A map is cut somewhere: a cell that crosses the 180th meridian has corners at 179 and at -179, and a line drawn from one
to the other would run across the whole map. So outlines are unrolled here: each longitude is within half a turn of the
one before it, and may be above 180 or below -180. A cell around a pole has no two sides; it is drawn as a band from its
outline up to the pole, one turn wide. Whoever draws repeats the map every 360 degrees.

Which cells are neighbours in a lane table, and what crosses between them: `borders`.
"""

from __future__ import annotations

from typing import NamedTuple

from keylane.errors import MissingExtraError

try:
    from h3.api import basic_int as h3
except ImportError:
    raise MissingExtraError.named("geo", "h3") from None

__all__ = ["Side", "area_km2", "boundary", "outline_of_parts", "side_km", "sides"]

Place = tuple[float, float]


class Side(NamedTuple):
    """The neighbour beyond a side, and where the side is: so many corners of the outline, from the first on."""

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
    """Places whose longitudes never jump by more than half a turn from one to the next."""
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

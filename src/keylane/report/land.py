"""Land outlines and names of towns (Natural Earth, public domain): whole for the world, cut to a box from near.

From `assets/land.txt` and `assets/towns.txt`.
`world` is 1:110 million, `near` 1:50 million, `fine` 1:10 million. What is drawn on them: `map`.
"""

from __future__ import annotations

import base64
import sys
import zlib
from array import array
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from keylane.report.html import asset

if TYPE_CHECKING:
    from collections.abc import Iterable

# Places as short text for a page: whole numbers of a grid, from point to point, 5 bits a character.

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def ring_text(points: Iterable[tuple[float, float]], unit: float) -> str:
    """An outline: how many points it has, then the steps, x before y. Points of a page are (longitude, latitude).

    >>> ring_text([(1.0, 2.0), (1.5, 2.0), (1.5, 1.0)], 0.5)
    'GEICAAD'
    """
    found = [(round(x / unit), round(y / unit)) for x, y in points]
    before = [(0, 0), *found]
    steps = (step for (ax, ay), (bx, by) in zip(before, found, strict=False) for step in (bx - ax, by - ay))
    return numbers_text([len(found), *steps])


def numbers_text(numbers: Iterable[int]) -> str:
    """Whole numbers one after the other.

    >>> numbers_text([0, -1, 15, 16])
    'ABegB'
    """
    made = []
    for number in numbers:
        rest = number << 1 if number >= 0 else (~number << 1) | 1
        while rest > 31:
            made.append(LETTERS[32 | rest & 31])
            rest >>= 5
        made.append(LETTERS[rest])
    return "".join(made)


Ring = list[tuple[float, float]]


class Box(NamedTuple):
    """A part of the map in degrees; `east` is above 180 where the box goes over that meridian."""

    south: float
    west: float
    north: float
    east: float

    def holds(self, lat: float, lng: float) -> bool:
        """Whether a place is inside."""
        return self.south <= lat <= self.north and (lng - self.west) % 360 <= self.east - self.west

    def wider(self, degrees: float) -> Box:
        """With a margin around it."""
        return Box(self.south - degrees, self.west - degrees, self.north + degrees, self.east + degrees)


class Layer(NamedTuple):
    """Outlines as (longitude, latitude) in degrees, each with the box it lies in."""

    unit: float
    rings: tuple[tuple[Box, Ring], ...]


@cache
def layer(name: str) -> Layer:
    """The outlines of one scale: `world`, `near` or `fine`."""
    lines = [line.split(" ") for line in asset("land.txt").splitlines() if not line.startswith("#")]
    unit, rings, _, packed = next(rest for called, *rest in lines if called == name)
    return Layer(float(unit), tuple((_around(ring), ring) for ring in _unpacked(packed, int(rings), float(unit))))


def _unpacked(packed: str, rings: int, unit: float) -> list[Ring]:
    numbers = array("h", zlib.decompress(base64.b85decode(packed)))
    if sys.byteorder == "big":
        numbers.byteswap()
    heads, steps = numbers[: rings * 6], numbers[rings * 6 :]
    whole = [(high << 15) + low for high, low in zip(heads[::2], heads[1::2], strict=True)]
    sizes, half = whole[::3], len(steps) // 2
    starts = accumulate((size - 1 for size in sizes), initial=0)
    made = []
    for start, size, x, y in zip(starts, sizes, whole[1::3], whole[2::3], strict=False):
        east, north = steps[start : start + size - 1], steps[half + start : half + start + size - 1]
        places = zip(accumulate(east, initial=x), accumulate(north, initial=y), strict=True)
        made.append([(a * unit, b * unit) for a, b in places])
    return made


def _around(ring: Ring) -> Box:
    longitudes, latitudes = [x for x, _ in ring], [y for _, y in ring]
    return Box(min(latitudes), min(longitudes), max(latitudes), max(longitudes))


def layer_text(name: str, box: Box | None = None) -> dict[str, object]:
    """A layer as a page keeps it; `box` is where it is good, null everywhere."""
    found = layer(name)
    rings = [ring for _, ring in found.rings] if box is None else rings_in(found, box)
    return {"unit": found.unit, "box": box, "rings": "".join(ring_text(ring, found.unit) for ring in rings)}


def rings_in(found: Layer, box: Box) -> list[Ring]:
    """The outlines cut to a box; also those that reach into it from the other side of the 180th meridian."""
    kept = []
    for around, ring in found.rings:
        for turn in (-360, 0, 360):
            if _touch(around, box, turn):
                shifted = [(x + turn, y) for x, y in ring] if turn else ring
                cut = _cut(shifted, box)
                kept += [cut] if len(cut) > 2 else []
    return kept


def _touch(one: Box, box: Box, turn: int) -> bool:
    beside = one.east + turn < box.west or one.west + turn > box.east
    return not beside and one.north >= box.south and one.south <= box.north


def _cut(ring: Ring, box: Box) -> Ring:
    """Sutherland and Hodgman: one side of the box after the other."""
    for axis, limit, sign in ((0, box.west, 1), (0, box.east, -1), (1, box.south, 1), (1, box.north, -1)):
        ring = _beyond(ring, axis, limit, sign)
        if not ring:
            break
    return ring


def _beyond(ring: Ring, axis: int, limit: float, sign: int) -> Ring:
    """The part of a ring on the one side of a line."""
    made = []
    for before, after in pairwise([ring[-1], *ring]):
        was, is_ = (before[axis] - limit) * sign >= 0, (after[axis] - limit) * sign >= 0
        if was != is_:
            made.append(_crossing(before, after, axis, limit))
        if is_:
            made.append(after)
    return made


def _crossing(before: tuple[float, float], after: tuple[float, float], axis: int, limit: float) -> tuple[float, float]:
    share = (limit - before[axis]) / (after[axis] - before[axis])
    other = before[1 - axis] + share * (after[1 - axis] - before[1 - axis])
    return (limit, other) if axis == 0 else (other, limit)


# Names of towns, so that a reader knows where a map is.


class Town(NamedTuple):
    """A place with a name; rank 0 is known all over the world."""

    rank: int
    lat: float
    lng: float
    name: str


@cache
def towns() -> tuple[Town, ...]:
    """All of them, the best known first, of one rank the largest."""
    packed = next(line for line in asset("towns.txt").splitlines() if not line.startswith("#"))
    lines = [line.split(" ", 3) for line in zlib.decompress(base64.b85decode(packed)).decode().splitlines()]
    return tuple(Town(int(rank), int(lat) / 1000, int(lng) / 1000, name) for rank, lat, lng, name in lines)


def towns_near(boxes: Iterable[Box], most: int, known: int = 1) -> list[Town]:
    """The best known of each box, so many of each; and those that all the world knows."""
    near = [[town for town in towns() if box.holds(town.lat, town.lng)][:most] for box in boxes]
    kept = {town for found in near for town in found} | {town for town in towns() if town.rank <= known}
    return [town for town in towns() if town in kept]

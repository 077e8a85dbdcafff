"""Where a reader of a map looks first: the world, the heaviest part of it as large as a country, the heaviest city.

Rule: places are counted in square bins; the window of so many bins with the most records is taken, and put around the
middle of its records. A window is twice as wide on the ground as it is high. Two of a kind lie apart.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import cos, radians
from typing import TYPE_CHECKING, NamedTuple

from keylane.report.land import Box

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CITY", "COUNTRY", "WORLD", "Spot", "around", "heaviest"]

#: Without the ice at both ends, where Mercator's map is far too large.
WORLD = Box(-57.0, -180.0, 74.0, 180.0)
#: Degrees of latitude that a window is high.
COUNTRY, CITY = 13.0, 0.5
BINS = 3
Place = tuple[float, float]


class Spot(NamedTuple):
    """A place with its records."""

    lat: float
    lng: float
    records: int


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

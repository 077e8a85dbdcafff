"""Drivers and riders by chance around a place, and the way they go through lanes: routed, fanned out, merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from keylane.geo.bits import ancestor, children, curve_end, curve_start
from keylane.geo.cells import cells_of
from keylane.matching.cover import covers
from keylane.matching.near import merged_pairs, near
from keylane.matching.tables import ENTRIES, PAIRS, REQUESTS, Kind, distinct
from keylane.matching.timeline import empty_entries, merged
from keylane.placement.cell_lanes import CellLanes
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    LaneOf = Callable[[NDArray[np.int64]], NDArray[Any]]

#: Straddling towns, both poles and beside them, the antimeridian, and four pentagons: on land, at sea, in the cold.
PLACES = {
    "London": (51.5085, -0.1257),
    "Phoenix": (33.4484, -112.0740),
    "Singapore": (1.2897, 103.8501),
    "Taveuni, antimeridian": (-16.85, 180.0),
    "Chukotka, antimeridian": (67.0, -179.98),
    "north pole": (90.0, 0.0),
    "near the north pole": (89.97, 45.0),
    "south pole": (-90.0, 0.0),
    "near the south pole": (-89.97, -120.0),
    "pentagon, Yellow Sea": (39.10, 122.30),
    "pentagon, Norwegian Sea": (64.70, 10.5362),
    "pentagon, Pacific": (2.3008, -5.2454),
    "pentagon, south": (-39.10, -57.70),
}


def disc(rng: np.random.Generator, place: tuple[float, float], count: int, km: float) -> tuple[Any, Any]:
    """Places spread evenly over a disc, also where the disc holds a pole or the antimeridian."""
    away, turn = km / 6371.0088 * np.sqrt(rng.random(count)), rng.random(count) * 2 * np.pi
    lat, lng = np.radians(place)
    up = np.arcsin(np.clip(np.sin(lat) * np.cos(away) + np.cos(lat) * np.sin(away) * np.cos(turn), -1, 1))
    east = np.arctan2(np.sin(turn) * np.sin(away) * np.cos(lat), np.cos(away) - np.sin(lat) * np.sin(up))
    return np.degrees(up), (np.degrees(lng + east) + 180) % 360 - 180


@dataclass(frozen=True, slots=True)
class World:
    """Pings in the order in which they arrive, and requests."""

    pings: pa.Table
    requests: pa.Table


def world(seed: int, place: tuple[float, float], km: float, pings: int = 400, requests: int = 80) -> World:
    """Few drivers with long histories, many ties of time, late pings, some sent twice; some requests sent twice."""
    rng = np.random.default_rng(seed)
    lat, lng = disc(rng, place, pings, km)
    columns: dict[str, Any] = {
        "driver": [f"d{one}" for one in rng.integers(0, max(1, pings // 4), pings)],
        "ts": rng.integers(0, 60, pings),
        "offset": rng.permutation(pings),
        "lat": lat,
        "lng": lng,
        "kind": rng.choice([Kind.UNAVAILABLE, Kind.AVAILABLE], pings, p=[0.2, 0.8]).astype(np.int8),
    }
    known = pa.table(columns).cast(ENTRIES)
    twice = known.take(pa.array(rng.integers(0, pings, pings // 10)))
    lat, lng = disc(rng, place, requests, km)
    asked: dict[str, Any] = {
        "rider": [f"r{one}" for one in rng.integers(0, max(1, requests // 2), requests)],
        "ts": rng.integers(0, 70, requests),
        "offset": rng.permutation(requests),
        "lat": lat,
        "lng": lng,
    }
    return World(pa.concat_tables([known, twice]), pa.table(asked).cast(REQUESTS))


def hashed(resolution: int, lanes: int = 60) -> LaneOf:
    """Lanes by a plain mix of the ancestor's bits."""

    def lane_of(cells: NDArray[np.int64]) -> NDArray[Any]:
        mixed = ancestor(cells, resolution).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(40)) % np.uint64(lanes)

    return lane_of


def lane_timelines(pings: pa.Table, lane: NDArray[Any], *, tombstones: bool = True) -> dict[int, pa.Table]:
    """What each lane knows of all pings; with tombstones, where the next ping of a driver is in another lane."""
    rows = [{**row, "lane": int(one)} for row, one in zip(pings.to_pylist(), lane, strict=True)]
    pinged = {(row["driver"], row["ts"], row["offset"]): row for row in reversed(rows)}
    known: dict[int, list[dict[str, Any]]] = {}
    before: dict[str, Any] = {}
    for row in (pinged[key] for key in sorted(pinged)):
        known.setdefault(row["lane"], []).append(row)
        if tombstones and before.get("driver") == row["driver"] and before["lane"] != row["lane"]:
            known[before["lane"]].append({**row, "kind": int(Kind.LEFT)})
        before = row
    return {one: merged(empty_entries(), pa.Table.from_pylist(some, ENTRIES)) for one, some in known.items()}


def through_lanes(
    given: World,
    radius_m: float,
    lane_of: LaneOf,
    *,
    finest: Any = 9,
    expire: int | None = None,
    nearest: int | None = None,
    driver_lane: NDArray[Any] | None = None,
    tombstones: bool = True,
    guests: bool = True,
) -> pa.Table:
    """The whole way: pings to their lanes, requests to all of their cover, near in each lane, and the merge."""
    lat, lng = (given.pings.column(name).to_numpy() for name in ("lat", "lng"))
    lane = np.asarray(lane_of(cells_of(lat, lng))) if driver_lane is None else driver_lane
    known = lane_timelines(given.pings, lane, tombstones=tombstones)
    asked = distinct(given.requests)
    lat, lng = (asked.column(name).to_numpy() for name in ("lat", "lng"))
    rows, lanes, home = covers(lat, lng, cells_of(lat, lng), radius_m, lane_of, finest)
    if not guests:
        rows, lanes = rows[home], lanes[home]
    parts = [
        near(known[one], asked.take(pa.array(rows[lanes == one])), radius_m, expire, nearest)
        for one in np.unique(lanes).tolist()
        if one in known
    ]
    return merged_pairs(parts, nearest) if parts else PAIRS.empty_table()


def adaptive(seed: int, cells: NDArray[np.int64], lanes: int = 12, depth: float = 0.6) -> CellLanes:
    """A lane table by chance: cells of resolution 3 split here and there down to 9; some leaves are not in it."""
    rng = np.random.default_rng(seed)
    leaves: list[int] = []
    level = np.unique(ancestor(cells, 3))
    for resolution in range(3, 9):
        split = rng.random(len(level)) < depth
        leaves += level[~split].tolist()
        below = children(level[split]).reshape(-1)
        # Only what leads to a given cell is split on, or there would be millions.
        leads = np.isin(below, ancestor(cells, resolution + 1))
        leaves += below[~leads & (below >= 0)].tolist()
        level = below[leads]
    every = np.array([*leaves, *level.tolist()], np.int64)
    every = every[rng.random(len(every)) < 0.8]
    every = every[np.argsort(curve_end(every))]
    starts = np.array([curve_start(one) for one in every.tolist()], np.int64)
    lane = rng.integers(0, lanes, len(every)).astype(np.int32)
    return CellLanes(starts, curve_end(every), lane, 3, lanes, partitioner("kafka-java", "h3"))

"""The definition of a match, computed literally: every request against every ping. For `--verify` and tests.

No tree, no cell, no lane, no timeline: for each request and each driver the newest ping not after the request, its
availability, its age, its distance. It costs requests times pings; memory stays flat. When not to use it: for more
than some hundred million of such products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from keylane.matching.near import first_of_each
from keylane.matching.sphere import checked_radius, haversine
from keylane.matching.tables import ENTRIES, PAIRS, Kind, differs, distinct, numbers, ranks, shaped, sorted_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: What fits the cache of a core.
_MOST_PRODUCTS: Final = 1 << 17


def brute(
    pings: pa.Table, requests: pa.Table, radius_m: float, expire: int | None = None, nearest: int | None = None
) -> pa.Table:
    """All pairs of pings (as ENTRIES, in any order) and requests, in the order of `near`."""
    checked_radius(radius_m)
    known, asked = _sorted(pings), distinct(requests)
    parts = [PAIRS.empty_table()]
    if len(known):
        of_driver = np.flatnonzero(differs(*ranks(known.column("driver"))))
        step = max(1, _MOST_PRODUCTS // len(known))
        starts = range(0, len(asked), step)
        parts += [_of(known, of_driver, asked.slice(start, step), radius_m, expire) for start in starts]
    return first_of_each(pa.concat_tables(parts), nearest).combine_chunks()


def _sorted(pings: pa.Table) -> pa.Table:
    known = shaped(pings, ENTRIES)
    (driver,), (ts, offset) = ranks(known.column("driver")), numbers(known, "ts", "offset")
    return known.take(pa.array(sorted_rows(driver, ts, offset))).combine_chunks()


def _of(known: pa.Table, of_driver: NDArray[np.intp], asked: pa.Table, radius_m: float, expire: int | None) -> pa.Table:
    """The pairs of some requests; `of_driver` is where each driver's pings begin."""
    at, lat, lng = numbers(asked, "ts", "lat", "lng")
    ts, kind, ping_lat, ping_lng = numbers(known, "ts", "kind", "lat", "lng")
    newest = _newest(ts, at, of_driver)
    asks, drivers = np.nonzero(newest >= 0)
    rows = newest[asks, drivers]
    good = kind[rows] == Kind.AVAILABLE
    if expire is not None:
        good &= at[asks] - ts[rows] <= expire
    asks, rows = asks[good], rows[good]
    metres = np.asarray(haversine(ping_lat[rows], ping_lng[rows], lat[asks], lng[asks]), np.float64)
    near = metres <= radius_m
    return _paired(asked.take(pa.array(asks[near])), known.take(pa.array(rows[near])), metres[near])


def nearest_metres(pings: pa.Table, requests: pa.Table, expire: int | None = None) -> NDArray[np.float64]:
    """Metres from each request to the nearest driver that could have been matched then, however far; NaN for none."""
    known = _sorted(pings)
    (at, lat, lng), out = numbers(requests, "ts", "lat", "lng"), np.full(len(requests), np.nan)
    if not len(known):
        return out
    of_driver = np.flatnonzero(differs(*ranks(known.column("driver"))))
    ts, kind, ping_lat, ping_lng = numbers(known, "ts", "kind", "lat", "lng")
    for one in range(len(requests)):
        rows = _newest(ts, at[one : one + 1], of_driver)[0]
        rows = rows[rows >= 0]
        good = kind[rows] == Kind.AVAILABLE
        if expire is not None:
            good &= at[one] - ts[rows] <= expire
        if good.any():
            out[one] = np.min(haversine(ping_lat[rows[good]], ping_lng[rows[good]], lat[one], lng[one]))
    return out


def seconds_to_a_driver(pings: pa.Table, requests: pa.Table, radius_m: float) -> NDArray[np.float64]:
    """Seconds from each request to the first ping after it of an available driver within the radius; NaN for none.

    A request at 10 s, and an available driver that comes within the radius at 25 s: 15. Times are microseconds.
    """
    (at, lat, lng), out = numbers(requests, "ts", "lat", "lng"), np.full(len(requests), np.nan)
    ts, kind, ping_lat, ping_lng = numbers(shaped(pings, ENTRIES), "ts", "kind", "lat", "lng")
    able = kind == Kind.AVAILABLE
    for one in range(len(requests)):
        rows = np.flatnonzero(able & (ts > at[one]))
        near = haversine(ping_lat[rows], ping_lng[rows], lat[one], lng[one]) <= radius_m
        if np.any(near):
            out[one] = (np.min(ts[rows[near]]) - at[one]) / 1e6
    return out


def _newest(ts: NDArray[np.int64], at: NDArray[np.int64], of_driver: NDArray[np.intp]) -> NDArray[np.intp]:
    """For each request and each driver the row of the newest ping that is not after the request, or -1."""
    seen = np.where(ts[None, :] <= at[:, None], np.arange(len(ts))[None, :], -1)
    return np.maximum.reduceat(seen, of_driver, axis=1)


def _paired(rider: pa.Table, driver: pa.Table, metres: NDArray[np.float64]) -> pa.Table:
    columns = {
        "rider": rider.column("rider"),
        "rider_ts": rider.column("ts"),
        "driver": driver.column("driver"),
        "distance_m": pa.array(metres),
        "driver_ts": driver.column("ts"),
        "driver_offset": driver.column("offset"),
        "rider_offset": rider.column("offset"),
    }
    return pa.table(columns, schema=PAIRS)

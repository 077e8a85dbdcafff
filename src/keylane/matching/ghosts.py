"""Newest wins: a pair whose driver had pinged again, somewhere, before the request was made is a ghost and dropped.

Tombstones (see `homes`) keep ghosts out of the lanes; this is the second net, for lanes that have none.

Rule: a pair stays if no ping of its driver lies after the pair's own (ts, offset) and not after the request's ts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from keylane.matching.order import numbers, ranks, sorted_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ghosts", "without_ghosts"]


def ghosts(pairs: pa.Table, pings: pa.Table) -> NDArray[np.bool_]:
    """For each pair whether it is a ghost; pings have `driver`, `ts` and `offset`, in any order."""
    if not len(pings):
        return np.zeros(len(pairs), bool)
    paired, pinged = ranks(pairs.column("driver"), pings.column("driver"))
    at, ts, offset = numbers(pairs, "rider_ts", "driver_ts", "driver_offset")
    ping_ts, ping_offset = numbers(pings, "ts", "offset")
    rows = sorted_rows(pinged, ping_ts, ping_offset)
    newest = rows[_last_before(pinged[rows], ping_ts[rows], paired, at)]
    found = (pinged[newest] == paired) & (ping_ts[newest] <= at)
    newer = (ping_ts[newest] > ts) | ((ping_ts[newest] == ts) & (ping_offset[newest] > offset))
    return np.asarray(found & newer)


def _last_before(
    driver: NDArray[np.int64], ts: NDArray[np.int64], of_driver: NDArray[np.int64], at: NDArray[np.int64]
) -> NDArray[np.intp]:
    """The last row of sorted (driver, ts) that is not after each (driver, at); 0 where there is none."""
    times, (known, asked) = _together(ts, at)
    width = len(times)
    return np.maximum(np.searchsorted(driver * width + known, of_driver * width + asked, "right") - 1, 0)


def _together(*parts: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Times as places among all of them, so that a driver and a time fit into one number."""
    times, places = np.unique(np.concatenate(parts), return_inverse=True)
    return times, np.split(places, np.cumsum([len(part) for part in parts])[:-1])


def without_ghosts(pairs: pa.Table, pings: pa.Table) -> tuple[pa.Table, int]:
    """The pairs that are none, and how many were."""
    gone = ghosts(pairs, pings)
    return pairs.filter(pa.array(~gone)), int(gone.sum())

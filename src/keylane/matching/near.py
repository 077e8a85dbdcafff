"""Every available driver within a radius of each request, as of the request's own moment: exact, by a tree.

Rule: a request (rider, t, location) and a driver are a pair if the driver's newest entry with ts <= t (of equal ts the
larger offset) is available, not older than `expire`, and at most `radius_m` metres away by the haversine.

How: requests and entries are walked in the order of time, in spans that begin about as many entries as are open, so
that a long history costs no more memory than a short one. In a span a tree over unit vectors finds all drivers within
the chord of the radius, made longer by a hair; then the time of each pair and its haversine decide. Unit vectors
know neither antimeridian nor pole, and no cell is asked, so pentagons are like any other location.

Worked example: a driver 400 m away at 12:00:00 and 600 m away at 12:00:08. With a radius of 500 m a request of
12:00:07 has the pair, at 400 m, and one of 12:00:08 has none.

Lanes play no part: the pairs of a request are those of all its lanes' entries together, see `merged_pairs`. When not to
use it: for a handful of requests over a long history, where `brute` does as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from scipy.spatial import cKDTree

from keylane.errors import UsageError
from keylane.matching.sphere import checked_radius, chord, haversine, unit_vectors
from keylane.matching.tables import PAIRS, Kind, differs, distinct, numbers, ranks, shaped, sorted_rows
from keylane.matching.timeline import last_seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Rows = NDArray[np.intp]

# Merging: partial answers of several lanes -> one answer a request, each pair once, the nearest K.


def merged_pairs(partials: pa.Table | Iterable[pa.Table], nearest: int | None = None) -> pa.Table:
    """The pairs of all parts in the order of request time, rider, distance and driver; each once, K of a request."""
    parts = [partials] if isinstance(partials, pa.Table) else list(partials)
    pairs = pa.concat_tables([PAIRS.empty_table(), *(shaped(part, PAIRS) for part in parts)])
    return first_of_each(pairs.take(pa.array(_once(pairs))), nearest).combine_chunks()


def _once(pairs: pa.Table) -> NDArray[np.intp]:
    """The rows that count, of a request's newest version and of each driver's newest ping."""
    (rider,), (driver,) = ranks(pairs.column("rider")), ranks(pairs.column("driver"))
    at, version, ts, offset, metres = numbers(
        pairs, "rider_ts", "rider_offset", "driver_ts", "driver_offset", "distance_m"
    )
    rows = sorted_rows(rider, at, -version, driver, -ts, -offset, metres)
    request = np.cumsum(differs(rider[rows], at[rows])) - 1
    newest = (
        version[rows][np.flatnonzero(differs(request))][request] == version[rows] if len(rows) else np.zeros(0, bool)
    )
    return rows[newest & differs(request, driver[rows])]


def first_of_each(pairs: pa.Table, nearest: int | None) -> pa.Table:
    """Pairs in the order of request time, rider, distance and driver, the first K of each request, or all."""
    if nearest is not None and nearest < 1:
        raise UsageError.of("number of nearest drivers is out of range", got=nearest, allowed="1 or more")
    (rider,), (driver,) = ranks(pairs.column("rider")), ranks(pairs.column("driver"))
    at, metres = numbers(pairs, "rider_ts", "distance_m")
    rows = sorted_rows(at, rider, metres, driver)
    if nearest is not None and len(rows):
        begins = np.flatnonzero(differs(at[rows], rider[rows]))
        place = np.arange(len(rows)) - np.repeat(begins, np.diff(np.append(begins, len(rows))))
        rows = rows[place < nearest]
    return pairs.take(pa.array(rows))


#: A span begins at least this many entries, however few are open.
_LEAST_SPAN: Final = 4096
#: Pairs that one search may find at the very most: requests are given to it in parts.
_MOST_FOUND: Final = 1 << 22
_HAIR: Final = 1 + 1e-9
#: Rounding of a unit vector, in radii: what a chord of nearly nothing must be longer by.
_LEAST_HAIR: Final = 1e-15


@dataclass(frozen=True, slots=True)
class _Open:
    """Entries that some moment sees, in the order of ts: rows of the timeline, and from when until when."""

    rows: Rows
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]


def near(
    entries: pa.Table, requests: pa.Table, radius_m: float, expire: int | None = None, nearest: int | None = None
) -> pa.Table:
    """The pairs of entries in order (see `timeline`) and requests in any; of each request the `nearest`, if given.

    Pairs come in the order of the requests' time and rider, then distance, then driver.
    """
    checked_radius(radius_m)
    asked = distinct(requests)
    (asked_at,) = numbers(asked, "ts")
    asked = asked.take(pa.array(np.argsort(asked_at, kind="stable")))
    parts = [PAIRS.empty_table()]
    for of_requests, of_entries in _found(entries, asked, radius_m, expire):
        pairs = pairs_of(entries, asked, of_requests, of_entries, radius_m)
        parts.append(first_of_each(pairs, nearest))
    return pa.concat_tables(parts).combine_chunks()


def pairs_of(entries: pa.Table, requests: pa.Table, asks: Rows, seen: Rows, radius_m: float) -> pa.Table:
    """These rows of both, beside each other, as far as they are within the radius."""
    rows = (requests.take(pa.array(asks)), entries.take(pa.array(seen)))
    (lat1, lng1), (lat2, lng2) = (numbers(side, "lat", "lng") for side in rows)
    metres = np.asarray(haversine(lat2, lng2, lat1, lng1), np.float64)
    rider, driver = rows
    pairs = pa.table(
        [
            rider.column("rider"),
            rider.column("ts"),
            driver.column("driver"),
            pa.array(metres),
            driver.column("ts"),
            driver.column("offset"),
            rider.column("offset"),
        ],
        schema=PAIRS,
    )
    return pairs.filter(pa.array(metres <= radius_m))


def _found(entries: pa.Table, asked: pa.Table, radius_m: float, expire: int | None) -> Iterator[tuple[Rows, Rows]]:
    """Rows of requests and of entries that see each other and are near by the chord."""
    (asked_at,) = numbers(asked, "ts")
    points = unit_vectors(*numbers(asked, "lat", "lng"))
    reach = chord(radius_m) * _HAIR + _LEAST_HAIR
    for span, (first, end) in _spans(_open_entries(entries, expire), asked_at):
        chosen = entries.select(["lat", "lng"]).take(pa.array(span.rows))
        tree = cKDTree(unit_vectors(*numbers(chosen, "lat", "lng")))
        step = max(1, _MOST_FOUND // len(span.rows))
        for start in range(first, end, step):
            part = cKDTree(points[start : min(start + step, end)])
            both = part.sparse_distance_matrix(tree, reach, output_type="ndarray")
            asks, seen = both["i"] + start, both["j"]
            at = asked_at[asks]
            alive = (span.begins[seen] <= at) & (at < span.ends[seen])
            yield asks[alive], span.rows[seen[alive]]


def _open_entries(entries: pa.Table, expire: int | None) -> _Open:
    """Available entries that are the newest at some moment, in the order of ts."""
    ts, kind = numbers(entries, "ts", "kind")
    ends = last_seen(entries, expire)
    rows = np.flatnonzero((kind == Kind.AVAILABLE) & (ends > ts))
    rows = rows[np.argsort(ts[rows], kind="stable")]
    return _Open(rows, ts[rows], ends[rows])


def _spans(entries: _Open, asked_at: NDArray[np.int64]) -> Iterator[tuple[_Open, tuple[int, int]]]:
    """Spans of time with requests in them: the entries that are open in one, and its requests from and to."""
    first, begun, carried = 0, 0, np.zeros(0, np.intp)
    while first < len(asked_at):
        opening = int(np.searchsorted(entries.begins, asked_at[first], "right"))
        carried = np.concatenate([carried, np.arange(begun, opening)])
        carried = carried[entries.ends[carried] > asked_at[first]]
        begun = min(len(entries.begins), opening + max(_LEAST_SPAN, len(carried)))
        last = entries.begins[begun] if begun < len(entries.begins) else None
        end = len(asked_at) if last is None else int(np.searchsorted(asked_at, last, "left"))
        # Entries of one and the same ts are not parted.
        end = max(end, first + 1)
        begun = int(np.searchsorted(entries.begins, asked_at[end - 1], "right"))
        carried = np.concatenate([carried, np.arange(opening, begun)])
        if len(carried):
            yield _Open(entries.rows[carried], entries.begins[carried], entries.ends[carried]), (first, end)
        first = end

"""Partial answers of several lanes -> one answer per request: each pair once, the nearest K.

Rule: of a request that was told more than once the telling with the larger offset counts; of a driver that several
lanes found for it the newest ping counts; then pairs are in the order of distance and driver id, and the first K stay.
The nearest K of a union are among the nearest K of its parts, so that each lane may cut to K before.

Worked example: lane 4 says (a, 300 m) and (b, 500 m), lane 9 says (c, 400 m); the nearest two are a and c.

A driver has one home lane, so two lanes name the same driver only while its move is under way, see `homes`. When not
to use it: before all lanes of a request have answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from keylane.errors import UsageError
from keylane.matching.order import differs, numbers, ranks, sorted_rows
from keylane.matching.schemas import PAIRS, shaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["first_of_each", "merged_pairs"]


def merged_pairs(partials: pa.Table | Iterable[pa.Table], nearest: int | None = None) -> pa.Table:
    """The pairs of all parts in the order of request time, rider, distance and driver; each once, K of a request."""
    parts = [partials] if isinstance(partials, pa.Table) else list(partials)
    pairs = pa.concat_tables([PAIRS.empty_table(), *(shaped(part, PAIRS) for part in parts)])
    return first_of_each(pairs.take(pa.array(_once(pairs))), nearest).combine_chunks()


def _once(pairs: pa.Table) -> NDArray[np.intp]:
    """The rows that count, of a request's newest telling and of each driver's newest ping."""
    (rider,), (driver,) = ranks(pairs.column("rider")), ranks(pairs.column("driver"))
    at, told, ts, offset, metres = numbers(
        pairs, "rider_ts", "rider_offset", "driver_ts", "driver_offset", "distance_m"
    )
    rows = sorted_rows(rider, at, -told, driver, -ts, -offset, metres)
    request = np.cumsum(differs(rider[rows], at[rows])) - 1
    newest = told[rows][np.flatnonzero(differs(request))][request] == told[rows] if len(rows) else np.zeros(0, bool)
    return rows[newest & differs(request, driver[rows])]


def first_of_each(pairs: pa.Table, nearest: int | None) -> pa.Table:
    """Pairs in the order of request time, rider, distance and driver, the first K of each request, or all."""
    if nearest is not None and nearest < 1:
        raise UsageError.of("no such number of nearest drivers", got=nearest, allowed="1 or more")
    (rider,), (driver,) = ranks(pairs.column("rider")), ranks(pairs.column("driver"))
    at, metres = numbers(pairs, "rider_ts", "distance_m")
    rows = sorted_rows(at, rider, metres, driver)
    if nearest is not None and len(rows):
        begins = np.flatnonzero(differs(at[rows], rider[rows]))
        place = np.arange(len(rows)) - np.repeat(begins, np.diff(np.append(begins, len(rows))))
        rows = rows[place < nearest]
    return pairs.take(pa.array(rows))

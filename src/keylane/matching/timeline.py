"""What a lane knows of its drivers over time.

Rule: entries are sorted by (driver, ts, offset), each (driver, ts, offset) once. An entry is the newest of its driver
for the moments t with ts <= t < until, where `until` is the ts of the driver's next entry. So "as of t" is one
comparison with two columns, and a late ping takes its position as if it had come in time. An entry of kind LEFT is a
tombstone: from then on the driver is not in this lane.

Worked example: a driver's pings at 10 and 30 and a ping at 20 that comes last have until 20, 30 and never: a request
of 25 sees the ping of 20, whenever it came.

A timeline knows of no lanes, so that a change of the lane table, or of the lane count, changes nothing in it. When
not to use it: for what arrives. A running match keeps the same order in Java, and forgets (`Driver.java`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from keylane.matching.tables import ENTRIES, differs, numbers, ranks, shaped, sorted_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The end of an entry that no other has followed.
NEVER: Final = int(np.iinfo(np.int64).max)


def empty_entries() -> pa.Table:
    """A lane without drivers."""
    return ENTRIES.empty_table()


def merged(entries: pa.Table, more: pa.Table) -> pa.Table:
    """The entries of both in order, each once; neither need be sorted. What comes twice counts once."""
    both = pa.concat_tables([shaped(entries, ENTRIES), shaped(more, ENTRIES)])
    (driver,) = ranks(both.column("driver"))
    ts, offset, kind = numbers(both, "ts", "offset", "kind")
    rows = sorted_rows(driver, ts, offset, kind)
    # The last of equals is kept: a ping counts more than a tombstone at its own moment.
    first = differs(driver[rows], ts[rows], offset[rows])
    last = np.append(first[1:], True) if len(first) else first
    kept = rows[last]
    in_order = len(kept) == len(both) and bool(np.all(kept[1:] > kept[:-1]))
    return both.combine_chunks() if in_order else both.take(pa.array(kept)).combine_chunks()


def until(entries: pa.Table) -> NDArray[np.int64]:
    """When each of the entries, which are in order, stops being the newest of its driver.

    Of two at the same ts the first is the newest at no moment: its until is its own ts.
    """
    ends = np.full(len(entries), NEVER, np.int64)
    if len(entries) > 1:
        driver, (ts,) = entries.column("driver").combine_chunks(), numbers(entries, "ts")
        same = _equal(driver)
        ends[:-1][same] = ts[1:][same]
    return ends


def _equal(sorted_ids: pa.Array) -> NDArray[np.bool_]:
    """Whether each id but the last is the same as the next."""
    codes = sorted_ids.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return np.asarray(codes[1:] == codes[:-1])


def last_seen(entries: pa.Table, expire: int | None) -> NDArray[np.int64]:
    """The same as `until`, and no later than the moment after which the entry is too old."""
    ends = until(entries)
    if expire is None:
        return ends
    (ts,) = numbers(entries, "ts")
    # A moment that is exactly `expire` old still counts; the sum must not run over.
    return np.minimum(ends, np.minimum(ts, NEVER - expire - 1) + expire + 1)

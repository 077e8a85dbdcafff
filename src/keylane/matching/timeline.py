"""What a lane knows of its drivers over time, and the tombstones to lanes that they have left.

Rule: entries are sorted by (driver, ts, offset), each (driver, ts, offset) once. An entry is the newest of its driver
for the moments t with ts <= t < until, where `until` is the ts of the driver's next entry. So "as of t" is one
comparison with two columns, and a late ping takes its position as if it had come in time. An entry of kind LEFT is a
tombstone: from then on the driver is not in this lane.

Worked example: a driver's pings at 10 and 30 and a ping at 20 that comes last have until 20, 30 and never: a request
of 25 sees the ping of 20, whenever it came.

A change of the lane table moves drivers to other lanes by tombstones; a timeline itself knows of no lanes. When
not to use it: for requests of the past after `pruned` has dropped what they would see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from keylane.matching.tables import ENTRIES, STAYS, Kind, differs, numbers, ranks, shaped, sorted_rows

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


def pruned(entries: pa.Table, before: int, expire: int | None = None) -> pa.Table:
    """What requests at ts >= before can still see, or what hides something from them; the rest is dropped.

    A tombstone that is not after `before` has nothing left to hide. An unavailable driver stays: it hides a ping
    that comes later than it should.
    """
    (ts, kind) = numbers(entries, "ts", "kind")
    kept = last_seen(entries, expire) > np.maximum(ts, before)
    kept &= (kind != Kind.LEFT) | (ts > before)
    return entries if kept.all() else entries.filter(pa.array(kept)).combine_chunks()


# Tombstones: where a driver changes lanes, the lane it left is notified, so that none keeps a ghost of it.


def moves(stays: pa.Table, pings: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The stays with these pings among them, and the tombstones: (driver, ts, offset, lane that is left).

    Pings have the columns of stays, in any order, with others beside them; a ping that is known already, by its
    driver, ts and offset, changes nothing.
    """
    both, driver, known = _in_order(stays, pings)
    (lane,) = numbers(both, "lane")
    left = (driver[1:] == driver[:-1]) & (lane[1:] != lane[:-1]) & ~(known[1:] & known[:-1])
    after = both.slice(1).filter(pa.array(left))
    gone = both.slice(0, max(0, len(both) - 1)).filter(pa.array(left)).column("lane")
    return both, after.set_column(3, STAYS.field("lane"), gone)


def _in_order(stays: pa.Table, pings: pa.Table) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.bool_]]:
    """Both in order, each ping once, the known one first; the driver of each as a number, and whether it was known."""
    both = pa.concat_tables([shaped(stays, STAYS), shaped(pings, STAYS)])
    (driver,) = ranks(both.column("driver"))
    ts, offset = numbers(both, "ts", "offset")
    rows = sorted_rows(driver, ts, offset)
    rows = rows[differs(driver[rows], ts[rows], offset[rows])]
    return both.take(pa.array(rows)).combine_chunks(), driver[rows], rows < len(stays)


def stays_pruned(stays: pa.Table, before: int, expire: int | None = None) -> pa.Table:
    """Stays, in order, that still matter for requests at ts >= before: of each driver the one as of then, and later.

    A driver whose last stay is older than `expire` is forgotten: what its lane has of it is too old as well.
    """
    (driver,), (ts,) = ranks(stays.column("driver")), numbers(stays, "ts")
    last = np.append(driver[1:] != driver[:-1], True) if len(stays) else np.zeros(0, bool)
    kept = last | (np.append(ts[1:], 0) > before)
    if expire is not None:
        kept &= ts >= before - expire
    return stays if kept.all() else stays.filter(pa.array(kept)).combine_chunks()

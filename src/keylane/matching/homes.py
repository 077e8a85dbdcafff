"""When a driver changes lanes: tombstones to the lanes it left, so that no lane keeps a ghost of it.

Rule: a driver's pings in order of (ts, offset) are its stays. Between two that follow each other, p and s, the lane of
p is told "left at s" if s is in another lane. A ping x that comes late, between p and s, is told of twice: p's lane
hears "left at x", and x's lane "left at s". Pings of one call are put in place together; a ping told twice counts once.

Worked example: lane 1 at 10, lane 2 at 30 -> (30, to lane 1). Then, late, lane 3 at 20 -> (20, to lane 1), (30, to
lane 3). A request of 25 finds the driver in lane 3 only.

Why each lane's "newest as of t" is then the true one. Every tombstone of a lane L stands at the moment of a ping that
is not in L, and at most one entry of L is at a moment. Let x be the newest ping as of t, over all lanes. If x is in L,
no entry of L lies after x and not after t, so L sees x. If x is not in L, let a be L's last ping before x: if there is
none, L sees tombstones or nothing. Else the ping b that follows a is not in L, and not after x, so L has the
tombstone of b, and everything after it in L up to t is a tombstone: L does not see the driver. Tombstones of
neighbours that a late ping has since parted stand at pings of other lanes too, and do no harm.

A change of the lane table is a change of lane like any other: the next ping of each driver goes to its new lane and
the old one is told. When not to use it: where a driver's pings are not all seen by one keeper of stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from keylane.matching.order import differs, numbers, ranks, sorted_rows
from keylane.matching.schemas import STAYS, shaped

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["empty_stays", "moves", "new_rows", "stays_pruned"]


def empty_stays() -> pa.Table:
    """Nobody is known."""
    return STAYS.empty_table()


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
    rows, driver = _distinct(both)
    return both.take(pa.array(rows)).combine_chunks(), driver[rows], rows < len(stays)


def _distinct(both: pa.Table) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    (driver,) = ranks(both.column("driver"))
    ts, offset = numbers(both, "ts", "offset")
    rows = sorted_rows(driver, ts, offset)
    return rows[differs(driver[rows], ts[rows], offset[rows])], driver


def new_rows(stays: pa.Table, pings: pa.Table) -> NDArray[np.intp]:
    """The rows of the pings that the stays did not know, each ping once: what is to be passed on to its lane."""
    rows, _ = _distinct(pa.concat_tables([shaped(stays, STAYS), shaped(pings, STAYS)]))
    return np.sort(rows[rows >= len(stays)] - len(stays))


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

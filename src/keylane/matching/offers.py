"""Offers: a driver held for one rider until a moment, with an id that makes telling it twice harmless.

Rule: the id of an offer is a hash of rider, the request's ts and the attempt, so that whoever computes the offer again
computes the same id. A ledger has one row for each driver that is held. An offer is granted if its driver is free, or
held by this very offer; one that has expired is refused, and a ledger's row ends when it expires. Of several offers for
one driver in a call the one made first is granted, equal ones in the order of request ts, rider and id.

Worked example: offer x holds driver a until 12:00:15. At 12:00:10 an offer y for a is refused and x, told again, is
granted again, without a change of the ledger. At 12:00:15 the driver is free.

The ledger of a driver is kept in the driver's home lane and nowhere else: the home lane is the lock, and a driver that
changes lanes takes its row along. When not to use it: as a record of trips; a row is gone when the offer ends.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from keylane.errors import UsageError
from keylane.matching.order import differs, numbers, ranks, sorted_rows
from keylane.matching.schemas import LEDGER, OFFERS, shaped

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["claim", "empty_ledger", "offer_id", "offers"]


def offer_id(rider: str, rider_ts: int, attempt: int = 1) -> str:
    """The id of an offer: 32 hexadecimal digits.

    >>> offer_id("r1", 5) == offer_id("r1", 5), offer_id("r1", 5) == offer_id("r1", 5, attempt=2)
    (True, False)
    """
    # The rider comes last: an id may hold any sign, and no two requests may read the same.
    return blake2b(f"{rider_ts}/{attempt}/{rider}".encode(), digest_size=16).hexdigest()


def empty_ledger() -> pa.Table:
    """No driver is held."""
    return LEDGER.empty_table()


def offers(assigned: pa.Table, made: int, offer_for: int, attempt: int = 1) -> pa.Table:
    """An offer for each pair that was chosen, made at a moment and for so many microseconds."""
    if offer_for < 1:
        raise UsageError.of("no such time for an offer", got=offer_for, allowed="1 microsecond or more")
    riders, times = assigned.column("rider"), assigned.column("rider_ts")
    ids = [offer_id(*one, attempt) for one in zip(riders.to_pylist(), times.to_pylist(), strict=True)]
    count = len(assigned)
    columns = {
        "offer": pa.array(ids, pa.string()),
        "rider": riders,
        "rider_ts": times,
        "attempt": np.full(count, attempt, np.int32),
        "driver": assigned.column("driver"),
        "distance_m": assigned.column("distance_m"),
        "made": np.full(count, made, np.int64),
        "expires": np.full(count, made + offer_for, np.int64),
    }
    return pa.table(columns, schema=OFFERS)


def claim(ledger: pa.Table, offers: pa.Table, now: int) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The offers that are granted, those that are refused, and the ledger after them. Telling it again changes nothing.

    An offer that is told twice in one call is granted once; the other telling is in neither part.
    """
    held = _live(shaped(ledger, LEDGER), now)
    asked = _each_once(shaped(offers, OFFERS))
    asked_for, held_now = ranks(asked.column("driver"), held.column("driver"))
    offer, holds = ranks(asked.column("offer"), held.column("offer"))
    every = 1 + max(offer.max(initial=0), holds.max(initial=0))
    again = np.isin(asked_for * every + offer, held_now * every + holds)
    live = numbers(asked, "expires")[0] > now
    # An offer that holds one driver holds no second one.
    free = live & ~np.isin(asked_for, held_now) & ~np.isin(offer, holds)
    first = free & _first(asked_for, free)
    granted = first | (again & live)
    new = asked.filter(pa.array(first)).select(LEDGER.names)
    return (
        asked.filter(pa.array(granted)),
        asked.filter(pa.array(~granted)),
        pa.concat_tables([held, new]).sort_by("driver").combine_chunks(),
    )


def _live(ledger: pa.Table, now: int) -> pa.Table:
    return ledger.filter(pa.array(numbers(ledger, "expires")[0] > now))


def _each_once(offers: pa.Table) -> pa.Table:
    """Every offer once, in the order in which they are served."""
    (rider,), (offer,) = ranks(offers.column("rider")), ranks(offers.column("offer"))
    made, at = numbers(offers, "made", "rider_ts")
    rows = sorted_rows(offer, made)
    rows = rows[differs(offer[rows])]
    return offers.take(pa.array(rows[sorted_rows(made[rows], at[rows], rider[rows], offer[rows])]))


def _first(drivers: NDArray[np.int64], among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each row is the first of its driver among those rows."""
    first = np.zeros(len(drivers), bool)
    rows = np.flatnonzero(among)
    first[rows[np.unique(drivers[rows], return_index=True)[1]]] = True
    return first

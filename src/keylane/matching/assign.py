"""Assignment of drivers to riders, greedy or optimal, and the offers that hold a driver.

greedy    requests in the order of ts and rider; each takes its nearest driver that is still free. No rider waits for a
          later request, and an early one may take the only driver of a later one.
optimal   the most requests served, and among such choices the least sum of distances. Requests and drivers that no
          chain of pairs joins do not bear on each other, so each such component is solved by itself: as a full matrix
          while it is small, otherwise as a sparse one.

Worked example: rider 1 is 100 m from driver a and 200 m from b, rider 2 is 150 m from a only. Greedy gives a to rider
1 and no driver to rider 2; optimal gives b to rider 1 and a to rider 2.

Candidates come from all lanes of a request, so this is no matter of one lane: a component may reach over a whole city.
When not to use optimal: over more than a few seconds of requests, since the first of them waits for the last.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching

from keylane.errors import UsageError
from keylane.matching.near import first_of_each
from keylane.matching.tables import LEDGER, OFFERS, differs, numbers, ranks, shaped, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Rows = NDArray[np.intp]

#: Cells of a full matrix above which the sparse way is taken: 32 MB.
_MOST_CELLS: Final = 1 << 22


def greedy(pairs: pa.Table) -> pa.Table:
    """The pairs that are chosen, each request and each driver at most once."""
    ordered = first_of_each(pairs, None)
    request, driver = _sides(ordered)
    served: set[int] = set()
    busy: set[int] = set()
    chosen = []
    for row, (asks, free) in enumerate(zip(request.tolist(), driver.tolist(), strict=True)):
        if asks not in served and free not in busy:
            served.add(asks)
            busy.add(free)
            chosen.append(row)
    return ordered.take(pa.array(chosen, pa.int64()))


def optimal(pairs: pa.Table) -> pa.Table:
    """The pairs that are chosen, each request and each driver at most once."""
    ordered = first_of_each(pairs, None)
    request, driver = _sides(ordered)
    (metres,) = numbers(ordered, "distance_m")
    chosen = [rows[_best(request[rows], driver[rows], metres[rows])] for rows in _components(request, driver)]
    return ordered.take(pa.array(np.sort(np.concatenate([np.zeros(0, np.intp), *chosen]))))


def _sides(pairs: pa.Table) -> tuple[Rows, Rows]:
    """Requests, in their order, and drivers as numbers from 0."""
    (rider,), (driver,) = ranks(pairs.column("rider")), ranks(pairs.column("driver"))
    (at,) = numbers(pairs, "rider_ts")
    return np.cumsum(differs(at, rider)) - 1, driver


def _components(request: Rows, driver: Rows) -> Iterator[Rows]:
    """The rows of pairs that bear on each other, component by component."""
    if not len(request):
        return
    asks = int(request.max()) + 1
    every = asks + int(driver.max()) + 1
    graph = coo_array((np.ones(len(request), np.int8), (request, driver + asks)), shape=(every, every))
    label = connected_components(graph, directed=False)[1][request]
    rows = sorted_rows(label)
    yield from np.split(rows, np.flatnonzero(differs(label[rows]))[1:])


def _best(request: Rows, driver: Rows, metres: NDArray[np.float64]) -> Rows:
    """The rows of one component that are chosen."""
    if len(metres) == 1:
        return np.zeros(1, np.intp)
    asks, free = (np.unique(side, return_inverse=True)[1] for side in (request, driver))
    shape = int(asks.max()) + 1, int(free.max()) + 1
    solve = _dense if shape[0] * shape[1] <= _MOST_CELLS else _sparse
    row_of = csr_array((np.arange(1, len(metres) + 1), (asks, free)), shape=shape)
    found = np.asarray(row_of[solve(asks, free, metres, shape)]) - 1
    return found[found >= 0].astype(np.intp)


def _unserved(metres: NDArray[np.float64], shape: tuple[int, int]) -> float:
    """What it costs to leave one unserved: more than all that could be saved by it. Finite, or no answer is found."""
    return float((min(shape) + 1) * (metres.max() + 1))


def _dense(asks: Rows, free: Rows, metres: NDArray[np.float64], shape: tuple[int, int]) -> tuple[Rows, Rows]:
    cost = np.full(shape, _unserved(metres, shape))
    cost[asks, free] = metres
    return linear_sum_assignment(cost)


def _sparse(asks: Rows, free: Rows, metres: NDArray[np.float64], shape: tuple[int, int]) -> tuple[Rows, Rows]:
    """Every request also has a driver of its own that does not exist, so that all can be matched."""
    alone = np.arange(shape[0])
    # A cost of zero would be no pair, and one more metre on every pair changes no choice.
    costs = np.concatenate([metres + 1, np.full(shape[0], _unserved(metres + 1, shape))])
    places = np.concatenate([asks, alone]), np.concatenate([free, shape[1] + alone])
    matched, by = min_weight_full_bipartite_matching(csr_array((costs, places), shape=(shape[0], sum(shape))))
    real = by < shape[1]
    return matched[real], by[real]


#: The methods by their names.
ASSIGNMENTS: Final[dict[str, Callable[[Any], Any]]] = {"greedy": greedy, "optimal": optimal}


# Offers: a driver held for one rider until a moment, with an id that makes a repeat harmless.


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
    """An offer for each pair that was chosen, made at a moment and for this many microseconds."""
    if offer_for < 1:
        raise UsageError.of("the time of an offer is out of range", got=offer_for, allowed="1 microsecond or more")
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
    """The offers that are granted, those that are refused, and the ledger after them. Idempotent.

    An offer given twice in one call is granted once; the other copy is in neither part.
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

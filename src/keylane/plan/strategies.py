"""What each strategy does with the keys it has seen: the moves that make a stream more even. One function each.

All get the keys under their hash (`HashedStream`) and a range of windows (`Seen`), and know nothing of what comes
after it. The order it keeps follows from its contract (`contract_text`, `contract.answers`); how good it is,
`candidates`'. In the examples a mean lane holds 100 records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.plan.hashed_keys import moved_loads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    from collections.abc import Callable, Sequence

    from keylane.plan.hashed_keys import HashedStream, Moves, Seen

# Greedy rebalancing: pin the fewest heavy keys.

#: Near enough to the least possible: less than this is not worth another pin.
NEAR: Final = 0.01
#: Pins in one contract. More make it slow to read, for people first.
MOST_MOVED: Final = 2_000


def evened(start: NDArray[np.int32], weights: Floats, load: Floats, *, most: int = MOST_MOVED) -> dict[int, int]:
    """Which keys to move, by row, and the lane of each.

    `weights` is (keys, measures) in mean lanes, heaviest first; `load` (lanes, measures) is what lies on the lanes,
    these keys at their `start` and all others.

    >>> keys = np.array([[5.0], [3.0], [2.0], [2.0]]) / 6
    >>> evened(np.zeros(4, np.int32), keys, np.array([[2.0], [0.0]]))
    {0: 1}
    """
    least = np.maximum(1.0, weights.max(axis=0, initial=0.0))
    scaled = weights / least
    keys, lanes = scaled.tolist(), (load / least).tolist()
    fullness, waiting = (load / least).max(axis=1), _waiting(start, scaled, len(load))
    unsettled, moved = fullness.copy(), dict[int, int]()
    while len(moved) < most:
        full, empty = int(unsettled.argmax()), int(fullness.argmin())
        if unsettled[full] <= 1 + NEAR:
            break
        key = _next_that_fits(waiting[full], keys, lanes[empty], float(fullness[full]))
        if key is None:
            unsettled[full] = -1.0
            continue
        lanes[full] = [on - one for on, one in zip(lanes[full], keys[key], strict=True)]
        lanes[empty] = [on + one for on, one in zip(lanes[empty], keys[key], strict=True)]
        moved[key] = empty
        for lane in (full, empty):
            fullness[lane] = max(lanes[lane])
            unsettled[lane] = fullness[lane] if unsettled[lane] >= 0 else -1.0
    return moved


def _waiting(start: NDArray[np.int32], scaled: Floats, lanes: int) -> list[list[int]]:
    """The keys of each lane, the lightest first: the heaviest is taken from the end."""
    order = np.lexsort((scaled.max(axis=1), start))
    ends = np.searchsorted(start[order], np.arange(lanes + 1)).tolist()
    keys = order.tolist()
    return [keys[first:end] for first, end in pairwise(ends)]


def _next_that_fits(waiting: list[int], keys: list[list[float]], room: list[float], full: float) -> int | None:
    """The heaviest key with which the emptiest lane is clearly less full than the fullest was.

    What is too heavy now is too heavy later, when the lanes are nearer to each other: it is not looked at again.
    """
    while waiting:
        key = waiting.pop()
        after = max(on + one for on, one in zip(room, keys[key], strict=True))
        if after < full and after <= max(1 + NEAR, full - max(keys[key]) / 2):
            return key
    return None


def packed(volumes: Floats, load: Floats) -> list[int]:
    """A lane for each volume, the heaviest first to the emptiest lane; `load` is what lies on the lanes already.

    Longest processing time first: at worst a third above the best packing, and near it when small ones come last. One
    lane more gives other lanes to most of them.

    >>> packed(np.array([5.0, 3.0, 2.0, 2.0]), np.zeros(2))
    [0, 1, 1, 0]
    """
    on, out = load.copy(), [0] * len(volumes)
    for i in np.argsort(-volumes, kind="stable").tolist():
        out[i] = lane = int(on.argmin())
        on[lane] += volumes[i]
    return out


#: A key is heavy from this part of a mean lane on; below it the hash evens keys out.
HEAVY: Final = 0.05
#: A key is hot from this part of a mean lane on: with the other keys of its lane, that lane stands out.
HOT: Final = 0.5
#: A key is named from this part of a mean lane on: no lane is full because of a lighter one, and there are thousands.
NAMED: Final = 0.01
#: Strategies that name lighter ones where a figure that was asked for needs them.
TO_THE_LAST: Final = ("pin", "table")
#: How much of a mean lane a piece of a spread key may be, tried in this order: wide spreads cost readers more.
PIECES: Final = (0.5, 0.25, 0.125)
#: A wider spread has to be better by this.
BETTER: Final = 0.02
#: As many lanes as one spread may name.
WIDEST: Final = 256


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a strategy came to: the keys that go elsewhere, by rank, and the lanes of a tier."""

    moves: Moves = field(default_factory=dict)
    tier_lanes: int = 0


def hot(seen: Seen, lanes: int, part: float = HOT) -> int:
    """How many keys, the heaviest of the head, have at least this part of a mean lane, in all records or the recent."""
    return min(MOST_MOVED, int((seen.weights(lanes).max(axis=1) >= part).sum()))


def hash_alone(hashed: HashedStream, seen: Seen) -> Fitted:  # noqa: ARG001  the hash has nothing to learn
    """Every key where its hash puts it: nothing to keep up, and at the mercy of the heaviest keys.

    A new lane count moves 1 - gcd(n, m) / max(n, m) of all keys.
    """
    return Fitted()


def pin(hashed: HashedStream, seen: Seen, least: float = NAMED, pinned: Moves | None = None) -> Fitted:
    """The fewest keys moved, each whole to one lane, until the lanes are even; none lighter than `least` of a lane.

    Keys of 90 and 80 on one lane: one of them moves, and order is kept for both. `pinned` are today's pins, which are
    the start: they stay where they are, unless a lane is too full with them. When not to use it: when one key alone is
    more than a lane should carry.
    """
    first = pinned or {}
    start, weights = hashed.fold(seen.head), seen.weights(hashed.lanes)
    load = seen.on_lanes(moved_loads(hashed, first, seen.profile.by_window))
    for row in np.flatnonzero(np.isin(seen.head, list(first))).tolist():
        start[row] = first[int(seen.head[row])][0]
    heavy = int((weights.max(axis=1) >= least).sum())
    moves = {**first, **_ranked(seen, evened(start[:heavy], weights[:heavy], load))}
    hashes = dict(zip(moves, hashed.fold(np.fromiter(moves, np.int64, len(moves))).tolist(), strict=True))
    # What goes back to the lane of its hash needs no name; a pin of today's that names it all the same is left alone.
    return Fitted({rank: to for rank, to in moves.items() if to != (hashes[rank],) or to == first.get(rank)})


def table(hashed: HashedStream, seen: Seen, least: float = NAMED) -> Fitted:
    """Every heavy key in a list, the heaviest first to the emptiest lane, and then as `pin`.

    More keys are named than `pin` names, so no heavy key is left to chance, and two heavy keys that grow are less
    often on one lane.
    """
    heavy = hot(seen, hashed.lanes, HEAVY)
    weights, start, load = _without(hashed, seen, heavy)
    listed = packed(weights[:heavy].max(axis=1), load[:, 0])
    start[:heavy] = listed
    np.add.at(load, start[:heavy], weights[:heavy])
    named = int((weights.max(axis=1) >= least).sum())
    moved = evened(start[:named], weights[:named], load, most=MOST_MOVED - heavy)
    return Fitted(_ranked(seen, {**dict(enumerate(listed)), **moved}))


def spread(hashed: HashedStream, seen: Seen) -> Fitted:
    """Hot keys over as many lanes as they need, the rest hashed; the width is chosen for the head.

    A key of 180: in pieces of 50 it needs four lanes. Pieces of 25 are taken only when they make the fullest lane
    lower by a fiftieth. When not to use it: when readers cannot merge a key from several lanes.
    """
    best, lowest = Fitted(), float("inf")
    for piece in PIECES:
        moves = _on_emptiest(hashed, seen, hot(seen, hashed.lanes), piece)
        fullest = float(seen.on_lanes(moved_loads(hashed, moves, seen.profile.by_window))[:, 0].max())
        if fullest < lowest * (1 - BETTER):
            best, lowest = Fitted(moves), fullest
    return best


def concentrate(hashed: HashedStream, seen: Seen) -> Fitted:
    """Accounts by volume: a small one whole on one lane, a large one on as few as it needs, every heavy key listed.

    An account of 250 has five lanes with 50 on each, one of 40 has one. How a table is built again from new volumes
    with few moves: `placement.accounts`.
    """
    return Fitted(_on_emptiest(hashed, seen, hot(seen, hashed.lanes, HEAVY), HOT))


def tier(hashed: HashedStream, seen: Seen) -> Fitted:
    """Hot keys to a stream of their own, each whole on the lane that its hash gives there.

    Three hot keys get as few lanes as make the fullest lane of stream and tier low, for so many lanes: a lane more has
    to pay for itself. It keeps order and frees the other keys; it does not make a hot key lighter.
    """
    return _tiered(hashed, seen, range(hot(seen, hashed.lanes)))


def tier_spread(hashed: HashedStream, seen: Seen) -> Fitted:
    """Hot keys to a stream of their own, each over all of its lanes: as many as they fill at the mean."""
    return _tiered_everywhere(hashed, seen, range(hot(seen, hashed.lanes)))


def _tiered(hashed: HashedStream, seen: Seen, rows: Sequence[int]) -> Fitted:
    """These rows of the head in a tier: of all widths the one whose fullest lane, for so many lanes, is lowest."""
    if not len(rows):
        return Fitted()
    ranks, shares = seen.head[rows], seen.weights(1)[rows, 0]
    rest = seen.shares(hashed.loads)[:, 0]
    np.subtract.at(rest, hashed.fold(ranks), shares)

    def over(lanes: int) -> float:
        there = np.bincount(hashed.fold(ranks, lanes), shares, minlength=lanes)
        return float(max(rest.max(), there.max())) * (hashed.lanes + lanes)

    lanes = min(range(1, min(WIDEST, 4 * len(ranks)) + 1), key=lambda n: (round(over(n), 9), n))
    there = hashed.fold(ranks, lanes) + hashed.lanes
    return Fitted({rank: (lane,) for rank, lane in zip(ranks.tolist(), there.tolist(), strict=True)}, lanes)


def _tiered_everywhere(hashed: HashedStream, seen: Seen, rows: Sequence[int]) -> Fitted:
    """These rows of the head over all lanes of a tier."""
    if not len(rows):
        return Fitted()
    lanes = min(WIDEST, max(2, ceil(float(seen.weights(hashed.lanes)[rows, 0].sum()))))
    everywhere = tuple(range(hashed.lanes, hashed.lanes + lanes))
    return Fitted(dict.fromkeys(seen.head[rows].tolist(), everywhere), lanes)


# Fewer names: a key whose new place does not pay is left to its hash. How much may be given up for that is tried on
# later records: `candidates`.

#: How much of what a fit gains over the hash may be given up for fewer names.
GIVEN_UP: Final = (0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7)


def with_fewer(
    strategy: str, hashed: HashedStream, seen: Seen, found: Fitted, pinned: Moves | None = None
) -> list[Fitted]:
    """The fit, and then ever fewer of its keys: one for each part of the gain that may be given up.

    Keys are put back to the lane of their hash, the lightest first, while that lane stays below the limit. Where the
    hash fills the fullest lane twice the mean and the fit 1.02 times, the limit of a tenth is 1.12. A key of `pinned`,
    today's pins, is put back to where today has it; one that did not move is no name more than today.
    """
    first = pinned or {}
    tier = {"tier": _tiered, "tier-spread": _tiered_everywhere}.get(strategy)
    own = seen.shares(moved_loads(hashed, found.moves, seen.profile.by_window, found.tier_lanes))
    before = moved_loads(hashed, first, seen.profile.by_window)
    best, plain = own.max(axis=0), seen.shares(before).max(axis=0)
    moved = {rank for rank, to in found.moves.items() if to != first.get(rank)}
    row = {rank: at for at, rank in enumerate(seen.head.tolist()) if rank in moved}
    kept, load, out = sorted(moved, key=lambda rank: -row[rank]), own.tolist(), []
    home = dict(zip(kept, hashed.fold(np.array(kept, np.int64)).tolist(), strict=True))
    home |= {rank: first[rank][0] for rank in kept if rank in first}
    shares = {rank: tuple(seen.weights(1)[row[rank]].tolist()) for rank in kept}
    for part in GIVEN_UP:
        limit = np.maximum(best * (1 + NEAR), best + part * (plain - best)).tolist()
        kept = [rank for rank in kept if not _put_back(load, shares[rank], found.moves[rank], home[rank], limit)]
        rows = sorted(row[rank] for rank in kept)
        back = {rank: first[rank] for rank in moved.difference(kept) if rank in first}
        still = {rank: to for rank, to in found.moves.items() if rank not in moved or rank in kept}
        out.append(tier(hashed, seen, rows) if tier else replace(found, moves={**still, **back}))
    return out


def _put_back(
    load: list[list[float]], share: tuple[float, ...], lanes: tuple[int, ...], home: int, limit: list[float]
) -> bool:
    """Whether a key was put back: its home stays below the limit with it, in all records and in the recent."""
    there = (lanes.count(home) / len(lanes)) if lanes else 0.0
    after = [on + one * (1 - there) for on, one in zip(load[home], share, strict=True)]
    if any(one > most for one, most in zip(after, limit, strict=True)):
        return False
    for lane in lanes:
        load[lane] = [on - one / len(lanes) for on, one in zip(load[lane], share, strict=True)]
    load[home] = [on + one for on, one in zip(load[home], share, strict=True)]
    return True


def _ranked(seen: Seen, moved: dict[int, int]) -> Moves:
    """Rows of the head as ranks of the profile."""
    return {int(seen.head[row]): (lane,) for row, lane in moved.items()}


def _without(
    hashed: HashedStream, seen: Seen, count: int
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64]]:
    """The head's weights and lanes, and the loads without the heaviest `count` of it."""
    weights, start, load = seen.weights(hashed.lanes), hashed.fold(seen.head), seen.on_lanes(hashed.loads)
    np.subtract.at(load, start[:count], weights[:count])
    return weights, start, load


def _on_emptiest(hashed: HashedStream, seen: Seen, count: int, piece: float) -> Moves:
    """The heaviest keys, each on the emptiest lanes, as many as it needs for pieces of this size."""
    weights, _, load = _without(hashed, seen, count)
    on, moves = load[:, 0].copy(), {}
    for rank, weight in zip(seen.head[:count].tolist(), weights, strict=False):
        width = max(1, min(hashed.lanes, WIDEST, ceil(float(weight.max()) / piece)))
        lanes = np.argpartition(on, width - 1)[:width]
        on[lanes] += weight[0] / width
        moves[rank] = tuple(sorted(lanes.tolist()))
    return moves


#: Every strategy that moves keys, and the hash, which moves none.
STRATEGIES: Final[dict[str, Callable[..., Fitted]]] = {
    "hash": hash_alone,
    "pin": pin,
    "table": table,
    "spread": spread,
    "spread-by-position": spread,
    "tier": tier,
    "tier-spread": tier_spread,
    "concentrate": concentrate,
}

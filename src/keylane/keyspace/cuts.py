"""Where to cut: the layout that keeps every shard under a cap with the fewest calls, and with at most so many shards.

Rule: one call adds a boundary (a split) or removes one (a merge), so the calls between two layouts are the boundaries
that only one of them has. Without a limit on shards no merge can save a call: each shard over the cap is cut into the
fewest parts, as even as they can be. With a limit, cold shards have to merge: a programme over the old boundaries
decides which are kept, so that the parts between two that are kept need the fewest shards; all of it is one programme,
because a hot shard may also be eased by moving a boundary to a cold neighbour, which is a split and a merge.

Worked example: loads 10, 1, 1, 1 and a cap of 6: one split in the middle of the first shard, five shards. With at most
three shards: that split, and two merges of the last three.

A single key over the cap fits nowhere: it is cut off from its neighbours, and reported as hot. When not to
use it: where one key is the load; salting the key, or a second key, helps there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane import numbers
from keylane.contract.shards import NARROWEST, SPACE
from keylane.errors import UsageError
from keylane.keyspace.load import ROUNDING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from keylane.keyspace.layout import ShardLayout
    from keylane.keyspace.load import LoadCurve

#: Shards of a plan: as many as the service lets an account have by default.
MOST_PLANNED: Final = 20_000
#: Rounds in which the evenest cuts of a range are looked for: each halves what is left open.
_ROUNDS: Final = 40
#: Sums that the exact programme may compare. Beyond it a price of a shard is looked for, over short runs of shards.
_MOST_WORK: Final = 200_000_000
_LONGEST_RUN: Final = 32
_PRICES: Final = 16
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Chosen:
    """The starts of the chosen shards, and whether it is proven that no layout within the limits needs fewer calls."""

    starts: list[int]
    proven: bool = True


def fewest_calls(layout: ShardLayout, curve: LoadCurve, cap: float) -> Chosen:
    """Every shard under the cap by as few splits as there can be."""
    if curve.total / cap > max(MOST_PLANNED, len(layout.open)):
        allowed = f"{curve.total / MOST_PLANNED:.6g} or more"
        raise UsageError.of(
            f"so low a cap needs more than {numbers.count(MOST_PLANNED)} shards", got=f"{cap:g}", allowed=allowed
        )
    starts: list[int] = []
    for shard in layout.open:
        starts += [shard.start, *even_cuts(curve, shard.start, shard.end + 1, cap)]
    return Chosen(starts)


def at_most(layout: ShardLayout, curve: LoadCurve, cap: float, shards: int) -> Chosen:
    """Every shard under the cap with at most so many shards, and the fewest splits and merges to it."""
    old = [*layout.starts, SPACE]
    count = len(old) - 1
    proven = count * count * (shards + 1) <= _MOST_WORK
    window = count if proven else min(count, _LONGEST_RUN)
    needs = [_needs(curve, old, first, min(window, count - first), cap) for first in range(count)]
    kept, taken = _programme(needs, count, shards) if proven else _priced(needs, count, shards)
    if kept is None:
        least = len(greedy_cuts(curve, 0, SPACE, cap)) + 1
        hint = f"--shards {least}, or a higher --cap" if least > shards else "a higher --cap or --shards"
        raise UsageError.of("so few shards cannot keep to the cap", got=shards, hint=hint)
    starts: list[int] = []
    for (first, last), parts in zip(kept, taken, strict=True):
        starts += [old[first], *even_cuts(curve, old[first], old[last], cap, parts)]
    return Chosen(starts, proven)


def greedy_cuts(curve: LoadCurve, start: int, end: int, cap: float) -> list[int]:
    """The fewest cuts of a range that keep each part under the cap: each part as long as it can be."""
    cuts: list[int] = []
    at = start
    while (reached := curve.furthest(at, cap)) < end:
        if curve.between(at, reached) == 0:
            # One key is over the cap by itself: it gets all the room up to the next.
            reached = curve.after_first(at)
            if reached >= end:
                break
        # A part has two keys at least, and so has the last.
        reached = max(reached, at + NARROWEST)
        if end - reached < NARROWEST:
            reached = end - NARROWEST
            if reached - at < NARROWEST or curve.between(reached, end) == 0:
                break
        cuts.append(reached)
        at = reached
    return cuts


def even_cuts(curve: LoadCurve, start: int, end: int, cap: float, parts: int | None = None) -> list[int]:
    """As few cuts as `greedy_cuts`, and the parts as even as so many parts can be."""
    best = greedy_cuts(curve, start, end, cap)
    if not best:
        return best
    low, high = curve.between(start, end) / (parts or len(best) + 1), cap
    if low >= cap:
        # Keys over the cap by themselves: no even parts are under it, and what can be is kept under it.
        return _at_equal_parts(curve, start, end, cap, best)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        found = greedy_cuts(curve, start, end, middle)
        if len(found) <= len(best):
            best, high = found, middle
        else:
            low = middle
    return _at_equal_parts(curve, start, end, cap, best)


def _at_equal_parts(curve: LoadCurve, start: int, end: int, cap: float, cuts: list[int]) -> list[int]:
    """Cuts that are next to those of equal parts, to within rounding, as these: so a shard of even load is halved."""
    width, near = (end - start) // (len(cuts) + 1), (end - start) * ROUNDING
    equal = [start + n * width for n in range(1, len(cuts) + 1)]
    moved = [one if abs(one - cut) <= near else cut for one, cut in zip(equal, cuts, strict=True)]
    fullest = max(curve.between(*part) for part in pairwise([start, *moved, end]))
    return moved if fullest <= cap * (1 + ROUNDING / 2) else cuts


def _needs(curve: LoadCurve, old: list[int], first: int, window: int, cap: float) -> list[int]:
    """How many shards the old ones from `first` on need when cut anew: of one, of two, … of `window` of them."""
    cuts = greedy_cuts(curve, old[first], old[first + window], cap)
    needs, passed = [], 0
    for last in range(first + 1, first + window + 1):
        while passed < len(cuts) and cuts[passed] <= old[last] - NARROWEST:
            passed += 1
        needs.append(passed + 1)
    return needs


def _programme(needs: list[list[int]], count: int, shards: int) -> tuple[list[tuple[int, int]] | None, list[int]]:
    """The runs of old shards between boundaries that are kept, and the new shards of each, by the fewest calls.

    With `s` new shards in all and `r` runs there are s - r splits and count - r merges: so of all ways with `s` shards
    the one with the most runs is best. `most[i][s]` is that number for the first `i` old shards.
    """
    most: NDArray[np.int32] = np.full((count + 1, shards + 1), _NONE, np.int32)
    came: NDArray[np.int32] = np.zeros((count + 1, shards + 1), np.int32)
    most[0, 0] = 0
    for last in range(1, count + 1):
        for first in range(max(0, last - len(needs[0])), last):
            need = needs[first][last - first - 1]
            if need > shards:
                continue
            before = most[first, : shards + 1 - need]
            better = (before != _NONE) & (before + 1 > most[last, need:])
            most[last, need:][better] = before[better] + 1
            came[last, need:][better] = first
    reached = np.flatnonzero(most[count] != _NONE)
    if not len(reached):
        return None, []
    total = int(reached[np.argmin(reached + count - 2 * most[count, reached])])
    runs, last = [], count
    while last:
        first = int(came[last, total])
        runs.append((first, last))
        last, total = first, total - needs[first][last - first - 1]
    return _with_needs(runs[::-1], needs)


def _priced(needs: list[list[int]], count: int, shards: int) -> tuple[list[tuple[int, int]] | None, list[int]]:
    """The same for many shards: the fewest calls when a shard costs a price, and the least price that gets there."""
    ends: list[list[tuple[int, int]]] = [[] for _ in range(count + 1)]
    for first, row in enumerate(needs):
        for length, need in enumerate(row, 1):
            ends[first + length].append((first, need))
    pairs = [np.array(one, np.int64).reshape(-1, 2) for one in ends]
    low, high = 0.0, float(_LONGEST_RUN)
    dear, cheap = _cheapest(pairs, count, high), _cheapest(pairs, count, low)
    if sum(_with_needs(dear, needs)[1]) > shards:
        return None, []
    for _ in range(_PRICES):
        price = (low + high) / 2
        runs = _cheapest(pairs, count, price)
        if sum(_with_needs(runs, needs)[1]) <= shards:
            dear, high = runs, price
        else:
            cheap, low = runs, price
    return _with_needs(_loosened(_joined(dear, cheap, needs, shards), needs, shards), needs)


def _joined(
    dear: list[tuple[int, int]], cheap: list[tuple[int, int]], needs: list[list[int]], shards: int
) -> list[tuple[int, int]]:
    """The few shards of one way up to a boundary that both keep, and the few calls of the other from there on.

    Where many merges have one price, all of them or none are in a way; between the two lies what just fits.
    """
    both = {last for _, last in dear} & {last for _, last in cheap} | {0}
    open_after: dict[int, int] = {}
    for first, last in reversed(cheap):
        open_after[first] = open_after.get(last, 0) + needs[first][last - first - 1]
    used, taken = 0, list[tuple[int, int]]()
    for first, last in dear:
        if first in both and used + open_after[first] <= shards:
            return [*taken, *(run for run in cheap if run[0] >= first)]
        taken.append((first, last))
        used += needs[first][last - first - 1]
    return taken


def _loosened(runs: list[tuple[int, int]], needs: list[list[int]], shards: int) -> list[tuple[int, int]]:
    """Runs divided where that costs a shard at most, as long as there are shards to spare: a merge less each."""
    spare = shards - sum(_with_needs(runs, needs)[1])
    loosened: list[tuple[int, int]] = []
    for begin, last in runs:
        first = begin
        for at in range(begin + 1, last):
            whole = needs[first][last - first - 1]
            more = needs[first][at - first - 1] + needs[at][last - at - 1] - whole
            if more <= min(1, spare):
                loosened.append((first, at))
                first, spare = at, spare - more
        loosened.append((first, last))
    return loosened


def _cheapest(pairs: list[NDArray[np.int64]], count: int, price: float) -> list[tuple[int, int]]:
    """Runs with the least of: splits, merges, and the price of every shard."""
    cost, came = np.zeros(count + 1), [0] * (count + 1)
    for last in range(1, count + 1):
        firsts, needed = pairs[last][:, 0], pairs[last][:, 1]
        costs = cost[firsts] + needed * (1 + price) + (last - firsts) - 2
        at = int(np.argmin(costs))
        cost[last], came[last] = costs[at], int(firsts[at])
    runs, last = [], count
    while last:
        runs.append((came[last], last))
        last = came[last]
    return runs[::-1]


def _with_needs(runs: list[tuple[int, int]], needs: list[list[int]]) -> tuple[list[tuple[int, int]], list[int]]:
    return runs, [needs[first][last - first - 1] for first, last in runs]

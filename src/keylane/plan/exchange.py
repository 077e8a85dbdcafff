"""Tokens on places, brought within a band by the cheapest moves: what `reassign` does with replicas and with leaders.

Each item has tokens on different places (the replicas of a lane on brokers; its one leader). A token that is not on one
of its item's first places costs the item's weight. Asked for is the cheapest state in which every place holds at least
`low` and at most `high` tokens; where that cannot be, the nearest: by the squares of what is too many or too few, so
that no place is left far out while another is within.

The rule: while a place has too many or too few, take the cheapest way from a place that can give to a place that can
take. A way may lead over other places (one token comes, another goes), and may take back an earlier move. This is the
method of successive shortest paths for flows of least cost: a place is a node, and the cost from one to another is that
of the cheapest item that can send a token there. So the result is the cheapest there is; of equals, the one with the
fewest tokens moved, then with the lowest numbers. Of three items on the first of two places, the lightest goes:

    >>> items = [Item((0,), 5), Item((0,), 1), Item((0,), 3)]
    >>> settled(items, 2, Band(1, 2)).places
    ((0,), (1,), (0,))

A rule on racks (`groups`) is not a flow: then every state on the way keeps the rule, and the result is good, not proven
cheapest. When not to use it: where one token is worth more than another on its place (bytes per broker, not copies).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Band", "Item", "Settled", "settled"]

#: No way leads there. Several of them, added, fit into 64 bits.
NONE: Final = 1 << 60
#: The first token too many, or too few: more than any way costs. The second is three times as much, up to `STEEPEST`.
PENALTY: Final = 1 << 54
STEEPEST: Final = 31
#: The most that the weights of one way come to.
HEAVIEST: Final = 1 << 52


@dataclass(frozen=True, slots=True)
class Item:
    """Its places, what a token elsewhere costs, and where tokens may go; None: anywhere. Nowhere: it stays."""

    places: tuple[int, ...]
    weight: int
    may: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Band:
    """The least and the most tokens of a place."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The places of each item's tokens afterwards, the weight of those that moved, and how far it is from the band."""

    places: tuple[tuple[int, ...], ...]
    weight: int
    missing: int


@dataclass(slots=True)
class _Table:
    """The state, and for each pair of places the cheapest item that can send a token from the one to the other.

    `queues` has the items of a place, lightest first, and `heads` how far each pair has gone through them: an item is
    passed over for good. Once a token of an item has moved, all its pairs are in `touched`, and count while still true.
    """

    items: Sequence[Item]
    size: int
    groups: Sequence[int] | None
    held: list[set[int]] = field(init=False)
    counts: NDArray[np.int64] = field(init=False)
    queues: list[list[int]] = field(init=False)
    heads: list[list[int]] = field(init=False)
    touched: defaultdict[tuple[int, int], list[tuple[int, int]]] = field(init=False)
    costs: NDArray[np.int64] = field(init=False)
    best: list[list[tuple[int, int]]] = field(init=False)
    anywhere: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        size, order = self.size, sorted(range(len(self.items)), key=lambda i: (self.items[i].weight, i))
        self.held = [set(item.places) for item in self.items]
        self.queues = [[] for _ in range(size)]
        self.counts = np.zeros(size, np.int64)
        for i in order:
            for place in self.items[i].places:
                self.counts[place] += 1
                if self.items[i].may is None or self.items[i].may:
                    self.queues[place].append(i)
        self.heads = [[0] * size for _ in range(size)]
        self.touched = defaultdict(list)
        self.anywhere = frozenset(range(size))
        self.costs = np.full((size, size), NONE, np.int64)
        self.best = [[(NONE, 0)] * size for _ in range(size)]
        for here in range(size):
            for there in range(size):
                self._look(here, there)

    def cost(self, i: int, here: int, there: int) -> int:
        """What it costs to move a token of an item now, or takes back; `NONE` when it cannot be."""
        item, held = self.items[i], self.held[i]
        if here not in held or there in held or not (item.may is None or there in item.may):
            return NONE
        if self.groups is not None and not self._keeps_groups(i, here, there):
            return NONE
        return item.weight * ((there not in item.places) - (here not in item.places))

    def _keeps_groups(self, i: int, here: int, there: int) -> bool:
        groups = self.groups
        assert groups is not None
        after = {groups[place] for place in self.held[i] if place != here} | {groups[there]}
        return len(after) >= len({groups[place] for place in self.items[i].places})

    def move(self, i: int, here: int, there: int) -> None:
        """Move a token, and look again at every pair whose cheapest item that may change."""
        held, may = self.held[i], self.items[i].may
        may = self.anywhere if may is None else may
        concerned = held | {there}
        held.remove(here)
        held.add(there)
        self.counts[here] -= 1
        self.counts[there] += 1
        for one in concerned:
            for other, (_, cheapest) in enumerate(self.best[one]):
                if cheapest == i:
                    self._look(one, other)
        for one in held:
            for other in may - held:
                if (told := (self.cost(i, one, other), i))[0] < NONE:
                    heappush(self.touched[one, other], told)
                    if told < self.best[one][other]:
                        self._set(one, other, told)

    def _look(self, here: int, there: int) -> None:
        self._set(here, there, min(self._untouched(here, there), self._retold(here, there)))

    def _set(self, here: int, there: int, best: tuple[int, int]) -> None:
        self.best[here][there] = best
        self.costs[here, there] = best[0]

    def _untouched(self, here: int, there: int) -> tuple[int, int]:
        queue, at = self.queues[here], self.heads[here][there]
        while at < len(queue):
            i = queue[at]
            if there not in self.items[i].places and self.cost(i, here, there) < NONE:
                break
            at += 1
        self.heads[here][there] = at
        return (self.items[queue[at]].weight, queue[at]) if at < len(queue) else (NONE, 0)

    def _retold(self, here: int, there: int) -> tuple[int, int]:
        heap = self.touched.get((here, there), [])
        while heap and self.cost(heap[0][1], here, there) != heap[0][0]:
            heappop(heap)
        return heap[0] if heap else (NONE, 0)


def settled(items: Sequence[Item], size: int, band: Band, groups: Sequence[int] | None = None) -> Settled:
    """Bring places 0 … size-1 within the band. `groups[place]`: no item may end on fewer groups than it began on."""
    table = _Table(_scaled(items, size), size, groups)
    while (way := _way(table, band)) and _go(table, way, band):
        pass
    weight = sum(item.weight * len(held - set(item.places)) for item, held in zip(items, table.held, strict=True))
    return Settled(tuple(tuple(sorted(held)) for held in table.held), weight, _missing(table.counts, band))


def _scaled(items: Sequence[Item], size: int) -> list[Item]:
    """Weights with one more for every token that moves, so that of equal weights the fewest tokens move."""
    heaviest = max((item.weight for item in items), default=0) + 1
    unit = max(1, min(len(items) * size, HEAVIEST // (heaviest * size)))
    return [Item(item.places, item.weight * unit + 1, item.may) for item in items]


def _missing(counts: NDArray[np.int64], band: Band) -> int:
    return int(_far(counts, band).sum())


def _far(counts: NDArray[np.int64], band: Band) -> NDArray[np.int64]:
    """How far each place is from the band: the square of its distance, and straight on where that becomes too steep."""
    distance = np.maximum(counts - band.high, 0) + np.maximum(band.low - counts, 0)
    bend = (STEEPEST + 1) // 2
    return np.where(distance <= bend, distance * distance, bend * bend + STEEPEST * (distance - bend))


def _way(table: _Table, band: Band) -> list[tuple[int, int]]:
    """The cheapest way from a place that can give to one that can take, as steps; none when nothing is gained."""
    far = _far(table.counts, band)
    give = PENALTY * (_far(table.counts - 1, band) - far)
    take = PENALTY * (_far(table.counts + 1, band) - far)
    reached, layers = give, list[Any]()
    best, steps, end = 0, 0, -1
    while len(layers) < table.size:
        through = reached[:, None] + table.costs
        before = through.argmin(axis=0)
        further = through[before, np.arange(table.size)]
        total = further + take
        here = int(total.argmin())
        layers.append(np.where(further < reached, before, -1) if layers else before)
        if total[here] < best:
            best, steps, end = int(total[here]), len(layers), here
        if len(layers) > 1 and not (further < reached).any():
            break
        reached = np.minimum(reached, further) if len(layers) > 1 else further
    return _traced(layers[:steps], end)


def _traced(layers: list[Any], end: int) -> list[tuple[int, int]]:
    """The steps that lead to an end: in each layer the place before, or none where an earlier layer led there too."""
    steps: list[tuple[int, int]] = []
    for layer in reversed(layers):
        start = int(layer[end])
        if start >= 0:
            steps.append((start, end))
            end = start
    return steps[::-1]


def _go(table: _Table, way: list[tuple[int, int]], band: Band) -> bool:
    """Walk a way. With groups, a later step may have become impossible by an earlier one: then all is taken back."""
    short, done = _missing(table.counts, band), []
    for here, there, i in [(here, there, table.best[here][there][1]) for here, there in way]:
        if table.cost(i, here, there) >= NONE:
            break
        table.move(i, here, there)
        done.append((i, here, there))
    if len(done) == len(way) and _missing(table.counts, band) < short:
        return True
    for i, here, there in reversed(done):
        table.move(i, there, here)
    return False

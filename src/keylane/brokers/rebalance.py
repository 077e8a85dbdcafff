"""A reassignment that brings a cluster into balance with the fewest bytes moved, and what it costs.

The rule, in this order: replicas come within the alert (the fullest broker at most 1.3 times the emptiest, or as near
as whole lanes allow: one apart) by moving the fewest bytes, then the fewest replicas; the preferred leaders come within
the same by another order of replica lists, which moves no bytes. Replication factors stay; no broker has a lane twice;
no lane is on fewer racks than before. A lane that is not whole (a copy behind, gone, or without a leader) is counted
and left where it is: repair that first.

Six lanes on brokers 1 and 2, and nothing on 3: the two lightest go, one from each side.

    >>> from keylane.brokers.layout import Broker, Lane, Layout
    >>> lanes = [Lane("t", p, (1 + p % 2,), 1 + p % 2, (1 + p % 2,), size=10 * p + 10) for p in range(6)]
    >>> change = reassignment(Layout((Broker(1), Broker(2), Broker(3)), tuple(lanes)))
    >>> [(move.partition, move.replicas) for move in change.moves], change.bytes
    ([(0, (3,)), (1, (3,))], 30)

A broker more is filled by the smallest lanes. A broker less is not what this is for: it evacuates no broker. The fewest
bytes are proven where racks set no rule and every band is tried (`TRIED`); otherwise they are few, and the rest holds.
Nothing is contacted here: `systems.kafka.reassign`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.brokers.layout import ALERT, fingerprint, spread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.brokers.layout import Broker, Lane, Layout

# Tokens on positions, brought within a band by the cheapest moves: replicas on brokers, and leaders on brokers.

#: No way leads there. Several of them, added, fit into 64 bits.
NONE: Final = 1 << 60
#: The first token too many, or too few: more than any way costs. The second is three times as much, up to `STEEPEST`.
PENALTY: Final = 1 << 54
STEEPEST: Final = 31
#: The most that the weights of one way come to.
HEAVIEST: Final = 1 << 52


@dataclass(frozen=True, slots=True)
class Item:
    """Its nodes, what a token elsewhere costs, and where tokens may go; None: anywhere. Nowhere: it stays."""

    places: tuple[int, ...]
    weight: int
    may: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Band:
    """The least and the most tokens of a node."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The nodes of each item's tokens afterwards, the weight of those that moved, and how far it is from the band."""

    places: tuple[tuple[int, ...], ...]
    weight: int
    missing: int


@dataclass(slots=True)
class _Table:
    """The state, and for each pair of nodes the cheapest item that can send a token from the one to the other.

    `queues` has the items of a node, lightest first, and `heads` how far each pair has gone through them: an item is
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
                if (offer := (self.cost(i, one, other), i))[0] < NONE:
                    heappush(self.touched[one, other], offer)
                    if offer < self.best[one][other]:
                        self._set(one, other, offer)

    def _look(self, here: int, there: int) -> None:
        self._set(here, there, min(self._untouched(here, there), self._touched_again(here, there)))

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

    def _touched_again(self, here: int, there: int) -> tuple[int, int]:
        heap = self.touched.get((here, there), [])
        while heap and self.cost(heap[0][1], here, there) != heap[0][0]:
            heappop(heap)
        return heap[0] if heap else (NONE, 0)


def settled(items: Sequence[Item], size: int, band: Band, groups: Sequence[int] | None = None) -> Settled:
    """Bring nodes 0 … size-1 within the band. `groups[node]`: no item may end on fewer groups than it began on."""
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
    """How far each node is from the band: the square of its distance, and straight on where that becomes too steep."""
    distance = np.maximum(counts - band.high, 0) + np.maximum(band.low - counts, 0)
    bend = (STEEPEST + 1) // 2
    return np.where(distance <= bend, distance * distance, bend * bend + STEEPEST * (distance - bend))


def _way(table: _Table, band: Band) -> list[tuple[int, int]]:
    """The cheapest way from a node that can give to one that can take, as steps; none when nothing is gained."""
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
    """The steps that lead to an end: in each layer the node before, or none where an earlier layer led there too."""
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


#: Bands are tried, the most promising first, until that has come to this many moves; `PER_TRY` lanes count as one.
TRIED: Final = 2_000
PER_TRY: Final = 20


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of one lane: its replicas, in order, before and after. `source` sends the bytes of each new one."""

    topic: str
    partition: int
    before: tuple[int, ...]
    replicas: tuple[int, ...]
    source: int
    size: int | None

    @property
    def place(self) -> tuple[str, int]:
        """What identifies the lane."""
        return self.topic, self.partition

    @property
    def added(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(broker for broker in self.replicas if broker not in self.before)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment, bound to the layout it was made of.

    `elections` are lanes whose leader is not, or will not be, the preferred one. `after` are the lanes when it is done.
    """

    fingerprint: str
    brokers: tuple[Broker, ...]
    moves: tuple[Move, ...]
    elections: tuple[tuple[str, int], ...]
    after: tuple[Lane, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.moves and not self.elections

    @property
    def copies(self) -> int:
        """Replicas that move."""
        return sum(len(move.added) for move in self.moves)

    @property
    def leaders(self) -> int:
        """Lanes with another leader afterwards."""
        moved = {move.place for move in self.moves}
        elected = sum(place not in moved for place in self.elections)
        return elected + sum(move.source != move.replicas[0] for move in self.moves)

    @property
    def bytes(self) -> int | None:
        """Bytes that move; None when the size of a lane that moves is not known."""
        return _total((move.size, len(move.added)) for move in self.moves)

    def received(self) -> dict[int, int] | None:
        """Bytes that each broker gets."""
        return self._by_broker((broker, move) for move in self.moves for broker in move.added)

    def sent(self) -> dict[int, int] | None:
        """Bytes that each broker gives: a new copy is read from the lane's leader."""
        return self._by_broker((move.source, move) for move in self.moves for _ in move.added)

    def seconds(self, rate: int | None) -> float | None:
        """How long the bytes take when each broker sends and receives at most `rate` a second."""
        received, sent = self.received(), self.sent()
        if not rate or received is None or sent is None:
            return None
        return max([*received.values(), *sent.values(), 0]) / rate

    def _by_broker(self, pairs: Iterable[tuple[int, Move]]) -> dict[int, int] | None:
        found = {broker.id: 0 for broker in self.brokers}
        for broker, move in pairs:
            if move.size is None:
                return None
            found[broker] = found.get(broker, 0) + move.size
        return found


def reassignment(layout: Layout, *, topics: Collection[str] | None = None, alert: float = ALERT) -> Reassignment:
    """The change that brings a layout into balance. `topics`: only their lanes move; all are counted."""
    at = {broker.id: place for place, broker in enumerate(layout.brokers)}
    loose = [_may_move(lane, at, topics) for lane in layout.lanes]
    replicas = _replicas(layout, at, loose, alert)
    ordered = _led(layout, at, loose, replicas, alert)
    there = [_after(lane, to) for lane, to in zip(layout.lanes, ordered, strict=True)]
    moves = tuple(_move(lane, to) for lane, to in zip(layout.lanes, ordered, strict=True) if to != lane.replicas)
    elect = [free and lane.leader != lane.replicas[0] for lane, free in zip(there, loose, strict=True)]
    elections = tuple(lane.place for lane, needed in zip(there, elect, strict=True) if needed)
    after = tuple(_elected(lane) if needed else lane for lane, needed in zip(there, elect, strict=True))
    return Reassignment(_print(layout), layout.brokers, moves, elections, after)


def bands(counts: Sequence[int], alert: float = ALERT) -> list[Band]:
    """Bands that are in balance and can hold these counts, those that need the fewest moves first.

    >>> bands([6, 6, 0])
    [Band(low=4, high=5)]
    >>> bands([2, 1, 0])
    [Band(low=1, high=1)]
    """
    low, high = sum(counts) // len(counts), -(-sum(counts) // len(counts))
    wide = [Band(one, floor(alert * one)) for one in range(max(1, ceil(high / alert)), low + 1)]
    found = [band for band in wide if band.high >= high] or [Band(low, high)]
    return sorted(found, key=lambda band: (_needed(counts, band), band.low))


def _needed(counts: Sequence[int], band: Band) -> int:
    """Moves that a band takes at least."""
    too_many = sum(max(0, count - band.high) for count in counts)
    return max(too_many, sum(max(0, band.low - count) for count in counts))


def _may_move(lane: Lane, at: Mapping[int, int], topics: Collection[str] | None) -> bool:
    is_meant = topics is None or lane.topic in topics
    return is_meant and lane.is_whole and all(broker in at for broker in lane.replicas)


def _replicas(layout: Layout, at: Mapping[int, int], loose: Sequence[bool], alert: float) -> list[tuple[int, ...]]:
    """The replica list of each lane when copies are balanced: a new broker stands where the one it replaces stood."""
    ids = [broker.id for broker in layout.brokers]
    heavy = max((lane.size or 0 for lane in layout.lanes), default=0) + 1
    items = [
        Item(_places(lane.replicas, at), heavy if lane.size is None else lane.size, None if free else frozenset())
        for lane, free in zip(layout.lanes, loose, strict=True)
    ]
    found = _balanced(items, len(ids), alert, _groups(layout))
    return [
        _exchanged(lane.replicas, [ids[place] for place in places]) if free else lane.replicas
        for lane, places, free in zip(layout.lanes, found, loose, strict=True)
    ]


def _places(brokers: Iterable[int], at: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(at[broker] for broker in brokers if broker in at)


def _groups(layout: Layout) -> list[int] | None:
    """A number for each broker's rack; None where every broker is alone in its rack, for then there is no rule."""
    racks = [broker.rack for broker in layout.brokers]
    if not layout.has_racks or len(set(racks)) in (1, len(racks)):
        return None
    names = sorted({str(rack) for rack in racks})
    return [names.index(str(rack)) for rack in racks]


def _balanced(items: Sequence[Item], size: int, alert: float, groups: Sequence[int] | None) -> list[tuple[int, ...]]:
    """The nodes of tokens in the cheapest band; those they have when these are in balance."""
    counts = _counts([item.places for item in items], size)
    if spread(counts, alert).even:
        return [item.places for item in items]
    best: Settled | None = None
    spent = 0
    for band in bands(counts, alert):
        spent += _needed(counts, band) + len(items) // PER_TRY
        if best is not None and spent > TRIED:
            break
        if best is None or best.missing or _at_least(items, counts, band) < best.weight:
            found = settled(items, size, band, groups)
            best = found if best is None or _rank(found) < _rank(best) else best
    assert best is not None
    return list(best.places)


def _rank(found: Settled) -> tuple[int, int]:
    return found.missing, found.weight


def _at_least(items: Sequence[Item], counts: Sequence[int], band: Band) -> int:
    """What a band costs at least: as many of the lightest as have to move."""
    lightest = sorted(item.weight for item in items for _ in item.places if item.may is None or item.may)
    return sum(lightest[: _needed(counts, band)])


def _counts(places: Iterable[tuple[int, ...]], size: int) -> list[int]:
    counts = [0] * size
    for one in places:
        for place in one:
            counts[place] += 1
    return counts


def _exchanged(before: tuple[int, ...], after: Collection[int]) -> tuple[int, ...]:
    """The same list with each broker that leaves replaced where it stood."""
    new = iter(sorted(set(after) - set(before)))
    return tuple(broker if broker in after else next(new) for broker in before)


def _led(
    layout: Layout, at: Mapping[int, int], loose: Sequence[bool], replicas: Sequence[tuple[int, ...]], alert: float
) -> list[tuple[int, ...]]:
    """Each replica list with the broker first that should lead. A lane whose first copy moves has a free choice."""
    ids = [broker.id for broker in layout.brokers]
    items = [
        Item(_places(new[:1], at), int(new[0] == lane.replicas[0]), frozenset(_places(new, at)))
        if free
        else Item(_places([lane.leader], at), 0, frozenset())
        for lane, new, free in zip(layout.lanes, replicas, loose, strict=True)
    ]
    found = _balanced(items, len(ids), alert, None)
    return [
        _first(new, ids[places[0]]) if free else new for new, places, free in zip(replicas, found, loose, strict=True)
    ]


def _first(replicas: tuple[int, ...], leader: int) -> tuple[int, ...]:
    return (leader, *(broker for broker in replicas if broker != leader))


def _move(lane: Lane, to: tuple[int, ...]) -> Move:
    return Move(lane.topic, lane.partition, lane.replicas, to, lane.leader, lane.size)


def _after(lane: Lane, replicas: tuple[int, ...]) -> Lane:
    """A lane when its copies are where they should be; a leader that is gone gives way to the first of the list."""
    if replicas == lane.replicas:
        return lane
    leader = lane.leader if lane.leader in replicas else replicas[0]
    return replace(lane, replicas=replicas, leader=leader, isr=replicas)


def _elected(lane: Lane) -> Lane:
    return replace(lane, leader=lane.replicas[0])


def _print(layout: Layout) -> str:
    return fingerprint(layout.brokers, {lane.place: lane.replicas for lane in layout.lanes})


def _total(sized: Iterable[tuple[int | None, int]]) -> int | None:
    total = 0
    for size, copies in sized:
        if size is None and copies:
            return None
        total += (size or 0) * copies
    return total


def kafka_json(lists: Iterable[tuple[str, int, Sequence[int]]]) -> dict[str, Any]:
    """Replica lists in the form of Kafka's own tool, `kafka-reassign-partitions`."""
    return {"version": 1, "partitions": list(_entries(lists))}


def _entries(lists: Iterable[tuple[str, int, Sequence[int]]]) -> Iterator[dict[str, Any]]:
    for topic, partition, replicas in lists:
        yield {"topic": topic, "partition": partition, "replicas": list(replicas)}

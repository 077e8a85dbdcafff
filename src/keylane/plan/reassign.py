"""A reassignment that brings a cluster into balance with the fewest bytes moved, and what it costs.

The rule, in this order: replicas come within the alert (the fullest broker at most 1.3 times the emptiest, or as near
as whole lanes allow: one apart) by moving the fewest bytes, then the fewest replicas; the preferred leaders come within
the same by another order of replica lists, which moves no bytes. Replication factors stay; no broker has a lane twice;
no lane is on fewer racks than before. A lane that is not whole (a copy behind, gone, or without a leader) is counted
and left where it is: mend that first.

Six lanes on brokers 1 and 2, and nothing on 3: the two lightest go, one from each side.

    >>> from keylane.plan.budget import Broker, Lane, Layout
    >>> lanes = [Lane("t", p, (1 + p % 2,), 1 + p % 2, (1 + p % 2,), size=10 * p + 10) for p in range(6)]
    >>> change = reassignment(Layout((Broker(1), Broker(2), Broker(3)), tuple(lanes)))
    >>> [(move.partition, move.replicas) for move in change.moves], change.bytes
    ([(0, (3,)), (1, (3,))], 30)

A broker more is filled by the smallest lanes. A broker less is not what this is for: it evacuates nobody. The fewest
bytes are proven where racks set no rule and every band is tried (see `TRIED`); else they are few, and the rest holds.
Nothing is contacted here: `systems.kafka_reassign`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final

from keylane.plan.budget import ALERT, fingerprint, spread
from keylane.plan.exchange import Band, Item, settled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from keylane.plan.budget import Broker, Lane, Layout
    from keylane.plan.exchange import Settled

__all__ = ["Change", "Move", "bands", "kafka_json", "reassignment"]

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
class Change:
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
        """Lanes that somebody else leads afterwards."""
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


def reassignment(layout: Layout, *, topics: Collection[str] | None = None, alert: float = ALERT) -> Change:
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
    return Change(_print(layout), layout.brokers, moves, elections, after)


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
    """The places of tokens in the cheapest band; those they have when these are in balance."""
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

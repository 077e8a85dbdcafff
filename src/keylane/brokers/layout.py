"""The brokers of a Kafka cluster: what each broker carries, and what of it is wrong. Figures only.

A lane is a partition; its copies are its replicas, the first of which is its preferred leader. Who reads a layout from
a cluster: `systems.kafka.reassign`. What evens it out: `rebalance`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from keylane.measure.balance import max_over_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: The fullest broker over the emptiest one: above this, a cluster is out of balance.
ALERT: Final = 1.3
#: Copies on one broker, as a rule of thumb for a large one; services state their own by size.
LIMIT: Final = 4_000


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that answers, and the rack that it reports."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane: where its copies are, the preferred leader first, who leads (-1: no broker), and who keeps up.

    `size` is the bytes of one copy; None when the cluster does not report it.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    size: int | None = None
    min_isr: int | None = None

    @property
    def place(self) -> tuple[str, int]:
        """What identifies it."""
        return self.topic, self.partition

    @property
    def is_whole(self) -> bool:
        """Whether every copy keeps up, and there is a leader."""
        return self.leader >= 0 and set(self.replicas) <= set(self.isr)


@dataclass(frozen=True)
class Layout:
    """A cluster as it was seen: brokers by their id, lanes by topic and number."""

    brokers: tuple[Broker, ...]
    lanes: tuple[Lane, ...]

    @cached_property
    def racks(self) -> Mapping[int, str | None]:
        """The rack of each broker that answers."""
        return {broker.id: broker.rack for broker in self.brokers}

    @property
    def has_racks(self) -> bool:
        """Whether every broker reports its rack; where one does not, racks are not counted."""
        return bool(self.brokers) and all(broker.rack is not None for broker in self.brokers)


@dataclass(frozen=True, slots=True)
class Evenness:
    """How something lies on the brokers. `over_min` is None when a broker has nothing and another has something."""

    counts: tuple[int, ...]
    over_min: float | None
    over_mean: float
    even: bool


@dataclass(frozen=True, slots=True)
class LayoutFigures:
    """What a layout amounts to. `bytes` is None when a size is not known; `below_min_isr` when no minimum is."""

    replicas: Evenness
    leaders: Evenness
    bytes: tuple[int, ...] | None
    under_replicated: int
    offline: int
    not_preferred: int
    below_min_isr: int | None
    rack_violations: int | None
    over_limit: tuple[int, ...]


def spread(counts: Sequence[int], alert: float = ALERT) -> Evenness:
    """The figures of some counts, one a broker. Counts that differ by one are even, for no lane can be halved.

    >>> spread([13, 10]).even, spread([14, 10]).even, spread([3, 2]).even
    (True, False, True)
    >>> spread([4, 0]).over_min is None
    True
    """
    most, least = max(counts, default=0), min(counts, default=0)
    over_min = most / least if least else (None if most else 1.0)
    even = most <= alert * least or most - least <= 1
    return Evenness(tuple(counts), over_min, max_over_mean(counts) if counts else 0.0, even)


def figures(layout: Layout, *, limit: int = LIMIT, alert: float = ALERT) -> LayoutFigures:
    """All figures of a layout. A copy on a broker that does not answer is not counted."""
    ids = [broker.id for broker in layout.brokers]
    replicas = _counted(ids, (broker for lane in layout.lanes for broker in lane.replicas))
    leaders = _counted(ids, (lane.leader for lane in layout.lanes))
    return LayoutFigures(
        spread(replicas, alert),
        spread(leaders, alert),
        _weighed(layout, ids),
        sum(len(set(lane.isr) & set(lane.replicas)) < len(lane.replicas) for lane in layout.lanes),
        sum(lane.leader < 0 for lane in layout.lanes),
        sum(0 <= lane.leader != lane.replicas[0] for lane in layout.lanes),
        _below_min_isr(layout.lanes),
        sum(_racks_missing(lane, layout.racks) for lane in layout.lanes) if layout.has_racks else None,
        tuple(broker for broker, count in zip(ids, replicas, strict=True) if count > limit),
    )


def _counted(ids: Sequence[int], found: Iterable[int]) -> list[int]:
    tally = Counter(found)
    return [tally[broker] for broker in ids]


def _weighed(layout: Layout, ids: Sequence[int]) -> tuple[int, ...] | None:
    tally = dict.fromkeys(ids, 0)
    for lane in layout.lanes:
        if lane.size is None:
            return None
        for broker in lane.replicas:
            tally[broker] = tally.get(broker, 0) + lane.size
    return tuple(tally[broker] for broker in ids)


def _below_min_isr(lanes: Iterable[Lane]) -> int | None:
    known = [len(lane.isr) < lane.min_isr for lane in lanes if lane.min_isr is not None]
    return sum(known) if known else None


def _racks_missing(lane: Lane, racks: Mapping[int, str | None]) -> bool:
    """Whether the copies could be on more racks than they are."""
    used = {racks[broker] for broker in lane.replicas if broker in racks}
    return len(used) < min(len(lane.replicas), len(set(racks.values())))


def fingerprint(brokers: Iterable[Broker], replicas: Mapping[tuple[str, int], Sequence[int]]) -> str:
    """What a plan is bound to: brokers, racks, and where every copy is. Leaders and sizes change by themselves.

    >>> fingerprint([Broker(1)], {("t", 0): [1]})[:12]
    '3f328863c67c'
    """
    state = [
        sorted([broker.id, broker.rack] for broker in brokers),
        sorted([topic, partition, list(found)] for (topic, partition), found in replicas.items()),
    ]
    return hashlib.sha256(json.dumps(state, separators=(",", ":")).encode()).hexdigest()

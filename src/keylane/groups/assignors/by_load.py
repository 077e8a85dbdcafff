"""By load: sticky by what lanes carry, measured traffic or lag, with few moves and co-partitioned lanes together.

The rule: members keep what they have. What is free goes, heaviest first, to the member that carries least (and of
equals, has the fewest lanes). Then, while the fullest member carries more than the tolerance over the mean, it hands
over the one lane, or exchanges the pair, that lowers it most. Lane i of topics with equal counts and the same readers
moves as one.

Loads 7, 4, 2, 1 on two members: by count each gets two lanes, and A carries 9 of 14; by load each carries 7.

    >>> from keylane.groups.model import Lanes, Member
    >>> loads = {("t", 0): 7.0, ("t", 1): 4.0, ("t", 2): 2.0, ("t", 3): 1.0}
    >>> by_load([Member("A"), Member("B")], Lanes.of({"t": 4}), None, loads=loads).as_lists()
    {'A': [('t', 0)], 'B': [('t', 1), ('t', 2), ('t', 3)]}

A member that leaves or comes moves at most twice the lanes that it would by count, and a change of loads alone at most
a member's share by count. `most` sets another limit. Where the assignment before had co-partitioned lanes apart, they
are brought together first, whatever that moves. A lane more is a free lane. Not where a reader's cost is a lane itself
(a connection, a file) rather than its traffic: counts differ here as loads do. No help against one hot lane: below its
own load no member that reads it can be; split its keys instead (`keylane plan`). Loads of an hour ago are a forecast:
with loads that swing, take a long mean or a wide tolerance.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import isfinite
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.errors import UsageError
from keylane.groups.balance import even
from keylane.groups.model import FREE, Assignment, Lanes, Member, check_members, subscriptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.groups.model import Lane, Owners

#: How far over the mean the fullest member may be before a lane is moved that need not.
TOLERANCE: Final = 0.05
#: What a lane without a load weighs, of the mean of all lanes.
IDLE: Final = 0.01


def by_load(
    members: Sequence[Member],
    lanes: Lanes,
    previous: Assignment | None,
    *,
    loads: Mapping[Lane, float] | None = None,
    together: bool = True,
    tolerance: float = TOLERANCE,
    most: int | None = None,
) -> Assignment:
    """Even loads with few moves. Without any load all lanes weigh the same.

    A lane without a load weighs next to nothing, so that idle lanes are shared out by count: they may carry something
    tomorrow, and lag is 0 wherever readers keep up.

    `most`: lanes that may move though their owner is there; default: `_limit`.
    """
    check_members(members)
    ordered = sorted(members, key=lambda member: member.order)
    allowed = subscriptions(ordered, lanes)
    before = np.full(lanes.total, FREE, np.int32) if previous is None else previous.seen_by(ordered, lanes)
    if allowed is not None:
        before[(before != FREE) & ~allowed[lanes.topic_of_lanes(), before]] = FREE
    weights = _with_floor(weighed(lanes, loads))
    had_owner = 0 if previous is None else int((previous.owners != FREE).sum())
    forced = had_owner - int((before != FREE).sum())
    members_before = 0 if previous is None else len(previous.members) - len(previous.idle)
    limit = _limit(before, forced, members_before, len(ordered), all_alike=allowed is None) if most is None else most
    units = _units(lanes, allowed, together=together)
    spread = _Spread.of(units, weights, before, allowed, lanes, len(ordered))
    spread.place()
    spread.even_out(tolerance, lanes.total if previous is None else limit)
    return Assignment(lanes, tuple(member.id for member in ordered), spread.owner[units].astype(np.int32))


def _limit(before: Owners, forced: int, members_before: int, members: int, *, all_alike: bool) -> int:
    """Lanes that may move though their owner is there, where `forced` have to: twice what counts would move in all.

    Counts would move the share of one member, or more where several came or went. A member that carried much in few
    lanes leaves few of them, so the share counts and not what it had.
    """
    share = max(1, len(before) // max(members_before, members))
    by_count = forced
    if all_alike:
        by_count += int(((before != FREE) & (even(before, members) != before)).sum())
    return max(by_count, 2 * share - forced if forced else share)


def weighed(lanes: Lanes, loads: Mapping[Lane, float] | None) -> NDArray[np.float64]:
    """The load of every lane by its number; loads of lanes that are not there are left out."""
    if loads is None:
        return np.ones(lanes.total)
    found = np.zeros(lanes.total)
    for lane, load in loads.items():
        if not isfinite(load) or load < 0:
            raise UsageError.of(f"the load of lane {lane[1]} of {lane[0]!r}", got=load, allowed="a number from 0 on")
        if (number := lanes.number(lane)) is not None:
            found[number] = load
    return found


def _with_floor(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Loads, none below a hundredth of the mean."""
    return np.maximum(weights, IDLE * weights.mean()) if weights.any() else np.ones(len(weights))


def _units(lanes: Lanes, allowed: NDArray[np.bool_] | None, *, together: bool) -> NDArray[np.int64]:
    """For each lane the unit that it moves in: lanes of one index of topics with equal counts and the same readers."""
    if not together:
        return np.arange(lanes.total)
    first: dict[tuple[int, bytes], int] = {}
    found, following = np.empty(lanes.total, dtype=np.int64), 0
    for topic, count in enumerate(lanes.counts):
        kind = (count, b"" if allowed is None else allowed[topic].tobytes())
        if kind not in first:
            first[kind] = following
            following += count
        found[lanes.starts[topic] : lanes.starts[topic] + count] = first[kind] + np.arange(count)
    return found


@dataclass(slots=True)
class _Spread:
    """Units with their loads and lanes, where they are, and what each member carries."""

    load: NDArray[np.float64]
    lanes: NDArray[np.int64]
    readers: NDArray[np.bool_] | None
    before: NDArray[np.int64]
    owner: NDArray[np.int64]
    carried: NDArray[np.float64]
    counts: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        units: NDArray[np.int64],
        weights: NDArray[np.float64],
        before: Owners,
        allowed: NDArray[np.bool_] | None,
        lanes: Lanes,
        members: int,
    ) -> _Spread:
        count = int(units.max()) + 1 if len(units) else 0
        load, size = _sums(units, weights, count), np.bincount(units, minlength=count)
        readers = None
        if allowed is not None:
            readers = np.zeros((count, members), dtype=np.bool_)
            readers[units] = allowed[lanes.topic_of_lanes()]
        owner = _held(units, weights, before, count)
        owned = owner != FREE
        carried, counts = _sums(owner[owned], load[owned], members), _sums(owner[owned], size[owned], members)
        return cls(load, size, readers, owner.copy(), owner, carried, counts.astype(np.int64))

    def place(self) -> None:
        """Units without an owner: heaviest first, to the member that carries least."""
        free = np.flatnonzero(self.owner == FREE)
        order = free[np.lexsort((free, -self.lanes[free], -self.load[free]))].tolist()
        if self.readers is None:
            heap = [(self.carried[n], self.counts[n], n) for n in range(len(self.carried))]
            heapify(heap)
            for unit in order:
                _, _, member = heappop(heap)
                self._move(unit, member)
                heappush(heap, (self.carried[member], self.counts[member], member))
            return
        for unit in order:
            takers = np.flatnonzero(self.readers[unit])
            if len(takers):
                self._move(unit, int(takers[np.lexsort((self.counts[takers], self.carried[takers]))[0]]))

    def even_out(self, tolerance: float, most: int) -> None:
        """Hand over from the fullest member, one unit or an exchange, while that lowers it and lanes may still move."""
        if not len(self.load):
            return
        while True:
            full = int(self.carried.argmax())
            if self.carried[full] <= self.carried.mean() * (1 + tolerance):
                return
            step = self._best(full, most)
            if step is None:
                return
            given, member, taken = step
            most += self._displaced([given, *taken])
            self._move(given, member)
            for unit in taken:
                self._move(unit, full)
            most -= self._displaced([given, *taken])

    def _displaced(self, units: Sequence[int]) -> int:
        """Lanes of these that are not where they were, though they had an owner."""
        return sum(int(self.lanes[u]) for u in units if self.before[u] not in {FREE, self.owner[u]})

    def _best(self, full: int, most: int) -> tuple[int, int, list[int]] | None:
        """What the fullest member hands over to whom, and what it gets for it: what lowers the fuller of both most."""
        own = np.flatnonzero((self.owner == full) & (self.load > 0))
        own = own[np.argsort(self.load[own], kind="stable")]
        for member in np.argsort(self.carried, kind="stable").tolist():
            gap = float(self.carried[full] - self.carried[member])
            if member == full or gap <= 1e-9 * float(self.carried[full]):
                return None
            giving = own if self.readers is None else own[self.readers[own, member]]
            if found := self._with(giving.tolist(), full, member, gap, most):
                return found[0], member, found[1]
        return None

    def _with(self, giving: list[int], full: int, member: int, gap: float, most: int) -> tuple[int, list[int]] | None:
        """The unit to hand over to a member, and the one to take for it: loads as near to half the gap as can be."""
        takable = np.flatnonzero((self.owner == member) & (self.load > 0))
        if self.readers is not None:
            takable = takable[self.readers[takable, full]]
        back = takable[np.argsort(self.load[takable], kind="stable")].tolist()
        back_loads = self.load[back].tolist()
        best: tuple[float, int, list[int]] | None = None
        for unit in giving:
            load = float(self.load[unit])
            # Without an exchange, and with the two units nearest to what would even both out.
            options: list[list[int]] = [[]]
            at = bisect_left(back_loads, load - gap / 2)
            options += [[back[n]] for n in (at - 1, at) if 0 <= n < len(back)]
            for taken in options:
                moved = load - sum(float(self.load[other]) for other in taken)
                cost = abs(moved - gap / 2)
                if 1e-9 * gap < moved < gap * (1 - 1e-9) and (best is None or cost < best[0]):
                    sizes = [unit, *taken]
                    if sum(int(self.lanes[u]) for u in sizes if self.before[u] == self.owner[u]) <= most:
                        best = (cost, unit, taken)
        return best and (best[1], best[2])

    def _move(self, unit: int, member: int) -> None:
        if (now := int(self.owner[unit])) != FREE:
            self.carried[now] -= self.load[unit]
            self.counts[now] -= self.lanes[unit]
        self.owner[unit] = member
        self.carried[member] += self.load[unit]
        self.counts[member] += self.lanes[unit]


def _sums(groups: NDArray[np.int64], weights: NDArray[np.float64 | np.int64], count: int) -> NDArray[np.float64]:
    return np.bincount(groups, weights, count).astype(np.float64)


def _held(units: NDArray[np.int64], weights: NDArray[np.float64], before: Owners, count: int) -> NDArray[np.int64]:
    """Who had each unit: of several members the one that had most of its load, and of equals most of its lanes."""
    owner = np.full(count, FREE, dtype=np.int64)
    held = np.flatnonzero(before != FREE)
    if not len(held):
        return owner
    pairs, inverse = np.unique(np.stack([units[held], before[held]]), axis=1, return_inverse=True)
    load = np.bincount(inverse.reshape(-1), weights[held])
    number = np.bincount(inverse.reshape(-1))
    order = np.lexsort((-pairs[1], number, load))
    owner[pairs[0][order]] = pairs[1][order]
    return owner

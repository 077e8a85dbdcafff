"""Lanes spread evenly over members with the fewest moves: what the sticky assignors share.

`even` is the closed form for members that may all read everything: no search, a few passes over arrays. `balanced` is
for unequal subscriptions and racks. By traffic instead of by count: `assignors.by_load`.

Lanes of one topic with copies in the same racks are alike, so `balanced` works on a table: a row for each kind of
lane, a column for each member, how many of them it has. First everything stays, free lanes go where least is, and
members with two more than another hand over directly. What is left is a flow of least cost, solved exactly: a cycle
of hand-overs that makes it cheaper is looked for (Bellman and Ford) and carried out, until there is none. Cost is, in
this order: the sum of the squares of the counts, lanes read from another rack, lanes that moved. No assignment is
more even by any measure, and none that is as even and as near moves fewer lanes; beyond `WORK` the search ends early,
and the result is still valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.groups.model import FREE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.groups.model import Lanes, Member, Owners

    Numbers = NDArray[np.int64]

#: Cells that the exact search may look at, all steps together: about a quarter of a minute.
WORK: Final = 4_000_000_000
#: Passes of direct hand-overs before the exact search.
PASSES: Final = 16
_FAR: Final = np.int64(1) << 60


def even(before: Owners, members: int, *, in_turns: bool = True) -> Owners:
    """Every lane to one of so many members, counts at most one apart, and no lane moved that need not.

    `before` has the owner of each lane, or `FREE`. Members that hold more than the least get the extra lanes first.
    Free lanes are dealt out in turns, so that a topic is spread; otherwise in blocks, as brokers do.

    >>> even(np.array([0, 0, 0, 0, 1, FREE]), 3).tolist()
    [0, 0, 2, 1, 1, 2]
    """
    least, extra = divmod(len(before), members)
    owned = before != FREE
    held = np.bincount(before[owned], minlength=members)
    wanted = np.full(members, least, dtype=np.int64)
    wanted[np.argsort(held <= least, kind="stable")[:extra]] += 1
    owners = before.astype(np.int32)
    if (held > wanted).any():
        owners[_ranks(before, members) >= wanted[before]] = FREE
    kept = np.minimum(held, wanted)
    slots = np.repeat(np.arange(members, dtype=np.int32), wanted - kept)
    if in_turns:
        begins = np.cumsum(wanted - kept) - (wanted - kept)
        level = np.arange(len(slots)) - np.repeat(begins - kept, wanted - kept)
        slots = slots[np.argsort(level.astype(np.uint16 if least < 0xFFFF else np.int64), kind="stable")]
    owners[owners == FREE] = slots
    return owners


def _ranks(groups: NDArray[np.int32] | Numbers, count: int) -> Numbers:
    """For each element, how many of its group come before it; -1 where it has none."""
    order = np.argsort(groups, kind="stable")
    begins = np.searchsorted(groups[order], np.arange(count))
    ranks = np.full(len(groups), -1, dtype=np.int64)
    free = int(np.searchsorted(groups[order], 0))
    placed = order[free:]
    ranks[placed] = np.arange(free, len(groups)) - begins[groups[placed]]
    return ranks


def balanced(
    members: Sequence[Member], lanes: Lanes, before: Owners, allowed: NDArray[np.bool_] | None, *, racks: bool = True
) -> Owners:
    """The owners after, where not all members may read everything, or where lanes have copies in racks.

    `allowed` has a row for each topic and a column for each member; None: all may read all.
    """
    table = _KindTable.of(members, lanes, before, allowed, racks=racks)
    table.fill()
    table.hand_over()
    table.search()
    return table.owners()


def matters(members: Sequence[Member], lanes: Lanes) -> bool:
    """Whether a choice by rack can bring any member nearer: some lane has no copy in a rack that has members."""
    there = {member.rack for member in members} - {None}
    if not there or not lanes.racks:
        return False
    return any(not there <= copies for copies in lanes.racks.values()) and any(there & c for c in lanes.racks.values())


@dataclass(slots=True)
class _KindTable:
    """How many lanes of each kind each member has, had, and may have; `far` where they are in another rack."""

    row_of_lane: NDArray[np.int32]
    before: Owners
    size: Numbers
    may: NDArray[np.bool_]
    far: NDArray[np.bool_] | None
    had: Numbers
    has: Numbers

    @classmethod
    def of(
        cls, members: Sequence[Member], lanes: Lanes, before: Owners, allowed: NDArray[np.bool_] | None, *, racks: bool
    ) -> _KindTable:
        rows, kinds = _kinds(lanes, racks=racks)
        topics = np.array([topic for topic, _ in kinds])
        may = np.ones((len(kinds), len(members)), np.bool_) if allowed is None else allowed[topics]
        far = None
        if racks and lanes.racks:
            far = np.array([[m.rack is not None and m.rack not in copies for m in members] for _, copies in kinds])
        cells = rows.astype(np.int64) * len(members) + before
        valid = (before != FREE) & may.reshape(-1)[cells * (before != FREE)]
        had = np.bincount(cells[valid], minlength=may.size).reshape(may.shape)
        kept = np.where(valid, before, FREE).astype(np.int32)
        return cls(rows, kept, np.bincount(rows, minlength=len(kinds)), may, far, had, had.copy())

    def fill(self) -> None:
        """Free lanes go to the subscribers with the fewest, kinds with few subscribers first."""
        load = self.has.sum(axis=0)
        for row in np.argsort(self.may.sum(axis=1), kind="stable"):
            free = int(self.size[row] - self.has[row].sum())
            takers = np.flatnonzero(self.may[row])
            if not free or not len(takers):
                continue
            if self.far is not None and (near := takers[~self.far[row, takers]]).size:
                takers = near
            more = poured(load[takers], free)
            self.has[row, takers] += more
            load[takers] += more

    def hand_over(self) -> None:
        """A member takes directly from those that have two more, as long as that helps; cheap, and not yet the best."""
        load = self.has.sum(axis=0)
        for _ in range(PASSES):
            moved = 0
            for taker in np.argsort(load, kind="stable"):
                if load.max() < load[taker] + 2:
                    break
                moved += self._take(int(taker), load)
            if not moved:
                return

    def _take(self, taker: int, load: Numbers) -> int:
        rows = np.flatnonzero(self.may[:, taker])
        there = self.has[rows].sum(axis=0)
        there[load < load[taker] + 2] = 0
        if not there.any():
            return 0
        low, high = int(load[taker]) + 1, int(load.max())
        while low < high:
            level = (low + high) // 2
            if load[taker] + np.minimum(there, np.maximum(load - level, 0)).sum() <= level:
                high = level
            else:
                low = level + 1
        giving = np.minimum(there, np.maximum(load - low, 0))
        for giver in np.flatnonzero(giving):
            self._give(int(giver), taker, rows, int(giving[giver]))
        load -= giving
        load[taker] += giving.sum()
        return int(giving.sum())

    def _give(self, giver: int, taker: int, rows: Numbers, count: int) -> None:
        """So many lanes of these kinds; those first that were not the giver's before, and that were the taker's."""
        cost = np.where(self.has[rows, giver] > self.had[rows, giver], 0, 1)
        cost = cost - (self.has[rows, taker] < self.had[rows, taker])
        for row in rows[np.argsort(cost, kind="stable")]:
            some = min(count, int(self.has[row, giver]))
            self.has[row, giver] -= some
            self.has[row, taker] += some
            count -= some
            if not count:
                return

    def search(self) -> None:
        """Carry out cycles of hand-overs that make it cheaper, until there is none."""
        members, work = self.may.shape[1], 0
        far = np.int64(2 * members + 3)
        square = far * far
        while work < WORK:
            cycles, steps = _Walk(self, far, square).cycles()
            work += steps * self.may.size
            if not cycles:
                return
            for cycle in cycles:
                for row, giver, taker in cycle:
                    self.has[row, giver] -= 1
                    self.has[row, taker] += 1

    def owners(self) -> Owners:
        """The owner of every lane: of each kind a member keeps its own first, and the others are dealt out."""
        width = self.may.shape[1]
        cells = np.where(self.before == FREE, -1, self.row_of_lane.astype(np.int64) * width + self.before)
        keeps = (self.before != FREE) & (_ranks(cells, self.may.size) < self.has.reshape(-1)[cells])
        owners = np.where(keeps, self.before, FREE).astype(np.int32)
        more = (self.has - np.minimum(self.has, self.had)).reshape(-1)
        slots = np.repeat(np.arange(self.may.size), more)
        readable = self.may.sum(axis=1) > 0
        free = np.flatnonzero(~keeps & readable[self.row_of_lane])
        owners[free[np.argsort(self.row_of_lane[free], kind="stable")]] = slots % width
        return owners


def _kinds(lanes: Lanes, *, racks: bool) -> tuple[NDArray[np.int32], list[tuple[int, frozenset[str]]]]:
    """The kind of each lane, and the kinds: a topic, and the racks of the copies."""
    nowhere: frozenset[str] = frozenset()
    if not (racks and lanes.racks):
        return lanes.topic_of_lanes(), [(topic, nowhere) for topic in range(len(lanes.topics))]
    kinds: dict[tuple[int, frozenset[str]], int] = {}
    rows = [
        kinds.setdefault((topic, lanes.racks.get((name, index), nowhere)), len(kinds))
        for topic, name in enumerate(lanes.topics)
        for index in range(lanes.counts[topic])
    ]
    return np.array(rows, dtype=np.int32), list(kinds)


def poured(load: Numbers, free: int) -> Numbers:
    """What each gets of so many, poured in where least is.

    >>> poured(np.array([5, 1, 2]), 4).tolist()
    [0, 3, 1]
    """
    order = np.argsort(load, kind="stable")
    steps = load[order]
    # What it takes to lift the first k to the level of the next.
    need = np.append(steps[1:] * np.arange(1, len(load)) - np.cumsum(steps)[:-1], np.iinfo(np.int64).max)
    low = int(np.searchsorted(need, free)) + 1
    level, extra = divmod(int(free + steps[:low].sum()), low)
    more = np.zeros_like(load)
    more[order[:low]] = level - steps[:low]
    more[order[:extra]] += 1
    return more


class _Walk:
    """One search for cycles that make an assignment cheaper.

    A member gives a lane of some kind up, another takes one of that kind, and so on; who ends with one more hands it,
    so to say, to one that has one less: that step costs what it does to the squares.
    """

    def __init__(self, table: _KindTable, far: np.int64, square: np.int64) -> None:
        has, had = table.has, table.had
        give = (has <= had).astype(np.int64)
        take = -(has < had).astype(np.int64)
        if table.far is not None:
            give -= table.far * far
            take += table.far * far
        self.give = np.where(has > 0, give, _FAR)
        self.take = np.where(table.may, take, _FAR)
        load = has.sum(axis=0)
        load = load - load.min()
        self.more, self.less = 2 * square * load, -2 * square * (load - 1)
        # A member that has nothing has nothing to give.
        self.less = np.where(has.sum(axis=0) > 0, self.less, _FAR)

    def cycles(self) -> tuple[list[list[tuple[int, int, int]]], int]:
        """Cycles that share no member, as steps of kind, giver and taker; and how many rounds it took."""
        members = self.give.shape[1]
        columns = np.arange(members)
        reach = np.zeros(members, dtype=np.int64)
        parent, by_row = np.full(members, -1), np.full(members, -1)
        for step in range(1, 2 * members + 4):
            given = reach + self.give
            giver = given.argmin(axis=1)
            taken = given[np.arange(len(giver)), giver][:, None] + self.take
            row = taken.argmin(axis=0)
            ways = taken[row, columns]
            source = giver[row]
            last = int((reach + self.more).argmin())
            turn = reach[last] + self.more[last] + self.less
            nearer = turn < ways
            ways, row, source = np.where(nearer, turn, ways), np.where(nearer, -1, row), np.where(nearer, last, source)
            better = (ways < reach) & (source != columns)
            if not better.any():
                return [], step
            reach = np.where(better, ways, reach)
            parent[better], by_row[better] = source[better], row[better]
            if found := [self._steps(cycle, by_row) for cycle in _cycles_of(parent)]:
                return found, step
        return [], step

    @staticmethod
    def _steps(cycle: list[int], by_row: Numbers) -> list[tuple[int, int, int]]:
        givers = [*cycle[1:], cycle[0]]
        ways = zip(cycle, givers, strict=True)
        return [(int(by_row[taker]), giver, taker) for taker, giver in ways if by_row[taker] >= 0]


def _cycles_of(parent: Numbers) -> Iterator[list[int]]:
    """The cycles of a map of members to members; -1: to none.

    >>> list(_cycles_of(np.array([1, 2, 0, 0, -1])))
    [[0, 1, 2]]
    """
    up = parent.tolist()
    seen = [-1] * len(up)
    for start in range(len(up)):
        walk, at = [], start
        while at >= 0 and seen[at] < 0:
            seen[at] = start
            walk.append(at)
            at = up[at]
        if at >= 0 and seen[at] == start:
            yield walk[walk.index(at) :]

"""Compact regions of equal load, one for each lane, so that few records lie near another lane.

Where records are matched within a radius, each is copied to every lane that has a cell within it: a lane's work is its
own records and those of its surroundings. Packing that only evens the load scatters neighbours over all lanes; within
one city every request then goes to most of them. What a region costs beyond its own load is its border, so regions
are made compact.

Rule: cells are cut in two along a straight line, so that both sides have the load of their lanes, and each side again
until it is one lane. Of sixteen directions the one is taken that the fewest records lie near. Then border cells are
exchanged between lanes as long as the fullest lanes get less to do, copies included; no lane grows above 1.05 times the
mean load by that.

Worked example: a row of eight cells with a load of 1 on two lanes, and a radius of one cell: cells 0 to 3, and 4 to 7.
Two records are copied, which is 1.25 copies a record; dealt out in turn, all are, which is 2.

What changes do: another radius, other loads or another lane count give other regions, which move nearly everything.
When not to use it: where lanes should be equally busy in every hour and the load spans time zones; `lane_tables` has
that. Which of the two costs less is for `keylane.plan.lane_tables` to say. All of it is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, inf, pi, sin
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.geo.bits import ancestor, children, curve_end, resolution
from keylane.geo.lane_tables import Leaves, Rebalanced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Lanes = NDArray[np.int32]
    Floats = NDArray[np.float64]

_DIRECTIONS: Final = 16
#: A lane may be this much above the mean load where that leaves the fullest lanes with less work.
SLACK: Final = 0.05
#: Among the lanes' work the largest counts: the sum of such powers is what an exchange has to lower.
_POWER: Final = 8
_SWEEPS: Final = 60
#: An exchange that lowers the sum by a smaller part is rounding.
_LEAST: Final = 1e-9
#: What a move costs beside its load, in parts of a lane's mean load, where few moves are wanted.
_TRIFLE: Final = 0.03
#: Points times lanes above which border cells are not exchanged: the counts would not fit into memory.
_MOST_COUNTS: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Which leaves are within the radius of each point, as pairs; and what each point stands for, by hour.

    Leaves that are in no table, whose lane is a hash, have the number `leaves`.
    """

    point: NDArray[np.intp]
    leaf: NDArray[np.int32]
    load: Floats
    leaves: int

    def of_leaves(self) -> Surroundings:
        """The same with the leaves of the table alone."""
        known = self.leaf < self.leaves
        return Surroundings(self.point[known], self.leaf[known], self.load, self.leaves)


def regions(at: Floats, loads: Floats, lanes: int, around: Surroundings, slack: float = SLACK) -> Lanes:
    """The lane of each leaf; `at` are unit vectors of the leaves' centres, `loads` their load by hour.

    >>> row = np.stack([np.cos(np.arange(8) / 1e4), np.sin(np.arange(8) / 1e4), np.zeros(8)], axis=1)
    >>> pairs = [(i, j) for i in range(8) for j in range(max(0, i - 1), min(8, i + 2))]
    >>> point, leaf = np.array(pairs, np.int32).T
    >>> sorted(regions(row, np.ones((8, 1)), 2, Surroundings(point, leaf, np.ones((8, 1)), 8)).tolist())
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    known = around.of_leaves()
    total = loads.sum(1)
    cut = _beside_load(_cut(at, total, lanes, known), at, total)
    if len(known.load) * lanes <= _MOST_COUNTS:
        _Exchange(cut, total, lanes, known, slack).settle()
    return cut


def _cut(at: Floats, total: Floats, lanes: int, around: Surroundings) -> Lanes:
    """Recursive bisection: leaves, the first of their lanes, and how many lanes they get."""
    lane = np.zeros(len(at), np.int32)
    weight = around.load.sum(1)
    left = [(np.arange(len(at)), 0, lanes, around.point, around.leaf)]
    while left:
        members, first, many, point, leaf = left.pop()
        if many == 1 or not len(members):
            lane[members] = first
            continue
        side, near = _halved(at[members], total[members], many, _numbered(point, leaf, members, weight))
        inside = np.zeros(len(at), bool)
        inside[members[side]] = True
        here = inside[leaf]
        left.append((members[side], first, near, point[here], leaf[here]))
        left.append((members[~side], first + near, many - near, point[~here], leaf[~here]))
    return lane


def _beside_load(lane: Lanes, at: Floats, total: Floats) -> Lanes:
    """Leaves without a load are with the nearest that has one: nobody is sent to another lane for an empty cell."""
    known, empty = np.flatnonzero(total > 0), np.flatnonzero(total <= 0)
    if len(known):
        for some in np.array_split(empty, 1 + len(empty) * len(known) // _MOST_COUNTS):
            lane[some] = lane[known[(at[some] @ at[known].T).argmax(1)]] if len(some) else lane[some]
    return lane


def _numbered(
    point: NDArray[np.intp], leaf: NDArray[np.int32], members: NDArray[np.intp], weight: Floats
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Points and leaves of a part, each from 0 on, and the weights of the points."""
    points, numbered = np.unique(point, return_inverse=True)
    return numbered, np.searchsorted(members, leaf), weight[points]


def _halved(
    at: Floats, total: Floats, lanes: int, near: tuple[NDArray[np.intp], NDArray[np.intp], Floats]
) -> tuple[NDArray[np.bool_], int]:
    """One side of the best cut, and how many of the lanes it gets."""
    point, leaf, weight = near
    load = total if total.any() else np.ones(len(total))
    one, other = _axes(at, load)
    best: tuple[float, NDArray[np.bool_], int] | None = None
    for step in range(_DIRECTIONS):
        turn = pi * step / _DIRECTIONS
        order = np.argsort(at @ (cos(turn) * one + sin(turn) * other), kind="stable")
        middle = np.cumsum(load[order]) - load[order] / 2
        for many in sorted({lanes // 2, lanes - lanes // 2}):
            side = np.zeros(len(at), bool)
            side[order[: int(np.searchsorted(middle, load.sum() * many / lanes))]] = True
            here = np.bincount(point, side[leaf], len(weight))
            crossed = float(weight[(here > 0) & (here < np.bincount(point, minlength=len(weight)))].sum())
            if best is None or crossed < best[0]:
                best = crossed, side, many
    assert best is not None
    return best[1], best[2]


def _axes(at: Floats, load: Floats) -> tuple[Floats, Floats]:
    """The two directions that the load extends most in; of a city, those of its map."""
    apart = at - (at * load[:, None]).sum(0) / load.sum()
    _, axes = np.linalg.eigh((apart * load[:, None]).T @ apart)
    # Which way an axis points is up to the library; the cut must not be.
    axes *= np.where(axes[np.abs(axes).argmax(0), range(3)] < 0, -1.0, 1.0)
    return axes[:, 2], axes[:, 1]


def exchanged(
    before: Lanes, loads: Floats, lanes: int, around: Surroundings, most_moved: float, slack: float = SLACK
) -> Rebalanced:
    """A table in use with less work for its fullest lanes, by moving at most this share of the load.

    In each sweep the leaves that help most for what they move come first.

    >>> pairs = [(i, j) for i in range(8) for j in range(max(0, i - 1), min(8, i + 2))]
    >>> point, leaf = np.array(pairs, np.int32).T
    >>> known = Surroundings(point, leaf, np.ones((8, 1)), 8)
    >>> exchanged(np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int32), np.ones((8, 1)), 2, known, 0.25).lanes.tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    known, total, new = around.of_leaves(), loads.sum(1), before.copy()
    if len(known.load) * lanes <= _MOST_COUNTS:
        _Exchange(new, total, lanes, known, slack, most_moved * float(total.sum())).settle(best_first=True)
    moved = new != before
    share = float(total[moved].sum() / max(float(total.sum()), np.finfo(float).tiny))
    return Rebalanced(new, share, int(moved.sum()))


class _Exchange:
    """Border leaves change lanes while the fullest lanes get less work.

    With a budget, no more load than that may be in another lane than at first. For each point it is known how many
    leaves of each lane are within its radius. A leaf that leaves a lane takes from it the points that have no other
    leaf of that lane near; it brings to another lane those that had none of it.
    """

    def __init__(
        self,
        lane: Lanes,
        total: Floats,
        lanes: int,
        around: Surroundings,
        slack: float,
        budget: float = inf,
    ) -> None:
        self.lane, self.total, self.most = lane, total, (1 + slack) * float(total.sum()) / lanes
        self.first, self.left, self.fair = lane.copy(), budget, float(total.sum()) / lanes
        order = np.argsort(around.leaf, kind="stable")
        self.points = around.point[order]
        self.begins = np.searchsorted(around.leaf[order], np.arange(len(lane) + 1))
        self.count = np.zeros((len(around.load), lanes), np.int32)
        np.add.at(self.count, (around.point, lane[around.leaf]), 1)
        self.load = around.load / max(float(around.load.sum(0).max()) / lanes, np.finfo(float).tiny)
        self.work = np.stack([self.load[self.count[:, one] > 0].sum(0) for one in range(lanes)])
        self.own = np.bincount(lane, total, lanes)

    def settle(self, *, best_first: bool = False) -> None:
        """Until no leaf wants to move."""
        for _ in range(_SWEEPS):
            order = self._helpful() if best_first else range(len(self.lane))
            if not sum(map(self._moved, order)):
                return

    def _helpful(self) -> list[int]:
        """The leaves that would help, those first that help most for the load that they move."""
        worth = [self._best(leaf)[1] / (self.total[leaf] / self.fair + _TRIFLE) for leaf in range(len(self.lane))]
        return [leaf for leaf in np.argsort(worth, kind="stable").tolist() if worth[leaf] < 0]

    def _best(self, leaf: int) -> tuple[int, float]:
        """The lane where the sum of powers is least, and by how much it falls; -1 where no lane is better."""
        points, from_ = self.points[self.begins[leaf] : self.begins[leaf + 1]], int(self.lane[leaf])
        counts = self.count[points]
        others = self._allowed(leaf, counts)
        if not len(others):
            return -1, 0.0
        change, before = self._changes(points, counts, from_, others)
        best = int(change.argmin())
        return (int(others[best]), float(change[best])) if change[best] < -_LEAST * before else (-1, 0.0)

    def _moved(self, leaf: int) -> bool:
        """Whether a leaf has gone to the lane where the sum of powers is least."""
        to, _ = self._best(leaf)
        if to < 0:
            return False
        points, from_ = self.points[self.begins[leaf] : self.begins[leaf + 1]], int(self.lane[leaf])
        counts, load = self.count[points], self.load[points]
        self.work[from_] -= load[counts[:, from_] == 1].sum(0)
        self.work[to] += load[counts[:, to] == 0].sum(0)
        self.count[points, from_] -= 1
        self.count[points, to] += 1
        self.own[[from_, to]] += -self.total[leaf], self.total[leaf]
        self.left -= self.total[leaf] * (int(to != self.first[leaf]) - int(from_ != self.first[leaf]))
        self.lane[leaf] = to
        return True

    def _changes(
        self, points: NDArray[np.intp], counts: NDArray[np.int32], from_: int, others: NDArray[np.intp]
    ) -> tuple[Floats, float]:
        """By how much the sum of powers grows with each of the other lanes; and what the leaf's own lane has of it."""
        load = self.load[points]
        less = load[counts[:, from_] == 1].sum(0)
        more = (counts[:, others] == 0).T.astype(float) @ load
        before = float(_powers(self.work[from_]))
        change = _powers(self.work[from_] - less) - before + _powers(self.work[others] + more) - self._others(others)
        return change, before

    def _others(self, lanes: NDArray[np.intp]) -> Floats:
        return _powers(self.work[lanes])

    def _allowed(self, leaf: int, counts: NDArray[np.int32]) -> NDArray[np.intp]:
        """Lanes near a leaf that do not grow too large by it, or stay smaller than the one that it is in."""
        at, load = int(self.lane[leaf]), self.total[leaf]
        fits = (self.own + load <= self.most) | (self.own + load < self.own[at])
        if not load:
            fits[:] = True
        if at == self.first[leaf] and load > self.left:
            fits[:] = False
        fits[at] = False
        return np.flatnonzero(fits & counts.any(axis=0))


def _powers(work: Floats) -> Floats:
    return np.asarray((np.maximum(work, 0.0) ** _POWER).sum(-1))


def merged(leaves: Leaves, lane: Lanes, coarsest: int) -> tuple[Leaves, Lanes]:
    """The same table with fewer leaves: siblings that are all in one lane are their parent."""
    cells, loads, lanes = leaves.cells, leaves.loads, lane
    for at in range(int(resolution(cells).max(initial=coarsest)), coarsest, -1):
        cells, loads, lanes = _merged_at(cells, loads, lanes, at)
    order = np.argsort(curve_end(cells), kind="stable")
    return Leaves(cells[order], loads[order]), lanes[order]


def _merged_at(
    cells: NDArray[np.int64], loads: Floats, lane: Lanes, at: int
) -> tuple[NDArray[np.int64], Floats, Lanes]:
    fine = np.flatnonzero(resolution(cells) == at)
    if not len(fine):
        return cells, loads, lane
    parents, of = np.unique(ancestor(cells[fine], at - 1), return_inverse=True)
    least, most = np.full(len(parents), np.iinfo(np.int32).max, np.int32), np.full(len(parents), -1, np.int32)
    np.minimum.at(least, of, lane[fine])
    np.maximum.at(most, of, lane[fine])
    whole = (least == most) & (np.bincount(of) == (children(parents) >= 0).sum(1))
    sums = np.zeros((len(parents), loads.shape[1]))
    np.add.at(sums, of, loads[fine])
    kept = np.ones(len(cells), bool)
    kept[fine[whole[of]]] = False
    return (
        np.concatenate([cells[kept], parents[whole]]),
        np.concatenate([loads[kept], sums[whole]]),
        np.concatenate([lane[kept], least[whole]]),
    )

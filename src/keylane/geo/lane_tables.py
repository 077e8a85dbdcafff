"""Lane tables from counted cells: split into leaves, leaves packed into lanes, a table in use rebalanced.

Splitting makes leaves coarse where few records are and fine where many are. Rule: start with the ancestors at the
coarsest resolution. A cell that is heavier than `tau` times the mean load of a lane is replaced by its seven children
(six of a pentagon), until none is too heavy or the home resolution is reached. Children without a record stay in the
table with no load: a driver there is later beside the neighbours, and not where a hash would have put the whole
area.

Worked example: 60 records on 6 lanes, so a mean of 10, and tau 0.5. A cell of 4 records is a leaf. A cell of 12 is
split; a child of 5 is a leaf, a child of 7 is split again.

What changes do: a smaller tau or more lanes split more, and never make a leaf coarser. With `kept`, the leaves of an
earlier table, no leaf comes out that would hold one of them whole and more beside it, so an old lane is known for
every new leaf. When not to use it: where the heaviest home cell alone is above a lane's fair share nothing here helps;
`keylane.measure.balance.least_cv` gives what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import UsageError
from keylane.geo.bits import FINEST, ancestor, children, curve_end, curve_start, resolution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Cells = NDArray[np.int64]
    Loads = NDArray[np.float64]
    from numpy.typing import NDArray

    Lanes = NDArray[np.int32]
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Where splitting begins: cells of about 12,000 km2.
COARSEST: Final = 3
#: Where it ends; `keylane.geo.cells.HOME_RESOLUTION`, which needs the library of H3 to be there.
HOME: Final = 9


@dataclass(frozen=True, slots=True)
class Leaves:
    """Cells in the order of the curve, none inside another, and what each has of every hour."""

    cells: Cells
    loads: Loads

    def __len__(self) -> int:
        return len(self.cells)


def split(
    cells: Any, loads: Any, lanes: int, tau: float, coarsest: int = COARSEST, finest: int = HOME, kept: Any = ()
) -> Leaves:
    """The leaves of cells of the home resolution, each of which comes with its load of every hour.

    >>> leaves = split([0x89283082803ffff, 0x89283082807ffff], [[9.0], [1.0]], lanes=2, tau=1.0)
    >>> len(leaves), float(leaves.loads.sum()), int((leaves.loads > 0).sum())
    (37, 10.0, 2)
    """
    _check_split(lanes, tau, coarsest, finest)
    homes, load = in_curve_order(cells, loads)
    held = np.sort(np.asarray(kept, np.int64))
    total = load.sum(1, dtype=float)
    at, begins = _first_of_leaves(homes, total, tau * float(total.sum()) / lanes, (coarsest, finest), held)
    leaves = _at_each(homes[begins], at)
    sums = np.add.reduceat(load, begins, axis=0, dtype=float) if len(homes) else load
    return _completed(leaves, sums, held, coarsest)


def _first_of_leaves(
    homes: Cells, total: Loads, heaviest: float, between: tuple[int, int], kept: Cells
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each leaf its resolution, and the position of its first home cell; by totals alone, level by level."""
    sums = np.concatenate([[0.0], np.cumsum(total)])
    left = np.arange(len(homes))
    found = []
    for at in range(between[0], between[1] + 1):
        parents = ancestor(homes[left], at)
        first = np.flatnonzero(np.diff(parents, prepend=-1))
        begins, ends = left[first], left[np.append(first[1:], len(left)) - 1] + 1 if len(left) else left
        light = (sums[ends] - sums[begins] <= heaviest) & ~_holds_more(parents[first], kept)
        leaf = light | (at == between[1])
        found.append((np.full(int(leaf.sum()), at), begins[leaf]))
        left = left[~np.repeat(leaf, np.diff(np.append(first, len(left))))]
    levels, starts = (np.concatenate(one) for one in zip(*found, strict=True))
    order = np.argsort(starts)
    return levels[order], starts[order]


def _at_each(cells: Cells, at: NDArray[np.int64]) -> Cells:
    """The ancestor of each cell at its own resolution."""
    filler = (1 << 3 * (FINEST - at)) - 1
    return (cells & ~(0xF << 52)) | (at << 52) | filler


def in_curve_order(cells: Any, loads: Any) -> tuple[Cells, Loads]:
    """Cells of one resolution with their loads along the curve; a cell that comes twice is one with both loads."""
    homes = np.asarray(cells, np.int64)
    load = np.asarray(loads)
    places = curve_end(homes)
    if (places[1:] > places[:-1]).all():
        return homes, load
    order = np.argsort(places, kind="stable")
    homes, load = homes[order], load[order]
    first = np.flatnonzero(np.diff(homes, prepend=-1))
    return homes[first], np.add.reduceat(load, first, axis=0)


def checked_tau(tau: float) -> float:
    """A share of a lane above which cells can be split; others are refused."""
    if not (tau > 0 and isfinite(tau)):
        raise UsageError.of("tau is out of range", got=tau, allowed="greater than 0")
    return tau


def _check_split(lanes: int, tau: float, coarsest: int, finest: int) -> None:
    checked_tau(tau)
    if not 0 <= coarsest <= finest <= FINEST:
        raise UsageError.of(
            "resolutions are out of range", got=(coarsest, finest), allowed=f"0 to {FINEST}, the coarse one first"
        )
    if lanes < 1:
        raise UsageError.of("a lane table needs lanes", got=lanes, allowed="1 or more")


def _holds_more(cells: Cells, kept: Cells) -> NDArray[np.bool_]:
    """Whether a kept leaf is inside of each cell, and is not the cell itself."""
    places = np.sort(curve_end(kept))
    inside = np.searchsorted(places, curve_start(cells)) < np.searchsorted(places, curve_end(cells), "right")
    return inside & ~np.isin(cells, kept)


def _completed(cells: Cells, load: Loads, kept: Cells, coarsest: int) -> Leaves:
    """The leaves, and those without load: kept ones, and the siblings that splitting has made."""
    empty = _not_in(kept, cells)
    known = np.concatenate([cells, empty])
    siblings = _siblings(known, coarsest)
    every = np.concatenate([known, siblings])
    loads = np.concatenate([load, np.zeros((len(every) - len(load), load.shape[1]))])
    order = np.argsort(curve_end(every), kind="stable")
    return Leaves(every[order], loads[order])


def _not_in(kept: Cells, leaves: Cells) -> Cells:
    """Kept leaves with no new leaf inside of them; none of the new ones is coarser."""
    places = np.sort(curve_end(leaves))
    first, after = np.searchsorted(places, curve_start(kept)), np.searchsorted(places, curve_end(kept), "right")
    return kept[first == after]


def _siblings(leaves: Cells, coarsest: int) -> Cells:
    """The children of split cells in which there is no leaf."""
    out = [np.zeros(0, np.int64)]
    fineness = resolution(leaves)
    for at in range(coarsest, int(fineness.max(initial=coarsest))):
        finer = leaves[fineness > at]
        below = children(np.unique(ancestor(finer, at))).ravel()
        out.append(below[(below >= 0) & ~np.isin(below, ancestor(finer, at + 1))])
    return np.concatenate(out)


# Packing: leaves -> lanes, evenly filled in every hour of the day; or in ranges of the curve.

#: The day beside its hours: as much as all of them together.
_DAY: Final = 1.0


def pack_by_hour(loads: Any, lanes: int) -> Lanes:
    """The lane of each leaf; `loads` has a row for each leaf along the curve, and a column for each hour.

    >>> pack_by_hour([[6, 0], [0, 6], [5, 1], [1, 5]], 2).tolist()
    [0, 1, 1, 0]
    """
    load = _checked(loads, lanes)
    parts = in_parts_of_the_mean(load, lanes)
    total, out = load.sum(1), np.full(len(load), -1, np.int32)
    filled = np.zeros((lanes, parts.shape[1]))
    for leaf in np.argsort(-total, kind="stable")[: int((total > 0).sum())]:
        lane = int(np.argmin(filled @ parts[leaf]))
        filled[lane] += parts[leaf]
        out[leaf] = lane
    return _with_neighbours(out)


def pack_along_curve(loads: Any, lanes: int) -> Lanes:
    """The lane of each leaf, rising along the curve.

    >>> pack_along_curve([[1], [1], [1], [3]], 2).tolist()
    [0, 0, 0, 1]
    """
    total = _checked(loads, lanes).sum(1)
    middle = np.cumsum(total) - total / 2
    fair = max(float(total.sum()), np.finfo(float).tiny) / lanes
    return np.clip(middle // fair, 0, lanes - 1).astype(np.int32)


def in_parts_of_the_mean(load: NDArray[np.float64], lanes: int) -> NDArray[np.float64]:
    """Each hour in parts of what a lane has of it on average, and the whole day as the last column."""
    fair = load.sum(0) / lanes
    hours = np.divide(load, fair, out=np.zeros_like(load), where=fair > 0)
    day = load.sum(1, keepdims=True) / max(float(fair.sum()), np.finfo(float).tiny)
    return np.hstack([hours, day * np.sqrt(_DAY * load.shape[1])])


def _checked(loads: Any, lanes: int) -> NDArray[np.float64]:
    load = np.asarray(loads, float)
    if lanes < 1:
        raise UsageError.of("a lane table needs lanes", got=lanes, allowed="1 or more")
    if load.ndim != 2 or (load < 0).any() or not np.isfinite(load).all():
        raise UsageError.of(
            "loads must be given by leaf and hour",
            got=f"shape {load.shape}",
            allowed="two dimensions, no value below 0",
        )
    return load


def _with_neighbours(lanes: Lanes) -> Lanes:
    """Leaves without a load are with the leaf before them on the curve, and the first with the first that has one."""
    known = np.flatnonzero(lanes >= 0)
    if not len(known):
        return np.zeros_like(lanes)
    before = np.maximum.accumulate(np.where(lanes >= 0, np.arange(len(lanes)), known[0]))
    return lanes[before]


# Rebalancing: a table in use that has grown uneven, made even again by moving little.

GOAL: Final = 0.0075
HOUR_GOAL: Final = 0.025
MOST_MOVED: Final = 0.05
#: What a move costs beside its load, in parts of a lane's mean load: many tiny moves are as much trouble as one large.
_TRIFLE: Final = 0.03
#: A move that takes a smaller part of the unevenness that is left does not help.
_LEAST: Final = 0.001


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """The lane of each leaf, which share of the load has another lane than before, and how many leaves that is."""

    lanes: NDArray[np.int32]
    share: float
    leaves: int


def rebalance(
    before: Any,
    loads: Any,
    lanes: int,
    *,
    goal: float = GOAL,
    hour_goal: float = HOUR_GOAL,
    most_moved: float = MOST_MOVED,
) -> Rebalanced:
    """Move few leaves from where they are; `loads` as in `pack_by_hour`, `before` the lane of each leaf now.

    >>> rebalance([0, 0, 0, 1, 1, 1], [[4], [3], [3], [2], [2], [2]], 2, most_moved=0.2).lanes.tolist()
    [0, 1, 0, 1, 1, 1]
    """
    load, old = np.asarray(loads, float), np.asarray(before, np.int32)
    _check_rebalance(old, load, lanes, most_moved)
    new, total = old.copy(), load.sum(1)
    budget = most_moved * float(total.sum())
    search = _TableSearch(in_parts_of_the_mean(load, lanes), new, lanes, _price(total, lanes))
    while not even_enough(load, new, lanes, goal, hour_goal):
        left = budget - float(total[new != old].sum())
        leaf, lane = search.best(np.where(new == old, total, 0.0) <= left + 1e-9 * budget)
        if leaf < 0:
            break
        search.move(leaf, lane)
    moved = new != old
    return Rebalanced(new, float(total[moved].sum() / max(total.sum(), np.finfo(float).tiny)), int(moved.sum()))


def hour_cvs(load: Floats, lane: NDArray[np.int32], lanes: int) -> Floats:
    """The CV of the lanes in each hour, and of the day as the last."""
    sums = np.zeros((lanes, load.shape[1]))
    np.add.at(sums, lane, load)
    sums = np.hstack([sums, sums.sum(1, keepdims=True)])
    mean = sums.mean(0)
    return np.divide(sums.std(0), mean, out=np.zeros_like(mean), where=mean > 0)


def even_enough(load: Floats, lane: NDArray[np.int32], lanes: int, goal: float, hour_goal: float) -> bool:
    """Whether the day and every hour of it are as even as is wanted."""
    found = hour_cvs(load, lane, lanes)
    return bool(found[-1] <= goal and found.max(initial=0.0) <= max(goal, hour_goal))


class _TableSearch:
    """Which move evens most, kept up to date as leaves move.

    With v a leaf and d what a lane has above the mean, both in parts of the mean, moving v from lane a to lane b
    changes the sum of squares by 2 v.(d_b - d_a) + 2 v.v. Only the products with two lanes change when a leaf moves.
    """

    def __init__(self, parts: Floats, lane: NDArray[np.int32], lanes: int, price: Floats) -> None:
        self.parts, self.lane, self.price = parts, lane, price
        self.over = np.zeros((lanes, parts.shape[1]))
        np.add.at(self.over, lane, parts)
        self.over -= self.over.mean(0)
        self.products = parts @ self.over.T
        self.own = (parts * parts).sum(1)

    def best(self, allowed: NDArray[np.bool_]) -> tuple[int, int]:
        """The leaf and the lane of the move that helps most for what it costs; -1 where none helps."""
        rows = np.arange(len(self.lane))
        lane = self.products.argmin(1)
        change = 2 * (self.products[rows, lane] - self.products[rows, self.lane] + self.own)
        worth = np.where(allowed, change / self.price, 0.0)
        leaf = int(worth.argmin()) if len(worth) else -1
        helps = leaf >= 0 and allowed[leaf] and change[leaf] < -_LEAST * float((self.over * self.over).sum())
        return (leaf, int(lane[leaf])) if helps else (-1, -1)

    def move(self, leaf: int, lane: int) -> None:
        """Take a leaf to another lane."""
        came = int(self.lane[leaf])
        self.over[came] -= self.parts[leaf]
        self.over[lane] += self.parts[leaf]
        self.lane[leaf] = lane
        for one in (came, lane):
            self.products[:, one] = self.parts @ self.over[one]


def _price(total: Floats, lanes: int) -> Floats:
    fair = max(float(total.sum()) / lanes, np.finfo(float).tiny)
    return total / fair + _TRIFLE


def _check_rebalance(old: NDArray[np.int32], load: Floats, lanes: int, most_moved: float) -> None:
    if load.ndim != 2 or len(old) != len(load):
        raise UsageError.of(
            "lanes and loads must be given for the same leaves", got=f"{len(old)} lanes, loads {load.shape}"
        )
    if len(old) and (old.min() < 0 or old.max() >= lanes):
        raise UsageError.of(
            "the table names a lane that does not exist", got=int(old.max()), allowed=f"0 to {lanes - 1}"
        )
    if not 0 <= most_moved <= 1:
        raise UsageError.of("the share of the load that may move is out of range", got=most_moved, allowed="0 to 1")

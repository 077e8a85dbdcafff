"""A lane table that has grown uneven, made even again by moving little: the sticky change of a table in use.

Rule: as long as the lanes are less even than wanted, the one leaf moves to the one lane where that evens the lanes most
for the load it moves; hours and the day count as in `keylane.geo.pack`. It ends when the day's CV and the worst hour's
are at most the goals, when no move helps, or when the next move would pass the allowed share of the load.

Worked example: two lanes of leaves (4, 3, 3) and (2, 2, 2), one hour, 16 records. 10 and 6; one leaf of 2 more on the
second lane would even them, and there is none: 3 moves, and the lanes have 7 and 9. From (4, 3, 3) and (4, 3, 3)
nothing moves.

What changes do: every leaf that moves takes its drivers' state with it, and nothing else moves. A leaf that is new
comes with the lane that its cells have now, by their hash. When not to use it: for another lane count, which is another
table (`keylane.geo.pack`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import UsageError
from keylane.geo.pack import in_parts_of_the_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["GOAL", "HOUR_GOAL", "MOST_MOVED", "Rebalanced", "hour_cvs", "rebalance"]

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
    _sane(old, load, lanes, most_moved)
    new, total = old.copy(), load.sum(1)
    budget = most_moved * float(total.sum())
    search = _Search(in_parts_of_the_mean(load, lanes), new, lanes, _price(total, lanes))
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


class _Search:
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


def _sane(old: NDArray[np.int32], load: Floats, lanes: int, most_moved: float) -> None:
    if load.ndim != 2 or len(old) != len(load):
        raise UsageError.of("each leaf has one lane and its loads by hour", got=f"{len(old)} lanes, loads {load.shape}")
    if len(old) and (old.min() < 0 or old.max() >= lanes):
        raise UsageError.of("a lane of the table is none of these", got=int(old.max()), allowed=f"0 to {lanes - 1}")
    if not 0 <= most_moved <= 1:
        raise UsageError.of("what may move is a share of the load", got=most_moved, allowed="0 to 1")

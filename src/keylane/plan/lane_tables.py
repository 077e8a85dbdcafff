"""A lane table from counted locations: split, packed, and scored on records that it was not fitted on.

Rule: locations are counted in two halves. A table is fitted on one half and scored on the other; by it the largest
tau of the ladder that meets the goal is taken, because fewer and coarser leaves make fewer borders. The table itself is
then fitted on all records with that tau. The goal: the CV of the day, and that of every hour, within what chance gives
on so few records; where chance is smaller than that, a CV of 0.5 % for the day and 2.5 % for an hour.

Worked example: world-wide load on 60 lanes. tau 0.3 leaves an hour at 2.6 %, tau 0.2 one at 2.0 %: 0.2 is taken, and
not 0.1, which splits more for nothing.

What changes do: other traffic gives another table, so a table in use is changed with `old`, which keeps its leaves and
moves few (`keylane.geo.lane_tables`). When not to use it: fewer counted cells than lanes; `notes` reports what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from keylane.geo.bits import ancestor, curve_end, curve_start
from keylane.geo.lane_tables import (
    COARSEST,
    GOAL,
    HOME,
    HOUR_GOAL,
    MOST_MOVED,
    Leaves,
    Rebalanced,
    pack_along_curve,
    pack_by_hour,
    rebalance,
    split,
)
from keylane.measure.balance import cv, max_over_mean, noise_floor
from keylane.placement.cell_lanes import CellLanes
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Loads = NDArray[np.float64]

Strategy: TypeAlias = Literal["hours", "curve"]
LADDER: Final = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)
#: What is even enough of a day, however many records there are.
DAY_GOAL: Final = 0.005


@dataclass(frozen=True, slots=True)
class Counted:
    """Records of each home cell, along the curve, by hour (or in one column), in two halves.

    `rests_on` are the records that each hour of a half rests on, where that is not its load: expected loads, of which
    every record has a part in every hour.
    """

    cells: NDArray[np.int64]
    fit: NDArray[Any]
    test: NDArray[Any]
    rests_on: Loads | None = None

    @property
    def all(self) -> NDArray[Any]:
        """Both halves."""
        return self.fit + self.test


@dataclass(frozen=True, slots=True)
class Wish:
    """What table is wanted. With `old` it is a change of that one; `tau` None chooses by itself."""

    lanes: int
    strategy: Strategy = "hours"
    tau: float | None = None
    resolution: int = COARSEST
    partitioner: str = "kafka-java"
    old: CellLanes | None = None
    most_moved: float = MOST_MOVED


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table: its leaves, the lane of each, and what has moved where it is a change."""

    leaves: Leaves
    lane: NDArray[np.int32]
    tau: float
    wish: Wish
    moved: Rebalanced | None = None

    @property
    def lanes(self) -> CellLanes:
        """The table, ready to be asked about any cell."""
        cells, wish = self.leaves.cells, self.wish
        by = partitioner(wish.partitioner, "h3")
        return CellLanes(curve_start(cells), curve_end(cells), self.lane, wish.resolution, wish.lanes, by)


@dataclass(frozen=True, slots=True)
class TableScore:
    """How even lanes are. Floors are what chance alone would give; hours are None where there are no times."""

    cv: float
    worst_hour_cv: float | None
    max_over_mean: float
    noise_floor: float
    hour_noise_floor: float | None
    #: The CV and the floor of each hour that has records.
    hours: tuple[tuple[float, float], ...] = ()


class Missed(NamedTuple):
    """A CV that is above its goal, and what chance alone would give."""

    what: str
    cv: float
    goal: float
    noise_floor: float


def chosen(counted: Counted, wish: Wish) -> tuple[FittedTable, TableScore | None, bool]:
    """The table of all records, how even one of half of them is on the other half, and whether that meets the goal.

    Where one half is without a record there is nothing to choose by: no score, and the goal is not reported as missed.
    """
    ladder = (wish.tau,) if wish.tau is not None else LADDER
    if not (counted.fit.any() and counted.test.any()):
        return fitted(counted.cells, counted.all, wish, ladder[0]), None, True
    best: tuple[float, float, TableScore] | None = None
    for tau in ladder:
        score = held_out(counted, wish, tau)
        far = _from_goal(score, wish)
        if best is None or far < best[0]:
            best = far, tau, score
        if far <= 1:
            break
    assert best is not None
    far, tau, score = best
    return fitted(counted.cells, counted.all, wish, tau), score, far <= 1


def held_out(counted: Counted, wish: Wish, tau: float) -> TableScore:
    """How even a table of one half is on the other."""
    table = fitted(counted.cells, counted.fit, wish, tau)
    fitted_on = float(counted.fit.sum(dtype=float))
    return scored(table.lanes, counted.cells, counted.test, fitted_on, counted.rests_on)


def fitted(cells: Any, loads: Any, wish: Wish, tau: float, home: int = HOME) -> FittedTable:
    """A table for these loads; a change of the old one, where there is one. `home` is the resolution of the cells."""
    if wish.old is not None:
        leaves = split(cells, loads, wish.lanes, tau, wish.resolution, home, leaves_of(wish.old))
        day, hour = _worth_moving(leaves.loads, wish.lanes)
        old = wish.old.of(leaves.cells)
        moved = rebalance(old, leaves.loads, wish.lanes, goal=day, hour_goal=hour, most_moved=wish.most_moved)
        return FittedTable(leaves, moved.lanes, tau, wish, moved)
    leaves = split(cells, loads, wish.lanes, tau, wish.resolution, home)
    pack = pack_by_hour if wish.strategy == "hours" else pack_along_curve
    return FittedTable(leaves, pack(leaves.loads, wish.lanes), tau, wish)


def scored(
    lanes: CellLanes,
    cells: NDArray[np.int64],
    loads: Loads,
    fitted_on: float | None = None,
    rests_on: Loads | None = None,
) -> TableScore:
    """How evenly the loads of cells fall on lanes. `fitted_on` are the records that a held-out table has seen."""
    sums = lane_sums(lanes, cells, loads)
    total = float(loads.sum(dtype=float))
    # A table that is perfect for one sample is off for another by the chance of both.
    both = sqrt(1 + total / fitted_on) if fitted_on else 1.0
    floor = both * noise_floor(lanes.count, int(total))
    records = loads.sum(0, dtype=float) if rests_on is None else rests_on
    hours = tuple(
        (cv(sums[:, hour]), both * noise_floor(lanes.count, max(1, int(of))))
        for hour, of in enumerate(records)
        if of > 0 and len(records) > 1
    )
    worst = max(hours, default=(None, None))
    return TableScore(cv(sums.sum(1)), worst[0], max_over_mean(sums.sum(1)), floor, worst[1], hours)


def lane_sums(lanes: CellLanes, cells: NDArray[np.int64], loads: Loads) -> Loads:
    """The load of each lane by hour."""
    lane, sums = lanes.of(cells), np.zeros((lanes.count, loads.shape[1]))
    # Neighbours on the curve are mostly of one leaf, so of one lane: added up at once.
    first = np.flatnonzero(np.diff(lane, prepend=-1))
    if len(first):
        np.add.at(sums, lane[first], np.add.reduceat(loads, first, axis=0, dtype=float))
    return sums


def hashed(name: str, resolution: int, lanes: int, cells: NDArray[np.int64], loads: Loads) -> TableScore:
    """How evenly a plain hash of the ancestors at a resolution would do; cells lie along the curve."""
    parents = ancestor(cells, resolution)
    first = np.flatnonzero(np.diff(parents, prepend=-1))
    none = np.zeros(0, np.int64)
    rule = CellLanes(none, none, none.astype(np.int32), resolution, lanes, partitioner(name, "h3"))
    return scored(rule, parents[first], np.add.reduceat(loads, first, axis=0, dtype=float))


def leaves_of(old: CellLanes) -> NDArray[np.int64]:
    """The leaves of a table that is ready to be asked: a range of the curve is a cell again."""
    widths = old.ends - old.starts + 1
    at = 15 - np.round(np.log2(np.maximum(widths, 1)) / 3).astype(np.int64)
    return old.ends | (1 << 59) | (at << 52)


def _worth_moving(loads: Loads, lanes: int) -> tuple[float, float]:
    """Where a change ends: nothing is moved for what chance alone would give on so few records."""
    least = float(min((of for of in loads.sum(0) if of > 0), default=0.0))
    day, hour = (near_chance(lanes) * noise_floor(lanes, int(of)) for of in (loads.sum(), least))
    return max(GOAL, day), max(HOUR_GOAL, hour)


def near_chance(lanes: int) -> float:
    """How many times its floor a CV may be, by chance: it strays by 1 / sqrt(2 lanes) of itself; three times that."""
    return 1 + 3 / sqrt(2 * max(1, lanes - 1))


def missed(score: TableScore, wish: Wish) -> list[Missed]:
    """What of a score is above its goal: the day, and of the hours the one that is furthest above its own."""
    day, *hours = _goals(score, wish)
    worst = sorted(hours, key=_too_uneven)[-1:]
    return [one for one in (day, *worst) if _too_uneven(one) > 1]


def _from_goal(score: TableScore, wish: Wish) -> float:
    """1 or less where the goal is met; otherwise how many times too uneven."""
    return max(map(_too_uneven, _goals(score, wish)))


def _goals(score: TableScore, wish: Wish) -> list[Missed]:
    """The day, and each hour, beside what is wanted of it. Ranges of the curve are judged by the day."""
    near = near_chance(wish.lanes)
    hours = score.hours if wish.strategy == "hours" else ()
    return [
        Missed("CV", score.cv, max(DAY_GOAL, near * score.noise_floor), score.noise_floor),
        *(Missed("CV of an hour", found, max(HOUR_GOAL, near * floor), floor) for found, floor in hours),
    ]


def _too_uneven(one: Missed) -> float:
    return one.cv / one.goal

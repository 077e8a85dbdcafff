"""A lane table from counted locations: split, packed, and scored on records that it was not fitted on.

Rule: locations are counted in two halves. A table is fitted on one half and scored on the other; by it the largest
tau of the ladder that meets the goal is taken, because fewer and coarser leaves make fewer borders. The table itself is
then fitted on all records with that tau. The goal: the CV of the day, and that of every hour, within what chance gives
on so few records; where chance is smaller than that, a CV of 0.5 % for the day and 2.5 % for an hour.

With a radius the table is for matching, where a record is copied to every lane near it, and another rule decides: of
all taus, of tables that are even by the hour and of compact regions, the one is taken whose fullest lane has the least
to do on the other half, copies included (`geo_work`); where a limit on copies is given, among those that keep it. Of
tables within 1 % of each other the one with the fewest leaves is taken. A table in use is compared with itself, border
leaves exchanged within what may move: what does not lower the work on the other half by 1 % is left as it is.

Worked example: world-wide load on 60 lanes. tau 0.3 leaves an hour at 2.6 %, tau 0.2 one at 2.0 %: 0.2 is taken, and
not 0.1, which splits more for nothing.

What changes do: other traffic gives another table, so a table in use is changed with `old`, which keeps its leaves and
moves few (`keylane.geo.lane_tables`). When not to use it: fewer counted cells than lanes; `notes` reports what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from keylane.geo.regions import exchanged, merged, regions
from keylane.measure.balance import cv, max_over_mean, noise_floor
from keylane.placement.cell_lanes import CellLanes
from keylane.placement.partitioners import partitioner
from keylane.plan.geo_work import RADIUS_M, Around, LaneWork, Points, around, leaves_of, points

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Loads = NDArray[np.float64]

Strategy: TypeAlias = Literal["hours", "curve", "regions"]
_STRATEGIES: Final[tuple[Strategy, ...]] = ("hours", "curve", "regions")
LADDER: Final = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)
#: Regions need leaves small enough to exchange along their borders.
REGION_LADDER: Final = (0.3, 0.1, 0.05)
#: Tables whose work differs by less are taken for equal.
_ALIKE: Final = 0.01
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
    """What table is wanted. With `old` it is a change of that one; `tau` None chooses by itself.

    With `radius`, in metres, the least work decides, and `strategy` None chooses by it too; without, None is `hours`.
    `copies` is how many of a record there may be on average.
    """

    lanes: int
    strategy: Strategy | None = None
    tau: float | None = None
    resolution: int = COARSEST
    partitioner: str = "kafka-java"
    old: CellLanes | None = None
    most_moved: float = MOST_MOVED
    radius: float | None = None
    copies: float | None = None

    @property
    def packing(self) -> Strategy:
        """The strategy of one table."""
        return self.strategy or "hours"


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table: its leaves, the lane of each, and what has moved where it is a change.

    `others` are the best tables of the strategies that were compared and not taken, on the held-out half.
    """

    leaves: Leaves
    lane: NDArray[np.int32]
    tau: float
    wish: Wish
    moved: Rebalanced | None = None
    others: tuple[tuple[Strategy, TableScore], ...] = ()

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
    #: At the radius that was asked for.
    work: LaneWork | None = None


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
    if wish.radius is not None:
        return _least_work(counted, wish, wish.radius)
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


class _Tried(NamedTuple):
    """A table of one half, and its score on the other."""

    table: FittedTable
    score: TableScore
    work: LaneWork


def _least_work(counted: Counted, wish: Wish, radius: float) -> tuple[FittedTable, TableScore | None, bool]:
    """The table with the least work, of those that keep the limit on copies where there is one."""
    known = bool(counted.fit.any() and counted.test.any())
    fit, test = (counted.fit, counted.test) if known else (counted.all, counted.all)
    tried = list(_tries(replace(counted, fit=fit, test=test), wish, radius))
    allowed = [one for one in tried if wish.copies is None or one.work.copies <= wish.copies]
    least = min(one.work.fullest for one in allowed) if allowed else 0.0
    alike = [one for one in allowed if one.work.fullest <= (1 + _ALIKE) * least]
    taken = min(alike, key=_disturbs) if alike else min(tried, key=lambda one: one.work.copies)
    strategies = dict.fromkeys(one.table.wish.packing for one in tried)
    best = {name: min((one for one in tried if one.table.wish.packing == name), key=_fullest) for name in strategies}
    others = tuple((name, one.score) for name, one in best.items() if name != taken.table.wish.packing)
    made = fitted(counted.cells, counted.all, taken.table.wish, taken.table.tau)
    return replace(made, others=others if known else ()), taken.score if known else None, bool(allowed)


def _disturbs(one: _Tried) -> tuple[float, int]:
    """Of tables that are equally good: how much one moves, and then how many leaves it has."""
    return (one.table.moved.share if one.table.moved else 0.0, len(one.table.leaves))


def _fullest(one: _Tried) -> float:
    return one.work.fullest


def _tries(counted: Counted, wish: Wish, radius: float) -> Iterator[_Tried]:
    """Tables of every strategy and tau that is asked for, all looked at through the leaves of the finest."""
    cells, fit, test = counted.cells, counted.fit, counted.test
    options = [(one, tau) for one in _ways(wish) for tau in _ladder(one)]
    kept = () if wish.old is None else leaves_of(wish.old)
    finest = split(cells, fit, wish.lanes, min(tau for _, tau in options), wish.resolution, kept=kept).cells
    here, there = (around(points(cells, loads), [finest], wish.resolution, radius) for loads in (fit, test))
    for one, tau in options:
        table = fitted(cells, fit, one, tau, near=here)
        score = scored(table.lanes, cells, test, float(fit.sum(dtype=float)), counted.rests_on)
        work = there.work(table.lanes, lane_sums(table.lanes, cells, test))
        yield _Tried(table, replace(score, work=work), work)


def _ways(wish: Wish) -> list[Wish]:
    """A table of each strategy; of a table in use: as it is, and with border cells exchanged."""
    if wish.old is not None:
        return [replace(wish, strategy="regions", most_moved=most) for most in dict.fromkeys((0.0, wish.most_moved))]
    strategies = (wish.strategy,) if wish.strategy is not None else _STRATEGIES
    return [replace(wish, strategy=strategy) for strategy in strategies]


def _ladder(wish: Wish) -> tuple[float, ...]:
    if wish.tau is not None:
        return (wish.tau,)
    if wish.old is not None and not wish.most_moved:
        return LADDER[:1]
    return REGION_LADDER if wish.packing == "regions" else LADDER


def held_out(counted: Counted, wish: Wish, tau: float) -> TableScore:
    """How even a table of one half is on the other."""
    table = fitted(counted.cells, counted.fit, wish, tau)
    fitted_on = float(counted.fit.sum(dtype=float))
    return scored(table.lanes, counted.cells, counted.test, fitted_on, counted.rests_on)


def fitted(
    cells: Any,
    loads: Any,
    wish: Wish,
    tau: float,
    home: int = HOME,
    *,
    some: Points | None = None,
    near: Around | None = None,
) -> FittedTable:
    """A table for these loads; a change of the old one, where there is one. `home` is the resolution of the cells.

    Regions need the surroundings of these loads: `near`, where they are known, or else those of `some` points.
    """
    if wish.old is not None:
        leaves = split(cells, loads, wish.lanes, tau, wish.resolution, home, leaves_of(wish.old))
        moved = _moved(leaves, wish.old.of(leaves.cells), wish, some or points(cells, loads), near)
        return FittedTable(leaves, moved.lanes, tau, wish, moved)
    leaves = split(cells, loads, wish.lanes, tau, wish.resolution, home)
    if wish.packing == "regions":
        return FittedTable(*_regions(leaves, some or points(cells, loads), wish, near), tau, wish)
    pack = pack_by_hour if wish.packing == "hours" else pack_along_curve
    return FittedTable(leaves, pack(leaves.loads, wish.lanes), tau, wish)


def _moved(leaves: Leaves, old: NDArray[np.int32], wish: Wish, some: Points, near: Around | None) -> Rebalanced:
    """Few leaves in other lanes than before: for even lanes, or with a radius for less work."""
    if wish.radius is None:
        day, hour = _worth_moving(leaves.loads, wish.lanes)
        return rebalance(old, leaves.loads, wish.lanes, goal=day, hour_goal=hour, most_moved=wish.most_moved)
    known = near or around(some, [leaves.cells], wish.resolution, wish.radius)
    return exchanged(old, leaves.loads, wish.lanes, known.on(leaves.cells), wish.most_moved)


def _regions(leaves: Leaves, some: Points, wish: Wish, near: Around | None) -> tuple[Leaves, NDArray[np.int32]]:
    """Compact regions, in as few leaves as they can be written with."""
    from keylane.geo.cells import centres
    from keylane.matching.sphere import unit_vectors

    known = near or around(some, [leaves.cells], wish.resolution, wish.radius or RADIUS_M)
    at = unit_vectors(*centres(leaves.cells).T)
    return merged(leaves, regions(at, leaves.loads, wish.lanes, known.on(leaves.cells)), wish.resolution)


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
    rule = hash_lanes(name, resolution, lanes)
    return scored(rule, parents[first], np.add.reduceat(loads, first, axis=0, dtype=float))


def hash_lanes(name: str, resolution: int, lanes: int) -> CellLanes:
    """Lanes without a table: a partitioner's hash of the ancestors at a resolution."""
    none = np.zeros(0, np.int64)
    return CellLanes(none, none, none.astype(np.int32), resolution, lanes, partitioner(name, "h3"))


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
    hours = score.hours if wish.packing == "hours" else ()
    return [
        Missed("CV", score.cv, max(DAY_GOAL, near * score.noise_floor), score.noise_floor),
        *(Missed("CV of an hour", found, max(HOUR_GOAL, near * floor), floor) for found, floor in hours),
    ]


def _too_uneven(one: Missed) -> float:
    return one.cv / one.goal

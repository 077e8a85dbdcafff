"""A lane table as the document `keylane.geo-table/1`: its balance, what stands beside it, and what is not possible.

How the table is made: `lane_tables`. As a contract: `contract_text`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from keylane.contract.lane_table import leaves_checksum, leaves_text
from keylane.documents.geo_table import (
    GeoBalance,
    GeoBeside,
    GeoCopiesLimit,
    GeoFigures,
    GeoLeaf,
    GeoMoved,
    GeoTableDocument,
)
from keylane.geo.bits import cell_name
from keylane.geo.lane_tables import HOME
from keylane.measure.balance import least_cv
from keylane.numbers import count, distance, share, spread
from keylane.plan.geo_work import COSTLY_COPIES, RADIUS_M, RoundRegions, around, direct_work, points
from keylane.plan.lane_tables import Counted, FittedTable, Wish, fitted, hash_lanes, lane_sums, missed, scored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.documents.geo_table import NoPlace
    from keylane.placement.cell_lanes import CellLanes
    from keylane.plan.lane_tables import Strategy, TableScore

#: Plain hashes that a table is held against.
_FINER: Final = (0, 1, 2, 3)
_FORMULA: Final = "abs-long-hashcode"
_STRATEGIES: Final[tuple[Strategy, ...]] = ("hours", "curve", "regions")
#: Home cells that copies are counted at where they do not decide.
_SAMPLED: Final = 2_000
_PLACES: Final = 6
#: A change that has moved this part of what it may has been held back by it.
_NEARLY: Final = 0.9


def geo_document(
    source: str,
    counted: Counted,
    dead: Mapping[str, int],
    table: FittedTable,
    held: TableScore | None,
    *,
    met: bool,
    epoch: int = 1,
    radii: Sequence[float] = (),
    timed: bool = True,
    untimed: int = 0,
    sampled: str = "",
) -> GeoTableDocument:
    """All results of a table; `held` is None where no records could be held out, `sampled` what was read if not all."""
    wish, total = table.wish, counted.all
    radius = wish.radius or (radii[0] if radii else RADIUS_M)
    halves = counted if held else Counted(counted.cells, total, total)
    others = dict(_others(halves, table, radius))
    leaves = [table.leaves.cells, *(one.leaves.cells for one in others.values())]
    seen = _Seen(halves, radius, leaves, min(HOME, wish.resolution + _FINER[-1]))
    least = least_cv(total.sum(1), wish.lanes)
    own, sums = scored(table.lanes, counted.cells, total), lane_sums(table.lanes, counted.cells, total)
    all_points = points(counted.cells, total, _SAMPLED)
    works = {metres: direct_work(table.lanes, all_points, sums, metres) for metres in dict.fromkeys((radius, *radii))}
    copies = {f"{metres:g}": round(work.copies, 4) for metres, work in works.items()}
    compact = RoundRegions(points(counted.cells, total))
    limit = _limit(wish, compact, met=met)
    return GeoTableDocument(
        source=source,
        records=round(float(total.sum())),
        dead=cast("dict[NoPlace, int]", dict(dead)),
        lanes=wish.lanes,
        strategy=wish.packing,
        decided_by="evenness" if wish.radius is None else "work",
        radius_m=radius,
        limit=limit,
        tau=table.tau,
        resolution=wish.resolution,
        leaves=len(table.leaves),
        epoch=epoch,
        checksum=leaves_checksum(text_of(table)),
        balance=GeoBalance(
            **dict(seen.figures(replace(own, work=works[radius]), table.lanes)),
            held_out=seen.figures(held, table.lanes) if held else None,
            least_cv=round(least, _PLACES),
        ),
        beside=list(_beside(seen, table, others)),
        copies_per_rider=copies,
        round_copies=round(compact.copies(wish.lanes, radius), 4),
        moved=_moved(table),
        lane_loads=np.rint(sums.sum(1)).astype(int).tolist(),
        hours=np.round(sums, 3).tolist() if timed else None,
        cells=list(_cells(table, timed=timed)),
        notes=[
            *([f"not all of the topic was read, but {sampled}"] if sampled else []),
            *_notes(counted, table, held, least, met=met, untimed=untimed),
            *_costs(table, copies, limit),
            *_held_back(table, met=met),
        ],
    )


def _moved(table: FittedTable) -> GeoMoved | None:
    moved = table.moved
    return None if moved is None else GeoMoved(share=round(moved.share, _PLACES), leaves=moved.leaves)


class _Seen:
    """Records that tables are scored on: every figure comes with its copies and work."""

    def __init__(self, counted: Counted, radius: float, tables: Sequence[NDArray[np.int64]], finest: int) -> None:
        self.counted, self.radius = counted, radius
        self.near = around(points(counted.cells, counted.test, _SAMPLED), tables, finest, radius)

    def figures(self, score: TableScore, lanes: CellLanes) -> GeoFigures:
        """A score as the document has it; copies are those that decided, where there are any."""
        work = score.work or self.near.work(lanes, lane_sums(lanes, self.counted.cells, self.counted.test))
        hour, floor = score.worst_hour_cv, score.hour_noise_floor
        return GeoFigures(
            cv=round(score.cv, _PLACES),
            worst_hour_cv=None if hour is None else round(hour, _PLACES),
            max_over_mean=round(score.max_over_mean, _PLACES),
            noise_floor=round(score.noise_floor, _PLACES),
            hour_noise_floor=None if floor is None else round(floor, _PLACES),
            copies=round(work.copies, 4),
            total_work=round(work.fullest, 4),
        )

    def beside(self, name: str, lanes: CellLanes, score: TableScore | None = None) -> GeoBeside:
        """Another method on the same half."""
        found = self.figures(score or scored(lanes, self.counted.cells, self.counted.test), lanes)
        return GeoBeside(
            strategy=name,
            copies=found.copies,
            total_work=found.total_work,
            cv=found.cv,
            worst_hour_cv=found.worst_hour_cv,
        )


def _limit(wish: Wish, compact: RoundRegions, *, met: bool) -> GeoCopiesLimit | None:
    if wish.copies is None or wish.radius is None:
        return None
    lanes = compact.most_lanes(wish.lanes, wish.radius, wish.copies)
    return GeoCopiesLimit(copies=wish.copies, kept=met, lanes=lanes)


def text_of(table: FittedTable) -> tuple[str, ...]:
    """The leaves of a table as a contract holds them."""
    lane_of = dict(zip(table.leaves.cells.tolist(), table.lane.tolist(), strict=True))
    return leaves_text(lane_of, table.wish.lanes)


def _others(counted: Counted, table: FittedTable, radius: float) -> Iterator[tuple[Strategy, FittedTable]]:
    """Tables of strategies that were not compared before, of the half that they are not scored on."""
    compared = {table.wish.packing, *dict(table.others)}
    some = points(counted.cells, counted.fit, _SAMPLED)
    for name in _STRATEGIES:
        if name not in compared:
            other = replace(table.wish, strategy=name, old=None, radius=radius)
            yield name, fitted(counted.cells, counted.fit, other, table.tau, some=some)


def _beside(seen: _Seen, table: FittedTable, others: Mapping[Strategy, FittedTable]) -> Iterator[GeoBeside]:
    """Other methods on the records that the table was scored on."""
    wish = table.wish
    for finer in _FINER:
        at = wish.resolution + finer
        if at <= HOME:
            yield seen.beside(f"hash res {at}", hash_lanes(wish.partitioner, at, wish.lanes))
    yield seen.beside(_FORMULA, hash_lanes(_FORMULA, wish.resolution, wish.lanes))
    for name, score in table.others:
        yield seen.beside(name, table.lanes, score)
    for name, other in others.items():
        yield seen.beside(name, other.lanes)


def _cells(table: FittedTable, *, timed: bool) -> Iterator[GeoLeaf]:
    loads = table.leaves.loads
    busiest = loads.argmax(1).tolist()
    rows = zip(table.leaves.cells.tolist(), table.lane.tolist(), loads.sum(1).tolist(), busiest, strict=True)
    for cell, lane, records, hour in rows:
        known = hour if timed and records else None
        yield GeoLeaf(cell=cell_name(cell), lane=lane, records=round(records), hour=known)


def _notes(
    counted: Counted, table: FittedTable, held: TableScore | None, least: float, *, met: bool, untimed: int
) -> Iterator[str]:
    """What the figures alone do not show."""
    yield from _possible(counted, table.wish.lanes, held, least)
    if held is None:
        yield "too few records to hold half of them out: how even the table is on other records is not known"
    elif not met and table.wish.radius is None:
        found = "; ".join(
            f"{one.what} {spread(one.cv)} where the goal is {spread(one.goal)}, "
            f"and chance gives {spread(one.noise_floor)}"
            for one in missed(held, table.wish)
        )
        yield f"the goal is not reached on records that the table was not fitted on: {found}"
    if held and held.noise_floor > 0.05:
        yield f"few records: chance alone gives a CV of {spread(held.noise_floor)}, so a smaller one cannot be measured"
    if untimed:
        yield f"{count(untimed)} records have no readable time: they count equally in every hour"
    empty = int((table.leaves.loads.sum(1) == 0).sum())
    if empty:
        yield f"{count(empty)} cells of the table have no records: they lie between cells that have"


def _costs(table: FittedTable, copies: Mapping[str, float], limit: GeoCopiesLimit | None) -> Iterator[str]:
    """Where a bargain is a bad one, and what would make a better one."""
    dear = next(((float(radius), found) for radius, found in copies.items() if found > COSTLY_COPIES), None)
    lanes = table.wish.lanes
    if limit is not None and not limit.kept:
        few = "1 lane" if limit.lanes == 1 else f"{limit.lanes} lanes"
        yield f"no table of {lanes} lanes has at most {limit.copies:g} copies; about {few} could"
    elif dear is not None and table.wish.radius:
        yield f"more than {COSTLY_COPIES:g} lanes per request is expensive; fewer lanes or a smaller radius help"
    elif dear is not None:
        radius, found = dear
        yield (
            f"matched within {distance(radius)}, a request would go to {found:.1f} lanes; "
            f"--radius {radius:g} makes a table for that"
        )


def _held_back(table: FittedTable, *, met: bool) -> Iterator[str]:
    if table.moved and not met and table.moved.share > _NEARLY * table.wish.most_moved:
        yield f"no more than {share(table.wish.most_moved)} of the load may change lane, which is not enough here"


def _possible(counted: Counted, lanes: int, held: TableScore | None, least: float) -> Iterator[str]:
    """What no table of these cells can do."""
    cells = len(counted.cells)
    if cells < lanes:
        few, used = ("1 cell", "1 lane") if cells == 1 else (f"{cells} cells", f"{cells} lanes or fewer")
        yield (
            f"{few} cannot fill {lanes} lanes: a cell has one lane, so {lanes - cells} stay empty, and the CV "
            f"is {share(least)} at best; {used} could all be used"
        )
    elif least > max(held.noise_floor if held else 0.0, 0.01):
        yield (
            f"no table of cells of resolution {HOME} goes below a CV of {share(least)}: of the home cells "
            f"{_heavy(counted, lanes)} alone above a lane's fair share; fewer lanes would help"
        )


def _heavy(counted: Counted, lanes: int) -> str:
    load = counted.all.sum(1)
    heavy = int((load > load.sum() / lanes).sum())
    return f"{heavy} are each" if heavy > 1 else "1 is"

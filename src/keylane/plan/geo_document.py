"""A lane table as the document `keylane.geo-table/1`: its balance, what stands beside it, and what is not possible.

How the table is made: `lane_tables`. As a contract: `contract_text`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np

from keylane.contract.lane_table import leaves_checksum, leaves_text
from keylane.documents.geo_table import GeoBalance, GeoBeside, GeoFigures, GeoLeaf, GeoMoved, GeoTableDocument
from keylane.geo.bits import cell_name
from keylane.geo.lane_tables import HOME
from keylane.measure.balance import least_cv
from keylane.plan.lane_tables import Counted, FittedTable, TableScore, Wish, fitted, hashed, lane_sums, missed, scored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.documents.geo_table import NoPlace
    from keylane.placement.cell_lanes import CellLanes

#: Plain hashes that a table is held against.
_FINER: Final = (0, 1, 2, 3)
_FORMULA: Final = "abs-long-hashcode"
#: Home cells that copies are counted at: one for every number of records, whatever the load.
_SAMPLED: Final = 2_000
_PLACES: Final = 6
#: Copies of a record above which a table is reported as expensive for matching; a world of cities has 1.1.
_DEAR: Final = 2.0
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
) -> GeoTableDocument:
    """All results of a table; `held` is None where no records could be held out."""
    wish, lanes, total = table.wish, table.lanes, counted.all
    own = scored(lanes, counted.cells, total)
    sums = lane_sums(lanes, counted.cells, total)
    least = least_cv(total.sum(1), wish.lanes)
    copies = copies_per_rider(lanes, counted, radii) if radii else None
    return GeoTableDocument(
        source=source,
        records=round(float(total.sum())),
        dead=cast("dict[NoPlace, int]", dict(dead)),
        lanes=wish.lanes,
        strategy=wish.strategy,
        tau=table.tau,
        resolution=wish.resolution,
        leaves=len(table.leaves),
        epoch=epoch,
        checksum=leaves_checksum(text_of(table)),
        balance=GeoBalance(
            **dict(_figures(own)), held_out=_figures(held) if held else None, least_cv=round(least, _PLACES)
        ),
        beside=list(_beside(counted if held else Counted(counted.cells, total, total), table)),
        copies_per_rider=copies,
        moved=None
        if table.moved is None
        else GeoMoved(share=round(table.moved.share, _PLACES), leaves=table.moved.leaves),
        lane_loads=np.rint(sums.sum(1)).astype(int).tolist(),
        hours=np.round(sums, 3).tolist() if timed else None,
        cells=list(_cells(table, timed=timed)),
        notes=[
            *_notes(counted, table, held, least, met=met, untimed=untimed),
            *_costs(table, copies or {}, met=met),
        ],
    )


def text_of(table: FittedTable) -> tuple[str, ...]:
    """The leaves of a table as a contract holds them."""
    lane_of = dict(zip(table.leaves.cells.tolist(), table.lane.tolist(), strict=True))
    return leaves_text(lane_of, table.wish.lanes)


def copies_per_rider(lanes: CellLanes, counted: Counted, radii: Sequence[float]) -> dict[str, float]:
    """On how many lanes a record's surroundings are, on average: from a sample of home cells, at their centres."""
    from keylane.geo.cells import centres
    from keylane.matching.cover import covers

    cells = sampled(counted.cells, counted.all.sum(1))
    lat, lng = centres(cells).T
    finest = max(lanes.resolution, _finest(lanes))
    return {
        f"{radius:g}": round(len(covers(lat, lng, cells, radius, lanes.of, finest)[0]) / len(cells), 4)
        for radius in radii
    }


def sampled(cells: NDArray[np.int64], load: NDArray[np.float64], size: int = _SAMPLED) -> NDArray[np.int64]:
    """As many cells as asked for, a heavy one several times: one at equal numbers of records along the curve."""
    passed = np.cumsum(load)
    at = (np.arange(size) + 0.5) * float(passed[-1]) / size
    return cells[np.minimum(np.searchsorted(passed, at, "right"), len(cells) - 1)]


def _finest(lanes: CellLanes) -> int:
    widths = lanes.ends - lanes.starts + 1
    return 15 - int(np.round(np.log2(max(1, int(widths.min(initial=1 << 45)))) / 3))


def _figures(score: TableScore) -> GeoFigures:
    hour, floor = score.worst_hour_cv, score.hour_noise_floor
    return GeoFigures(
        cv=round(score.cv, _PLACES),
        worst_hour_cv=None if hour is None else round(hour, _PLACES),
        max_over_mean=round(score.max_over_mean, _PLACES),
        noise_floor=round(score.noise_floor, _PLACES),
        hour_noise_floor=None if floor is None else round(floor, _PLACES),
    )


def _beside(counted: Counted, table: FittedTable) -> Iterator[GeoBeside]:
    """Other methods on the records that the table was scored on."""
    wish, cells, test = table.wish, counted.cells, counted.test
    for finer in _FINER:
        at = wish.resolution + finer
        if at <= HOME:
            yield _named(f"hash res {at}", hashed(wish.partitioner, at, wish.lanes, cells, test))
    yield _named(_FORMULA, hashed(_FORMULA, wish.resolution, wish.lanes, cells, test))
    other = Wish(wish.lanes, "curve" if wish.strategy == "hours" else "hours", None, wish.resolution, wish.partitioner)
    yield _named(other.strategy, scored(fitted(cells, counted.fit, other, table.tau).lanes, cells, test))


def _named(strategy: str, score: TableScore) -> GeoBeside:
    figures = _figures(score)
    return GeoBeside(strategy=strategy, cv=figures.cv, worst_hour_cv=figures.worst_hour_cv)


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
    elif not met:
        found = "; ".join(
            f"{one.what} {one.cv:.2%} where the goal is {one.goal:.2%}, and chance gives {one.noise_floor:.2%}"
            for one in missed(held, table.wish)
        )
        yield f"the goal is not reached on records that the table was not fitted on: {found}"
    if held and held.noise_floor > 0.05:
        yield f"few records: chance alone gives a CV of {held.noise_floor:.1%}, so a smaller one cannot be measured"
    if untimed:
        yield f"{untimed:,} records have no readable time: they count equally in every hour"
    empty = int((table.leaves.loads.sum(1) == 0).sum())
    if empty:
        yield f"{empty:,} leaves have no records: they are siblings of leaves that were split"


def _costs(table: FittedTable, copies: Mapping[str, float], *, met: bool) -> Iterator[str]:
    """Where a bargain is a bad one, and what would make a better one."""
    dear = {radius: found for radius, found in copies.items() if found > _DEAR}
    if dear:
        radius, found = next(iter(dear.items()))
        helps = "fewer lanes or ranges of the curve help" if table.wish.strategy == "hours" else "fewer lanes help"
        yield f"within {radius} m of a record are {found:.1f} lanes on average; {helps}"
    if table.moved and not met and table.moved.share > _NEARLY * table.wish.most_moved:
        yield f"no more than {table.wish.most_moved:.1%} of the load may change lane, which is not enough here"


def _possible(counted: Counted, lanes: int, held: TableScore | None, least: float) -> Iterator[str]:
    """What no table of these cells can do."""
    cells = len(counted.cells)
    if cells < lanes:
        few, used = ("1 cell", "1 lane") if cells == 1 else (f"{cells} cells", f"{cells} lanes or fewer")
        yield (
            f"{few} cannot fill {lanes} lanes: a cell has one lane, so {lanes - cells} stay empty, and the CV "
            f"is {least:.1%} at best; {used} could all be used"
        )
    elif least > max(held.noise_floor if held else 0.0, 0.01):
        yield (
            f"no table of cells of resolution {HOME} goes below a CV of {least:.1%}: of the home cells "
            f"{_heavy(counted, lanes)} alone above a lane's fair share; fewer lanes would help"
        )


def _heavy(counted: Counted, lanes: int) -> str:
    load = counted.all.sum(1)
    heavy = int((load > load.sum() / lanes).sum())
    return f"{heavy} are each" if heavy > 1 else "1 is"

"""What lanes have to do where records are matched within a radius: their own records, and the copies of others.

A record is copied to every lane that has a cell within the radius of it (`matching.cover`). The copies of a table are
the lanes that a record goes to, on average, its own included: 1 is the least. The work of a table is what the fullest
lane has to do in its busiest hour, copies included, over what a lane has on average in the busiest hour of all: 1 is
the least, and at 4 all lanes together do what a fourth of them could do without copies. It counts an uneven load, an
uneven hour and copies alike, so it is what tables are chosen by.

Copies are counted at the centres of home cells: of all of them where they are few, otherwise of a sample, one cell at
equal numbers of records along the curve. Loads are never sampled.

`RoundRegions` is the cost of geometry: a lane whose region is a disc with its share of the load, around a record, has
to be sent what lies within the radius of the disc. In an even plain that is (1 + R / a) squared with a the radius of
the disc. It is an estimate, not a bound: regions that end at a coast need less, regions that must tile need more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.geo.bits import FINEST, HOME_RESOLUTION, ancestor, curve_end, curve_start, middle
from keylane.geo.bits import resolution as leaf_resolution
from keylane.geo.regions import Surroundings
from keylane.placement.cell_lanes import OUTSIDE, CellLanes
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Cells = NDArray[np.int64]

#: Metres that copies are reported for where no radius is given.
RADIUS_M: Final = 1000.0
#: Copies of a record above which matching costs too much, in tables, pages and notes; a world of cities has 1.1.
COSTLY_COPIES: Final = 2.0
#: Home cells up to which all are looked at, and how many of more.
POINTS: Final = 20_000
_CENTRES: Final = 400
_DISC_POINTS: Final = 6_000


@dataclass(frozen=True, slots=True)
class LaneWork:
    """Lanes that a record goes to, on average; and the work of the fullest lane, in parts of the mean load."""

    copies: float
    fullest: float


@dataclass(frozen=True, slots=True)
class Points:
    """Home cells at which copies are counted, and the load by hour that each stands for."""

    cells: Cells
    load: Floats


def points(cells: Cells, loads: Any, most: int = POINTS) -> Points:
    """All cells with a load where they are few; of more a sample, a heavy one several times.

    >>> points(np.array([1, 2, 3]), np.array([[1.0], [0.0], [3.0]])).cells.tolist()
    [1, 3]
    """
    total = np.asarray(loads).sum(1, dtype=float)
    busy = np.flatnonzero(total)
    if len(busy) <= most:
        return Points(cells[busy], np.asarray(loads[busy], float))
    at = sampled_rows(total, most)
    return Points(cells[at], np.asarray(loads[at], float) * (total.sum() / most / total[at])[:, None])


def sampled_rows(load: Floats, size: int) -> NDArray[np.intp]:
    """As many rows as asked for, a heavy one several times: one at equal numbers of records."""
    passed = np.cumsum(load)
    at = (np.arange(size) + 0.5) * float(passed[-1]) / size
    return np.minimum(np.searchsorted(passed, at, "right"), len(load) - 1)


@dataclass(frozen=True, slots=True)
class Around:
    """The areas within a radius of each point, as pairs, and a home cell of each area.

    No area crosses a border of the tables that were named, or of the cells that are hashed: so any of these has its
    work from it, without another look at the map.
    """

    point: NDArray[np.intp]
    area: NDArray[np.int32]
    points: Points
    homes: Cells

    def on(self, leaves: Cells) -> Surroundings:
        """The leaves of a table, along the curve, within the radius of each point."""
        begins, ends, place = curve_start(leaves), curve_end(leaves), curve_end(self.homes)
        at = np.searchsorted(begins, place, "right") - 1
        inside = (at >= 0) & (place <= ends[np.maximum(at, 0)])
        leaf = np.where(inside, at, len(leaves))[self.area]
        pairs = np.unique(self.point * np.int64(len(leaves) + 1) + leaf)
        point, leaf = np.divmod(pairs, len(leaves) + 1)
        return Surroundings(point.astype(np.intp), leaf.astype(np.int32), self.points.load, len(leaves))

    def work(self, lanes: CellLanes, own: Floats) -> LaneWork:
        """The work of lanes with these loads of their own by hour."""
        lane = lanes.of(self.homes)[self.area]
        pairs = np.unique(self.point * np.int64(lanes.count) + lane)
        return _work(np.divmod(pairs, lanes.count), self.points, lanes, own)


def around(some: Points, tables: Sequence[Cells], resolution: int, radius_m: float) -> Around:
    """The areas near each point: the finest leaf of the tables there, or a cell of the resolution that is hashed."""
    from keylane.geo.cells import centres
    from keylane.matching.cover import covers

    areas = _Areas([_whole(leaves, resolution) for leaves in tables], resolution)
    lat, lng = centres(some.cells).T
    point, area, _ = covers(lat, lng, some.cells, radius_m, areas.of, areas.one)
    cells = np.fromiter(areas.numbers, np.int64, len(areas.numbers))
    return Around(point.astype(np.intp), area, some, middle(cells, HOME_RESOLUTION))


def _whole(leaves: Cells, resolution: int) -> CellLanes:
    """Every leaf as a lane of its own."""
    numbers, by = np.arange(len(leaves), dtype=np.int32), partitioner("kafka-java", "h3")
    return CellLanes(curve_start(leaves), curve_end(leaves), numbers, resolution, max(1, len(leaves)), by)


class _Areas:
    """Numbers for areas, given as they are met."""

    def __init__(self, tables: list[CellLanes], resolution: int) -> None:
        self.tables, self.resolution = tables, resolution
        self.numbers: dict[int, int] = {}

    def of(self, cells: Cells) -> NDArray[np.int32]:
        """The area of each home cell."""
        finest = ancestor(cells, self.resolution)
        for table in self.tables:
            leaf = table.from_leaves(cells)
            inside = np.flatnonzero(leaf != OUTSIDE)
            leaves = leaves_of(table)[leaf[inside]]
            finer = leaf_resolution(leaves) > leaf_resolution(finest[inside])
            finest[inside[finer]] = leaves[finer]
        known, of = np.unique(finest, return_inverse=True)
        numbers = [self.numbers.setdefault(cell, len(self.numbers)) for cell in known.tolist()]
        return np.array(numbers, np.int32)[of]

    def one(self, cells: Cells) -> NDArray[np.bool_]:
        """Whether each cell, of any resolution, is in one area."""
        fine = leaf_resolution(cells) >= self.resolution
        return np.logical_and.reduce([fine, *(table.one_lane(cells) for table in self.tables)])


def leaves_of(table: CellLanes) -> Cells:
    """The leaves of a table that is ready to be asked: a range of the curve is a cell again."""
    widths = table.ends - table.starts + 1
    at = FINEST - np.round(np.log2(np.maximum(widths, 1)) / 3).astype(np.int64)
    return table.ends | (1 << 59) | (at << 52)


def direct_work(lanes: CellLanes, some: Points, own: Floats, radius_m: float) -> LaneWork:
    """The work of any lanes."""
    from keylane.geo.cells import centres
    from keylane.matching.cover import covers

    lat, lng = centres(some.cells).T
    point, lane, _ = covers(lat, lng, some.cells, radius_m, lanes.of, lanes.one_lane)
    return _work((point, lane), some, lanes, own)


def _work(pairs: tuple[Any, Any], some: Points, lanes: CellLanes, own: Floats) -> LaneWork:
    point, lane = pairs
    guest = lane != lanes.of(some.cells)[point]
    copied = np.zeros_like(own)
    np.add.at(copied, lane[guest], some.load[point[guest]])
    total, busiest = float(own.sum()), float(own.sum(0).max())
    # Of the points: they are what was looked at.
    copies = 1 + float(copied.sum()) / max(float(some.load.sum()), np.finfo(float).tiny)
    fullest = float((own + copied).max()) * lanes.count / busiest if total else 0.0
    return LaneWork(copies, fullest)


class RoundRegions:
    """What discs of equal load cost, around records: how many copies of a record lanes that compact need."""

    def __init__(self, some: Points) -> None:
        from keylane.geo.cells import centres
        from keylane.matching.sphere import unit_vectors

        load = some.load.sum(1)
        rows = np.arange(len(load)) if len(load) <= _DISC_POINTS else sampled_rows(load, _DISC_POINTS)
        weight = load if len(load) <= _DISC_POINTS else np.full(len(rows), load.sum() / len(rows))
        at = unit_vectors(*centres(some.cells[rows]).T)
        middles = at[sampled_rows(weight, min(_CENTRES, 4 * len(rows)))]
        chords = np.sqrt(np.maximum(0.0, 2 - 2 * middles @ at.T))
        order = np.argsort(chords, axis=1, kind="stable")
        self.far = np.take_along_axis(chords, order, 1)
        self.within = np.cumsum(weight[order], axis=1)
        self.total = float(weight.sum())

    def copies(self, lanes: int, radius_m: float) -> float:
        """Copies of a record, on average, with so many lanes."""
        from keylane.matching.sphere import chord

        share = self.total / lanes
        last = self.far.shape[1] - 1
        rims = np.minimum((self.within < share * (1 - 1e-9)).sum(1), last)
        wide = self.far[np.arange(len(rims)), rims] + chord(radius_m)
        inside = (self.far <= wide[:, None]).sum(1)
        reached = self.within[np.arange(len(rims)), np.minimum(inside, last + 1) - 1]
        return float(np.maximum(1.0, reached / np.maximum(share, self.within[np.arange(len(rims)), rims])).mean())

    def most_lanes(self, most: int, radius_m: float, copies: float) -> int:
        """The most lanes, of so many, that would do with so many copies; 1 always does."""
        low, high = 1, most
        while low < high:
            tried = (low + high + 1) // 2
            low, high = (tried, high) if self.copies(tried, radius_m) <= copies else (low, tried - 1)
        return low

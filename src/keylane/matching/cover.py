"""The lanes that can hold a driver within R of a request: its home lane, and the few others it is sent to as a guest.

Rule: take every cell within k = ceil((R / e + 1/2) / 3/2) steps of the request's home cell, where e = 141.1 m is the
shortest edge of a cell of that resolution. A foreign lane is in the cover if one of its cells among these is within R
of the request's exact place: surely if the cell's centre is, surely not if the centre is farther than R and the
farthest corner of any cell (235 m), and else as its outline says, with 5 m to spare. The home lane is always in it.

Worked example: R = 1 km is 6 steps, 127 cells. With cells of resolution 3 as lanes nearly all requests see one lane
there, and are done; of a rider 700 m from a border some foreign cells' outlines are within 1 km: home and one guest.

Lanes are any function of the home cell, so a change of the lane table, or of the lane count, changes which copies are
made and never what is found. While two tables are in use the cover is the union of both. When not to use it: with
lanes by cells about as small as R, where a request goes to most of its neighbours; take coarser cells or fewer lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.geo.bits import ancestor
from keylane.geo.cells import HOME_RESOLUTION, centres
from keylane.geo.disks import disk
from keylane.geo.shapes import outlines
from keylane.matching.order import differs, sorted_rows
from keylane.matching.sphere import checked_radius, chord, metres_to_outlines, unit_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    LaneOf = Callable[[NDArray[np.int64]], NDArray[Any]]
    Rows = NDArray[np.intp]

__all__ = ["covers", "rings"]

#: The shortest edge of a home cell is at the pentagons; the farthest corner from a centre is 221 m off.
_SHORTEST_EDGE_M: Final = 141.1
_FARTHEST_CORNER_M: Final = 235.0
_SPARE_M: Final = 5.0
#: Cells looked at together: what keeps memory flat.
_TOGETHER: Final = 1 << 19


@dataclass(frozen=True, slots=True)
class _Foreign:
    """Cells of other lanes around home cells: whose (in ascending order), which cell, which lane."""

    home: Rows
    cell: NDArray[np.int64]
    lane: NDArray[np.int32]


def rings(radius_m: float) -> int:
    """Steps from a home cell that no place within the radius is beyond, wherever on earth.

    >>> [rings(radius) for radius in (300, 1000, 2000, 5000, 7000)]
    [2, 6, 10, 24, 34]
    """
    return math.ceil((checked_radius(radius_m) / _SHORTEST_EDGE_M + 0.5) / 1.5)


def covers(
    lat: Any,
    lng: Any,
    cells: Any,
    radius_m: float,
    lane_of: LaneOf | Sequence[LaneOf],
    finest: int = HOME_RESOLUTION,
) -> tuple[Rows, NDArray[np.int32], NDArray[np.bool_]]:
    """Row of the request, lane, whether it is the home lane: in the order of rows, the home lane first.

    `lane_of` gives the lanes of home cells; of several the last says which lane is home. `finest` is the resolution of
    the finest cells that any of them tells apart: the coarser, the quicker.
    """
    at = np.ascontiguousarray(cells, np.int64)
    lanes_of = (lane_of,) if callable(lane_of) else tuple(lane_of)
    homes, of_row = np.unique(at, return_inverse=True)
    home_lane = np.asarray(lanes_of[-1](homes), np.int32)
    foreign = _foreign(homes, home_lane, rings(radius_m), lanes_of, finest)
    points = unit_vectors(np.asarray(lat, float), np.asarray(lng, float))
    rows, lanes = _guests(points, of_row.astype(np.intp), homes, foreign, radius_m)
    every = np.concatenate([np.arange(len(at)), rows])
    both = np.concatenate([home_lane[of_row], lanes])
    is_home = np.arange(len(every)) < len(at)
    order = sorted_rows(every, ~is_home, both)
    return every[order], both[order], is_home[order]


def _foreign(
    homes: NDArray[np.int64], home_lane: NDArray[np.int32], steps: int, lanes_of: Sequence[LaneOf], finest: int
) -> _Foreign:
    """The cells around each home cell that are not in its lane."""
    parts = [_Foreign(np.zeros(0, np.intp), np.zeros(0, np.int64), np.zeros(0, np.int32))]
    for home, cell in _disks(homes, steps):
        for lanes in (_lanes(lane_of, cell, finest) for lane_of in lanes_of):
            other = lanes != home_lane[home]
            parts.append(_Foreign(home[other], cell[other], lanes[other]))
    home, cell, lane = (np.concatenate([getattr(part, name) for part in parts]) for name in ("home", "cell", "lane"))
    order = np.argsort(home, kind="stable")
    return _Foreign(home[order], cell[order], lane[order])


def _disks(homes: NDArray[np.int64], steps: int) -> Iterator[tuple[Rows, NDArray[np.int64]]]:
    """The cells around the home cells, some homes at a time: whose each is, and the cell."""
    step = max(1, _TOGETHER // (3 * steps * (steps + 1) + 1))
    for start in range(0, len(homes), step):
        around = [disk(home, steps) for home in homes[start : start + step].tolist()]
        yield np.repeat(np.arange(start, start + len(around)), [len(one) for one in around]), np.concatenate(around)


def _lanes(lane_of: LaneOf, cells: NDArray[np.int64], finest: int) -> NDArray[np.int32]:
    """The lane of each cell, asked once for neighbours in the list that no lane tells apart."""
    begins = differs(ancestor(cells, finest))
    return np.asarray(lane_of(cells[begins]), np.int32)[np.cumsum(begins) - 1]


def _guests(
    points: NDArray[np.float64], of_row: Rows, homes: NDArray[np.int64], foreign: _Foreign, radius_m: float
) -> tuple[Rows, NDArray[np.int32]]:
    """Rows and foreign lanes that have a cell within the radius of the row's place."""
    known, place = np.unique(foreign.cell, return_inverse=True)
    centre = unit_vectors(*centres(known).T)
    sure, maybe = (chord(radius_m + more) ** 2 for more in (0.0, _FARTHEST_CORNER_M))
    rows, lanes = [np.zeros(0, np.intp)], [np.zeros(0, np.int32)]
    for row, of in _beside(of_row, np.bincount(foreign.home, minlength=len(homes))):
        away = np.square(points[row] - centre[place[of]]).sum(axis=1)
        away[foreign.cell[of] == homes[of_row[row]]] = 0.0
        inside, near = away <= sure, away <= maybe
        found = _once(row[inside], foreign.lane[of[inside]])
        open_ = near & ~inside & ~_among(row, foreign.lane[of], *found)
        touched = metres_to_outlines(points[row[open_]], outlines_once(foreign.cell[of[open_]])) <= radius_m + _SPARE_M
        more = _once(row[open_][touched], foreign.lane[of[open_]][touched])
        rows += [found[0], more[0]]
        lanes += [found[1], more[1]]
    return np.concatenate(rows), np.concatenate(lanes)


def _beside(of_row: Rows, counts: NDArray[np.intp]) -> Iterator[tuple[Rows, Rows]]:
    """Each row beside every foreign cell of its home cell, some rows at a time; a row's cells are not parted."""
    starts = np.cumsum(counts) - counts
    rows = np.flatnonzero(counts[of_row])
    wide = counts[of_row[rows]]
    part = np.cumsum(wide) // _TOGETHER
    for some in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(part)) + 1) if len(rows) else ():
        width = wide[some]
        first = np.repeat(starts[of_row[rows[some]]] - (np.cumsum(width) - width), width)
        yield np.repeat(rows[some], width), first + np.arange(width.sum())


def _once(rows: Rows, lanes: NDArray[np.int32]) -> tuple[Rows, NDArray[np.int32]]:
    both = np.unique(rows.astype(np.int64) << 32 | lanes)
    return (both >> 32).astype(np.intp), (both & 0xFFFFFFFF).astype(np.int32)


def _among(rows: Rows, lanes: NDArray[np.int32], known: Rows, known_lanes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether each row and lane is among the known ones."""
    return np.isin(rows.astype(np.int64) << 32 | lanes, known.astype(np.int64) << 32 | known_lanes)


def outlines_once(cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """The outline of each cell, asked once for each that occurs."""
    known, place = np.unique(cells, return_inverse=True)
    return outlines(known)[place]

"""The lanes that can hold a driver within R of a request: its home lane, and the few others it is sent to as a guest.

Rule: a foreign lane is in the cover if a home cell of that lane has a point within R of the request. It is looked for
from coarse cells to fine ones: first the cells of resolution 7 around the request's own. A cell whose centre is within
R has a home cell there, and its lane is in the cover. A cell whose centre is farther than R and the farthest point of
any home cell under it (1,720 m at resolution 7, 640 m at 8, 235 m at 9) has none. In between its seven children are
asked, and at resolution 9 the outline of the cell, with 1 m to spare. Cells of lanes that are found are left out, so
few are asked in the end. The home lane is always in the cover.

Worked example: R = 1 km begins with 61 cells. With lanes by cells of resolution 3 nearly all requests see one lane
there, and are done; of a rider 700 m from a border some foreign home cells are within 1 km: home and one guest.

Lanes are any function of the home cell, so a change of the lane table, or of the lane count, changes which copies are
made and never what is found. While two tables are in use the cover is the union of both. When not to use it: with
lanes by cells about as small as R, where a request goes to most of its neighbours; take coarser cells or fewer lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.geo.bits import HOME_RESOLUTION, ancestor, children, middle, resolution
from keylane.geo.cells import centres, disk, outlines
from keylane.matching.sphere import checked_radius, chord, metres_to_outlines, unit_vectors
from keylane.matching.tables import sorted_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.intp]
    Cells = NDArray[np.int64]
    LaneOf = Callable[[Cells], NDArray[Any]]
    #: Cells of any resolution -> whether all home cells under each are in one lane.
    OneLane = Callable[[Cells], NDArray[np.bool_]]

#: Where the search begins.
_COARSE: Final = 7
#: No point of a home cell under a cell is farther from the cell's centre: measured over the earth (1,618, 604 and
#: 221 m, at its widest cells and at all pentagons), and a little more.
_FARTHEST_M: Final = {7: 1720.0, 8: 640.0, 9: 235.0}
#: One step between the coarse cells is at least this long: 1,512 m at the pentagons, where cells are smallest.
_STEP_M: Final = 1450.0
_SPARE_M: Final = 1.0
#: Cells looked at together: what keeps memory flat.
_TOGETHER: Final = 1 << 19


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The lanes of cells, of one table or of several."""

    of: tuple[LaneOf, ...]
    whole: OneLane

    def lanes(self, cells: Cells) -> NDArray[np.int32]:
        """For each table the lane at the centre of each cell."""
        home = middle(cells, HOME_RESOLUTION)
        return np.stack([np.asarray(of(home), np.int32) for of in self.of])


def rings(radius_m: float) -> int:
    """Steps from a request's own cell of resolution 7 that no driver's is beyond, wherever on earth.

    >>> [rings(radius) for radius in (300, 1000, 2000, 5000, 7000)]
    [3, 4, 4, 6, 8]
    """
    return math.ceil((checked_radius(radius_m) + 2 * _FARTHEST_M[_COARSE]) / _STEP_M)


def covers(
    lat: Any,
    lng: Any,
    cells: Any,
    radius_m: float,
    lane_of: LaneOf | Sequence[LaneOf],
    finest: int | OneLane = HOME_RESOLUTION,
) -> tuple[Rows, NDArray[np.int32], NDArray[np.bool_]]:
    """Row of the request, lane, whether it is the home lane: in the order of rows, the home lane first.

    `lane_of` gives the lanes of home cells; of several the last gives the home lane. `finest` is the resolution of
    the finest cells that any of them distinguishes, or of cells whether each is in one lane: what makes it quick.
    """
    at = np.ascontiguousarray(cells, np.int64)
    lanes_of = _Lanes((lane_of,) if callable(lane_of) else tuple(lane_of), _whole(finest))
    home_lane = np.asarray(lanes_of.of[-1](at), np.int32)
    points = unit_vectors(np.asarray(lat, float), np.asarray(lng, float))
    found = [np.zeros(0, np.int64)]
    for row, cell in _coarse(at, rings(radius_m), lanes_of):
        found.append(_guests(points, home_lane, row, cell, radius_m, lanes_of))
    rows, lanes = _split(np.concatenate(found))
    every, both = np.concatenate([np.arange(len(at)), rows]), np.concatenate([home_lane, lanes])
    is_home = np.arange(len(every)) < len(at)
    order = sorted_rows(every, ~is_home, both)
    return every[order], both[order], is_home[order]


def _whole(finest: int | OneLane) -> OneLane:
    return finest if callable(finest) else lambda cells: resolution(cells) >= finest


def _joined(rows: Rows, lanes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Row and lane in one number."""
    return rows.astype(np.int64) << 32 | lanes


def _split(joined: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int32]]:
    return (joined >> 32).astype(np.intp), (joined & 0xFFFFFFFF).astype(np.int32)


def _coarse(at: Cells, steps: int, lanes_of: _Lanes) -> Iterator[tuple[Rows, Cells]]:
    """Rows beside the coarse cells around them that may have other lanes, some rows at a time."""
    own, of_row = np.unique(ancestor(at, _COARSE), return_inverse=True)
    whose, every = _others(own, steps, lanes_of)
    counts = np.bincount(whose, minlength=len(own))
    starts = np.cumsum(counts) - counts
    rows = np.flatnonzero(counts[of_row])
    wide = counts[of_row[rows]]
    for some in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(np.cumsum(wide) // _TOGETHER)) + 1):
        width = wide[some]
        first = np.repeat(starts[of_row[rows[some]]] - (np.cumsum(width) - width), width)
        yield np.repeat(rows[some], width), every[first + np.arange(width.sum())]


def _others(own: Cells, steps: int, lanes_of: _Lanes) -> tuple[Rows, Cells]:
    """The cells around each coarse cell, but those that are wholly in the one lane that it is in; whose they are."""
    some = max(1, _TOGETHER // (3 * steps * (steps + 1) + 1))
    parts = [(start, *_others_of(own[start : start + some], steps, lanes_of)) for start in range(0, len(own), some)]
    whose = [np.zeros(0, np.intp), *(start + whose for start, whose, _ in parts)]
    return np.concatenate(whose), np.concatenate([np.zeros(0, np.int64), *(cells for _, _, cells in parts)])


def _others_of(own: Cells, steps: int, lanes_of: _Lanes) -> tuple[Rows, Cells]:
    around = [disk(cell, steps) for cell in own.tolist()]
    whose = np.repeat(np.arange(len(own)), [len(one) for one in around])
    every = np.concatenate(around)
    known, place = np.unique(np.concatenate([own, every]), return_inverse=True)
    lanes, whole = lanes_of.lanes(known), lanes_of.whole(known)
    mine, theirs = place[: len(own)][whose], place[len(own) :]
    same = whole[mine] & whole[theirs] & (lanes[:, theirs] == lanes[-1, mine]).all(axis=0)
    return whose[~same], every[~same]


def _guests(
    points: NDArray[np.float64],
    home_lane: NDArray[np.int32],
    row: Rows,
    cell: Cells,
    radius_m: float,
    lanes_of: _Lanes,
) -> NDArray[np.int64]:
    """Rows and foreign lanes, joined, that have a home cell within the radius of the row's location."""
    ours = np.unique(_joined(row, home_lane[row]))
    found = ours
    for level, farthest in _FARTHEST_M.items():
        known, place = np.unique(cell, return_inverse=True)
        away = np.square(points[row] - unit_vectors(*centres(known).T)[place]).sum(axis=1)
        near = away <= chord(radius_m + farthest) ** 2
        row, cell, place, inside = row[near], cell[near], place[near], (away <= chord(radius_m) ** 2)[near]
        lanes = [_joined(row, one) for one in lanes_of.lanes(known)[:, place]]
        found = np.unique(np.concatenate([found, *(one[inside] for one in lanes)]))
        covered = np.logical_and.reduce([np.isin(one, found) for one in lanes])
        asked = ~(covered & lanes_of.whole(known)[place])
        row, cell, lanes = row[asked], cell[asked], [one[asked] for one in lanes]
        if level < HOME_RESOLUTION:
            row, cell = np.repeat(row, 7), children(cell).reshape(-1)
            row, cell = row[cell >= 0], cell[cell >= 0]
    known, place = np.unique(cell, return_inverse=True)
    touched = metres_to_outlines(points[row], outlines(known)[place]) <= radius_m + _SPARE_M
    found = np.unique(np.concatenate([found, *(one[touched] for one in lanes)]))
    return np.setdiff1d(found, ours, assume_unique=True)

"""A cell -> its lane: the leaf of the lane table that holds it, otherwise the hash of its ancestor.

Rule: the leaf that is the cell or one of its ancestors has its lane. A cell in no leaf is hashed, as the contract's
partitioner hashes, by the eight big-endian bytes of its ancestor at the contract's resolution. So the function is
total, and everyone with the contract and a cell computes the same lane.

Worked example: leaves {8329b6: 4} and resolution 3 on 60 lanes. Every cell under 8329b6 is on lane 4; 89283082803ffff
is on the lane of murmur2(the bytes of 832830fffffffff).

A change of the table moves the cells of the leaves that change and no other; a change of the lane count moves nearly
all hashed cells, and needs another table. When not to use it: for keys that are not locations.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keylane.contract.lane_table import leaf_lanes
from keylane.geo.bits import FINEST, ancestor, curve_end, curve_start, resolution
from keylane.keys.arrow_bytes import binary_of_rows
from keylane.placement.partitioners import Partitioner, partitioner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from keylane.contract.model import Contract

#: In no leaf.
OUTSIDE = -1


@dataclass(frozen=True, slots=True)
class CellLanes:
    """The lanes of cells, ready to be asked. Leaves are ranges of the curve, in order, without overlap."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    leaf_lane: NDArray[np.int32]
    resolution: int
    count: int
    hashed_by: Partitioner

    def of(self, cells: Any) -> NDArray[np.int32]:
        """The lane of each cell; none may be coarser than the contract's resolution or than the leaf it is in."""
        given = np.asarray(cells, np.int64)
        lanes = self.from_leaves(given)
        outside = np.flatnonzero(lanes == OUTSIDE)
        if len(outside):
            lanes[outside] = self.from_hash(given[outside])
        return lanes

    def of_one(self, cell: int) -> int:
        """The lane of one cell, without an array."""
        leaf = self.leaf_of(cell)
        if leaf is not None:
            return leaf[1]
        assert self.hashed_by.hash is not None
        key = ancestor(cell, self.resolution).to_bytes(8, "big")
        return self.hashed_by.fold(self.hashed_by.hash.one(key), self.count)

    def leaf_of(self, cell: int) -> tuple[int, int] | None:
        """The leaf that holds a cell, and its lane; None for a cell in no leaf."""
        place = curve_end(cell)
        at = bisect_right(self.starts, place) - 1
        if at < 0 or place > self.ends[at]:
            return None
        start, end = int(self.starts[at]), int(self.ends[at])
        finest = FINEST - (end - start + 1).bit_length() // 3
        return 1 << 59 | finest << 52 | end, int(self.leaf_lane[at])

    def from_leaves(self, cells: NDArray[np.int64]) -> NDArray[np.int32]:
        """The lane of the leaf that holds each cell, -1 where none does."""
        if not len(self.starts):
            return np.full(len(cells), OUTSIDE, np.int32)
        place = curve_end(cells)
        at = np.searchsorted(self.starts, place, "right") - 1
        inside = (at >= 0) & (place <= self.ends[at])
        return np.where(inside, self.leaf_lane[at], OUTSIDE).astype(np.int32)

    def one_lane(self, cells: Any) -> NDArray[np.bool_]:
        """Whether each cell, of any resolution, is one lane throughout: in a leaf, or hashed and with no leaf in it."""
        given = np.asarray(cells, np.int64)
        hashed = resolution(given) >= self.resolution
        if not len(self.starts):
            return hashed
        first, last = curve_start(given), curve_end(given)
        at = np.searchsorted(self.starts, last, "right") - 1
        apart = (at < 0) | (self.ends[at] < first)
        # A leaf may begin where the cell begins and still be only its middle: both ends have to be in it.
        return np.where(apart, hashed, (self.starts[at] <= first) & (last <= self.ends[at]))

    def from_hash(self, cells: NDArray[np.int64]) -> NDArray[np.int32]:
        """The lane of each cell's ancestor by the partitioner's hash."""
        rows = ancestor(cells, self.resolution).astype(">i8").view(np.uint8).reshape(-1, 8)
        keys = binary_of_rows(rows, np.zeros(len(rows), bool))
        return self.hashed_by.hashed_lanes(keys, self.count).astype(np.int32)


def cell_lanes(contract: Contract, lanes: int) -> CellLanes:
    """The lanes of a contract with a `geo` part, for this lane count."""
    geo = contract.spec.geo
    assert geo is not None
    known = [(cell, lane) for cell, lane in leaf_lanes(geo.leaves) if cell is not None]
    leaves = np.array([cell for cell, _ in known], np.int64)
    order = np.argsort(curve_end(leaves))
    starts = np.array([curve_start(cell) for cell, _ in known], np.int64)[order]
    leaf_lane = np.array([lane for _, lane in known], np.int32)[order]
    # A key of bytes is hashed as bytes, a cell or not, also where the hash knows types.
    hashed_by = partitioner(contract.spec.partitioner, "raw" if contract.spec.key.encodings == ("raw",) else "h3")
    return CellLanes(starts, curve_end(leaves)[order], leaf_lane, geo.resolution, lanes, hashed_by)

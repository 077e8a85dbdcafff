"""The cells right under cells, by their bits: no H3 needed. Their ancestors: `bits`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keylane.geo.bits import FINEST, PENTAGONS, ancestor, middle, resolution

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["children"]


def children(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The seven children of each cell as an (n, 7) array; -1 for the one that a pentagon lacks.

    All the cells are of one resolution. A child is one digit more, 0 to 6; a pentagon, whose digits are all 0, has no
    child with the digit 1.
    """
    if not len(cells):
        return np.zeros((0, 7), np.int64)
    at = int(resolution(cells[0])) + 1
    below = (middle(cells, at) & ~(7 << 3 * (FINEST - at)))[:, None] | np.arange(7) << 3 * (FINEST - at)
    pentagon = np.isin(cells >> 45 & 0x7F, PENTAGONS) & (middle(ancestor(cells, 0), at - 1) == cells)
    below[pentagon, 1] = -1
    return below

"""The corners of many cells at once, as latitude and longitude. To draw a cell on a map: `shapes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import MissingExtraError

try:
    from h3.api import basic_int as h3
except ImportError:
    raise MissingExtraError.named("geo", "h3") from None

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_CORNERS", "outlines"]

#: A pentagon over an edge of the icosahedron has ten, a hexagon at most eight.
MOST_CORNERS: Final = 10


def outlines(cells: Any) -> NDArray[np.float64]:
    """The corners of each cell in their order, as an (n, 10, 2) array; the last corner is repeated to fill it.

    >>> outlines([0x89283082803ffff]).shape
    (1, 10, 2)
    """
    corners = (h3.cell_to_boundary(int(cell)) for cell in cells)
    filled = [[*shape, *[shape[-1]] * (MOST_CORNERS - len(shape))] for shape in corners]
    return np.array(filled, float).reshape(-1, MOST_CORNERS, 2)

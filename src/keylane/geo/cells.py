"""Latitude and longitude -> the H3 cell there, as a 64-bit number; the cells around a cell, and their outlines.

H3 itself takes any number: a latitude of 91 wraps over the pole, and one NaN would fail a whole batch. So `coordinates`
is asked first, here for one location and by the caller for many. What the bits of a cell give without H3: `bits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import DataError, MissingExtraError
from keylane.geo.bits import FINEST, HOME_RESOLUTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:
    from h3.api import basic_int as h3
except ImportError:
    raise MissingExtraError.named("geo", "h3") from None


def cell_of(latitude: float, longitude: float, resolution: int = HOME_RESOLUTION) -> int:
    """The cell of this resolution, 0 to 15, that a location is in.

    >>> f"{cell_of(33.4484, -112.0740, 3):x}"
    '8329b6fffffffff'
    """
    # A comparison with NaN is false, so these also refuse what is no number.
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        allowed = "a latitude from -90 to 90, and a longitude from -180 to 180"
        raise DataError.of("not a location on the earth", got=(latitude, longitude), allowed=allowed)
    if not 0 <= resolution <= FINEST:
        raise DataError.of("not an H3 resolution", got=resolution, allowed=f"0 to {FINEST}")
    return int(h3.latlng_to_cell(latitude, longitude, resolution))


def cells_of(latitudes: Any, longitudes: Any) -> NDArray[np.int64]:
    """The cell of each location at the home resolution; the locations have been checked before."""
    pairs = zip(np.asarray(latitudes, float).tolist(), np.asarray(longitudes, float).tolist(), strict=True)
    cell = h3.latlng_to_cell
    return np.array([cell(lat, lng, HOME_RESOLUTION) for lat, lng in pairs], np.int64)


def centres(cells: Any) -> NDArray[np.float64]:
    """Latitude and longitude of the centre of each cell, as an (n, 2) array."""
    return np.array([h3.cell_to_latlng(int(cell)) for cell in cells], float).reshape(-1, 2)


# Disks: every cell within a number of steps of a cell.

try:
    from h3.api import numpy_int as h3
except ImportError:
    raise MissingExtraError.named("geo", "h3") from None


def disk(cell: int, steps: int) -> NDArray[np.int64]:
    """A cell and all within this many steps of it, in no order.

    >>> len(disk(0x89283082803ffff, 2))
    19
    """
    return np.asarray(h3.grid_disk(cell, steps)).astype(np.int64)


# Outlines: the corners of many cells at once, as latitude and longitude. To draw a cell on a map: `shapes`.

try:
    from h3.api import basic_int as h3
except ImportError:
    raise MissingExtraError.named("geo", "h3") from None


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

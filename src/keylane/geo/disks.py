"""The cells around a cell: every cell within so many steps. Rings are never asked for.

`grid_disk` is right everywhere, near the twelve pentagons too. `grid_ring` and `grid_distance` are not, so a ring is
the disk without the next smaller one, and a distance is measured on the sphere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keylane.errors import MissingExtraError

try:
    from h3.api import numpy_int as h3
except ImportError:
    raise MissingExtraError.named("geo", "h3") from None

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["disk"]


def disk(cell: int, steps: int) -> NDArray[np.int64]:
    """A cell and all within so many steps of it, in no order.

    >>> len(disk(0x89283082803ffff, 2))
    19
    """
    return np.asarray(h3.grid_disk(cell, steps)).astype(np.int64)

"""Which latitudes and longitudes are a location, and why the others are not. No H3: it would take any number.

Rule, the first that fits: null -> `null-place`; not finite -> `place-not-finite`; out of range, and in range with the
two exchanged -> `place-swapped`; out of range -> `place-out-of-range`; both zero -> `place-zero` (what a receiver
without a fix sends); outside of the contract's region, and inside with the two exchanged -> `place-swapped`; outside ->
`place-out-of-range`.

Worked example: (33.4, -112.1) is a location, (-112.1, 33.4) is swapped, (91, 200) is out of range.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.records import Reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: In the order they are asked for; `place_problems` gives their numbers.
PLACE_REASONS: Final = (
    Reason.NULL_PLACE,
    Reason.PLACE_NOT_FINITE,
    Reason.PLACE_SWAPPED,
    Reason.PLACE_OUT_OF_RANGE,
    Reason.PLACE_ZERO,
)
_NULL, _INFINITE, _SWAPPED, _OUTSIDE, _ZERO = range(5)


@dataclass(frozen=True, slots=True)
class Region:
    """Where a stream's locations are: from south to north, from west eastwards to east. West may be above east."""

    south: float = -90.0
    west: float = -180.0
    north: float = 90.0
    east: float = 180.0

    def holds(self, latitude: Any, longitude: Any) -> Any:
        """Whether a location, or each of many, is inside; borders are."""
        after, before = longitude >= self.west, longitude <= self.east
        between = after & before if self.west <= self.east else after | before
        return (latitude >= self.south) & (latitude <= self.north) & between


EARTH: Final = Region()


def place_problems(latitude: Any, longitude: Any, region: Region = EARTH) -> NDArray[np.int8]:
    """For each row -1, or the number of its reason in `PLACE_REASONS`. Nulls come in as masked entries.

    >>> place_problems([33.4, -112.1, 91.0, 0.0], [-112.1, 33.4, 200.0, 0.0]).tolist()
    [-1, 2, 3, 4]
    """
    null = np.ma.getmaskarray(latitude) | np.ma.getmaskarray(longitude)
    lat, lng = (np.where(null, np.nan, np.ma.getdata(column).astype(float)) for column in (latitude, longitude))
    zero = (lat == 0) & (lng == 0)
    rules = [
        (null, _NULL),
        (~(np.isfinite(lat) & np.isfinite(lng)), _INFINITE),
        (~EARTH.holds(lat, lng) & EARTH.holds(lng, lat), _SWAPPED),
        (~EARTH.holds(lat, lng), _OUTSIDE),
        (zero, _ZERO),
        (~region.holds(lat, lng) & region.holds(lng, lat), _SWAPPED),
        (~region.holds(lat, lng), _OUTSIDE),
    ]
    return np.select([mask for mask, _ in rules], [code for _, code in rules], -1).astype(np.int8)


def place_problem(latitude: float | None, longitude: float | None, region: Region = EARTH) -> Reason | None:
    """The reason of one row, or None when it is a location: the same rules in the same order."""
    if latitude is None or longitude is None:
        return Reason.NULL_PLACE
    if not (isfinite(latitude) and isfinite(longitude)):
        return Reason.PLACE_NOT_FINITE
    if not EARTH.holds(latitude, longitude):
        return _outside(EARTH, latitude, longitude)
    if latitude == 0 and longitude == 0:
        return Reason.PLACE_ZERO
    return None if region.holds(latitude, longitude) else _outside(region, latitude, longitude)


def _outside(region: Region, latitude: float, longitude: float) -> Reason:
    return Reason.PLACE_SWAPPED if region.holds(longitude, latitude) else Reason.PLACE_OUT_OF_RANGE

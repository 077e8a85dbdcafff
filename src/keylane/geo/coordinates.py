"""Which latitudes and longitudes are a location, and why the others are not. No H3: it would take any number.

Rule, the first that fits: null -> `null-place`; not finite -> `place-not-finite`; out of range, and in range with the
two exchanged -> `place-swapped`; out of range -> `place-out-of-range`; both zero -> `place-zero` (what a receiver
without a fix sends); with a scale, numbers that are degrees already -> `place-unscaled`; outside of the contract's
region, and inside with the two exchanged -> `place-swapped`; outside -> `place-out-of-range`.

Worked example: (33.4, -112.1) is a location, (-112.1, 33.4) is swapped, (91, 200) is out of range. With a scale of
10,000, (334000, -1121000) is the same location, and (33.4, -112.1) is unscaled: it would be a point in the sea 20 m off
(0, 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import UsageError
from keylane.numbers import count
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
    Reason.PLACE_UNSCALED,
)
_NULL, _INFINITE, _SWAPPED, _OUTSIDE, _ZERO, _UNSCALED = range(6)
#: A scale of less would make locations of Africa what numbers in degrees would be.
LEAST_SCALE: Final = 100.0
MOST_SCALE: Final = 1e12


@dataclass(frozen=True, slots=True)
class Region:
    """Where a stream's locations are: from south to north, from west eastwards to east. West may be above east.

    These are degrees. The stream's own numbers are `scale` times as large.
    """

    south: float = -90.0
    west: float = -180.0
    north: float = 90.0
    east: float = 180.0
    scale: float = 1.0

    def degrees(self, numbers: Any) -> Any:
        """Numbers of the stream, or columns of them, as degrees. A division is rounded alike wherever it is made."""
        return numbers if self.scale == 1 else numbers / self.scale

    @property
    def unscaled(self) -> float:
        """Degrees up to which numbers are taken to be degrees that were divided by the scale; negative: none are."""
        return -1.0 if self.scale == 1 else 180.0 / self.scale

    def holds(self, latitude: Any, longitude: Any) -> Any:
        """Whether a location, or each of many, is inside; borders are."""
        after, before = longitude >= self.west, longitude <= self.east
        between = after & before if self.west <= self.east else after | before
        return (latitude >= self.south) & (latitude <= self.north) & between


EARTH: Final = Region()


def place_problems(latitude: Any, longitude: Any, region: Region = EARTH) -> NDArray[np.int8]:
    """For each row -1, or the number of its reason in `PLACE_REASONS`; of degrees. Nulls come in as masked entries.

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
        ((np.abs(lat) <= region.unscaled) & (np.abs(lng) <= region.unscaled), _UNSCALED),
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
    if abs(latitude) <= region.unscaled and abs(longitude) <= region.unscaled:
        return Reason.PLACE_UNSCALED
    return None if region.holds(latitude, longitude) else _outside(region, latitude, longitude)


def _outside(region: Region, latitude: float, longitude: float) -> Reason:
    return Reason.PLACE_SWAPPED if region.holds(longitude, latitude) else Reason.PLACE_OUT_OF_RANGE


# Whole-number degrees: how many of a stream's numbers make a degree.


def checked_scale(scale: float) -> float:
    """A number that locations can be divided by; others are refused.

    >>> checked_scale(10_000_000)
    10000000.0
    """
    if scale == 1 or LEAST_SCALE <= scale <= MOST_SCALE:
        return float(scale)
    inverse = round(1 / scale, 9) if 0 < scale < 1 else 0.0
    hint = f"{inverse:.12g}: numbers are divided by it" if LEAST_SCALE <= inverse <= MOST_SCALE else ""
    allowed = f"{LEAST_SCALE:g} to {count(MOST_SCALE)}, or 1 for degrees; 1e7 where 407637000 is 40.7637"
    raise UsageError.of("not a scale of whole-number degrees", got=scale, allowed=allowed, hint=hint)


def fitting_scales(latitude: float, longitude: float, most: int = 2) -> tuple[float, ...]:
    """The smallest powers of ten that make a location of two whole numbers that are none in degrees.

    >>> fitting_scales(407_637, -739_800)
    (10000.0, 100000.0)
    >>> fitting_scales(91.5, 200.25)
    ()
    """
    numbers = (latitude, longitude)
    if not all(isfinite(number) and number == int(number) for number in numbers) or EARTH.holds(*numbers):
        return ()
    powers = (float(10**power) for power in range(2, 13))
    fit = [scale for scale in powers if place_problem(latitude / scale, longitude / scale) is None]
    return tuple(fit[:most])


def scale_hint(latitude: float, longitude: float) -> str | None:
    """Which scale would make a location of two whole numbers that are none in degrees; None where none would.

    >>> scale_hint(407_637, -739_800)
    'whole-number degrees? a scale of 10000 makes it 40.7637, -73.98; 100000 makes it 4.07637, -7.398'
    """
    scales = fitting_scales(latitude, longitude)
    words = [f"{scale:.0f} makes it {latitude / scale:.10g}, {longitude / scale:.10g}" for scale in scales]
    return f"whole-number degrees? a scale of {'; '.join(words)}" if words else None

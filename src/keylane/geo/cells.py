"""Latitude and longitude -> the H3 cell there, as the 64-bit number that a key is made of.

H3 itself takes any number: a latitude of 91 wraps over the pole. So a place that is none is refused here first.
"""

from __future__ import annotations

from typing import Final

from keylane.errors import DataError, MissingExtraError

try:
    from h3.api import basic_int as h3
except ImportError:
    raise MissingExtraError.named("geo", "h3") from None

__all__ = ["cell_name", "cell_of"]

FINEST: Final = 15


def cell_of(latitude: float, longitude: float, resolution: int) -> int:
    """The cell of this resolution, 0 to 15, that a place is in.

    >>> f"{cell_of(33.4484, -112.0740, 3):x}"
    '8329b6fffffffff'
    """
    # A comparison with NaN is false, so these also refuse what is no number.
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        allowed = "a latitude from -90 to 90, and a longitude from -180 to 180"
        raise DataError.of("not a place on the earth", got=(latitude, longitude), allowed=allowed)
    if not 0 <= resolution <= FINEST:
        raise DataError.of("no such resolution of H3", got=resolution, allowed=f"0 to {FINEST}")
    return int(h3.latlng_to_cell(latitude, longitude, resolution))


def cell_name(cell: int) -> str:
    """A cell as people write it: hexadecimal, without leading zeros."""
    return f"{cell:x}"

"""Distances on the sphere: the haversine that decides, and unit vectors in which a tree can search.

The earth is a sphere of 6,371,008.8 m. Points as unit vectors have no antimeridian and no poles: two points within
R metres along the surface are the same two points within a chord of 2 sin(R / 2a) of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import UsageError
from keylane.numbers import count

if TYPE_CHECKING:
    from numpy.typing import NDArray

EARTH_RADIUS_M: Final = 6_371_008.8
#: Who is matched drives there; further out the cells to be looked at are too many to be worth it.
MOST_RADIUS_M: Final = 50_000.0


def haversine(lat1: Any, lng1: Any, lat2: Any, lng2: Any) -> Any:
    """Metres between points, along the surface.

    >>> round(float(haversine(33.4484, -112.0740, 33.4484, -112.0640)))
    928
    """
    a, b = np.radians(lat1), np.radians(lat2)
    # The half angle is taken after the difference, so that +179.9 and -179.9 are near each other.
    across, along = np.sin((a - b) / 2), np.sin(np.radians(np.subtract(lng1, lng2)) / 2)
    h = across * across + np.cos(a) * np.cos(b) * along * along
    return 2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(np.minimum(h, 1.0)))


def unit_vectors(lat: Any, lng: Any) -> NDArray[np.float64]:
    """Each location as a point on the sphere of radius 1, as an (n, 3) array."""
    up, round_ = np.radians(lat), np.radians(lng)
    level = np.cos(up)
    return np.stack([level * np.cos(round_), level * np.sin(round_), np.sin(up)], axis=-1)


def chord(radius_m: float) -> float:
    """The straight distance, on the sphere of radius 1, of two points this many metres apart."""
    return float(2 * np.sin(radius_m / (2 * EARTH_RADIUS_M)))


def metres_to_outlines(points: NDArray[np.float64], outlines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Metres from each point, a unit vector outside of its outline, to the nearest point of the outline's edges.

    Seen from the point, on the plane that touches the sphere there, great circles are straight lines, and what is
    nearer on the plane is nearer on the sphere. So the nearest point of each edge is that of a straight line.
    """
    corners = unit_vectors(outlines[..., 0], outlines[..., 1])
    east = np.cross(np.where(np.abs(points[:, 2:]) < 0.9, [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]), points)
    east /= np.linalg.norm(east, axis=1, keepdims=True)
    axes = np.stack([east, np.cross(points, east)], axis=2)
    begin = corners @ axes / (corners @ points[:, :, None])
    edge = np.roll(begin, -1, axis=1) - begin
    length = np.maximum(np.square(edge).sum(axis=2), 1e-300)
    along = np.clip(-(begin * edge).sum(axis=2) / length, 0.0, 1.0)
    nearest = np.linalg.norm(begin + along[..., None] * edge, axis=2).min(axis=1, initial=np.inf)
    return EARTH_RADIUS_M * np.arctan(nearest)


def checked_radius(radius_m: float) -> float:
    """A radius that matching can be exact for; others are refused."""
    if not 0 < radius_m <= MOST_RADIUS_M:
        allowed = f"more than 0 and at most {count(MOST_RADIUS_M)} metres"
        raise UsageError.of("radius is out of range", got=radius_m, allowed=allowed)
    return float(radius_m)

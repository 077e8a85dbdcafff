"""Distances on the sphere, over the antimeridian and at the poles, and radii that are none."""

from __future__ import annotations

import numpy as np
import pytest

from keylane.errors import UsageError
from keylane.geo.cells import centres, outlines
from keylane.matching.sphere import (
    EARTH_RADIUS_M,
    checked_radius,
    chord,
    haversine,
    metres_to_outlines,
    unit_vectors,
)


@pytest.mark.parametrize(
    ("one", "other", "metres"),
    [
        ((0, 0), (0, 1), EARTH_RADIUS_M * np.pi / 180),
        ((0, 179.5), (0, -179.5), EARTH_RADIUS_M * np.pi / 180),
        ((90, 0), (90, 123), 0.0),
        ((89.5, 0), (89.5, 180), EARTH_RADIUS_M * np.pi / 180),
        ((0, 0), (0, 180), EARTH_RADIUS_M * np.pi),
        ((-90, 5), (90, 7), EARTH_RADIUS_M * np.pi),
    ],
    ids=str,
)
def test_known_distances(one: tuple[float, float], other: tuple[float, float], metres: float) -> None:
    assert haversine(*one, *other) == pytest.approx(metres, abs=1e-6)
    straight = np.linalg.norm(unit_vectors(*one) - unit_vectors(*other))
    assert straight == pytest.approx(chord(metres), abs=1e-12)


def test_an_outline_is_as_far_as_its_nearest_edge() -> None:
    cell = [0x89283082803FFFF]
    (corners,), ((lat, lng),) = outlines(cell), centres(cell)
    middle = (corners[0] + corners[1]) / 2
    beyond = middle + 3 * (middle - (lat, lng))
    away = metres_to_outlines(unit_vectors(beyond[None, 0], beyond[None, 1]), corners[None])[0]
    dense = np.linspace(corners, np.roll(corners, -1, axis=0), 2001).reshape(-1, 2)
    assert away == pytest.approx(haversine(beyond[0], beyond[1], dense[:, 0], dense[:, 1]).min(), abs=0.05)


@pytest.mark.parametrize("radius", [0, -1, 50_001, float("nan"), float("inf")])
def test_a_radius_that_cannot_be_matched_is_refused(radius: float) -> None:
    with pytest.raises(UsageError, match="50,000 metres"):
        checked_radius(radius)


def test_the_ends_of_what_is_allowed_are() -> None:
    assert [checked_radius(radius) for radius in (0.5, 50_000)] == [0.5, 50_000.0]

"""Drivers around six city centres, and the cell of each place they report. Pure: chance comes in as a generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from keylane.geo.cells import cell_of

__all__ = ["CENTRES", "RESOLUTION", "Traffic", "updates"]


class Centre(NamedTuple):
    """The middle of a city, in degrees."""

    name: str
    latitude: float
    longitude: float


CENTRES: Final = (
    Centre("San Francisco", 37.7749, -122.4194),
    Centre("Los Angeles", 34.0522, -118.2437),
    Centre("New York", 40.7128, -74.0060),
    Centre("Chicago", 41.8781, -87.6298),
    Centre("Houston", 29.7604, -95.3698),
    Centre("Phoenix", 33.4484, -112.0740),
)
RESOLUTION: Final = 3
KM_OF_A_DEGREE: Final = 111.2
#: How far a driver comes from one update to the next, as the deviation in each direction.
STEP_KM: Final = 0.1


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many drivers, how often each reports, and how far from the middle of the city they go."""

    drivers: int = 100
    updates: int = 60
    radius_km: float = 2.0


def updates(rng: np.random.Generator, traffic: Traffic) -> pa.Table:
    """Every update in the order of time: each driver's first, then each driver's second, and so on."""
    city = np.arange(traffic.drivers) % len(CENTRES)
    walks = _walks(rng, traffic)
    middle = np.array([(centre.latitude, centre.longitude) for centre in CENTRES])[city]
    # A degree of longitude is shorter the farther from the equator.
    degrees = walks / KM_OF_A_DEGREE / np.stack([np.ones(len(city)), np.cos(np.radians(middle[:, 0]))], axis=1)
    places = (middle + degrees).reshape(-1, 2)
    return pa.table(
        {
            "driver": np.tile([f"driver-{number:03}" for number in range(traffic.drivers)], traffic.updates),
            "city": np.tile([CENTRES[one].name for one in city], traffic.updates),
            "update": np.repeat(np.arange(traffic.updates), traffic.drivers),
            "latitude": places[:, 0],
            "longitude": places[:, 1],
            "cell": pa.array([cell_of(north, east, RESOLUTION) for north, east in places.tolist()], pa.int64()),
        }
    )


def _walks(rng: np.random.Generator, traffic: Traffic) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """North and east of the middle in km, by update and driver: begun anywhere in the disc, and kept in it."""
    turn, out = rng.uniform(0, 2 * np.pi, traffic.drivers), np.sqrt(rng.uniform(0, 1, traffic.drivers))
    at = traffic.radius_km * out[:, None] * np.stack([np.sin(turn), np.cos(turn)], axis=1)
    walks = []
    for _ in range(traffic.updates):
        walks.append(at)
        at = at + rng.normal(0, STEP_KM, at.shape)
        away = np.hypot(at[:, 0], at[:, 1])
        at = at * np.minimum(1, traffic.radius_km / np.maximum(away, 1e-9))[:, None]
    return np.array(walks)

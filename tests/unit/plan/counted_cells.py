"""Counted cells of a few cities, each with a day of its own."""

from __future__ import annotations

import numpy as np

from keylane.geo.cells import cells_of
from keylane.geo.lane_tables import in_curve_order
from keylane.plan.lane_tables import (
    Counted,
)

CITIES = [(40.7, -74.0), (41.9, -87.6), (33.4, -112.1), (51.5, -0.1), (19.1, 72.9), (35.7, 139.7), (-23.5, -46.6)]


def traffic(seed: int = 1, records: int = 30_000, shift: float = 0.0) -> Counted:
    """Cities with days of their own, and some that grow by `shift`."""
    rng = np.random.default_rng(seed)
    share = np.linspace(1, 2, len(CITIES)) * (1 + shift * np.sin(np.arange(len(CITIES)) * 2.0))
    city = rng.choice(len(CITIES), records, p=share / share.sum())
    at = np.array(CITIES)[city] + rng.normal(0, 0.15, (records, 2))
    hour = (rng.normal(12, 4, records) - np.array(CITIES)[city, 1] / 15).astype(int) % 24
    known, place = np.unique(cells_of(*at.T), return_inverse=True)
    halves = []
    for half in (0, 1):
        mine = np.arange(records) % 2 == half
        counts = np.bincount(place[mine] * 24 + hour[mine], minlength=len(known) * 24).reshape(-1, 24)
        halves.append(in_curve_order(known, counts.astype(float)))
    return Counted(halves[0][0], halves[0][1], halves[1][1])

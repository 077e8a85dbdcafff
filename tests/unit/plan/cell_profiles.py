"""Profiles whose keys are home cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from keylane.contract.model import Key
from keylane.geo.cells import cells_of
from keylane.profile.model import Profile, Windows

HOUR = 3_600_000_000
SIX = [(33.4, -112.1), (40.7, -74.0), (51.5, -0.1), (35.7, 139.7), (19.1, 72.9), (-23.5, -46.6)]


def of_cells(cells: Any, counts: Any, hours: int = 1, **more: Any) -> Profile:
    """A profile of home cells with (cells, windows) counts; each window so many hours long."""
    counts = np.asarray(counts, np.int32)
    order = np.argsort(-counts.sum(axis=1), kind="stable")
    edges = tuple(n * hours * HOUR for n in range(counts.shape[1] + 1))
    table = pa.table({"cell": np.asarray(cells, np.int64)[order]})
    key = Key(fields=("cell",), encoding="h3")
    return Profile("pings/", key, Windows("time", edges), table, counts[order], **more)


def cities(spread: float, records: int = 40_000, windows: int = 24, **more: Any) -> Profile:
    """Places around six cities, as often in each, steady in time."""
    rng = np.random.default_rng(7)
    at = np.array(SIX)[np.arange(records) % 6] + rng.normal(0, spread, (records, 2))
    cells, row = np.unique(cells_of(at[:, 0], at[:, 1]), return_inverse=True)
    counts = np.zeros((len(cells), windows), np.int32)
    np.add.at(counts, (row, rng.integers(0, windows, records)), 1)
    return of_cells(cells, counts, facts=(("place", ["lat", "lng"]),), **more)


def six_cells(each: int = 8) -> Profile:
    homes = [int(cells_of([lat], [lng])[0]) for lat, lng in SIX]
    return of_cells(homes, np.full((6, 8), each), facts=(("place", ["lat", "lng"]),))

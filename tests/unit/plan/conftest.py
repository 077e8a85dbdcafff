"""Profiles from plain counts, and traffic that is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.contract.model import Key
from keylane.profile.model import Profile, Windows

if TYPE_CHECKING:
    from collections.abc import Callable


def made(counts: Any, names: list[str] | None = None, **more: Any) -> Profile:
    """A profile of these (keys, windows) counts; keys are sorted heaviest first, as profiles are."""
    counts = np.asarray(counts, np.int32)
    totals = counts.sum(axis=1)
    order = [i for i in np.argsort(-totals, kind="stable").tolist() if totals[i]]
    keys = names or [f"key-{i:05}" for i in range(len(counts))]
    edges = tuple(range(counts.shape[1] + 1))
    table = pa.table({"k": [keys[i] for i in order]})
    return Profile("day/", Key(fields=("k",)), Windows("position", edges), table, counts[order], **more)


def drawn(keys: int, records: int, windows: int = 8, flat: float = 1.0, seed: int = 1) -> Any:
    """Zipf-like counts of keys in windows, steady in time."""
    rng = np.random.default_rng(seed)
    weights = 1 / (np.arange(keys) + flat)
    return rng.poisson(np.outer(weights / weights.sum(), np.full(windows, records / windows)))


@pytest.fixture(scope="session")
def profile() -> Callable[..., Profile]:
    return made


@pytest.fixture(scope="session")
def steady() -> Profile:
    """2,000 keys whose heaviest fills about one of eight lanes."""
    return made(drawn(2_000, 80_000))

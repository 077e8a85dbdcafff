"""The demo's document without its Spark: small, made up, and as hostile as a test wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from keylane.documents.demo import DemoCase, DemoFigures, Parted
from keylane.pipelines.demo import contracts, figures
from keylane.pipelines.demo.figures import BUCKETS, KeyCounts, LaneCounts, order_kept

if TYPE_CHECKING:
    from collections.abc import Callable

VOLUMES = {"heavy": 600.0, "half": 40.0, **{f"m{i}": 1.0 for i in range(5_000)}}


@pytest.fixture(scope="session")
def document() -> Callable[..., DemoFigures]:
    """A document of `keylane demo`; its heaviest key has the name that is given."""

    def make(name: str = "merchant_000042") -> DemoFigures:
        rng = np.random.default_rng(7)
        counts = KeyCounts([name, "second"], np.array([60, 40]), np.array([30, 20]))
        lists = (contracts.payments_choices(VOLUMES), contracts.rides_choices(), contracts.queries_choices(VOLUMES))
        cases = [_case(rng, stream, choices, counts) for stream, choices in zip(STREAMS, lists, strict=True)]
        drift = figures.drift([f"m{i}" for i in range(1_000)], np.ones(1_000, int))
        return DemoFigures(
            version="0.1.0",
            spark="4.2.0",
            seed=7,
            scale=1.0,
            day="2026-03-12",
            cases=cases,
            merchants=1_000,
            drift=drift,
        )

    return make


STREAMS = (
    ("payments", "merchant_id", "order_id", True),
    ("rides", "city", "ride_id", False),
    ("queries", "query_id", None, True),
)


def _case(rng: np.random.Generator, stream: Any, choices: list[contracts.DemoContract], counts: KeyCounts) -> DemoCase:
    name, key, sub_key, private = stream
    trials = []
    for choice in choices:
        lanes = LaneCounts(rng.poisson(20, (int(choice.contract.spec.lanes), BUCKETS)), 0, 10)
        scopes = order_kept(choice.contract, counts.of_day)
        rides = Parted(groups=9, parted=1) if sub_key else None
        trials.append(figures.trial(choice, lanes, scopes, Parted(groups=2, parted=0), rides))
    seen = {key: [1] for key in counts.keys}
    hot = figures.hot_keys(counts, 64, seen, seen)
    return DemoCase(
        name=name,
        key=key,
        sub_key=sub_key,
        private=private,
        records=100,
        distinct_keys=2,
        chosen=len(choices) - 1,
        trials=trials,
        hot_keys=hot,
    )

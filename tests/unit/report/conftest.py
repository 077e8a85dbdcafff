"""The demo's document without its Spark: small, made up, and as hostile as a test wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from keylane.documents.demo import (
    DemoCase,
    DemoFigures,
    Parted,
    StandingArrival,
    StandingDivision,
    StandingQueries,
    StandingQuery,
)
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
            standing=_standing(rng),
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


def _standing(rng: np.random.Generator, lanes: int = 16, minutes: int = 60) -> StandingQueries:
    """An aggregation of two batches, whose first lane is fullest by query."""
    even, partial = (rng.poisson(mean, (lanes, minutes)) for mean in (20, 4))
    full = even.copy()
    full[0] += 60
    cells = {"query": full, "query-window": even, "query-window-partial": partial}
    arrivals = [StandingArrival(batch=0, first=0, last=13), StandingArrival(batch=1, first=14, last=59)]
    return StandingQueries(
        queries=1_000,
        queries_with_90_percent=15,
        window="1 minute",
        begins="09:00",
        minutes=minutes,
        events=int(full.sum()),
        matched=int(full.sum()),
        late=0,
        lanes=lanes,
        batches=2,
        results=60_000,
        missing=0,
        twice=0,
        out_of_order=0,
        divisions=[
            StandingDivision.model_validate(
                {
                    "division": division,
                    "received": int(found.sum()),
                    "max_over_mean": float(found.sum(axis=1).max() / found.sum(axis=1).mean()),
                    "fullest_lane": int(found.sum(axis=1).argmax()),
                    "fullest": int(found.sum(axis=1).max()),
                    "fullest_minute": int(found.max()),
                    "idle_lanes": 0,
                    "cells": found.tolist(),
                }
            )
            for division, found in cells.items()
        ],
        hottest=[StandingQuery(query_id="watch-0042", events=900, share=0.06, lanes=[0, 3, 7], arrivals=arrivals)],
    )

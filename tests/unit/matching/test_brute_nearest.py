"""How far the nearest driver was for a request that has none within the radius."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from keylane.matching.brute import brute, nearest_metres, seconds_to_a_driver
from keylane.matching.tables import Kind


def pings(*rows: tuple[str, int, float, Kind]) -> pa.Table:
    names, moments, lngs, kinds = zip(*rows, strict=True)
    return pa.table(
        {
            "driver": list(names),
            "ts": np.array(moments, np.int64),
            "offset": np.arange(len(rows)),
            "lat": np.zeros(len(rows)) + 1.0,
            "lng": np.array(lngs),
            "kind": np.array(kinds, np.int8),
        }
    )


def asked(*moments: int) -> pa.Table:
    count = len(moments)
    return pa.table(
        {
            "rider": [f"r{i}" for i in range(count)],
            "ts": np.array(moments, np.int64),
            "offset": np.arange(count),
            "lat": np.full(count, 1.0),
            "lng": np.zeros(count),
        }
    )


DEGREE = 111_178.0
KNOWN = pings(
    ("a", 5, 0.1, Kind.AVAILABLE),
    ("a", 20, 0.4, Kind.AVAILABLE),
    ("b", 10, 0.2, Kind.AVAILABLE),
    ("c", 1, 0.001, Kind.UNAVAILABLE),
)


def test_the_nearest_is_by_the_newest_ping_of_each_driver_as_of_the_request() -> None:
    found = nearest_metres(KNOWN, asked(4, 7, 15, 25))
    assert np.isnan(found[0]), "only a driver that is busy was known then"
    assert found[1:] / DEGREE == pytest.approx([0.1, 0.1, 0.2], rel=1e-3)


def test_pings_that_are_too_old_are_nobody() -> None:
    found = nearest_metres(KNOWN, asked(15, 25), expire=6)
    assert found / DEGREE == pytest.approx([0.2, 0.4], rel=1e-3)


def test_without_pings_nobody_is_near() -> None:
    assert np.isnan(nearest_metres(KNOWN.slice(0, 0), asked(1, 2))).all()


SECOND = 1_000_000


def test_the_wait_is_until_the_first_available_driver_within_the_radius() -> None:
    coming = pings(
        ("a", 5 * SECOND, 0.1, Kind.AVAILABLE),
        ("b", 12 * SECOND, 0.001, Kind.UNAVAILABLE),
        ("a", 20 * SECOND, 0.001, Kind.AVAILABLE),
        ("b", 30 * SECOND, 0.001, Kind.AVAILABLE),
    )
    found = seconds_to_a_driver(coming, asked(0, 10 * SECOND, 20 * SECOND, 30 * SECOND), 1_000.0)
    assert found[:3].tolist() == [20.0, 10.0, 10.0], "a busy driver is none, and neither is one that was there before"
    assert np.isnan(found[3]), "nobody came later"
    assert seconds_to_a_driver(coming, asked(0), 0.2 * DEGREE).tolist() == [5.0]


def test_it_agrees_with_the_pairs_of_brute_force() -> None:
    rng = np.random.default_rng(1)
    many = pings(
        *((f"d{d}", int(ts), float(lng), Kind.AVAILABLE) for d, ts, lng in zip(
            rng.integers(0, 30, 200), rng.integers(0, 100, 200), rng.normal(0, 0.1, 200), strict=True
        ))
    )  # fmt: skip
    riders = asked(*range(50, 90))
    pairs = brute(many, riders, 50_000.0, nearest=1)
    far = nearest_metres(many, riders)
    by_rider = dict(zip(pairs["rider"].to_pylist(), pairs["distance_m"].to_pylist(), strict=True))
    assert [by_rider[f"r{i}"] for i in range(40)] == pytest.approx(far.tolist())

"""Who is near whom as of the request's own moment: the cases that the rule names, by the tree and by brute force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.matching.example_tables import BUSY, LEFT, asked, at, entries, requests, rows

from keylane.errors import UsageError
from keylane.matching.brute import brute
from keylane.matching.near import near
from keylane.matching.sphere import haversine
from keylane.matching.timeline import empty_entries, merged

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


def by_tree(pings: pa.Table, *rest: Any, **more: Any) -> pa.Table:
    return near(merged(empty_entries(), pings), *rest, **more)


@pytest.fixture(params=[by_tree, brute], ids=["tree", "brute"])
def match(request: pytest.FixtureRequest) -> Callable[..., pa.Table]:
    return request.param


def found(pairs: pa.Table) -> list[Any]:
    return [driver for (driver,) in rows(pairs, "driver")]


def test_a_pair_has_its_distance_and_its_ping(match: Callable[..., pa.Table]) -> None:
    (pair,) = match(entries(at("a", 3, 8, east=400.0)), requests(asked("r", 5, 6)), 500.0).to_pylist()
    assert pair.pop("distance_m") == pytest.approx(400.0, abs=1e-3)
    told = {"driver": "a", "driver_ts": 3, "driver_offset": 8}
    assert pair == {"rider": "r", "rider_ts": 5, "rider_offset": 6, **told}


def test_the_newest_ping_not_after_the_request_counts(match: Callable[..., pa.Table]) -> None:
    pings = entries(at("a", 8, east=600.0), at("a", 0, east=400.0))
    moments = requests(*(asked("r", ts) for ts in (-1, 0, 7, 8)))
    assert rows(match(pings, moments, 500.0), "rider_ts", "driver_ts") == [(0, 0), (7, 0)]


def test_of_equal_times_the_larger_offset_counts(match: Callable[..., pa.Table]) -> None:
    pings = entries(at("a", 1, 9, east=100.0), at("a", 1, 2, east=5.0))
    assert rows(match(pings, requests(asked("r", 1)), 500.0), "driver_offset") == [(9,)]


def test_a_driver_who_is_not_free_is_no_pair(match: Callable[..., pa.Table]) -> None:
    assert found(match(entries(at("a", 1), at("a", 2, kind=BUSY)), requests(asked("r", 2)), 500.0)) == []
    assert found(match(entries(at("a", 1, kind=BUSY), at("a", 2)), requests(asked("r", 2)), 500.0)) == ["a"]


def test_a_tombstone_ends_a_stay(match: Callable[..., pa.Table]) -> None:
    known = entries(at("a", 1), at("a", 3, kind=LEFT))
    assert rows(match(known, requests(asked("r", 2), asked("r", 3)), 500.0), "rider_ts") == [(2,)]


def test_a_ping_of_exactly_the_age_still_counts(match: Callable[..., pa.Table]) -> None:
    moments = requests(asked("r", 11), asked("r", 12))
    assert rows(match(entries(at("a", 1)), moments, 500.0, expire=10), "rider_ts") == [(11,)]


def test_a_driver_at_exactly_the_radius_counts(match: Callable[..., pa.Table]) -> None:
    pings, one = entries(at("a", 1, east=437.0)), requests(asked("r", 1))
    radius = float(haversine(*rows(pings, "lat", "lng")[0], *rows(one, "lat", "lng")[0]))
    assert found(match(pings, one, radius)) == ["a"]
    assert found(match(pings, one, float(np.nextafter(radius, 0)))) == []


def test_the_nearest_come_first_and_equal_ones_by_id(match: Callable[..., pa.Table]) -> None:
    pings = entries(at("c", 1, east=50.0), at("b", 1, east=9.0), at("a", 1, east=50.0), at("d", 1, east=400.0))
    assert found(match(pings, requests(asked("r", 1)), 500.0)) == ["b", "a", "c", "d"]
    assert found(match(pings, requests(asked("r", 1)), 500.0, nearest=2)) == ["b", "a"]


def test_two_at_one_place_are_a_pair_however_small_the_radius(match: Callable[..., pa.Table]) -> None:
    assert found(match(entries(at("a", 1)), requests(asked("r", 1)), 1e-6)) == ["a"]


def test_a_request_that_is_told_twice_is_answered_once_where_it_was_told_last(match: Callable[..., pa.Table]) -> None:
    told = requests(asked("r", 1, 1), asked("r", 1, 2, east=5000.0))
    pings = entries(at("here", 1), at("there", 1, east=5000.0))
    assert rows(match(pings, told, 500.0), "driver", "rider_offset") == [("there", 2)]


def test_without_drivers_or_riders_there_are_no_pairs(match: Callable[..., pa.Table]) -> None:
    assert found(match(entries(), requests(asked("r", 1)), 500.0)) == []
    assert found(match(entries(at("a", 1)), requests(), 500.0)) == []


@pytest.mark.parametrize("wrong", [{"radius_m": 0.0}, {"radius_m": 60_000.0}, {"radius_m": 5.0, "nearest": 0}])
def test_what_makes_no_sense_is_refused(match: Callable[..., pa.Table], wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        match(entries(at("a", 1)), requests(asked("r", 1)), **wrong)

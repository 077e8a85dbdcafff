"""Leaves on lanes: even in every hour, or in ranges of the curve."""

from __future__ import annotations

import numpy as np
import pytest

from keylane.errors import UsageError
from keylane.geo.lane_tables import hour_cvs, pack_along_curve, pack_by_hour

#: Forty cities of equal load: half are awake in the first twelve hours, half in the others.
EAST, WEST = np.repeat([1.0, 0.0], 12), np.repeat([0.0, 1.0], 12)
CITIES = np.array([*[EAST] * 20, *[WEST] * 20])


def worst(lane: np.ndarray, load: np.ndarray = CITIES, lanes: int = 4) -> float:
    return float(hour_cvs(load, lane, lanes)[:-1].max())


def test_every_hour_is_even_and_not_only_the_day() -> None:
    assert worst(pack_by_hour(CITIES, 4)) == 0.0


def test_packed_by_totals_alone_the_days_are_even_and_the_hours_are_not() -> None:
    by_totals = pack_by_hour(CITIES.sum(1, keepdims=True), 4)
    along = pack_along_curve(CITIES, 4)
    assert hour_cvs(CITIES, along, 4)[-1] == 0.0
    assert worst(along) == 1.0
    assert hour_cvs(CITIES, by_totals, 4)[-1] == 0.0


def test_heavy_leaves_are_placed_first() -> None:
    assert pack_by_hour([[1], [1], [1], [3]], 2).tolist() == [1, 1, 1, 0]


def test_leaves_without_load_are_with_the_one_before_them() -> None:
    assert pack_by_hour([[0], [5], [0], [4], [0]], 2).tolist() == [0, 0, 0, 1, 1]
    assert pack_by_hour([[0], [0]], 2).tolist() == [0, 0]


def test_ranges_of_the_curve_rise_and_are_cut_by_load() -> None:
    load = np.random.default_rng(1).integers(0, 9, (500, 1))
    lane = pack_along_curve(load, 7)
    assert (np.diff(lane) >= 0).all()
    assert hour_cvs(load.astype(float), lane, 7)[-1] < 0.03


def test_an_hour_in_which_nobody_drives_does_no_harm() -> None:
    load = np.hstack([CITIES, np.zeros((40, 1))])
    assert worst(pack_by_hour(load, 4), load) == 0.0


@pytest.mark.parametrize("loads", [[1, 2], [[-1.0]], [[np.nan]]], ids=["one row", "below nothing", "no number"])
def test_what_is_no_load_is_refused(loads: object) -> None:
    with pytest.raises(UsageError, match="loads"):
        pack_by_hour(loads, 2)


def test_no_lanes_are_refused() -> None:
    with pytest.raises(UsageError, match="lanes"):
        pack_along_curve([[1.0]], 0)

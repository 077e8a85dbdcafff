"""Copies and work of lane tables, that they decide where a radius is given, and what geometry allows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import pi, sqrt
from typing import Any

import numpy as np
import pytest
from tests.unit.plan.counted_cells import traffic

from keylane.geo.cells import cells_of, centres
from keylane.geo.lane_tables import in_curve_order, split
from keylane.matching.cover import covers
from keylane.plan.geo_document import geo_document
from keylane.plan.geo_work import Points, RoundRegions, around, direct_work, points
from keylane.plan.lane_tables import Counted, Wish, chosen, fitted, hash_lanes, lane_sums

RADIUS = 1000.0


@cache
def city(lat: float = 40.75, lng: float = -73.98, records: int = 16_000) -> Counted:
    """A dense core along a river, suburbs, two airports, and hours of which offices have others than bars."""
    rng = np.random.default_rng(11)
    kind = rng.choice(4, records, p=[0.65, 0.25, 0.06, 0.04])
    core = rng.normal(0, 1, (records, 2)) * (0.035, 0.008)
    suburb = rng.normal(0, 0.07, (records, 2))
    airports = np.where(rng.random((records, 1)) < 0.5, [[0.02, 0.11]], [[-0.11, 0.2]]) + rng.normal(
        0, 0.004, (records, 2)
    )
    away = np.where(kind[:, None] == 0, core, np.where(kind[:, None] == 3, airports, suburb))
    at = np.array([lat, lng]) + away
    at[:, 1] = (at[:, 1] + 180) % 360 - 180
    hour = np.where(away[:, 0] > 0, rng.normal(17, 4, records), rng.normal(22, 4, records)).astype(int) % 24
    known, place = np.unique(cells_of(*at.T), return_inverse=True)
    halves = []
    for half in (0, 1):
        mine = np.arange(records) % 2 == half
        counts = np.bincount(place[mine] * 24 + hour[mine], minlength=len(known) * 24).reshape(-1, 24)
        halves.append(in_curve_order(known, counts.astype(float)))
    return Counted(halves[0][0], halves[0][1], halves[1][1])


def test_a_radius_makes_compact_regions_of_a_city_and_not_an_evenness_that_nobody_asked_for() -> None:
    counted = city()
    table, held, met = chosen(counted, Wish(12, radius=RADIUS))
    before = fitted(counted.cells, counted.fit, Wish(12), chosen(counted, Wish(12))[0].tau).lanes
    loads = lane_sums(before, counted.cells, counted.test)
    even = direct_work(before, points(counted.cells, counted.test), loads, RADIUS)
    assert met
    assert held is not None
    assert held.work is not None
    assert table.wish.strategy == "regions"
    needed = RoundRegions(points(counted.cells, counted.all)).copies(12, RADIUS)
    assert held.work.copies < 1.15 * needed
    assert held.work.copies < 0.7 * even.copies
    assert held.work.fullest < 0.75 * even.fullest
    assert held.max_over_mean < 1.2
    assert [name for name, _ in table.others] == ["hours", "curve"]
    assert all(score.work and score.work.fullest > held.work.fullest for _, score in table.others)


def test_over_time_zones_lanes_stay_even_in_every_hour() -> None:
    """Compact regions would sleep as one: their fullest hour is what they are judged by."""
    table, held, _ = chosen(traffic(), Wish(12, radius=RADIUS))
    assert table.wish.strategy == "hours"
    assert held is not None
    assert held.work is not None
    regions = dict(table.others)["regions"]
    assert regions.work is not None
    assert regions.work.copies < held.work.copies
    assert regions.work.fullest > held.work.fullest
    blind = replace(traffic(), fit=traffic().fit.sum(1, keepdims=True), test=traffic().test.sum(1, keepdims=True))
    assert chosen(blind, Wish(12, radius=RADIUS))[0].wish.strategy == "regions", "the twin: hours that are not known"


def test_a_limit_on_copies_is_kept_or_reported() -> None:
    counted = city()
    few, held, met = chosen(counted, Wish(3, radius=RADIUS, copies=2.0))
    assert met
    assert held is not None
    assert held.work is not None
    assert held.work.copies <= 2.0
    table, held, met = chosen(counted, Wish(24, radius=RADIUS, copies=2.0))
    assert not met
    found = geo_document("SRC", counted, {}, table, held, met=met, radii=(RADIUS,))
    assert found.limit is not None
    assert not found.limit.kept
    assert 3 <= found.limit.lanes <= 12
    assert f"no table of 24 lanes has at most 2 copies; about {found.limit.lanes} lanes could" in found.notes
    fits = chosen(counted, Wish(found.limit.lanes, radius=RADIUS, copies=2.2))
    assert fits[2], "the number of lanes that is named would do"
    assert geo_document("SRC", counted, {}, few, held, met=True, radii=(RADIUS,)).limit is not None


def test_among_tables_alike_the_one_with_fewer_leaves_is_taken() -> None:
    counted = city()
    taken, own, _ = chosen(counted, Wish(8, "regions", radius=RADIUS))
    tried = {tau: chosen(counted, Wish(8, "regions", tau, radius=RADIUS)) for tau in (0.3, 0.1, 0.05)}
    works = {
        tau: held.work.fullest for tau, (_, held, _) in tried.items() if held is not None and held.work is not None
    }
    assert own is not None
    assert own.work is not None
    alike = [tau for tau, work in works.items() if work <= 1.01 * min(works.values())]
    assert taken.tau in alike
    assert own.work.fullest == works[taken.tau]


@pytest.mark.parametrize("strategy", ["hours", "curve", "regions"])
def test_work_is_that_of_the_covers_counted_one_by_one(strategy: Any) -> None:
    counted = city()
    leaves = split(counted.cells, counted.fit, 8, 0.05).cells
    wish = Wish(8, strategy, 0.1, radius=RADIUS)
    lanes = fitted(counted.cells, counted.fit, wish, 0.1).lanes
    some, own = points(counted.cells, counted.test), lane_sums(lanes, counted.cells, counted.test)
    found = around(some, [leaves], 3, RADIUS).work(lanes, own)
    lat, lng = centres(some.cells).T
    rows, lane, _ = covers(lat, lng, some.cells, RADIUS, lanes.of)
    load = np.zeros((8, 24))
    for row, one in zip(rows.tolist(), lane.tolist(), strict=True):
        load[one] += some.load[row]
    assert found.copies == pytest.approx(load.sum() / counted.test.sum())
    assert found.fullest == pytest.approx(load.max() / (counted.test.sum(0).max() / 8))
    direct = direct_work(lanes, some, own, RADIUS)
    assert (direct.copies, direct.fullest) == pytest.approx((found.copies, found.fullest))


def test_cells_in_no_table_have_the_lane_of_their_hash() -> None:
    """Beyond the edge of the table a neighbour is on another lane by its hash, and a request goes there too."""
    counted = city()
    lanes = hash_lanes("kafka-java", 3, 8)
    some, own = points(counted.cells, counted.test), lane_sums(lanes, counted.cells, counted.test)
    through = around(some, [], 3, RADIUS).work(lanes, own)
    direct = direct_work(lanes, some, own, RADIUS)
    assert (through.copies, through.fullest) == pytest.approx((direct.copies, direct.fullest))


@pytest.mark.parametrize("place", [(-17.0, 179.98), (39.1, 122.3), (-77.85, 166.67)])
def test_a_city_anywhere_on_earth_gets_compact_regions(place: tuple[float, float]) -> None:
    """On the 180th meridian, at a pentagon, far south."""
    table, held, _ = chosen(city(*place, 3_000), Wish(6, radius=RADIUS))
    assert held is not None
    assert held.work is not None
    assert table.wish.strategy == "regions"
    assert held.work.copies < 3
    assert len(set(table.lane.tolist())) == 6


def test_a_sample_of_many_cells_stands_for_all() -> None:
    counted = city()
    whole, some = points(counted.cells, counted.test), points(counted.cells, counted.test, 800)
    assert len(some.cells) == 800
    assert some.load.sum() == pytest.approx(whole.load.sum())
    lanes = fitted(counted.cells, counted.fit, Wish(8, "curve"), 0.1).lanes
    own = lane_sums(lanes, counted.cells, counted.test)
    found = [direct_work(lanes, one, own, RADIUS).copies for one in (whole, some)]
    assert found[1] == pytest.approx(found[0], rel=0.05)


def test_a_sample_has_heavy_cells_as_often_as_they_are_heavy() -> None:
    found = points(np.array([1, 2, 3]), np.array([[1.0], [0.0], [3.0]]), 1)
    assert (found.cells.tolist(), found.load.tolist()) == ([3], [[4.0]])


def test_few_records_give_a_table_and_no_score() -> None:
    cell = cells_of([40.7], [-74.0])
    one, none = np.ones((1, 1)), np.zeros((1, 1))
    table, held, met = chosen(Counted(cell, one, none), Wish(6, radius=RADIUS))
    assert (held, met, table.others) == (None, True, ())
    document = geo_document("SRC", Counted(cell, one, none), {}, table, held, met=met, radii=(RADIUS,), timed=False)
    assert document.balance.held_out is None
    assert document.balance.copies >= 1


def test_discs_in_an_even_plain_cost_what_geometry_says() -> None:
    rng = np.random.default_rng(2)
    distance = 0.25 * np.sqrt(rng.random(40_000))
    turn = rng.random(40_000) * 2 * pi
    lat = 40 + distance * np.sin(turn)
    cells = cells_of(lat, -100 + distance * np.cos(turn) / np.cos(np.radians(40)))
    plain = RoundRegions(Points(np.unique(cells), np.ones((len(np.unique(cells)), 1))))
    radius_of_a_lane = sqrt((0.25 * 111_195) ** 2 / 400)
    assert plain.copies(400, RADIUS) == pytest.approx((1 + RADIUS / radius_of_a_lane) ** 2, rel=0.1)
    assert plain.copies(1, RADIUS) == 1.0
    assert plain.most_lanes(400, RADIUS, 1.0) == 1
    most = plain.most_lanes(400, RADIUS, 2.0)
    assert plain.copies(most, RADIUS) <= 2.0 < plain.copies(most + 10, RADIUS)

"""Land outlines: what the script packs is what the page unpacks, and no outline jumps over the map."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from scripts import land as script

from keylane.report.html import asset
from keylane.report.land import LETTERS, Box, layer, layer_text, numbers_text, ring_text, rings_in, towns, towns_near

#: Known places: on land, and in the sea, for every layer.
LAND = ((48.0, 11.0), (40.0, -100.0), (-25.0, 135.0), (68.5, 178.5), (68.0, -178.0), (0.5, 25.0), (-80.0, 0.0))
SEA = ((0.0, -30.0), (30.0, -150.0), (-40.0, 90.0), (41.5, 50.5), (85.0, 0.0))


def is_land(rings: list[list[tuple[float, float]]], lat: float, lng: float) -> bool:
    """By the even-odd rule, with the map repeated every 360 degrees."""
    crossings = 0
    for ring in rings:
        for (ax, ay), (bx, by) in pairwise([*ring, ring[0]]):
            if (ay > lat) != (by > lat):
                x = ax + (lat - ay) / (by - ay) * (bx - ax)
                crossings += sum(lng + turn < x for turn in (-360, 0, 360))
    return crossings % 2 == 1


@pytest.mark.parametrize("name", ["world", "near", "fine"])
def test_land_is_where_land_is(name: str) -> None:
    rings = [ring for _, ring in layer(name).rings]
    assert [is_land(rings, *place) for place in LAND] == [True] * len(LAND)
    assert [is_land(rings, *place) for place in SEA] == [False] * len(SEA)


@pytest.mark.parametrize("name", ["world", "near", "fine"])
def test_no_outline_jumps_over_the_map(name: str) -> None:
    steps = [abs(a[0] - b[0]) for _, ring in layer(name).rings for a, b in pairwise(ring)]
    # Antarctica's way along the pole is cut into steps of 16 bits; no coast has one of twenty degrees.
    coast = [
        step for _, ring in layer(name).rings for a, b in pairwise(ring) if a[1] > -85 for step in [abs(a[0] - b[0])]
    ]
    assert max(coast) < 20
    assert max(steps) <= 361


def test_an_outline_that_jumps_is_unrolled_and_would_be_noticed() -> None:
    jumping = [(179.0, 10.0), (-179.0, 10.0), (-179.0, 12.0), (179.0, 12.0)]
    assert max(abs(a[0] - b[0]) for a, b in pairwise(jumping)) == 358
    assert max(abs(a[0] - b[0]) for a, b in pairwise(script.unrolled(jumping))) == 2


def test_a_box_keeps_what_is_in_it_and_nothing_else() -> None:
    box = Box(40.0, -75.0, 41.5, -73.0)
    cut = rings_in(layer("fine"), box)
    assert cut
    inside = [point for ring in cut for point in ring]
    assert all(box.west <= x <= box.east and box.south <= y <= box.north for x, y in inside)
    assert is_land(cut, 40.9, -74.5)
    assert not is_land(cut, 40.3, -73.5)


def test_a_box_over_the_180th_meridian_has_land_on_both_sides() -> None:
    cut = rings_in(layer("near"), Box(60.0, 170.0, 70.0, 195.0))
    assert is_land(cut, 67.0, 176.0)
    assert is_land(cut, 66.2, 186.0)


def test_the_asset_says_whose_it_is_and_is_small() -> None:
    head = asset("land.txt")[:400]
    assert "Natural Earth" in head
    assert "Public domain" in head
    assert len(asset("land.txt")) < 700_000
    assert len(str(layer_text("world")["rings"])) < 40_000


def test_what_the_script_packs_is_unpacked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rings = [[(0, 0), (40_000, 5), (3, -7)], [(-70_000, 9), (-69_990, 9), (-69_990, 11)]]
    line = f"tiny 0.5 2 6 {script.packed([script.on_grid(as_points(ring), 1) for ring in rings])}\n"
    monkeypatch.setattr("keylane.report.land.asset", lambda _: f"# head\n{line}")
    layer.cache_clear()
    try:
        found = [ring for _, ring in layer("tiny").rings]
    finally:
        layer.cache_clear()
    wanted = [[(x * 0.5, y * 0.5) for x, y in ring] for ring in rings]
    assert set(wanted[0]) < set(found[0]), "a step longer than 16 bits has stops on its way"
    assert found[1] == wanted[1]


def as_points(ring: list[tuple[int, int]]) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in ring]


def test_the_script_reads_arcs_backwards_and_leaves_out_the_islet_at_zero() -> None:
    topology: dict[str, Any] = {
        "transform": {"scale": [0.1, 0.1], "translate": [0.0, 0.0]},
        "arcs": [[[0, 0], [10, 0], [0, 10]], [[0, 0], [0, 20], [10, -10]]],
        "objects": {"land": {"geometries": [{"type": "Polygon", "arcs": [[0, ~1]]}]}},
    }
    assert script.rings(topology) == [[(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 2.0)]]
    assert script.is_null_island([(0.0, 0.001), (0.001, 0.0), (0.0, -0.001)])
    assert not script.is_null_island([(0.0, 0.001), (9.0, 0.0), (0.0, -0.001)])


def numbers(text: str) -> list[int]:
    """What `assets/map.js` reads from a text."""
    made, value, size = [], 0, 1
    for code in map(LETTERS.index, text):
        value += (code & 31) * size
        size *= 32
        if code < 32:
            made.append(-(value + 1) // 2 if value % 2 else value // 2)
            value, size = 0, 1
    return made


def test_numbers_come_back_as_they_were() -> None:
    given = [0, 1, -1, 15, 16, -16, -17, 12_345_678_901, -9_007_199_254_740_991]
    assert numbers(numbers_text(given)) == given


def test_a_ring_comes_back_on_its_grid() -> None:
    assert numbers(ring_text([(-73.5, 40.25), (-73.0, 40.5)], 0.25)) == [2, -294, 161, 2, 1]


def test_towns_are_where_they_are_and_the_asset_says_whose_it_is() -> None:
    known = {town.name: town for town in towns()}
    assert len(towns()) > 7_000
    assert (round(known["New York"].lat), round(known["New York"].lng), known["New York"].rank) == (41, -74, 0)
    assert known["Zürich"].lat == pytest.approx(47.38, abs=0.01)
    assert [town.rank for town in towns()] == sorted(town.rank for town in towns())
    head = asset("towns.txt")[:400]
    assert "Natural Earth" in head
    assert "Public domain" in head
    assert len(asset("towns.txt")) < 120_000


def test_the_best_known_towns_of_a_box_are_named() -> None:
    near = [town.name for town in towns_near([Box(40.5, -74.5, 41.1, -73.4)], 2, known=-1)]
    assert near == ["New York", "Newark"]
    over = towns_near([Box(-25.0, 170.0, -10.0, 195.0)], 50, known=-1)
    assert {town.lng > 0 for town in over} == {True, False}, "on both sides of the 180th meridian"

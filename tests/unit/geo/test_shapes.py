"""Outlines for a flat map: no step longer than half a turn, wherever a cell lies."""

from __future__ import annotations

from itertools import pairwise

import pytest
from h3.api import basic_int as h3

from keylane.geo.shapes import area_km2, boundary, outline_of_parts, sides

#: Phoenix, the Bering Sea, Fiji, a pentagon, and cells over icosahedron edges.
PLACES = ((33.4, -112.0), (65.0, 180.0), (-17.9, 179.99), (58.16, 11.25), (0.0, 0.0), (75.0, 100.0))


def widest_step(corners: list[tuple[float, float]]) -> float:
    """The longest way in longitude from corner to corner, the last to the first too."""
    return max(abs(a[1] - b[1]) for a, b in pairwise([*corners, corners[0]]))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("at", [0, 3, 5, 9])
def test_an_outline_never_jumps_over_the_map(place: tuple[float, float], at: int) -> None:
    corners = boundary(h3.latlng_to_cell(*place, at))
    assert widest_step(corners) < 180


def test_as_h3_gives_them_they_would() -> None:
    assert widest_step(list(h3.cell_to_boundary(h3.latlng_to_cell(65.0, 180.0, 3)))) > 350


def test_the_corners_are_those_of_h3_but_for_whole_turns() -> None:
    cell = h3.latlng_to_cell(65.0, 180.0, 3)
    for made, given in zip(boundary(cell), h3.cell_to_boundary(cell), strict=True):
        assert made[0] == given[0]
        assert (made[1] - given[1]) % 360 in (0, 360)


@pytest.mark.parametrize("pole", [90.0, -90.0])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 6, 9])
def test_a_cell_around_a_pole_is_a_band_of_one_turn_up_to_it(pole: float, at: int) -> None:
    band = boundary(h3.latlng_to_cell(pole, 0.0, at))
    longitudes = [lng for _, lng in band]
    assert max(longitudes) - min(longitudes) == pytest.approx(360)
    assert [lat for lat, _ in band[-2:]] == [pole, pole]
    assert abs(max(longitudes) + min(longitudes)) <= 360


@pytest.mark.parametrize("place", PLACES)
def test_every_side_has_its_neighbour_and_its_corners(place: tuple[float, float]) -> None:
    cell = h3.latlng_to_cell(*place, 5)
    found = sides(cell)
    assert {side.neighbour for side in found} == set(h3.grid_disk(cell, 1)) - {cell}
    corners = h3.cell_to_boundary(cell)
    assert sum(side.corners - 1 for side in found) == len(corners)
    for side in found:
        shared = [corners[(side.first + i) % len(corners)] for i in range(side.corners)]
        others = h3.cell_to_boundary(side.neighbour)
        assert all(min(abs(a - lat) for a, _ in others) < 1e-6 for lat, _ in shared)


def test_the_parts_of_a_cell_cover_as_much_as_they_do() -> None:
    cell = h3.latlng_to_cell(33.4, -112.0, 5)
    children = h3.cell_to_children(cell, 7)
    assert len(outline_of_parts(cell, 7)) == 54
    assert sum(map(area_km2, children)) == pytest.approx(area_km2(cell), rel=0.03)


@pytest.mark.parametrize("pole", [90.0, -90.0])
@pytest.mark.parametrize("at", [2, 3, 6])
def test_the_parts_of_a_cell_around_a_pole_are_a_band_too(pole: float, at: int) -> None:
    """Without it the outline ends a turn away from where it began, and a line closes it across the whole map."""
    cell = h3.latlng_to_cell(pole, 0.0, at)
    assert cell == h3.cell_to_parent(h3.latlng_to_cell(pole, 0.0, at + 2), at), "the pole is in its parts as well"
    band = outline_of_parts(cell, at + 2)
    assert [lat for lat, _ in band[-2:]] == [pole, pole]
    assert widest_step(band[:-1]) <= 360
    assert abs(band[-1][1] - band[0][1]) < 1e-9
    assert abs(band[-2][1] - band[-3][1]) < 1e-9

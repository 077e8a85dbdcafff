"""The lanes of a request: home always and first, guests only where a cell of theirs is within the radius."""

from __future__ import annotations

import numpy as np
import pytest

from keylane.errors import UsageError
from keylane.geo.bits import ancestor
from keylane.geo.cells import cell_of, cells_of, centres, disk, outlines
from keylane.matching import cover
from keylane.matching.cover import covers, rings
from keylane.matching.sphere import haversine, metres_to_outlines, unit_vectors

PLACES = [(51.5085, -0.1257), (39.10, 122.30), (64.70, 10.5362), (0.0, 180.0), (90.0, 0.0), (-33.9, 18.4)]
RADII = (300.0, 1000.0, 2000.0)


def covered(place: tuple[float, float], radius: float) -> set[int]:
    """The cells of a cover where every home cell is a lane of its own: the hardest lanes there are."""
    known = np.sort(disk(cell_of(*place), 30))
    lat, lng = ([part] for part in place)
    _, lanes, _ = covers(lat, lng, [cell_of(*place)], radius, lambda cells: np.searchsorted(known, cells))
    return set(known[lanes].tolist())


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("radius", RADII)
def test_the_cover_is_the_cells_that_have_a_place_within_the_radius_and_no_other(
    place: tuple[float, float], radius: float
) -> None:
    every = disk(cell_of(*place), 30)
    point = np.repeat(unit_vectors(*place)[None], len(every), axis=0)
    away = metres_to_outlines(point, outlines(every))
    inside = haversine(*place, *centres(every).T) <= radius
    home = every == cell_of(*place)
    must = set(every[(away <= radius) | inside | home].tolist())
    may = set(every[(away <= radius + 2) | inside | home].tolist())
    assert must <= covered(place, radius) <= may


def centre_to_ring(cell: int, steps: int) -> float:
    """Metres from a cell's centre to the nearest centre of the cells that are this many steps off."""
    ring = sorted(set(disk(cell, steps).tolist()) - set(disk(cell, steps - 1).tolist()))
    return float(haversine(*centres([cell])[0], *centres(ring).T).min())


@pytest.mark.parametrize("radius", [300.0, 1000.0, 7000.0])
def test_beyond_the_steps_no_cell_can_matter_at_pentagons_where_cells_are_smallest(radius: float) -> None:
    needed = radius + 2 * cover._FARTHEST_M[7]
    for place in PLACES[1:3]:
        for cell in disk(cell_of(*place, 7), 2).tolist():
            assert centre_to_ring(cell, rings(radius) + 1) > needed
            assert centre_to_ring(cell, rings(radius) - 1) < needed + 1500


def test_no_home_cell_reaches_farther_from_an_ancestors_centre_than_is_said() -> None:
    for level, farthest in cover._FARTHEST_M.items():
        for place in PLACES:
            cells = np.unique(disk(cell_of(*place), 30))
            (lat, lng), shapes = centres(ancestor(cells, level)).T, outlines(cells)
            reach = haversine(lat[:, None], lng[:, None], shapes[..., 0], shapes[..., 1])
            assert farthest / 2 < reach.max() < farthest


def test_home_is_first_and_every_row_has_one() -> None:
    lat, lng = np.array(PLACES).T
    cells = cells_of(lat, lng)
    rows, lanes, home = covers(lat, lng, cells, 1000.0, lambda given: given % 997)
    assert rows[home].tolist() == list(range(len(PLACES)))
    assert lanes[home].tolist() == (cells % 997).tolist()
    assert np.all(np.diff(rows) >= 0)
    assert np.all(home[np.flatnonzero(np.diff(rows, prepend=-1))])
    assert len(set(zip(rows.tolist(), lanes.tolist(), strict=True))) == len(rows) > len(PLACES)


def test_where_there_is_one_lane_there_are_no_guests() -> None:
    lat, lng = np.array(PLACES).T
    rows, lanes, home = covers(lat, lng, cells_of(lat, lng), 7000.0, lambda cells: np.zeros(len(cells)), 3)
    assert rows.tolist() == list(range(len(PLACES)))
    assert home.all()
    assert not lanes.any()


def test_no_requests_have_no_lanes() -> None:
    assert [len(part) for part in covers([], [], [], 1000.0, lambda cells: cells % 997)] == [0, 0, 0]


def test_memory_is_kept_flat_by_parts_that_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    lat, lng = np.repeat(np.array(PLACES), 5, axis=0).T
    whole = covers(lat, lng, cells_of(lat, lng), 1000.0, lambda cells: cells % 997)
    monkeypatch.setattr(cover, "_TOGETHER", 50)
    parts = covers(lat, lng, cells_of(lat, lng), 1000.0, lambda cells: cells % 997)
    assert [one.tolist() for one in parts] == [one.tolist() for one in whole]


@pytest.mark.parametrize("radius", [0.0, -5.0, 50_000.1])
def test_a_radius_beyond_what_is_allowed_is_refused(radius: float) -> None:
    with pytest.raises(UsageError, match="radius"):
        rings(radius)


def test_a_wide_radius_is_allowed() -> None:
    rows, lanes, _ = covers([51.5], [-0.1], cells_of([51.5], [-0.1]), 50_000.0, lambda cells: cells >> 38 & 0x7F, 3)
    assert len(rows) == len(set(lanes.tolist())) > 2

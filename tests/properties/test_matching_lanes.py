"""Through lanes nothing is lost and nothing doubled: covers, tombstones and the merge give the definition's pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.match_strategies import PLACES, World, adaptive, hashed, through_lanes, world

from keylane.geo.bits import ancestor, children, resolution
from keylane.geo.cells import cell_of, cells_of
from keylane.matching import cover
from keylane.matching.brute import brute
from keylane.matching.cover import covers

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

seeds = st.integers(0, 2**32 - 1)
radii = st.sampled_from([300.0, 500.0, 1000.0, 7000.0]) | st.floats(300, 7000)
places = st.sampled_from(list(PLACES.values()))
#: A town on a border, where every planted fault shows.
TOWN = PLACES["London"]


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    place=places,
    radius=radii,
    resolution=st.integers(3, 9),
    expire=st.none() | st.integers(0, 40),
    nearest=st.none() | st.integers(1, 4),
    coarse=st.booleans(),
)
def test_fanned_out_over_hashed_cells_it_is_brute_force(
    seed: int,
    place: tuple[float, float],
    radius: float,
    resolution: int,
    expire: int | None,
    nearest: int | None,
    coarse: bool,
) -> None:
    drawn = world(seed, place, km=radius / 1000 * 2, pings=250, requests=40)
    finest = resolution if coarse else 9
    found = through_lanes(drawn, radius, hashed(resolution, 12), finest=finest, expire=expire, nearest=nearest)
    assert found.equals(brute(drawn.pings, drawn.requests, radius, expire, nearest))


@settings(max_examples=40, deadline=None)
@given(seed=seeds, place=places, radius=radii, depth=st.floats(0.2, 1.0), quick=st.booleans())
def test_fanned_out_over_a_lane_table_it_is_brute_force(
    seed: int, place: tuple[float, float], radius: float, depth: float, quick: bool
) -> None:
    drawn = world(seed, place, km=radius / 1000 * 2, pings=250, requests=40)
    table = adaptive(seed, home_cells(drawn.pings), depth=depth)
    found = through_lanes(drawn, radius, table.of, finest=table.one_lane if quick else 9)
    assert found.equals(brute(drawn.pings, drawn.requests, radius))


def home_cells(table: pa.Table) -> NDArray[np.int64]:
    return cells_of(*(table.column(name).to_numpy() for name in ("lat", "lng")))


@settings(max_examples=25, deadline=None)
@given(seed=seeds, place=places, radius=radii)
def test_what_makes_a_cover_quick_does_not_change_it(seed: int, place: tuple[float, float], radius: float) -> None:
    drawn = world(seed, place, km=radius / 1000 * 2, pings=250, requests=40)
    table = adaptive(seed, home_cells(drawn.pings))
    lat, lng = (drawn.requests.column(name).to_numpy() for name in ("lat", "lng"))
    cells = home_cells(drawn.requests)
    quick, plain = (covers(lat, lng, cells, radius, table.of, finest) for finest in (table.one_lane, 9))
    assert [one.tolist() for one in quick] == [one.tolist() for one in plain]


@settings(max_examples=25, deadline=None)
@given(seed=seeds, place=places)
def test_a_cell_that_is_said_to_be_one_lane_is(seed: int, place: tuple[float, float]) -> None:
    drawn = world(seed, place, km=5)
    table = adaptive(seed, home_cells(drawn.pings))
    cells = np.unique(np.concatenate([ancestor(home_cells(drawn.pings), at) for at in (6, 7, 8)]))
    for cell in cells[table.one_lane(cells)].tolist():
        below = np.array([cell])
        while resolution(below[0]) < 9:
            below = children(below).reshape(-1)
            below = below[below >= 0]
        assert len(np.unique(table.of(below))) == 1


def test_some_cells_are_said_to_be_one_lane_and_some_are_not() -> None:
    cells = home_cells(world(1, TOWN, km=5).pings)
    told = adaptive(1, cells, depth=0.9).one_lane(ancestor(cells, 7))
    assert set(told.tolist()) == {True, False}
    assert adaptive(1, cells).one_lane(cells).all()


@settings(max_examples=25, deadline=None)
@given(seed=seeds, place=places, radius=radii)
def test_while_two_tables_are_in_use_a_cover_has_the_lanes_of_both(
    seed: int, place: tuple[float, float], radius: float
) -> None:
    drawn = world(seed, place, km=radius / 1000 * 2, pings=250, requests=40)
    old, new = (adaptive(seed + more, home_cells(drawn.pings)) for more in (0, 1))
    lat, lng = (drawn.requests.column(name).to_numpy() for name in ("lat", "lng"))
    cells = home_cells(drawn.requests)
    one_lane = [table.one_lane for table in (old, new)]
    rows, lanes, home = covers(
        lat, lng, cells, radius, (old.of, new.of), lambda some: one_lane[0](some) & one_lane[1](some)
    )
    apart = {pair for table in (old, new) for pair in lanes_of_rows(*covers(lat, lng, cells, radius, table.of)[:2])}
    assert lanes_of_rows(rows, lanes) == apart
    assert len(apart) == len(rows)
    assert lanes[home].tolist() == new.of(cells).tolist()


def lanes_of_rows(rows: NDArray[Any], lanes: NDArray[Any]) -> set[tuple[int, int]]:
    return set(zip(rows.tolist(), lanes.tolist(), strict=True))


@pytest.fixture(scope="module")
def town() -> World:
    return world(5, TOWN, km=12, pings=3000, requests=1500)


def missed(found: pa.Table, town: World, radius: float) -> tuple[int, int]:
    """Pairs that are not found, and pairs that are none."""
    right = {tuple(row.values()) for row in brute(town.pings, town.requests, radius).to_pylist()}
    got = {tuple(row.values()) for row in found.to_pylist()}
    return len(right - got), len(got - right)


def test_the_town_is_whole_without_a_fault(town: World) -> None:
    assert missed(through_lanes(town, 1000.0, hashed(3), finest=3), town, 1000.0) == (0, 0)
    assert missed(through_lanes(town, 1000.0, hashed(6), finest=6), town, 1000.0) == (0, 0)


def test_without_guest_copies_pairs_over_the_border_are_missed(town: World) -> None:
    lost, more = missed(through_lanes(town, 1000.0, hashed(3), finest=3, guests=False), town, 1000.0)
    assert lost > 0
    assert more == 0


def test_with_too_few_steps_pairs_are_missed(town: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "rings", lambda _: 1)
    assert missed(through_lanes(town, 5000.0, hashed(5), finest=5), town, 5000.0)[0] > 0


@pytest.mark.parametrize("level", [7, 8, 9])
def test_with_cells_thought_to_be_their_centres_pairs_are_missed(
    town: World, monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    monkeypatch.setattr(cover, "_FARTHEST_M", {**cover._FARTHEST_M, level: 0.0})
    assert missed(through_lanes(town, 1000.0, hashed(8), finest=8), town, 1000.0)[0] > 0


def test_without_the_outlines_of_cells_pairs_are_missed(town: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "_SPARE_M", -cover._FARTHEST_M[9])
    assert missed(through_lanes(town, 1000.0, hashed(8), finest=8), town, 1000.0)[0] > 0


def test_without_tombstones_ghosts_are_found(town: World) -> None:
    lost, more = missed(through_lanes(town, 1000.0, hashed(3), finest=3, tombstones=False), town, 1000.0)
    assert lost == 0
    assert more > 0


def test_drivers_by_their_own_coarse_cell_miss_riders_by_its_ancestor(town: World) -> None:
    """H3's cell of a place at resolution 3 is not the ancestor of its home cell for one place in fifteen."""
    lat, lng = (town.pings.column(name).to_pylist() for name in ("lat", "lng"))
    direct = np.array([cell_of(*place, 3) for place in zip(lat, lng, strict=True)], np.int64)
    wrong = through_lanes(town, 1000.0, hashed(3), finest=3, driver_lane=hashed(3)(direct))
    assert missed(wrong, town, 1000.0)[0] > 0

"""Children and middles by bits are those of H3, pentagons and their neighbours included."""

from __future__ import annotations

import numpy as np
import pytest
from h3.api import basic_int as h3

from keylane.geo.bits import children, homes_in, middle
from keylane.geo.cells import outlines


def some_cells(resolution: int) -> list[int]:
    places = np.random.default_rng(resolution).uniform((-89, -180), (89, 180), (200, 2)).tolist()
    around = [cell for pentagon in h3.get_pentagons(resolution) for cell in h3.grid_disk(pentagon, 1)]
    return [*(h3.latlng_to_cell(*place, resolution) for place in places), *around]


@pytest.mark.parametrize("resolution", [0, 1, 6, 7, 8])
def test_children_are_those_of_h3(resolution: int) -> None:
    cells = some_cells(resolution)
    for cell, below in zip(cells, children(np.array(cells, np.int64)).tolist(), strict=True):
        assert sorted(one for one in below if one >= 0) == sorted(h3.cell_to_children(cell))


def test_no_cells_have_no_children() -> None:
    assert children(np.zeros(0, np.int64)).shape == (0, 7)


@pytest.mark.parametrize("resolution", [0, 3, 7, 9])
def test_the_middle_is_the_child_with_the_same_centre(resolution: int) -> None:
    assert all(middle(cell, 9) == h3.cell_to_center_child(cell, 9) for cell in some_cells(resolution))


def test_outlines_are_those_of_h3_filled_with_the_last_corner() -> None:
    cells = some_cells(9)
    for cell, outline in zip(cells, outlines(cells).tolist(), strict=True):
        corners = [list(corner) for corner in h3.cell_to_boundary(cell)]
        assert outline == corners + [corners[-1]] * (10 - len(corners))


@pytest.mark.parametrize("at", [0, 1, 3, 5])
def test_home_cells_are_counted_as_h3_counts_them(at: int) -> None:
    for cell in (*h3.get_pentagons(at), h3.latlng_to_cell(33.4, -112.0, at)):
        assert homes_in(cell) == h3.cell_to_children_size(cell, 9)

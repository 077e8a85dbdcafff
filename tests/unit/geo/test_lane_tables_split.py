"""Leaves: where a cell is split, what stays whole, and what a later table keeps of an earlier one."""

from __future__ import annotations

import numpy as np
import pytest

from keylane.errors import UsageError
from keylane.geo.bits import HOME_RESOLUTION, ancestor, cell_named, children, curve_end, curve_start, middle, resolution
from keylane.geo.cells import cell_of
from keylane.geo.lane_tables import HOME, Leaves, in_curve_order, split

PHOENIX, TOKYO, ZERO = cell_of(33.45, -112.07), cell_of(35.68, 139.7), cell_of(0.5, 0.5)


def leaf_of(leaves: Leaves, cell: int) -> int:
    at = int(np.searchsorted(curve_start(leaves.cells), curve_end(cell), "right")) - 1
    assert curve_end(cell) <= curve_end(int(leaves.cells[at]))
    return int(leaves.cells[at])


def test_the_home_resolution_is_that_of_the_cells() -> None:
    assert HOME == HOME_RESOLUTION


def test_a_light_cell_is_a_leaf_at_the_coarsest_resolution() -> None:
    leaves = split([PHOENIX, TOKYO], [[1.0], [1.0]], lanes=2, tau=1.0)
    assert sorted(leaves.cells.tolist()) == sorted([ancestor(PHOENIX, 3), ancestor(TOKYO, 3)])
    assert leaves.loads.tolist() == [[1.0], [1.0]]


def test_a_cell_at_the_bound_stays_whole_and_one_above_it_is_split() -> None:
    near = cell_of(33.46, -112.09)
    assert ancestor(near, 3) == ancestor(PHOENIX, 3)
    whole = split([PHOENIX, near, TOKYO], [[2.0], [3.0], [5.0]], lanes=2, tau=1.0)
    assert len(whole) == 2
    cut = split([PHOENIX, near, TOKYO], [[2.0], [3.1], [4.9]], lanes=2, tau=1.0)
    assert len(cut) > 2
    assert leaf_of(cut, TOKYO) == ancestor(TOKYO, 3)
    assert leaf_of(cut, PHOENIX) != leaf_of(cut, near)


def test_one_cell_of_all_the_load_ends_at_the_home_resolution() -> None:
    leaves = split([PHOENIX], [[9.0]], lanes=60, tau=1.0)
    assert leaf_of(leaves, PHOENIX) == PHOENIX
    assert resolution(leaves.cells).max() == HOME
    assert leaves.loads.sum() == 9.0


def test_the_siblings_of_a_split_cell_are_leaves_without_load() -> None:
    leaves = split([PHOENIX], [[9.0]], lanes=60, tau=1.0)
    assert len(leaves) == 6 * 6 + 1
    for coarse in range(4, HOME + 1):
        beside = set(children(np.array([ancestor(PHOENIX, coarse - 1)])).ravel().tolist()) - {ancestor(PHOENIX, coarse)}
        assert beside <= set(leaves.cells.tolist())


def test_a_pentagon_is_split_into_six() -> None:
    pentagon = cell_named("8009")
    assert pentagon is not None
    home = int(middle(pentagon, HOME))
    leaves = split([home, TOKYO], [[2.0], [1.0]], lanes=2, tau=1.0, coarsest=0)
    assert len(leaves) == 5 * HOME + 1 + 1


def test_a_cell_that_comes_twice_is_one_with_both_loads() -> None:
    cells, loads = in_curve_order([TOKYO, PHOENIX, TOKYO], [[1, 0], [2, 2], [0, 3]])
    assert dict(zip(cells.tolist(), loads.tolist(), strict=True)) == {TOKYO: [1, 3], PHOENIX: [2, 2]}


def test_kept_leaves_are_not_lost_and_not_swallowed() -> None:
    kept = [ancestor(PHOENIX, 5), ancestor(ZERO, 4)]
    leaves = split([PHOENIX, TOKYO], [[1.0], [1.0]], lanes=2, tau=1.0, kept=kept)
    assert set(kept) <= set(leaves.cells.tolist())
    assert leaf_of(leaves, TOKYO) == ancestor(TOKYO, 3)
    assert leaves.loads.sum() == 2.0


def test_a_kept_leaf_that_is_too_heavy_is_split_within() -> None:
    kept = ancestor(PHOENIX, 4)
    leaves = split([PHOENIX, TOKYO], [[9.0], [1.0]], lanes=10, tau=0.5, kept=[kept])
    inside = [cell for cell in leaves.cells.tolist() if ancestor(cell, min(4, int(resolution(cell)))) == kept]
    assert kept not in inside
    assert len(inside) == 6 * 5 + 1


def test_nothing_counted_is_no_leaf() -> None:
    assert len(split([], np.zeros((0, 24)), lanes=2, tau=1.0)) == 0


@pytest.mark.parametrize(("lanes", "tau", "coarsest"), [(0, 1.0, 3), (2, 0.0, 3), (2, float("nan"), 3), (2, 1.0, 12)])
def test_what_makes_no_sense_is_refused(lanes: int, tau: float, coarsest: int) -> None:
    with pytest.raises(UsageError):
        split([PHOENIX], [[1.0]], lanes, tau, coarsest)

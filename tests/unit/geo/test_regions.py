"""Compact regions: every lane used, loads alike, few leaves near another lane; and the same table in fewer leaves."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from keylane.geo.bits import curve_end, curve_start
from keylane.geo.cells import cell_of, cells_of
from keylane.geo.lane_tables import pack_along_curve, pack_by_hour, split
from keylane.geo.regions import SLACK, Surroundings, _cut, merged, regions
from keylane.placement.cell_lanes import CellLanes
from keylane.placement.partitioners import partitioner

SIDE = 24


def board(side: int = SIDE, heavy: float = 1.0) -> tuple[np.ndarray, np.ndarray, Surroundings]:
    """Leaves on a grid of 100 m, a radius of two of them; the middle is `heavy`."""
    places = list(product(range(side), repeat=2))
    at = np.array([(1.0, x / 6.4e4, y / 6.4e4) for x, y in places])
    middle = [abs(x - side / 2) + abs(y - side / 2) < side / 4 for x, y in places]
    load = np.where(middle, heavy, 1.0)[:, None]
    steps = [(dx, dy) for dx, dy in product(range(-2, 3), repeat=2) if dx * dx + dy * dy <= 4]
    pairs = [
        (i, (x + dx) * side + y + dy)
        for i, (x, y) in enumerate(places)
        for dx, dy in steps
        if 0 <= x + dx < side and 0 <= y + dy < side
    ]
    point, leaf = np.array(pairs).T
    return at, load, Surroundings(point, leaf.astype(np.int32), load, len(places))


def work(lane: np.ndarray, lanes: int, around: Surroundings) -> np.ndarray:
    """What each lane has to do, copies included; counted one by one."""
    sets: dict[int, set[int]] = {}
    for point, leaf in zip(around.point.tolist(), around.leaf.tolist(), strict=True):
        sets.setdefault(point, set()).add(int(lane[leaf]))
    out = np.zeros(lanes)
    for point, near in sets.items():
        for one in near:
            out[one] += around.load[point].sum()
    return out


@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("heavy", [1.0, 9.0])
def test_regions_are_of_equal_load_and_need_few_copies(lanes: int, heavy: float) -> None:
    at, load, around = board(heavy=heavy)
    found = regions(at, load, lanes, around)
    sums = np.bincount(found, load.sum(1), lanes)
    assert sums.max() <= (1 + SLACK) * sums.mean() + heavy
    assert sums.min() > 0
    for other in (pack_by_hour(load, lanes), pack_along_curve(load, lanes)):
        assert work(found, lanes, around).max() <= work(other, lanes, around).max()
    if lanes > 2:
        assert work(found, lanes, around).sum() < 0.6 * work(pack_by_hour(load, lanes), lanes, around).sum()


def test_border_leaves_are_exchanged_for_less_work() -> None:
    """The twin of the exchange: cuts alone leave the fullest lane with more to do."""
    at, load, around = board(heavy=9.0)
    cut = _cut(at, load.sum(1), 7, around)
    assert work(regions(at, load, 7, around), 7, around).max() < work(cut, 7, around).max()


def test_the_same_cells_give_the_same_regions() -> None:
    at, load, around = board(heavy=3.0)
    again = Surroundings(around.point.copy(), around.leaf.copy(), around.load.copy(), around.leaves)
    assert regions(at, load, 5, around).tolist() == regions(at.copy(), load.copy(), 5, again).tolist()


def test_cells_that_are_in_no_table_do_not_count() -> None:
    at, load, around = board()
    more = Surroundings(
        np.append(around.point, [0, 5]), np.append(around.leaf, [around.leaves, around.leaves + 3]).astype(np.int32),
        around.load, around.leaves,
    )  # fmt: skip
    assert regions(at, load, 4, more).tolist() == regions(at, load, 4, around).tolist()


def test_more_lanes_than_leaves_leave_lanes_empty() -> None:
    at, load, around = board(side=2)
    found = regions(at, load, 9, around)
    assert len(set(found.tolist())) == 4


def test_no_load_at_all_is_cut_by_area() -> None:
    at, load, around = board()
    found = regions(at, 0 * load, 4, Surroundings(around.point, around.leaf, 0 * load, around.leaves))
    assert np.bincount(found).tolist() == [SIDE * SIDE // 4] * 4


def lanes_of(cells: np.ndarray, lane: np.ndarray) -> CellLanes:
    return CellLanes(curve_start(cells), curve_end(cells), lane, 3, 4, partitioner("kafka-java", "h3"))


def test_fewer_leaves_are_the_same_table() -> None:
    rng = np.random.default_rng(5)
    cells = cells_of(*(np.array([40.7, -74.0]) + rng.normal(0, 0.05, (3_000, 2))).T)
    leaves = split(cells, np.ones((len(cells), 1)), 4, 0.02)
    lane = (np.arange(len(leaves)) * 4 // len(leaves)).astype(np.int32)
    fewer, lanes = merged(leaves, lane, 3)
    assert len(fewer) < len(leaves) / 2
    assert fewer.loads.sum() == leaves.loads.sum()
    asked = np.concatenate([cells, cells_of(*(np.array([40.7, -74.0]) + rng.normal(0, 1.0, (3_000, 2))).T)])
    assert lanes_of(fewer.cells, lanes).of(asked).tolist() == lanes_of(leaves.cells, lane).of(asked).tolist()


def test_a_pentagon_has_six_children_and_is_one_leaf_again() -> None:
    near_its_middle = cell_of(39.1, 122.3)
    leaves = split([near_its_middle], [[1.0]], 1, 1e-9, 3, 5)
    fewer, lanes = merged(leaves, np.zeros(len(leaves), np.int32), 3)
    assert (len(leaves), len(fewer), lanes.tolist()) == (11, 1, [0])
    apart = np.zeros(len(leaves), np.int32)
    apart[0] = 1
    assert len(merged(leaves, apart, 3)[0]) > 1, "the twin: two lanes are not one leaf"

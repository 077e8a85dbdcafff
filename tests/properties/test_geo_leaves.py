"""Lane tables by chance: nothing lost, nothing twice, no more moved than allowed; and planted bugs are seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.geo.bits import ancestor, curve_end, curve_start, resolution
from keylane.geo.lane_tables import Leaves, in_curve_order, pack_along_curve, pack_by_hour, rebalance, split

if TYPE_CHECKING:
    from collections.abc import Callable

HOURS = 3


@st.composite
def counted(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Home cells that crowd in few places, so that some are split; any base cell, pentagons too."""
    bases = draw(st.lists(st.integers(0, 121), min_size=1, max_size=4))
    digits = st.lists(st.integers(0, 6), min_size=4, max_size=4)
    homes = []
    for base in bases:
        middle = draw(digits)
        homes += [home(base, [*draw(digits), 2, *middle]) for _ in range(draw(st.integers(1, 6)))]
    loads = draw(
        st.lists(st.lists(st.integers(0, 50), min_size=HOURS, max_size=HOURS), min_size=len(homes), max_size=len(homes))
    )
    return np.array(homes, np.int64), np.array(loads, float)


def home(base: int, digits: list[int]) -> int:
    cell = (1 << 59) | (9 << 52) | (base << 45) | ((1 << 45) - 1)
    for place, digit in enumerate(digits, 1):
        shift = 3 * (15 - place)
        cell = cell & ~(7 << shift) | digit << shift
    return cell


lane_counts, taus = st.integers(1, 9), st.sampled_from([2.0, 1.0, 0.5, 0.1])


def problems(leaves: Leaves, cells: np.ndarray, loads: np.ndarray) -> list[str]:
    """What is wrong with the leaves of counted cells."""
    starts, ends = curve_start(leaves.cells), curve_end(leaves.cells)
    found = [] if (starts[1:] > ends[:-1]).all() else ["two leaves overlap, or are out of order"]
    homes, sums = in_curve_order(cells, loads)
    at = np.searchsorted(starts, curve_end(homes), "right") - 1
    if (at < 0).any() or (curve_end(homes) > ends[at]).any():
        return [*found, "a counted cell is in no leaf"]
    held = np.zeros_like(leaves.loads)
    np.add.at(held, at, sums)
    return found if np.allclose(held, leaves.loads) else [*found, "a leaf has not the load of its cells"]


@given(traffic=counted(), lanes=lane_counts, tau=taus)
def test_leaves_are_apart_and_hold_all_that_was_counted(
    traffic: tuple[np.ndarray, np.ndarray], lanes: int, tau: float
) -> None:
    leaves = split(*traffic, lanes, tau)
    assert problems(leaves, *traffic) == []
    assert leaves.loads.sum() == pytest.approx(traffic[1].sum())


@given(traffic=counted(), lanes=lane_counts, tau=taus)
def test_only_a_home_cell_is_a_leaf_above_the_bound(
    traffic: tuple[np.ndarray, np.ndarray], lanes: int, tau: float
) -> None:
    leaves = split(*traffic, lanes, tau)
    heavy = leaves.loads.sum(1) > tau * traffic[1].sum() / lanes * (1 + 1e-9)
    assert (resolution(leaves.cells[heavy]) == 9).all()


def without_the_last(leaves: Leaves) -> Leaves:
    loaded = np.flatnonzero(leaves.loads.sum(1) > 0)
    return Leaves(np.delete(leaves.cells, loaded[-1]), np.delete(leaves.loads, loaded[-1], axis=0))


def with_its_parent(leaves: Leaves) -> Leaves:
    return Leaves(
        np.append(leaves.cells, ancestor(leaves.cells[-1:], 2)), np.append(leaves.loads, leaves.loads[-1:], axis=0)
    )


def with_more(leaves: Leaves) -> Leaves:
    return Leaves(leaves.cells, leaves.loads + 1)


@pytest.mark.parametrize("bug", [without_the_last, with_its_parent, with_more])
def test_a_planted_bug_of_leaves_is_seen(bug: Callable[[Leaves], Leaves]) -> None:
    cells = np.array([home(20, [2] * 9), home(20, [2, 2, 2, 4, 2, 2, 2, 2, 2]), home(3, [1] * 9)])
    loads = np.array([[5.0], [4.0], [1.0]])
    assert problems(split(cells, loads, 3, 1.0), cells, loads) == []
    assert problems(bug(split(cells, loads, 3, 1.0)), cells, loads) != []


@given(traffic=counted(), lanes=lane_counts, tau=taus, finer=taus)
def test_a_later_table_keeps_to_the_leaves_of_the_earlier(
    traffic: tuple[np.ndarray, np.ndarray], lanes: int, tau: float, finer: float
) -> None:
    some = len(traffic[0]) // 2 + 1
    old = split(traffic[0][:some], traffic[1][:some], lanes, tau)
    new = split(*traffic, lanes, finer, kept=old.cells)
    assert problems(new, *traffic) == []
    places = curve_end(new.cells)
    for cell in old.cells.tolist():
        inside = (places >= curve_start(cell)) & (places <= curve_end(cell))
        assert inside.any(), "an old leaf is gone"
        assert (curve_start(new.cells[inside]) >= curve_start(cell)).all(), "an old leaf is inside a coarser one"


@given(traffic=counted(), lanes=lane_counts, tau=taus)
def test_every_leaf_has_one_lane_and_ranges_are_whole(
    traffic: tuple[np.ndarray, np.ndarray], lanes: int, tau: float
) -> None:
    leaves = split(*traffic, lanes, tau)
    for pack in (pack_by_hour, pack_along_curve):
        lane = pack(leaves.loads, lanes)
        assert lane.shape == (len(leaves),)
        assert ((lane >= 0) & (lane < lanes)).all()
        sums = np.bincount(lane, leaves.loads.sum(1), lanes)
        assert sums.sum() == pytest.approx(traffic[1].sum())
    assert (np.diff(lane) >= 0).all(), "a lane of the curve is in two pieces"


@given(
    loads=st.lists(st.lists(st.integers(0, 20), min_size=HOURS, max_size=HOURS), min_size=1, max_size=30),
    lanes=st.integers(1, 5),
    most=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_a_sticky_change_moves_no_more_than_allowed_and_helps(
    loads: list[list[int]], lanes: int, most: float, seed: int
) -> None:
    before = np.random.default_rng(seed).integers(0, lanes, len(loads))
    found = rebalance(before, loads, lanes, goal=0.0, hour_goal=0.0, most_moved=most)
    load = np.array(loads, float)
    assert ((found.lanes >= 0) & (found.lanes < lanes)).all()
    assert load[found.lanes != before].sum() <= most * load.sum() + 1e-6
    assert unevenness(load, found.lanes, lanes) <= unevenness(load, before, lanes) + 1e-9


def unevenness(load: np.ndarray, lane: np.ndarray, lanes: int) -> float:
    from keylane.geo.lane_tables import in_parts_of_the_mean

    sums = np.zeros((lanes, load.shape[1] + 1))
    np.add.at(sums, lane, in_parts_of_the_mean(load, lanes))
    return float(((sums - sums.mean(0)) ** 2).sum())

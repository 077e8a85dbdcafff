"""A cell -> its lane: by the leaf that holds it, else by the hash of its ancestor; one cell and many alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.parity.cases.case import Case
from tests.parity.cases.places import LEAVES, place

from keylane.errors import LaneCountError
from keylane.geo.bits import ancestor, cell_named, children, resolution
from keylane.geo.cells import cells_of
from keylane.hashing.murmur2 import murmur2
from keylane.placement.cell_lanes import cell_lanes
from keylane.router import Router

if TYPE_CHECKING:
    from numpy.typing import NDArray


def drawn(count: int) -> NDArray[np.int64]:
    """Cells all over the earth, and many in and around the leaves."""
    rng = np.random.default_rng(7)
    lats, lngs = np.degrees(np.arcsin(rng.uniform(-1, 1, count))), rng.uniform(-180, 180, count)
    near = [(33.4484, -112.0740), (37.7749, -122.4194), (-16.8, 179.99)]
    spots = [np.array(spot) + rng.normal(0, 0.4, (count // 10, 2)) for spot in near]
    return np.concatenate([cells_of(lats, lngs), *(cells_of(*spot.T) for spot in spots)])


CELLS = drawn(3_000)


def by_hand(cell: int, leaves: list[str], resolution: int, lanes: int) -> int:
    """The rule as it is told, without tables: every ancestor is looked for in the list."""
    known = {cell_named(word): lane for lane, text in enumerate(leaves) for word in text.split()}
    for at in range(9, -1, -1):
        if ancestor(cell, at) in known:
            return known[ancestor(cell, at)]
    return (murmur2(ancestor(cell, resolution).to_bytes(8, "big")) & 0x7FFFFFFF) % lanes


@pytest.mark.parametrize(("leaves", "resolution"), [([], 3), (LEAVES, 3), (LEAVES, 0), (["8929b6d357b"], 9)])
def test_many_cells_and_one_have_the_lane_of_the_rule(leaves: list[str], resolution: int) -> None:
    lanes = cell_lanes(Case({"lanes": 60, **place(leaves=leaves, resolution=resolution)}, {}).contract, 60)
    expected = [by_hand(int(cell), leaves, resolution, 60) for cell in CELLS]
    assert lanes.of(CELLS).tolist() == expected
    assert [lanes.of_one(int(cell)) for cell in CELLS[:500]] == expected[:500]


def test_a_leaf_is_found_with_its_own_resolution() -> None:
    lanes = cell_lanes(Case(place(leaves=LEAVES), {}).contract, 16)
    assert lanes.leaf_of(0x8929B6D357BFFFF) == (0x8329B6FFFFFFFFF, 0)
    assert lanes.leaf_of(0x899B436D593FFFF) == (0x899B436D593FFFF, 3)
    assert lanes.leaf_of(0x891FB46624BFFFF) is None


def test_the_first_and_last_cells_of_a_leaf_are_in_it_and_their_neighbours_are_not() -> None:
    lanes = cell_lanes(Case(place(leaves=["8329b6"]), {}).contract, 16)
    inside = [0x8929B6000003FFF | 0x3FFFF, 0x8929B6DB6DBFFFF]
    outside = [0x8929B5DB6DBFFFF, 0x8929B8000003FFF | 0x3FFFF]
    assert [lanes.leaf_of(cell) is not None for cell in (*inside, *outside)] == [True, True, False, False]


def test_a_live_count_too_small_for_the_leaves_is_refused() -> None:
    contract = Case({"lanes": "live", **place(leaves=LEAVES)}, {}).contract
    assert Router(contract, lanes=4).lane_count == 4
    with pytest.raises(LaneCountError, match="got 3; allowed: 4 or more"):
        Router(contract, lanes=3)


#: The middle of a cell of resolution 7, which begins where the cell begins; its last cell; all of it; far away.
MIDDLE, LAST, WHOLE, AWAY = "8929b6d3003", "8929b6d30db", "8729b6d30", "8929b6d3103"


@pytest.mark.parametrize(
    "leaves",
    [[MIDDLE], [LAST], [MIDDLE, LAST], [WHOLE], [AWAY], []],
    ids=["middle", "last", "both", "whole", "away", "none"],
)
def test_a_cell_is_one_lane_only_if_all_home_cells_under_it_are(leaves: list[str]) -> None:
    lanes = cell_lanes(Case({"lanes": 60, **place(leaves=leaves, resolution=3)}, {}).contract, 60)
    coarse = np.array([cell_named(WHOLE)], np.int64)
    asked = np.concatenate([coarse, children(coarse).reshape(-1)])
    home = children(asked[1:]).reshape(-1)
    for cell in asked.tolist():
        under = home[ancestor(home, resolution(cell)) == cell]
        assert len(under) in {7, 49}
        assert bool(lanes.one_lane([cell])[0]) == (len(set(lanes.of(under).tolist())) == 1)

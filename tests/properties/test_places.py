"""Lanes by place for every pair of numbers: a lane or a reason, never both or neither; equal ancestors, equal lanes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.parity.cases.case import Case
from tests.parity.cases.places import LEAVES, place

from keylane.contract.evolve import moved_leaves
from keylane.contract.lane_table import leaves_checksum, leaves_text
from keylane.geo.bits import ancestor, cell_name, curve_start, is_cell
from keylane.geo.cells import cell_of
from keylane.geo.coordinates import PLACE_REASONS
from keylane.placement.cell_lanes import cell_lanes
from keylane.router import Router

LANES = 60
PLAIN = Router(Case({"lanes": LANES, **place()}, {}).contract)
TABLED = Router(Case({"lanes": LANES, **place(leaves=LEAVES)}, {}).contract)
numbers = st.floats(allow_nan=True, allow_infinity=True)
coordinates = st.one_of(st.none(), numbers, st.floats(-181, 181), st.integers(-181, 181).map(float))
latitudes, longitudes = st.floats(-90, 90), st.floats(-180, 180)
places = st.tuples(latitudes, longitudes).filter(lambda at: at != (0, 0))
homes = places.map(lambda at: cell_of(*at))


@given(st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=20))
def test_every_pair_has_a_lane_or_a_reason_of_its_own(pairs: list[tuple[float | None, float | None]]) -> None:
    columns = [pa.array(side, pa.float64()) for side in zip(*pairs, strict=True)]
    for router in (PLAIN, TABLED):
        rows = router.placements(pa.table(columns, names=["lat", "lng"])).to_pylist()
        alone = [router.place({"lat": lat, "lng": lng}) for lat, lng in pairs]
        assert [(row["lane"], row["reason"]) for row in rows] == [(one.lane, one.reason) for one in alone]
        assert all((row["lane"] is None) != (row["reason"] is None) for row in rows)
        assert {row["lane"] for row in rows} <= {None, *range(LANES)}
        assert {row["reason"] for row in rows} <= {None, *PLACE_REASONS}


@given(places, places)
def test_equal_ancestors_have_equal_lanes_where_there_is_no_table(
    one: tuple[float, float], other: tuple[float, float]
) -> None:
    placed = [PLAIN.place({"lat": lat, "lng": lng}) for lat, lng in (one, other)]
    if placed[0].routing_key == placed[1].routing_key:
        assert placed[0].lane == placed[1].lane
    key = placed[0].routing_key
    assert key is not None
    assert int.from_bytes(key, "big") == ancestor(cell_of(*one), 3)
    assert PLAIN.lane_of_key(key) == placed[0].lane


@given(homes, st.integers(3, 9))
def test_all_cells_of_a_leaf_have_its_lane(home: int, at: int) -> None:
    leaf = ancestor(home, at)
    leaves = [""] * 7 + [cell_name(leaf)]
    lanes = cell_lanes(Case({"lanes": LANES, **place(leaves=leaves)}, {}).contract, LANES)
    # The first and the last home cell of the leaf: its digits after the leaf's own are all 0, and all 6.
    low, high = (sum(digit << 3 * (15 - n) for n in range(at + 1, 10)) for digit in (0, 6))
    first = (home >> 52 << 52) | curve_start(leaf) | (1 << 18) - 1
    known = [cell for cell in (home, first | low, first | high) if is_cell(cell)]
    assert lanes.of(np.array(known)).tolist() == [7] * len(known) == [lanes.of_one(cell) for cell in known]
    assert lanes.leaf_of(home) == (leaf, 7)


@given(st.dictionaries(homes, st.integers(0, 11), min_size=1, max_size=12), st.integers(1, 11))
def test_a_table_in_another_spelling_is_the_same_and_one_turned_round_moves_all(
    table: dict[int, int], turn: int
) -> None:
    leaves = leaves_text(table, 12)
    spelled = [" ".join(cell_name(cell) for cell in table if table[cell] == lane) for lane in range(12)]
    assert leaves_checksum(leaves) == leaves_checksum(spelled) == leaves_checksum([text.upper() for text in spelled])
    assert moved_leaves(leaves, spelled).moved == 0
    turned = leaves_text({cell: (lane + turn) % 12 for cell, lane in table.items()}, 12)
    assert moved_leaves(leaves, turned).share == 1

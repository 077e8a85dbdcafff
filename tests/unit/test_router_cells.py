"""The router with lanes by location: every step said, keys that are bytes, and what is not a lane of a place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.parity.cases.case import Case, key
from tests.parity.cases.places import geo, place

from keylane.batch_router import decide
from keylane.errors import UnplacedError
from keylane.geo.bits import ancestor
from keylane.geo.cells import cell_of
from keylane.hashing.murmur2 import murmur2
from keylane.measure.conformance import order_scopes
from keylane.records import Reason
from keylane.router import Router

PHOENIX = {"lat": 33.4484, "lng": -112.0740}
CELL = bytes.fromhex("08929b6d357bffff")


def router(**given: Any) -> Router:
    return Router(Case({"lanes": 60, **place(**given)}, {}).contract)


def test_a_leaf_and_an_ancestor_are_said_in_words() -> None:
    in_leaf, hashed = router(leaves=["", "8329b6"]).place(PHOENIX), router().place(PHOENIX)
    cell, leaf = in_leaf.why[1:]
    assert cell == "cell: 8929b6d357bffff"
    assert leaf.endswith("leaf 8329b6fffffffff -> lane 1")
    assert hashed.why[0].startswith("key: lat, lng as place -> ")
    assert hashed.why[1:3] == (
        "cell: 8929b6d357bffff",
        "geo: in no leaf; its ancestor at resolution 3 is 8329b6fffffffff",
    )
    assert hashed.why[-1] == f"placement: masked over 60 lanes -> lane {hashed.lane}"
    assert in_leaf.routing_key == hashed.routing_key == bytes.fromhex("08329b6fffffffff")


def test_a_key_of_bytes_is_the_cell() -> None:
    assert router(leaves=["", "8329b6"]).lane_of_key(CELL) == 1
    assert router().lane_of_key(CELL) == router().lane(PHOENIX)


@pytest.mark.parametrize("other", [b"TT0124", b"12345678", b"\xff" * 8], ids=repr)
def test_another_key_is_malformed_unless_the_contract_takes_bytes(other: bytes) -> None:
    with pytest.raises(UnplacedError) as error:
        router().lane_of_key(other)
    assert error.value.reason is Reason.MALFORMED_KEY
    raw = Router(Case({"lanes": 60, **key("raw"), **geo()}, {}).contract)
    assert raw.lane_of_key(other) == raw.lane({"k": other}) == (murmur2(other) & 0x7FFFFFFF) % 60
    assert raw.lane_of_key(CELL) == router().lane(PHOENIX)


def test_a_cell_coarser_than_the_finest_leaf_has_no_lane() -> None:
    made = router(leaves=["8329b6", "8428309"])
    assert made.lane_of_key(bytes.fromhex("08429b6dffffffff")) == 0
    with pytest.raises(UnplacedError, match=r"8329b6fffffffff'; allowed: .*resolution 4") as error:
        made.lane_of_key(bytes.fromhex("08329b6fffffffff"))
    assert error.value.reason is Reason.MALFORMED_KEY


def test_the_lane_of_a_place_without_one_is_its_reason() -> None:
    with pytest.raises(UnplacedError, match="place zero") as error:
        router().lane({"lat": 0, "lng": 0})
    assert error.value.reason is Reason.PLACE_ZERO


def test_lanes_are_of_ancestors_and_not_of_coarse_cells() -> None:
    """The twin has the bug: H3 asked at the routing resolution, which disagrees for one place in fifteen."""
    rng = np.random.default_rng(3)
    lats, lngs = np.degrees(np.arcsin(rng.uniform(-1, 1, 4_000))), rng.uniform(-180, 180, 4_000)
    lanes = router().lanes(pa.table({"lat": lats, "lng": lngs})).to_pylist()

    def hashed(cell: int) -> int:
        return (murmur2(cell.to_bytes(8, "big")) & 0x7FFFFFFF) % 60

    places = list(zip(lats.tolist(), lngs.tolist(), strict=True))
    assert lanes == [hashed(ancestor(cell_of(*at), 3)) for at in places]
    wrong = np.mean([lane != hashed(cell_of(*at, 3)) for lane, at in zip(lanes, places, strict=True)])
    assert 0.05 < wrong < 0.08


def test_what_is_kept_in_order_is_the_cell() -> None:
    """Under one ancestor there may be leaves of several lanes, so the ancestor keeps no order."""
    made = router(leaves=["8429b6d", "8429b69"])
    batch = pa.table({"lat": [33.4484, 33.4484, 34.0, 0.0], "lng": [-112.0740, -112.0740, -112.5, 0.0]})
    one, same, other, none = order_scopes(made, decide(made, batch)).to_pylist()
    assert one == same == CELL
    assert other not in (one, None)
    assert none is None

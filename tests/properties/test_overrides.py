"""Hot keys and tables change the keys they name; every other key stays where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

HOT = ("pinned", "spread", "listed", "turned", "tiered")
RULES: list[dict[str, Any]] = [
    {"keys": ["pinned"], "pin": {"lanes": [3]}},
    {"keys": ["spread"], "spread": {"over": 3, "by": "order"}},
    {"keys": ["listed"], "spread": {"lanes": [1, 5, 9], "by": "order"}},
    {"keys": ["turned"], "spread": {"over": 4, "by_position": True}},
    {"keys": ["tiered"], "tier": {"stream": "vip", "lanes": 4}},
]
keys = st.lists(st.text(max_size=8) | st.sampled_from(HOT), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def plain(contract: Callable[..., Contract]) -> Router:
    return Router(contract())


@pytest.fixture(scope="module")
def hot(contract: Callable[..., Contract]) -> Router:
    return Router(contract(hot_keys=RULES))


@pytest.fixture(scope="module")
def tabled(contract: Callable[..., Contract]) -> Router:
    return Router(contract(table={"values": dict.fromkeys(HOT, 7)}))


@given(drawn=keys)
def test_a_key_that_no_hot_rule_names_stays_where_it_was(plain: Router, hot: Router, drawn: list[str]) -> None:
    batch = pa.RecordBatch.from_pydict({"k": drawn, "order": drawn})
    at = list(range(len(drawn)))
    before, after = (router.placements(batch, at).to_pylist() for router in (plain, hot))
    assert [row for key, row in zip(drawn, after, strict=True) if key not in HOT] == [
        row for key, row in zip(drawn, before, strict=True) if key not in HOT
    ]


@given(drawn=keys)
def test_a_key_outside_a_table_that_hashes_the_rest_stays_where_it_was(
    plain: Router, tabled: Router, drawn: list[str]
) -> None:
    batch = pa.RecordBatch.from_pydict({"k": drawn})
    before, after = plain.lanes(batch).to_pylist(), tabled.lanes(batch).to_pylist()
    assert after == [7 if key in HOT else lane for key, lane in zip(drawn, before, strict=True)]


@given(orders=st.lists(st.text(max_size=6), min_size=1, max_size=30))
def test_records_that_share_key_and_sub_key_share_a_lane(hot: Router, orders: list[str]) -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["spread"] * len(orders), "order": orders})
    seen = set(zip(orders, hot.lanes(batch).to_pylist(), strict=True))
    assert len(seen) == len(set(orders))

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.contract.model import Contract, Spread
from keylane.placement.overrides import HotRule, compile_overrides

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_contract_without_any_has_nothing_to_look_up(contract: Callable[..., Contract]) -> None:
    overrides = compile_overrides(contract())
    assert not overrides.any
    assert (dict(overrides.hot), overrides.table) == ({}, None)


def test_each_hot_key_is_found_by_its_bytes_with_its_own_lane(contract: Callable[..., Contract]) -> None:
    rule = {"keys": [7, -1], "pin": {"lanes": [3, 5]}}
    overrides = compile_overrides(contract(key={"fields": ["k"], "encoding": "int32be"}, hot_keys=[rule]))
    assert overrides.any
    assert overrides.hot == {
        b"\0\0\0\7": HotRule("hot_keys[0]", pin=3),
        b"\xff\xff\xff\xff": HotRule("hot_keys[0]", pin=5),
    }


def test_a_hot_key_of_several_fields_is_joined_as_records_are(contract: Callable[..., Contract]) -> None:
    rule = {"keys": [["x", 7]], "pin": {"lanes": [3]}}
    overrides = compile_overrides(contract(key={"fields": ["a", "b"]}, hot_keys=[rule]))
    assert list(overrides.hot) == [b"x|7"]


def test_a_tier_carries_its_stream_its_lanes_and_its_spread(contract: Callable[..., Contract]) -> None:
    spread = {"over": 2, "by": "order"}
    rules = [
        {"keys": ["a"], "spread": spread},
        {"keys": ["b"], "tier": {"stream": "vip", "lanes": 4, "spread": spread}},
    ]
    overrides = compile_overrides(contract(hot_keys=rules))
    assert overrides.hot == {
        b"a": HotRule("hot_keys[0]", spread=Spread(over=2, by="order")),
        b"b": HotRule("hot_keys[1]", spread=Spread(over=2, by="order"), stream="vip", lanes=4),
    }


def test_a_table_says_what_other_keys_do(contract: Callable[..., Contract]) -> None:
    overrides = compile_overrides(contract(table={"values": {"a": [0, 1]}, "by": "order", "otherwise": "reject"}))
    assert overrides.table is not None
    assert overrides.table.lanes_of(b"a") == (0, 1)
    assert (overrides.table_by, overrides.table_rejects) == ("order", True)

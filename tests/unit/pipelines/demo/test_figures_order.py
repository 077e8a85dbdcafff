"""What is kept in order: the contract's own answers, with the keys and records they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.contract.answers import answers
from keylane.documents.demo import OrderKept
from keylane.pipelines.demo.figures import order_kept, sub_key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.answers import OrderScope
    from keylane.contract.model import Contract

RECORDS = {"a": 60, "b": 30, "c": 10}


def kept(scope: OrderScope, unit: str, keys: int, share: float, lanes: int, *, readers_merge: bool) -> OrderKept:
    return OrderKept(
        order_scope=scope, unit=unit, keys=keys, share=share, lanes_per_key=lanes, readers_merge=readers_merge
    )


def test_a_plain_hash_keeps_every_key(contract: Callable[..., Contract]) -> None:
    assert order_kept(contract(), RECORDS) == [kept("per-key", "k", 3, 1.0, 1, readers_merge=False)]


def test_spread_keys_are_counted_apart_and_only_if_they_occur(contract: Callable[..., Contract]) -> None:
    spread = contract(hot_keys=[{"keys": ["a", "absent"], "spread": {"over": 4, "by": "o"}}])
    assert order_kept(spread, RECORDS) == [
        kept("per-key", "k", 2, 0.4, 1, readers_merge=False),
        kept("per-sub-key", "o", 1, 0.6, 4, readers_merge=True),
    ]


def test_rules_of_one_scope_are_one(contract: Callable[..., Contract]) -> None:
    rules = [{"keys": ["a"], "spread": {"over": 2, "by": "o"}}, {"keys": ["b"], "spread": {"over": 5, "by": "o"}}]
    both = contract(hot_keys=rules, table={"values": {"c": 3}})
    assert order_kept(both, RECORDS) == [
        kept("per-key", "k", 1, 0.1, 1, readers_merge=False),
        kept("per-sub-key", "o", 2, 0.9, 5, readers_merge=True),
    ]


def test_a_window_is_part_of_the_unit(contract: Callable[..., Contract]) -> None:
    hourly = contract(key={"fields": ["k"], "window": {"field": "t", "size": "1h"}})
    assert order_kept(hourly, RECORDS) == [kept("per-key-and-window", "k and 1h", 3, 1.0, 16, readers_merge=True)]


def test_by_position_nothing_is_kept(contract: Callable[..., Contract]) -> None:
    lost = contract(hot_keys=[{"keys": ["a", "b", "c"], "spread": {"over": 4, "by_position": True}}])
    assert order_kept(lost, RECORDS) == [kept("none", "nothing", 3, 1.0, 4, readers_merge=True)]


def test_no_scope_is_other_than_the_contracts_own_answer(contract: Callable[..., Contract]) -> None:
    table = contract(table={"values": {"a": [1, 2], "b": 3}, "by": "o"})
    assert {scope.order_scope for scope in order_kept(table, RECORDS)} == {one.order_scope for one in answers(table)}
    assert sub_key_of(table) == "o"
    assert sub_key_of(contract()) is None

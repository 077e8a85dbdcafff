"""Every override: pins, spreads, tiers, tables, and what other keys do beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.parity.conftest import Way

    from keylane.contract.model import Contract

ORDERS: list[str | None] = [None, "", "o-1", "o-2", "o-3", "Zoë", "😀"]
KEYS: list[str | None] = ["a", "b", "c", "d", "", None]
RECORDS: list[dict[str, Any]] = [{"k": key, "order": order} for key in KEYS for order in ORDERS]
POSITIONS = list(range(0, 7 * len(RECORDS), 7))


def hot(**rule: Any) -> dict[str, Any]:
    return {"hot_keys": [{"keys": ["a"], **rule}]}


SPREAD_BY = {"over": 3, "by": "order"}
SPREAD_TURN = {"over": 5, "by_position": True}
LISTED_BY = {"lanes": [9, 2, 15], "by": "order"}
LISTED_TURN = {"lanes": [9, 2, 15], "by_position": True}
TIER = {"stream": "vip", "lanes": 5}

CASES = {
    "pin": hot(pin={"lanes": [3]}),
    "pins": {"hot_keys": [{"keys": ["a", "b", ""], "pin": {"lanes": [3, 0, 15]}}]},
    "spread by sub-key": hot(spread=SPREAD_BY),
    "spread over all lanes": hot(spread={"over": 16, "by": "order"}),
    "spread by position": hot(spread=SPREAD_TURN),
    "listed lanes by sub-key": hot(spread=LISTED_BY),
    "listed lanes by position": hot(spread=LISTED_TURN),
    "two keys of one spread": {"hot_keys": [{"keys": ["a", "b"], "spread": SPREAD_BY}]},
    "tier": hot(tier=TIER),
    "tier with a spread by sub-key": hot(tier={**TIER, "spread": SPREAD_BY}),
    "tier with a spread by position": hot(tier={**TIER, "spread": SPREAD_TURN}),
    "tier with listed lanes": hot(tier={**TIER, "spread": {"lanes": [4, 1], "by": "order"}}),
    "every kind at once": {
        "hot_keys": [
            {"keys": ["a"], "pin": {"lanes": [3]}},
            {"keys": ["b"], "spread": SPREAD_BY},
            {"keys": ["c"], "tier": TIER},
            {"keys": [""], "tier": {"stream": "empty", "lanes": 2}},
        ],
        "table": {"values": {"a": 1, "d": 2}},
    },
    "table": {"table": {"values": {"a": 7, "b": [4]}}},
    "table that rejects the rest": {"table": {"values": {"a": 7}, "otherwise": "reject"}},
    "few-lane accounts": {"table": {"values": {"a": [3, 1, 9], "b": [2], "c": 5}, "by": "order"}},
    "few-lane accounts that reject the rest": {
        "table": {"values": {"a": [3, 1, 9], "": [4, 6]}, "by": "order", "otherwise": "reject"}
    },
    "ranges": {"table": {"ranges": [{"below": "b", "lane": 1}, {"from": "b", "below": "c", "lane": 2}]}},
    "open ranges that reject the rest": {"table": {"ranges": [{"from": "c", "lane": 2}], "otherwise": "reject"}},
    "values before ranges": {"table": {"values": {"b": 9}, "ranges": [{"lane": 1}]}},
}


@pytest.mark.parametrize("spec", CASES.values(), ids=CASES)
@pytest.mark.parametrize("positions", [POSITIONS, None], ids=["positions", "no positions"])
def test_every_override(
    way: Way,
    one_by_one: Way,
    contract: Callable[..., Contract],
    spec: dict[str, Any],
    positions: list[int] | None,
) -> None:
    promise = contract(**spec)
    assert way(promise, RECORDS, positions) == one_by_one(promise, RECORDS, positions)


@pytest.mark.parametrize("case", ["spread by sub-key", "tier with a spread by sub-key", "few-lane accounts"])
@pytest.mark.parametrize(
    "orders", [None, [b"\xff", b"ok", b"", None], [1, -1, None]], ids=["missing", "malformed", "numbers"]
)
def test_every_form_of_sub_key(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], case: str, orders: list[Any] | None
) -> None:
    records: list[dict[str, Any]] = [
        {"k": key} if orders is None else {"k": key, "order": order} for key in "abe" for order in orders or [0]
    ]
    promise = contract(**CASES[case])
    assert way(promise, records) == one_by_one(promise, records)


NUMBER_CASES: dict[str, dict[str, Any]] = {
    "pins": {"hot_keys": [{"keys": [-1, 7], "pin": {"lanes": [3, 0]}}]},
    "values": {"table": {"values": {-1: 4, 7: [2, 5]}, "by": "order", "otherwise": "reject"}},
    "ranges": {
        "table": {
            "ranges": [{"below": -5, "lane": 1}, {"from": -5, "below": 0, "lane": 2}, {"from": 1000, "lane": 3}],
            "otherwise": "reject",
        }
    },
}


@pytest.mark.parametrize("encoding", ["int32be", "int64be"])
@pytest.mark.parametrize("spec", NUMBER_CASES.values(), ids=NUMBER_CASES)
def test_numbers_are_looked_up_as_numbers(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], spec: dict[str, Any], encoding: str
) -> None:
    promise = contract(key={"fields": ["k"], "encoding": encoding}, **spec)
    keys = [-(2**31), -6, -5, -1, 0, 7, 8, 999, 1000, 2**31 - 1, 2**40, None]
    records = [{"k": key, "order": order} for key in keys for order in ("o-1", "o-2")]
    at = list(range(len(records)))
    assert way(promise, records, at) == one_by_one(promise, records, at)


@pytest.mark.parametrize(
    "spec",
    [
        {"hot_keys": [{"keys": [["a", 7]], "pin": {"lanes": [3]}}]},
        {"hot_keys": [{"keys": [["a", 7]], "spread": SPREAD_BY}]},
        {"hot_keys": [{"keys": [["a", 7]], "tier": TIER}]},
    ],
    ids=["pin", "spread", "tier"],
)
@pytest.mark.parametrize("window", [None, {"field": "t", "size": "1h"}], ids=["no window", "window"])
def test_hot_keys_of_several_fields_with_and_without_a_window(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], spec: dict[str, Any], window: Any
) -> None:
    promise = contract(key={"fields": ["k", "n"], "window": window}, **spec)
    records = [
        {"k": key, "n": number, "t": time, "order": f"o-{time}"}
        for key in ("a", "b", None)
        for number in (7, 8, None)
        for time in (0, 3_600_000, -1, None)
    ]
    at = list(range(len(records)))
    assert way(promise, records, at) == one_by_one(promise, records, at)

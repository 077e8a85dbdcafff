"""Every rule for null and empty keys, with and without positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.parity.conftest import Way

    from keylane.contract.model import Contract

RULES = ["client", "hash", "sticky", "random", "round_robin", "reject"]
RECORDS: list[dict[str, Any]] = [{"k": key} for key in ("a", None, "", "b", None, "", "a")]
POSITIONS = [0, 1, 255, 256, 2**40, 2**63 - 1, -1]

positions_or_none = pytest.mark.parametrize("positions", [POSITIONS, None], ids=["positions", "no positions"])


@positions_or_none
@pytest.mark.parametrize(("on_null", "on_empty"), list(zip(RULES, RULES[1:] + RULES[:1], strict=True)))
def test_every_rule(
    way: Way,
    one_by_one: Way,
    contract: Callable[..., Contract],
    on_null: str,
    on_empty: str,
    positions: list[int] | None,
) -> None:
    promise = contract(key={"fields": ["k"], "on_null": on_null, "on_empty": on_empty})
    assert way(promise, RECORDS, positions) == one_by_one(promise, RECORDS, positions)


@positions_or_none
@pytest.mark.parametrize("rule", ["client", "sticky", "random", "round_robin", "reject"])
def test_every_rule_of_a_client_that_ignores_keys(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], rule: str, positions: list[int] | None
) -> None:
    promise = contract(partitioner="librdkafka-random", key={"fields": ["k"], "on_null": rule, "on_empty": rule})
    assert way(promise, RECORDS, positions) == one_by_one(promise, RECORDS, positions)


@positions_or_none
@pytest.mark.parametrize("rule", RULES)
def test_null_and_empty_keys_go_before_hot_keys_and_tables(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], rule: str, positions: list[int] | None
) -> None:
    promise = contract(
        key={"fields": ["k"], "on_null": rule, "on_empty": rule},
        hot_keys=[{"keys": ["", "a"], "pin": {"lanes": [3, 5]}}],
        table={"values": {"b": 7}, "otherwise": "reject"},
    )
    assert way(promise, RECORDS, positions) == one_by_one(promise, RECORDS, positions)


@pytest.mark.parametrize("column", [[None, None], ["", ""]], ids=["all null", "all empty"])
def test_columns_of_nothing_else(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], column: list[str | None]
) -> None:
    records = [{"k": value} for value in column]
    assert way(contract(), records, [1, 2]) == one_by_one(contract(), records, [1, 2])


@positions_or_none
@pytest.mark.parametrize("rule", RULES)
def test_an_empty_key_with_a_window(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], rule: str, positions: list[int] | None
) -> None:
    promise = contract(key={"fields": ["k"], "on_empty": rule, "window": {"field": "t", "size": "1h"}})
    records = [{**record, "t": 7_200_000} for record in RECORDS]
    assert way(promise, records, positions) == one_by_one(promise, records, positions)


def test_a_way_with_another_rule_would_be_caught(way: Way, one_by_one: Way, contract: Callable[..., Contract]) -> None:
    sticky, random = (contract(key={"fields": ["k"], "on_null": rule}) for rule in ("sticky", "random"))
    assert way(sticky, RECORDS, POSITIONS) != one_by_one(random, RECORDS, POSITIONS)

"""The contracts of the demo: valid, of the next epoch, and made only from what they say they are made from."""

from __future__ import annotations

import pytest

from keylane.contract.answers import answers, weakest
from keylane.measure.self_test import contract_findings
from keylane.pipelines.demo import contracts
from keylane.pipelines.demo.traffic import CITIES

MORNING = {"heavy": 600.0, "half": 40.0, **{f"m{i}": 1.0 for i in range(5_000)}}
ALL = [*contracts.payments_choices(MORNING), *contracts.rides_choices(), *contracts.queries_choices(MORNING)]


def choice(name: str) -> contracts.DemoContract:
    return next(one for one in ALL if one.name == name)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_each_is_a_contract_with_nothing_to_say_against_it(one: contracts.DemoContract) -> None:
    assert [str(finding) for finding in contract_findings(one.contract)] == []
    assert one.contract.metadata.epoch == (1 if one.name.endswith("naive") else 2)


def test_all_differ() -> None:
    assert len({one.contract.fingerprint for one in ALL}) == len(ALL) == 9


def test_a_table_keeps_every_key_in_order_and_lists_only_heavy_ones() -> None:
    for name in ("payments-table", "queries-table"):
        contract = choice(name).contract
        assert weakest(answers(contract)) == "per-key"
        assert contract.spec.table is not None
        assert set(contract.spec.table.values) == {"heavy", "half"}


def test_the_heaviest_is_spread_by_order_and_the_other_heavy_one_stays_whole() -> None:
    contract = choice("payments-spread").contract
    assert [rule.keys for rule in contract.spec.hot_keys] == [("heavy",)]
    assert contract.spec.hot_keys[0].spread is not None
    assert contract.spec.hot_keys[0].spread.by == "order_id"
    assert contract.spec.table is not None
    assert list(contract.spec.table.values) == ["half"]


def test_no_spread_key_puts_more_than_half_a_mean_lane_on_a_lane() -> None:
    (rule,) = choice("payments-spread").contract.spec.hot_keys
    mean_lane = sum(MORNING.values()) / contracts.LANES
    assert rule.spread is not None
    assert rule.spread.lanes is not None
    assert (
        MORNING["heavy"] / len(rule.spread.lanes) <= 0.5 * mean_lane < MORNING["heavy"] / (len(rule.spread.lanes) - 1)
    )


def test_a_morning_without_heavy_keys_gives_plain_contracts() -> None:
    even = {f"m{i}": 1.0 for i in range(5_000)}
    for one in (*contracts.payments_choices(even), *contracts.queries_choices(even)):
        assert not one.contract.spec.hot_keys
        assert one.contract.spec.table is None


def test_a_key_that_looks_like_yaml_stays_a_key() -> None:
    odd = {'a: "b" # {c}': 600.0, "null": 600.0, **{f"m{i}": 1.0 for i in range(5_000)}}
    table = contracts.queries_choices(odd)[-1].contract.spec.table
    assert table is not None
    assert set(table.values) == {'a: "b" # {c}', "null"}


def test_lanes_of_a_city_follow_its_people() -> None:
    table = choice("rides-by-population").contract.spec.table
    assert table is not None
    widths = [len(lanes) if isinstance(lanes := table.values[city.name], tuple) else 1 for city in CITIES]
    assert widths == sorted(widths, reverse=True)
    assert (table.by, widths[0], widths[-1]) == ("ride_id", 12, 2)

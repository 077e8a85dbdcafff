from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from keylane.measure.self_test import collapse, contract_findings
from keylane.placement.partitioners import partitioner
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]

TIER = {"keys": ["vip"], "tier": {"stream": "t.vip", "lanes": 4}}
HOURLY = {"fields": ["k"], "window": {"field": "ts", "size": "1h"}}


def lane(key: str, lanes: int) -> int:
    found = partitioner("kafka-java").lane(key.encode(), lanes)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("golden", "spec"),
    [
        pytest.param({"key": "TT0124", "lane": 10}, {"lanes": 15}, id="a key"),
        pytest.param({"key": "TT0124", "lane": 10, "lanes": 15}, {"lanes": 12}, id="under another lane count"),
        pytest.param({"key": "TT0124", "lane": 10, "lanes": 15}, {"lanes": "live"}, id="under live lanes"),
        pytest.param({"key": "TT0124", "lane": 10, "stream": "t"}, {"lanes": 15}, id="with its stream"),
        pytest.param({"record": {"k": "TT0124"}, "lane": 10}, {"lanes": 15}, id="a record"),
        pytest.param({"key": "vip", "lane": lane("vip", 4), "stream": "t.vip"}, {"hot_keys": [TIER]}, id="in a tier"),
        pytest.param(
            {"record": {"k": "a", "ts": 3_600_001}, "lane": lane("a|3600000", 16)}, {"key": HOURLY}, id="in a window"
        ),
        pytest.param(
            {"key": ["a", "b"], "lane": lane("a|b", 16)}, {"key": {"fields": ["x", "y"]}}, id="of several fields"
        ),
    ],
)
def test_a_golden_example_that_holds_says_nothing(golden: Any, spec: Any, contract: Make) -> None:
    assert list(contract_findings(contract(golden=[golden], **spec))) == []


@pytest.mark.parametrize(
    ("golden", "spec", "message"),
    [
        pytest.param(
            {"key": "TT0124", "lane": 9},
            {"lanes": 15},
            r"promised lane 9 of t, .*lane 10 of t \(hash: murmur2 -> 0xaa07cf36; "
            r"placement: masked over 15 lanes -> lane 10\)",
            id="another lane",
        ),
        pytest.param(
            {"key": "TT0124", "lane": 10, "lanes": 16},
            {"lanes": 15},
            f"promised lane 10 of t, .*lane {lane('TT0124', 16)} of t",
            id="under another lane count",
        ),
        pytest.param(
            {"key": "vip", "lane": lane("vip", 4)},
            {"hot_keys": [TIER]},
            f"promised lane {lane('vip', 4)} of t, .*lane {lane('vip', 4)} of t.vip",
            id="in a tier that is not named",
        ),
        pytest.param(
            {"key": "", "lane": 0},
            {"key": {"fields": ["k"], "on_empty": "reject"}},
            "promised lane 0 of t, .*no lane: empty key",
            id="no lane at all",
        ),
        pytest.param({"record": {"x": 1}, "lane": 0}, {}, "no lane: .* 'k'", id="a field missing"),
        pytest.param(
            {"key": "hot", "lane": 0},
            {"hot_keys": [{"keys": ["hot"], "spread": {"over": 2, "by_position": True}}]},
            "no lane: by position",
            id="a lane by position",
        ),
    ],
)
def test_a_golden_example_that_breaks_is_an_error(golden: Any, spec: Any, message: str, contract: Make) -> None:
    (finding,) = contract_findings(contract(golden=[golden], **spec))
    assert (finding.severity, finding.where) == ("error", "spec.golden[0]")
    assert re.search(message, finding.message)


def test_every_broken_example_is_named(contract: Make) -> None:
    broken = {"key": "TT0124", "lane": 9}
    good = {"key": "TT0124", "lane": 10}
    findings = contract_findings(contract(lanes=15, golden=[broken, good, broken]))
    assert [finding.where for finding in findings] == ["spec.golden[0]", "spec.golden[2]"]


def keys_on(lanes: set[int], of: int, count: int) -> list[str]:
    """So many keys that Java puts on these lanes only, each lane in turn."""
    found: list[str] = []
    numbers = iter(range(100_000))
    while len(found) < count:
        wanted = sorted(lanes)[len(found) % len(lanes)]
        found.append(next(key for key in map("k{}".format, numbers) if lane(key, of) == wanted))
    return found


def tier(keys: list[str], lanes: int, **more: Any) -> dict[str, Any]:
    return {"hot_keys": [{"keys": keys, "tier": {"stream": "t.vip", "lanes": lanes, **more}}]}


@pytest.mark.parametrize("lanes", [16, "live"])
def test_chosen_keys_that_all_share_one_lane_of_their_tier_are_an_error(lanes: Any, contract: Make) -> None:
    (finding,) = contract_findings(contract(lanes=lanes, **tier(keys_on({1}, 2, 3), 2)))
    assert (finding.severity, finding.where) == ("error", "spec.hot_keys[0]")
    assert "3 keys collapse" in finding.message


def test_chosen_keys_that_use_far_too_few_lanes_are_a_warning(contract: Make) -> None:
    (finding,) = contract_findings(contract(**tier(keys_on({3, 7}, 12, 12), 12)))
    assert finding.severity == "warning"
    assert "12 keys use 2 of 12 lanes" in finding.message


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(tier(keys_on({0, 1}, 2, 3), 2), id="both lanes are used"),
        pytest.param(tier(keys_on({0}, 2, 2), 2), id="two keys may meet by chance"),
        pytest.param(tier(keys_on({0}, 1, 5), 1), id="there is one lane"),
        pytest.param(tier(keys_on({0}, 4, 5), 4, spread={"over": 2, "by": "o"}), id="the tier is spread"),
        pytest.param(tier(keys_on(set(range(12)), 12, 60), 12), id="as a fair hash has it"),
        pytest.param({**tier(keys_on({0}, 4, 5), 4), "key": HOURLY}, id="the window moves them"),
    ],
)
def test_chosen_keys_that_share_lanes_as_they_should_say_nothing(spec: Any, contract: Make) -> None:
    assert list(contract_findings(contract(**spec))) == []


def test_collapse_is_reported_by_chance_and_not_by_count() -> None:
    assert [f.severity for f in collapse("here", 1, 3, 2)] == ["error"]
    assert list(collapse("here", 1, 2, 2)) == []
    assert [f.severity for f in collapse("here", 4, 60, 60)] == ["warning"]
    assert list(collapse("here", 9, 12, 12)) == []
    assert list(collapse("here", 12, 10_000, 12)) == []


def test_a_lane_pinned_twice_is_a_warning_that_names_both_places(contract: Make) -> None:
    pins = [{"keys": ["a", "b"], "pin": {"lanes": [3, 5]}}, {"keys": ["c"], "pin": {"lanes": [3]}}]
    (finding,) = contract_findings(contract(hot_keys=pins))
    assert (finding.severity, finding.where) == ("warning", "spec.hot_keys[1].pin.lanes[0]")
    assert "spec.hot_keys[0].pin.lanes[0]" in finding.message


def test_a_lane_pinned_twice_by_one_rule_is_found_too(contract: Make) -> None:
    (finding,) = contract_findings(contract(hot_keys=[{"keys": ["a", "b", "c"], "pin": {"lanes": [3, 4, 3]}}]))
    assert finding.where == "spec.hot_keys[0].pin.lanes[2]"


def test_a_rule_that_gives_all_its_keys_one_lane_means_it(contract: Make) -> None:
    assert list(contract_findings(contract(hot_keys=[{"keys": ["a", "b"], "pin": {"lanes": [3, 3]}}]))) == []


def test_pins_on_lanes_of_their_own_say_nothing(contract: Make) -> None:
    assert list(contract_findings(contract(hot_keys=[{"keys": ["a", "b"], "pin": {"lanes": [3, 4]}}]))) == []


NO_NUMBER = {"key": {"fields": ["k"], "encoding": "int64be"}}


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        pytest.param({"hot_keys": [{"keys": ["abc"], "pin": {"lanes": [0]}}]}, "spec.hot_keys[0]", id="a pinned key"),
        pytest.param(
            {"hot_keys": [{"keys": ["abc", "d"], "tier": {"stream": "v", "lanes": 4}}]}, "spec.hot_keys[0]", id="a tier"
        ),
        pytest.param({"table": {"values": {"abc": 1}}}, "spec.table", id="a table's key"),
        pytest.param({"golden": [{"key": "abc", "lane": 0}]}, "spec.golden[0]", id="a golden key"),
    ],
)
def test_a_key_that_does_not_fit_its_encoding_is_found_before_a_router_meets_it(
    spec: Any, where: str, contract: Make
) -> None:
    """Either the file is refused, or `check` says it; a contract that passes both must make a router."""
    try:
        made = contract(**NO_NUMBER, **spec)
    except ValueError as refused:
        assert where in str(refused)  # noqa: PT017  both outcomes are right, and only one raises
        return
    findings = list(contract_findings(made))
    if not findings:
        Router(made)
        pytest.fail("nothing was found")
    assert findings[0].where.startswith(where)

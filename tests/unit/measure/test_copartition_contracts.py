from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from keylane.measure.copartition import compare_contracts

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]

TWO = {"fields": ["x", "y"]}
HOURLY = {"fields": ["k"], "window": {"field": "ts", "size": "1h"}}
RAW = {"fields": ["k"], "encoding": "raw"}


def hot(rule: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {"hot_keys": [{"keys": list(keys or ("a",)), **rule}]}


@pytest.mark.parametrize(
    ("one", "other", "where", "severity"),
    [
        pytest.param({}, {"lanes": 32}, "spec.lanes", "error", id="lane count"),
        pytest.param({}, {"partitioner": "murmur2-big-endian"}, "spec.partitioner", "error", id="hash"),
        pytest.param(
            {"partitioner": "sarama-hash"}, {"partitioner": "sarama-reference"}, "spec.partitioner", "error", id="fold"
        ),
        pytest.param({}, {"key": {"fields": ["k"], "encoding": "int64be"}}, "spec.key", "error", id="encoding"),
        pytest.param({}, {"key": TWO}, "spec.key", "error", id="number of fields"),
        pytest.param({"key": TWO}, {"key": {**TWO, "join": "-"}}, "spec.key", "error", id="join"),
        pytest.param({}, {"key": HOURLY}, "spec.key", "error", id="window"),
        pytest.param(
            {"key": HOURLY},
            {"key": {"fields": ["k"], "window": {"field": "ts", "size": "1d"}}},
            "spec.key",
            "error",
            id="window size",
        ),
        pytest.param(
            {"key": HOURLY},
            {"key": {"fields": ["k"], "window": {"field": "ts", "size": "1h", "as": "index"}}},
            "spec.key",
            "error",
            id="how a window is written",
        ),
        pytest.param({"key": RAW}, {"key": {**RAW, "registry_header": "strip"}}, "spec.key", "error", id="header"),
        pytest.param({}, {"key": {"fields": ["k"], "on_null": "reject"}}, "spec.key.on_null", "warning", id="on null"),
        pytest.param(
            {}, {"key": {"fields": ["k"], "on_empty": "reject"}}, "spec.key.on_empty", "warning", id="on empty"
        ),
        pytest.param({}, hot({"pin": {"lanes": [3]}}), "spec.hot_keys", "error", id="a hot key"),
        pytest.param(
            hot({"pin": {"lanes": [3]}}), hot({"pin": {"lanes": [4]}}), "spec.hot_keys", "error", id="the lane of a pin"
        ),
        pytest.param(
            hot({"spread": {"over": 2, "by": "o"}}),
            hot({"spread": {"over": 3, "by": "o"}}),
            "spec.hot_keys",
            "error",
            id="the width of a spread",
        ),
        pytest.param(
            hot({"tier": {"stream": "vip", "lanes": 4}}),
            hot({"tier": {"stream": "vip", "lanes": 8}}),
            "spec.hot_keys",
            "error",
            id="the lanes of a tier",
        ),
        pytest.param({}, {"table": {"values": {"a": 1}}}, "spec.table", "error", id="a table"),
        pytest.param(
            {"table": {"values": {"a": 1}}}, {"table": {"values": {"a": 2}}}, "spec.table", "error", id="a table's row"
        ),
    ],
)
def test_a_facet_that_differs_alone_is_found_alone(
    one: dict[str, Any], other: dict[str, Any], where: str, severity: str, contract: Make
) -> None:
    findings = compare_contracts({"a.yaml": contract(**one), "b.yaml": contract(**other)})
    assert [(finding.where, finding.severity) for finding in findings] == [(where, severity)]
    assert "a.yaml has" in findings[0].message
    assert "b.yaml has " in findings[0].message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({}, {"streams": ["refunds"]}, id="stream names"),
        pytest.param({}, {"key": {"fields": ["merchant"]}}, id="field names"),
        pytest.param({}, {"partitioner": "librdkafka-murmur2-random"}, id="members of one family"),
        pytest.param({}, {"key": {"fields": ["k"], "on_null": "sticky"}}, id="the client's rule written out"),
        pytest.param({"key": TWO}, {"key": {**TWO, "join": "|", "encoding": ["utf8", "utf8"]}}, id="defaults written"),
        pytest.param({}, {"expect": {"max_key_share": 0.1}}, id="expectations"),
        pytest.param({}, {"golden": [{"key": "a", "lane": 0}]}, id="golden examples"),
        pytest.param(
            hot({"pin": {"lanes": [3, 4]}}, "a", "b"),
            {"hot_keys": [{"keys": ["b"], "pin": {"lanes": [4]}}, {"keys": ["a"], "pin": {"lanes": [3]}}]},
            id="hot keys grouped otherwise",
        ),
        pytest.param(
            hot({"spread": {"lanes": [1, 2], "by": "o"}}),
            hot({"spread": {"lanes": [2, 1], "by": "o"}}),
            id="the lanes of a spread in another order",
        ),
        pytest.param(
            {"key": HOURLY},
            {"key": {"fields": ["k"], "window": {"field": "time", "size": "60m", "unit": "s"}}},
            id="one window in other words",
        ),
        pytest.param(
            hot({"tier": {"stream": "vip", "lanes": 4}}),
            hot({"tier": {"stream": "big", "lanes": 4}}),
            id="what a tier is called",
        ),
        pytest.param(
            {"table": {"values": {"a": 1}}}, {"table": {"values": {"a": [1]}}}, id="one lane and a list of one lane"
        ),
    ],
)
def test_what_moves_no_key_makes_no_difference(one: dict[str, Any], other: dict[str, Any], contract: Make) -> None:
    assert compare_contracts({"a": contract(**one), "b": contract(**other)}) == []


def test_of_three_the_odd_one_is_named(contract: Make) -> None:
    (finding,) = compare_contracts({"a": contract(), "b": contract(lanes=32), "c": contract()})
    assert "a has 16, b has 32, c has 16" in finding.message


def test_of_two_no_one_is_odd(contract: Make) -> None:
    (finding,) = compare_contracts({"a": contract(), "b": contract(lanes=32)})
    assert "odd" not in finding.message


def test_of_three_that_all_differ_no_one_is_odd(contract: Make) -> None:
    (finding,) = compare_contracts({"a": contract(), "b": contract(lanes=32), "c": contract(lanes=64)})
    assert "odd" not in finding.message


def test_every_difference_is_reported_at_once(contract: Make) -> None:
    other = contract(lanes=32, partitioner="sarama-reference", key={"fields": ["k"], "encoding": "int64be"})
    wheres = [finding.where for finding in compare_contracts({"a": contract(), "b": other})]
    assert wheres == ["spec.lanes", "spec.partitioner", "spec.key", "spec.key.on_null"]


def test_live_lanes_are_equal_only_if_the_clusters_say_so(contract: Make) -> None:
    (finding,) = compare_contracts({"a": contract(lanes="live"), "b": contract(lanes="live")})
    assert (finding.severity, finding.where) == ("warning", "spec.lanes")
    assert "clusters" in finding.message

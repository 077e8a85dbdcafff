"""What one field promises about another: each contradiction alone, and its twin without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from keylane.contract.validate import cross_problems
from keylane.errors import KeylaneError
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract
    from keylane.records import Finding


def hot(rule: str, keys: str = "a") -> str:
    return f"hot_keys: [{{keys: [{keys}], {rule}}}]"


def ranges(*rows: str, encoding: str = "int64be") -> str:
    return f"key: {{fields: [merchant], encoding: {encoding}}}\ntable: {{ranges: [{', '.join(rows)}]}}"


RULE = "spec.hot_keys[0]"
#: what is wrong: (the spec with it, where it is reported, part of the message, the spec without it)
CONTRADICTIONS = {
    # streams and key
    "a stream twice": ("streams: [a, b, a]", "spec.streams[2]", "given twice: got 'a'", "streams: [a, b, c]"),
    "a field twice": (
        "key: {fields: [a, b, a]}",
        "spec.key.fields[2]",
        "given twice: got 'a'",
        "key: {fields: [a, b, c]}",
    ),
    "fewer encodings than fields": (
        "key: {fields: [a, b, c], encoding: [utf8, uuid]}",
        "spec.key.encoding",
        "got 2 encodings; allowed: one, or 3",
        "key: {fields: [a, b, c], encoding: [utf8, uuid, raw]}",
    ),
    "more encodings than fields": (
        "key: {fields: [a], encoding: [utf8, uuid]}",
        "spec.key.encoding",
        "got 2 encodings; allowed: one, or 1",
        "key: {fields: [a], encoding: [utf8]}",
    ),
    "a registry header on text": (
        "key: {fields: [a], registry_header: strip}",
        "spec.key.registry_header",
        "registry header",
        "key: {fields: [a], registry_header: strip, encoding: raw}",
    ),
    "a registry header on a part of a key": (
        "key: {fields: [a, b], registry_header: strip, encoding: [raw, utf8]}",
        "spec.key.registry_header",
        "only a raw key",
        "key: {fields: [a], registry_header: strip, encoding: [raw]}",
    ),
    # what a client can hold
    "Kinesis with a number": (
        "partitioner: kinesis-md5\nkey: {fields: [a], encoding: int64be}",
        "spec.key.encoding",
        "got 'int64be'; allowed: utf8",
        "partitioner: kinesis-md5\nkey: {fields: [a], encoding: utf8}",
    ),
    "Pulsar with bytes in one of its fields": (
        "partitioner: pulsar-murmur3\nkey: {fields: [a, b], encoding: [utf8, raw]}",
        "spec.key.encoding",
        "got 'raw'",
        "partitioner: pulsar-murmur3\nkey: {fields: [a, b]}",
    ),
    "a hash of longs with text": (
        "partitioner: abs-long-hashcode",
        "spec.key.encoding",
        "got 'utf8'; allowed: int64be, h3",
        "partitioner: abs-long-hashcode\nkey: {fields: [a], encoding: h3}",
    ),
    "a hash of longs with two fields": (
        "partitioner: abs-long-hashcode\nkey: {fields: [a, b], encoding: int64be}",
        "spec.key.fields",
        "8-byte number",
        "partitioner: abs-long-hashcode\nkey: {fields: [a], encoding: int64be}",
    ),
    "a hash of longs with a window": (
        "partitioner: abs-long-hashcode\nkey: {fields: [a], encoding: h3, window: {field: at, size: 1h}}",
        "spec.key.fields",
        "hashes one 8-byte number",
        "partitioner: kafka-java\nkey: {fields: [a], encoding: h3, window: {field: at, size: 1h}}",
    ),
    # hot keys: which rule
    "a hot key without a rule": (
        "hot_keys: [{keys: [a]}]",
        RULE,
        "one of pins, pin, spread, tier",
        hot("pin: {lanes: [1]}"),
    ),
    "a hot key with two rules": (
        hot("pin: {lanes: [1]}, tier: {stream: vip, lanes: 4}"),
        RULE,
        "got pin, tier",
        hot("tier: {stream: vip, lanes: 4}"),
    ),
    "a hot key with three rules": (
        hot("pin: {lanes: [1]}, spread: {over: 2, by: o}, tier: {stream: vip, lanes: 4}"),
        RULE,
        "got pin, spread, tier",
        hot("pin: {lanes: [1]}, spread: null, tier: null"),
    ),
    # hot keys: which keys
    "a hot key of too few values": (
        "key: {fields: [a, b]}\n" + hot("pin: {lanes: [1]}", "x"),
        f"{RULE}.keys[0]",
        "got 1 value; allowed: 2",
        "key: {fields: [a, b]}\n" + hot("pin: {lanes: [1]}", "[x, y]"),
    ),
    "a hot key of too many values": (
        hot("pin: {lanes: [1]}", "[x, y]"),
        f"{RULE}.keys[0]",
        "got 2 values; allowed: 1",
        hot("pin: {lanes: [1]}", "[x]"),
    ),
    "a hot key twice in a rule": (
        hot("spread: {over: 2, by: o}", "a, b, a"),
        f"{RULE}.keys[2]",
        "got 'a'; first in hot_keys[0]",
        hot("spread: {over: 2, by: o}", "a, b, c"),
    ),
    "a hot key in two rules": (
        "hot_keys: [{keys: [a], pin: {lanes: [1]}}, {keys: [b, a], pin: {lanes: [2, 3]}}]",
        "spec.hot_keys[1].keys[1]",
        "got 'a'; first in hot_keys[0]",
        "hot_keys: [{keys: [a], pin: {lanes: [1]}}, {keys: [b, c], pin: {lanes: [2, 3]}}]",
    ),
    "a hot key of two fields in two rules": (
        "key: {fields: [a, b]}\nhot_keys: [{keys: [[x, 1]], pin: {lanes: [1]}}, {keys: [[x, 1]], pin: {lanes: [2]}}]",
        "spec.hot_keys[1].keys[0]",
        'given twice: got ["x", 1]',
        "key: {fields: [a, b]}\nhot_keys: [{keys: [[x, 1]], pin: {lanes: [1]}}, {keys: [[x, 2]], pin: {lanes: [2]}}]",
    ),
    # pins
    "a key of pins twice": (
        "hot_keys: [{pins: [{key: a, lane: 1}, {key: a, lane: 2}]}]",
        f"{RULE}.pins[1].key",
        "given twice: got 'a'",
        "hot_keys: [{pins: [{key: a, lane: 1}, {key: b, lane: 2}]}]",
    ),
    "a key pinned in both forms": (
        "hot_keys: [{pins: [{key: a, lane: 1}]}, {keys: [a], pin: {lanes: [2]}}]",
        "spec.hot_keys[1].keys[0]",
        "given twice: got 'a'",
        "hot_keys: [{pins: [{key: a, lane: 1}]}, {keys: [b], pin: {lanes: [2]}}]",
    ),
    "a lane of pins that is not there": (
        "lanes: 12\nhot_keys: [{pins: [{key: a, lane: 12}]}]",
        f"{RULE}.pins[0].lane",
        "no such lane: got 12",
        "lanes: 12\nhot_keys: [{pins: [{key: a, lane: 11}]}]",
    ),
    "keys beside pins": (
        "hot_keys: [{keys: [b], pins: [{key: a, lane: 1}]}]",
        f"{RULE}.keys",
        "pins names its own keys",
        "hot_keys: [{pins: [{key: a, lane: 1}]}]",
    ),
    "pins of a key of two fields": (
        "key: {fields: [a, b]}\nhot_keys: [{pins: [{key: x, lane: 1}]}]",
        f"{RULE}.pins[0].key",
        "got 1 value",
        "key: {fields: [a, b]}\nhot_keys: [{pins: [{key: [x, y], lane: 1}]}]",
    ),
    # pin
    "fewer pins than keys": (
        hot("pin: {lanes: [1]}", "a, b"),
        f"{RULE}.pin.lanes",
        "got 1 lanes for 2 keys",
        hot("pin: {lanes: [1, 1]}", "a, b"),
    ),
    "more pins than keys": (
        hot("pin: {lanes: [1, 2]}"),
        f"{RULE}.pin.lanes",
        "got 2 lanes for 1 keys",
        hot("pin: {lanes: [2]}"),
    ),
    "a pin to no lane": (
        hot("pin: {lanes: [0, 12]}", "a, b"),
        f"{RULE}.pin.lanes[1]",
        "got 12; allowed: 0 to 11",
        hot("pin: {lanes: [0, 11]}", "a, b"),
    ),
    # spread
    "a spread over nothing": (
        hot("spread: {by: o}"),
        f"{RULE}.spread",
        "one of over, lanes",
        hot("spread: {by: o, over: 2}"),
    ),
    "a spread over a number and a list": (
        hot("spread: {by: o, over: 2, lanes: [1, 2]}"),
        f"{RULE}.spread",
        "got over, lanes",
        hot("spread: {by: o, lanes: [1, 2]}"),
    ),
    "a spread by nothing": (
        hot("spread: {over: 2}"),
        f"{RULE}.spread",
        "one of by, by_position",
        hot("spread: {over: 2, by_position: true}"),
    ),
    "a spread by a field and by position": (
        hot("spread: {over: 2, by: o, by_position: true}"),
        f"{RULE}.spread",
        "got by, by_position",
        hot("spread: {over: 2, by: o, by_position: false}"),
    ),
    "a spread over more lanes than there are": (
        hot("spread: {over: 13, by: o}"),
        f"{RULE}.spread.over",
        "got 13; allowed: 2 to 12",
        hot("spread: {over: 12, by: o}"),
    ),
    "a spread to no lane": (
        hot("spread: {lanes: [3, 12], by: o}"),
        f"{RULE}.spread.lanes[1]",
        "got 12; allowed: 0 to 11",
        hot("spread: {lanes: [3, 11], by: o}"),
    ),
    "a spread to one lane twice": (
        hot("spread: {lanes: [3, 4, 3], by: o}"),
        f"{RULE}.spread.lanes",
        "got [3, 4, 3]",
        hot("spread: {lanes: [3, 4, 5], by: o}"),
    ),
    "a spread by the key itself": (
        hot("spread: {over: 2, by: merchant}"),
        f"{RULE}.spread.by",
        "got 'merchant'",
        hot("spread: {over: 2, by: order}"),
    ),
    # tier
    "a tier that is the stream itself": (
        hot("tier: {stream: payments, lanes: 4}"),
        f"{RULE}.tier.stream",
        "got 'payments'",
        hot("tier: {stream: payments.vip, lanes: 4}"),
    ),
    "a spread wider than its tier": (
        hot("tier: {stream: vip, lanes: 4, spread: {over: 5, by: o}}"),
        f"{RULE}.tier.spread.over",
        "got 5; allowed: 2 to 4",
        hot("tier: {stream: vip, lanes: 5, spread: {over: 5, by: o}}"),
    ),
    "a spread to no lane of its tier": (
        hot("tier: {stream: vip, lanes: 4, spread: {lanes: [0, 4], by: o}}"),
        f"{RULE}.tier.spread.lanes[1]",
        "got 4; allowed: 0 to 3",
        hot("tier: {stream: vip, lanes: 40, spread: {lanes: [0, 39], by: o}}"),
    ),
    "a spread in a tier by the key itself": (
        hot("tier: {stream: vip, lanes: 4, spread: {over: 2, by: merchant}}"),
        f"{RULE}.tier.spread.by",
        "a field of the key",
        hot("tier: {stream: vip, lanes: 4, spread: {over: 2, by: order}}"),
    ),
    # table
    "a table of nothing": (
        "table: {otherwise: hash}",
        "spec.table",
        "values or ranges is required",
        "table: {otherwise: hash, values: {a: 1}}",
    ),
    "a table for two fields": (
        "key: {fields: [a, b]}\ntable: {values: {x: 1}}",
        "spec.table",
        "got a, b",
        "key: {fields: [a]}\ntable: {values: {x: 1}}",
    ),
    "a table value on no lane": (
        "table: {values: {a: 11, b: 12}}",
        "spec.table.values.b",
        "got 12; allowed: 0 to 11",
        "table: {values: {a: 11, b: 0}}",
    ),
    "a table value on several lanes, one of which is none": (
        "table: {by: o, values: {a: [3, 12]}}",
        "spec.table.values.a[1]",
        "no such lane: got 12",
        "table: {by: o, values: {a: [3, 11]}}",
    ),
    "a table value on several lanes by nothing": (
        "table: {values: {a: [3, 4]}}",
        "spec.table.values.a",
        "sub-key; hint: by: FIELD",
        "table: {values: {a: [3]}}",
    ),
    "a table divided by the key itself": (
        "table: {by: merchant, values: {a: [3, 4]}}",
        "spec.table.by",
        "a field of the key",
        "table: {by: order, values: {a: [3, 4]}}",
    ),
    "ranges of UUIDs": (
        "key: {fields: [a], encoding: uuid}\ntable: {ranges: [{lane: 1}]}",
        "spec.table.ranges",
        "got 'uuid'; allowed: utf8, int32be, int64be, h3",
        "key: {fields: [a], encoding: h3}\ntable: {ranges: [{lane: 1}]}",
    ),
    "ranges of raw bytes": (
        "key: {fields: [a], encoding: [raw]}\ntable: {ranges: [{lane: 1}]}",
        "spec.table.ranges",
        "got 'raw'",
        "key: {fields: [a], encoding: [utf8]}\ntable: {ranges: [{lane: 1}]}",
    ),
    "a range on no lane": (
        ranges("{below: 5, lane: 12}"),
        "spec.table.ranges[0].lane",
        "got 12; allowed: 0 to 11",
        ranges("{below: 5, lane: 11}"),
    ),
    "a range of text among numbers": (
        ranges("{from: 0, below: '5', lane: 1}"),
        "spec.table.ranges[0]",
        "got 0 to '5'",
        ranges("{from: 0, below: 5, lane: 1}"),
    ),
    "a range of numbers among text": (
        ranges("{from: 0, below: 5, lane: 1}", encoding="utf8"),
        "spec.table.ranges[0]",
        "got 0 to 5",
        ranges("{from: '0', below: '5', lane: 1}", encoding="utf8"),
    ),
    "a range upside down": (
        ranges("{from: 5, below: 4, lane: 1}"),
        "spec.table.ranges[0]",
        "not below 4",
        ranges("{from: 4, below: 5, lane: 1}"),
    ),
    "a range of nothing": (
        ranges("{from: 5, below: 5, lane: 1}"),
        "spec.table.ranges[0]",
        "not below 5",
        ranges("{from: -5, below: 5, lane: 1}"),
    ),
    "ranges that overlap": (
        ranges("{from: 0, below: 10, lane: 1}", "{from: 9, below: 20, lane: 2}"),
        "spec.table.ranges[1]",
        "overlaps ranges[0]",
        ranges("{from: 0, below: 10, lane: 1}", "{from: 10, below: 20, lane: 2}"),
    ),
    "a range inside another": (
        ranges("{from: 4, below: 5, lane: 2}", "{from: 0, below: 10, lane: 1}"),
        "spec.table.ranges[1]",
        "overlaps ranges[0]",
        ranges("{from: 4, below: 5, lane: 2}", "{from: 0, below: 4, lane: 1}"),
    ),
    "two ranges open below": (
        ranges("{below: 5, lane: 1}", "{below: 9, lane: 2}"),
        "spec.table.ranges[1]",
        "overlaps ranges[0]",
        ranges("{below: 5, lane: 1}", "{from: 5, below: 9, lane: 2}"),
    ),
    "two ranges open above": (
        ranges("{from: b, lane: 1}", "{from: a, lane: 2}", encoding="utf8"),
        "spec.table.ranges[1]",
        "overlaps ranges[0]",
        ranges("{from: b, lane: 1}", "{from: a, below: b, lane: 2}", encoding="utf8"),
    ),
    "a range open on both sides beside another": (
        ranges("{lane: 1}", "{from: 1, below: 2, lane: 2}"),
        "spec.table.ranges[1]",
        "overlaps ranges[0]",
        ranges("{lane: 1}"),
    ),
    # golden
    "a golden example of nothing": (
        "golden: [{lane: 1}]",
        "spec.golden[0]",
        "one of key, record",
        "golden: [{lane: 1, key: a}]",
    ),
    "a golden example of a key and a record": (
        "golden: [{lane: 1, key: a, record: {merchant: a}}]",
        "spec.golden[0]",
        "got key, record",
        "golden: [{lane: 1, record: {merchant: a}}]",
    ),
    "a golden key of too few values": (
        "key: {fields: [a, b]}\ngolden: [{lane: 1, key: x}]",
        "spec.golden[0].key",
        "got 1 value; allowed: 2",
        "key: {fields: [a, b]}\ngolden: [{lane: 1, key: [x, y]}]",
    ),
    "a golden example on no lane": (
        "golden: [{lane: 0, key: a}, {lane: 12, key: b}]",
        "spec.golden[1].lane",
        "got 12; allowed: 0 to 11",
        "golden: [{lane: 0, key: a}, {lane: 11, key: b}]",
    ),
    "a golden example on no lane of its own count": (
        "golden: [{lane: 8, lanes: 8, key: a}]",
        "spec.golden[0].lane",
        "got 8; allowed: 0 to 7",
        "golden: [{lane: 63, lanes: 64, key: a}]",
    ),
    "a golden example of a live count": (
        "lanes: live\ngolden: [{lane: 8, key: a}]",
        "spec.golden[0]",
        "hint: lanes: N",
        "lanes: live\ngolden: [{lane: 8, lanes: 9, key: a}]",
    ),
}

#: Contradictions that would otherwise show at run time or never: (the spec, where it begins, the spec without it)
HIDDEN = {
    "a hot key as a number and as its digits": (
        "hot_keys: [{keys: [7], pin: {lanes: [1]}}, {keys: ['7'], pin: {lanes: [2]}}]",
        "spec.hot_keys[1]",
        "hot_keys: [{keys: [7], pin: {lanes: [1]}}, {keys: ['8'], pin: {lanes: [2]}}]",
    ),
    "a hot key alone and in a list of one": (
        "hot_keys: [{keys: [a], pin: {lanes: [1]}}, {keys: [[a]], pin: {lanes: [2]}}]",
        "spec.hot_keys[1]",
        "hot_keys: [{keys: [a], pin: {lanes: [1]}}, {keys: [[b]], pin: {lanes: [2]}}]",
    ),
    "a table value as a number and as its digits": (
        "table: {values: {7: 1, '7': 2}}",
        "spec.table.values",
        "table: {values: {7: 1, '8': 2}}",
    ),
    "a table value on one lane twice": (
        "table: {by: o, values: {a: [3, 3]}}",
        "spec.table.values.a",
        "table: {by: o, values: {a: [3, 4]}}",
    ),
    "a hot key that its encoding cannot hold": (
        "key: {fields: [a], encoding: int64be}\n" + hot("pin: {lanes: [1]}", "abc"),
        "spec.hot_keys[0].keys[0]",
        "key: {fields: [a], encoding: int64be}\n" + hot("pin: {lanes: [1]}", "7"),
    ),
    "a table value that its encoding cannot hold": (
        "key: {fields: [a], encoding: int32be}\ntable: {values: {abc: 1}}",
        "spec.table.values",
        "key: {fields: [a], encoding: int32be}\ntable: {values: {7: 1}}",
    ),
    "a spread by one of the key's fields": (
        "key: {fields: [a, b]}\n" + hot("spread: {over: 2, by: b}", "[x, y]"),
        "spec.hot_keys[0].spread.by",
        "key: {fields: [a, b]}\n" + hot("spread: {over: 2, by: c}", "[x, y]"),
    ),
    "a hot key under a client that ignores keys": (
        "partitioner: librdkafka-random\n" + hot("pin: {lanes: [1]}"),
        "spec",
        "partitioner: librdkafka-consistent-random\n" + hot("pin: {lanes: [1]}"),
    ),
    "a table under a client that ignores keys": (
        "partitioner: librdkafka-random\ntable: {values: {a: 1}}",
        "spec",
        "partitioner: librdkafka-consistent-random\ntable: {values: {a: 1}}",
    ),
    "null keys hashed by a client that has no hash": (
        "partitioner: librdkafka-random\nkey: {fields: [a], on_null: hash}",
        "spec",
        "partitioner: librdkafka-random\nkey: {fields: [a], on_null: round_robin}",
    ),
    "a tier with two lane counts": (
        "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 8}}, {keys: [b], tier: {stream: vip, lanes: 16}}]",
        "spec.hot_keys[1].tier",
        "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 8}}, {keys: [b], tier: {stream: vip, lanes: 8}}]",
    ),
    "a golden example on no lane of the stream it names": (
        "golden: [{key: a, lane: 12, stream: payments}]",
        "spec.golden[0]",
        "golden: [{key: a, lane: 11, stream: payments}]",
    ),
    "a golden example in a stream that nobody has": (
        "golden: [{key: a, lane: 1, stream: elsewhere}]",
        "spec.golden[0].stream",
        "golden: [{key: a, lane: 1, stream: vip}]\n" + hot("tier: {stream: vip, lanes: 4}"),
    ),
}


@pytest.mark.parametrize(
    ("bad", "where", "message"),
    [(bad, where, message) for bad, where, message, _ in CONTRADICTIONS.values()],
    ids=CONTRADICTIONS.keys(),
)
def test_a_contradiction_is_the_only_thing_reported(
    bad: str, where: str, message: str, findings: Callable[..., list[Finding]]
) -> None:
    (finding,) = findings(bad)
    assert (finding.severity, finding.where) == ("error", where)
    assert message in finding.message


@pytest.mark.parametrize("good", [case[-1] for case in CONTRADICTIONS.values()], ids=CONTRADICTIONS.keys())
def test_without_the_contradiction_nothing_is_reported(good: str, findings: Callable[..., list[Finding]]) -> None:
    assert findings(good) == []


@pytest.mark.parametrize(("bad", "where"), [case[:2] for case in HIDDEN.values()], ids=HIDDEN.keys())
def test_a_contradiction_that_a_router_would_stumble_over_is_reported(
    bad: str, where: str, findings: Callable[..., list[Finding]]
) -> None:
    assert [finding.where for finding in findings(bad) if finding.where.startswith(where)]


@pytest.mark.parametrize("good", [case[-1] for case in HIDDEN.values()], ids=HIDDEN.keys())
def test_without_the_hidden_contradiction_nothing_is_reported(
    good: str, findings: Callable[..., list[Finding]]
) -> None:
    assert findings(good) == []


@pytest.mark.parametrize(
    "good",
    [case[-1] for case in (*CONTRADICTIONS.values(), *HIDDEN.values())],
    ids=[*CONTRADICTIONS.keys(), *HIDDEN.keys()],
)
def test_a_contract_without_contradictions_makes_a_router(good: str, contract: Callable[..., Contract]) -> None:
    made = contract(good)
    lanes = 12 if made.spec.lanes == "live" else None
    try:
        Router(made, lanes=lanes)
    except KeylaneError as error:
        pytest.fail(f"examined and found good, yet: {error}")


def test_a_live_lane_count_leaves_lane_numbers_to_the_cluster(findings: Callable[..., list[Finding]]) -> None:
    spec = """
        lanes: live
        hot_keys:
          - {keys: [a], pin: {lanes: [99999]}}
          - {keys: [b], spread: {over: 256, by: o}}
          - {keys: [c], spread: {lanes: [0, 99999], by: o}}
        table: {values: {d: 99999}, ranges: [{from: m, lane: 99999}]}
    """
    assert findings(spec) == []


@pytest.mark.parametrize("hole", [{}, None, [], 7, "text", {"spec": None}, {"spec": {}}], ids=repr)
def test_what_is_missing_is_left_to_the_model(hole: Any) -> None:
    assert list(cross_problems(hole)) == []


def test_contradictions_are_found_although_another_field_is_misspelt(findings: Callable[..., list[Finding]]) -> None:
    found = findings("partitoner: kafka-java\nhot_keys: [{keys: [a], pin: {lanes: [12]}}]")
    assert {finding.where for finding in found} == {"spec.partitoner", "spec.hot_keys[0].pin.lanes[0]"}


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        pytest.param(
            "lanes: 0\n" + hot("pin: {lanes: [1]}") + "\ngolden: [{key: a, lane: 1}]",
            "spec.lanes",
            id="a lane count of zero has no lanes to be outside of",
        ),
        pytest.param(
            ranges("{from: a, below: b, lane: 1}", encoding="utf-8"),
            "spec.key.encoding",
            id="an unknown encoding has no order to contradict",
        ),
    ],
)
def test_a_wrong_value_is_not_held_against_others(
    spec: str, where: str, findings: Callable[..., list[Finding]]
) -> None:
    """`cross` leaves what is missing or wrong to the model; it must not report its consequences as problems."""
    assert {finding.where for finding in findings(spec)} == {where}


class Counted:
    """How often two values were compared."""

    times = 0


class Text(str):
    """A text that counts its comparisons."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        Counted.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class Number(int):
    """A number that counts its comparisons."""

    __slots__ = ()

    def __lt__(self, other: int) -> bool:
        Counted.times += 1
        return int.__lt__(self, other)


SIZE = 600
TEXTS = [Text(f"s{i}") for i in range(SIZE)]
RANGES = [{"from": Number(i), "below": Number(i + 1), "lane": 0} for i in range(SIZE)]
WIDE: dict[str, dict[str, Any]] = {
    "streams": {"streams": TEXTS},
    "fields": {"key": {"fields": TEXTS}},
    "hot keys of one rule": {"hot_keys": [{"keys": TEXTS, "spread": {"over": 2, "by": "order"}}]},
    "ranges of a table": {"key": {"encoding": "int64be"}, "table": {"ranges": RANGES}},
}


@pytest.mark.parametrize("spec", WIDE.values(), ids=WIDE.keys())
def test_a_wide_list_is_not_compared_each_with_each(spec: dict[str, Any]) -> None:
    """A quarter of a megabyte holds 7,000 ranges: compared each with each, such a file takes eleven seconds."""
    Counted.times = 0
    assert list(cross_problems({"spec": spec})) == []
    assert Counted.times < 40 * SIZE

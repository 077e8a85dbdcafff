"""One number for the promise: what it depends on, and what it must not depend on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from keylane.contract.fingerprint import fingerprint, placement_fingerprint
from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

#: A contract that uses every placement field: what its fingerprint is made of cannot change unnoticed.
EVERY_FIELD = """
    streams: [payments, refunds]
    lanes: 64
    key:
      fields: [merchant, region]
      encoding: [utf8, int32be]
      join: "/"
      window: {field: at, size: 1h, unit: s, as: index}
      on_null: round_robin
      on_empty: reject
    partitioner: kafka-java
    hot_keys:
      - {keys: [[händler, 1], [b, 2]], pin: {lanes: [5, 3]}}
      - {keys: [[c, 3]], spread: {lanes: [1, 2], by: order}}
      - {keys: [[d, 4]], tier: {stream: vip, lanes: 16, spread: {over: 4, by_position: true}}}
"""
GOLDEN_DESIGN = "dc517e5ed2de406258080e4b8af31d429726914a94ca8d4ba61a58581c91cba5"
GOLDEN_DESIGN_PLACEMENT = "85d81ea380ac7df4e527595649f2563ca4a639a81b59774e8f7f0f41d86e3295"
GOLDEN_EVERY_FIELD = "d2ea9aea2cb75e4aabde8e8cb7b8a3fab450bb9e63da7ead49639bce4ec0048f"

LAYOUTS = {
    "flow style": """\
{apiVersion: keylane/v1, kind: RoutingContract, metadata: {name: payments}, spec: {streams: [payments],
 lanes: 12, key: {fields: [merchant]}, partitioner: kafka-java}}""",
    "fields in another order": """\
spec:
  partitioner: kafka-java
  key: {fields: [merchant]}
  lanes: 12
  streams: [payments]
metadata: {name: payments}
kind: RoutingContract
apiVersion: keylane/v1
""",
    "comments, quotes and blank lines": """\
# who routes payments
apiVersion: "keylane/v1"

kind: 'RoutingContract'
metadata:
  name: "payments"   # the same in every epoch
spec:
    streams:
    - 'payments'
    lanes:     12

    key:
      fields:
      - merchant
    partitioner: >-
      kafka-java
""",
    "JSON": """\
{"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "payments"}, "spec":
{"streams": ["payments"], "lanes": 12, "key": {"fields": ["merchant"]}, "partitioner": "kafka-java"}}""",
    "defaults written out": """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments, epoch: 1, owner: null, labels: {}}
spec:
  streams: [payments]
  lanes: 12
  key: {fields: [merchant], encoding: utf8, join: null, window: null, on_null: client, on_empty: client,
        registry_header: keep}
  partitioner: kafka-java
  hot_keys: []
  table: null
  expect: {max_over_mean: null, max_key_share: null, min_distinct_keys: null, max_null_share: null}
  golden: []
""",
    "an encoding for the only field": """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec: {streams: [payments], lanes: 12, key: {fields: [merchant], encoding: [utf8]}, partitioner: kafka-java}
""",
}


def hot(*rules: str) -> str:
    return f"hot_keys: [{', '.join(f'{{{rule}}}' for rule in rules)}]"


#: Two ways to write the same placement.
SAME = {
    "streams in another order": ("streams: [a, b, c]", "streams: [c, a, b]"),
    "hot keys in another order": (
        hot("keys: [a], pin: {lanes: [1]}", "keys: [b], spread: {over: 2, by: o}"),
        hot("keys: [b], spread: {over: 2, by: o}", "keys: [a], pin: {lanes: [1]}"),
    ),
    "keys of a rule in another order": (
        hot("keys: [a, b, 3], spread: {over: 2, by: o}"),
        hot("keys: [3, b, a], spread: {over: 2, by: o}"),
    ),
    "a rule for two keys, or two rules": (
        hot("keys: [a, b], spread: {over: 2, by: o}"),
        hot("keys: [a], spread: {over: 2, by: o}", "keys: [b], spread: {over: 2, by: o}"),
    ),
    "keys and pins permuted together": (
        hot("keys: [a, b, c], pin: {lanes: [1, 2, 3]}"),
        hot("keys: [c, a, b], pin: {lanes: [3, 1, 2]}"),
    ),
    "pins in one rule, or in three": (
        hot("keys: [a, b, c], pin: {lanes: [1, 2, 3]}"),
        hot("keys: [b], pin: {lanes: [2]}", "keys: [a], pin: {lanes: [1]}", "keys: [c], pin: {lanes: [3]}"),
    ),
    "the lanes of a spread in another order": (
        hot("keys: [a], spread: {lanes: [3, 1, 2], by: o}"),
        hot("keys: [a], spread: {lanes: [1, 2, 3], by: o}"),
    ),
    "the lanes of a spread in a tier in another order": (
        hot("keys: [a], tier: {stream: vip, lanes: 8, spread: {lanes: [3, 1], by: o}}"),
        hot("keys: [a], tier: {stream: vip, lanes: 8, spread: {lanes: [1, 3], by: o}}"),
    ),
    "a spread by a field, and not by position": (
        hot("keys: [a], spread: {over: 2, by: o}"),
        hot("keys: [a], spread: {over: 2, by: o, by_position: false, lanes: null}"),
    ),
    "the rows of a table in another order": (
        "table: {values: {a: 1, b: 2}, ranges: [{from: m, below: n, lane: 1}, {from: x, lane: 2}]}",
        "table: {values: {b: 2, a: 1}, ranges: [{from: x, lane: 2}, {from: m, below: n, lane: 1}]}",
    ),
    "a table value on one lane, or on a list of one": ("table: {values: {a: 1}}", "table: {values: {a: [1]}}"),
    "the lanes of a table value in another order": (
        "table: {by: o, values: {a: [3, 1]}}",
        "table: {by: o, values: {a: [1, 3]}}",
    ),
    "the default of a table written out": ("table: {values: {a: 1}}", "table: {values: {a: 1}, otherwise: hash}"),
    "one encoding for all, or for each": (
        "key: {fields: [a, b], encoding: uuid}",
        "key: {fields: [a, b], encoding: [uuid, uuid]}",
    ),
    "the default of a window written out": (
        "key: {fields: [a], window: {field: at, size: 1h}}",
        "key: {fields: [a], window: {field: at, size: 1h, unit: ms, as: start_ms}}",
    ),
    "the default joiner of text written out": ("key: {fields: [a, b]}", "key: {fields: [a, b], join: '|'}"),
    "the default joiner of fixed widths written out": (
        "key: {fields: [a, b], encoding: uuid}",
        "key: {fields: [a, b], encoding: uuid, join: ''}",
    ),
    "a joiner with nothing to join": ("key: {fields: [a]}", "key: {fields: [a], join: '|'}"),
}

#: A change of one field that places some key elsewhere.
DIFFERENT = {
    "lanes": ("lanes: 12", "lanes: 13"),
    "lanes live": ("lanes: 12", "lanes: live"),
    "partitioner": ("partitioner: kafka-java", "partitioner: librdkafka-consistent"),
    "null rule of the client": ("partitioner: kafka-java", "partitioner: librdkafka-murmur2"),
    "key fields": ("key: {fields: [a]}", "key: {fields: [b]}"),
    "order of the key fields": ("key: {fields: [a, b]}", "key: {fields: [b, a]}"),
    "encoding": ("key: {fields: [a]}", "key: {fields: [a], encoding: int64be}"),
    "order of the encodings": (
        "key: {fields: [a, b], encoding: [utf8, uuid]}",
        "key: {fields: [a, b], encoding: [uuid, utf8]}",
    ),
    "join": ("key: {fields: [a, b]}", "key: {fields: [a, b], join: '/'}"),
    "on_null": ("key: {fields: [a]}", "key: {fields: [a], on_null: reject}"),
    "on_empty": ("key: {fields: [a]}", "key: {fields: [a], on_empty: reject}"),
    "registry header": (
        "key: {fields: [a], encoding: raw}",
        "key: {fields: [a], encoding: raw, registry_header: strip}",
    ),
    "a window": ("key: {fields: [a]}", "key: {fields: [a], window: {field: at, size: 1h}}"),
    "a window's field": (
        "key: {fields: [a], window: {field: at, size: 1h}}",
        "key: {fields: [a], window: {field: seen, size: 1h}}",
    ),
    "a window's size": (
        "key: {fields: [a], window: {field: at, size: 1h}}",
        "key: {fields: [a], window: {field: at, size: 2h}}",
    ),
    "a window's unit": (
        "key: {fields: [a], window: {field: at, size: 1h}}",
        "key: {fields: [a], window: {field: at, size: 1h, unit: s}}",
    ),
    "how a window is written": (
        "key: {fields: [a], window: {field: at, size: 1h}}",
        "key: {fields: [a], window: {field: at, size: 1h, as: index}}",
    ),
    "a hot key more": ("hot_keys: []", hot("keys: [a], pin: {lanes: [1]}")),
    "which hot key": (hot("keys: [a], pin: {lanes: [1]}"), hot("keys: [b], pin: {lanes: [1]}")),
    "where a key is pinned": (hot("keys: [a], pin: {lanes: [1]}"), hot("keys: [a], pin: {lanes: [2]}")),
    "pins without their keys permuted": (
        hot("keys: [a, b], pin: {lanes: [1, 2]}"),
        hot("keys: [a, b], pin: {lanes: [2, 1]}"),
    ),
    "how wide a spread is": (
        hot("keys: [a], spread: {over: 2, by: o}"),
        hot("keys: [a], spread: {over: 3, by: o}"),
    ),
    "which lanes a spread has": (
        hot("keys: [a], spread: {lanes: [1, 2], by: o}"),
        hot("keys: [a], spread: {lanes: [1, 3], by: o}"),
    ),
    "what a spread goes by": (
        hot("keys: [a], spread: {over: 2, by: o}"),
        hot("keys: [a], spread: {over: 2, by: p}"),
    ),
    "a spread by position": (
        hot("keys: [a], spread: {over: 2, by: o}"),
        hot("keys: [a], spread: {over: 2, by_position: true}"),
    ),
    "which tier": (
        hot("keys: [a], tier: {stream: vip, lanes: 4}"),
        hot("keys: [a], tier: {stream: top, lanes: 4}"),
    ),
    "lanes of a tier": (
        hot("keys: [a], tier: {stream: vip, lanes: 4}"),
        hot("keys: [a], tier: {stream: vip, lanes: 8}"),
    ),
    "a spread in a tier": (
        hot("keys: [a], tier: {stream: vip, lanes: 4}"),
        hot("keys: [a], tier: {stream: vip, lanes: 4, spread: {over: 2, by: o}}"),
    ),
    "a table": ("table: null", "table: {values: {a: 1}}"),
    "a table value": ("table: {values: {a: 1}}", "table: {values: {b: 1}}"),
    "a table value's lane": ("table: {values: {a: 1}}", "table: {values: {a: 2}}"),
    "a table value's lanes": ("table: {by: o, values: {a: [1, 2]}}", "table: {by: o, values: {a: [1, 3]}}"),
    "what a table goes by": ("table: {by: o, values: {a: [1, 2]}}", "table: {by: p, values: {a: [1, 2]}}"),
    "what a table does otherwise": ("table: {values: {a: 1}}", "table: {values: {a: 1}, otherwise: reject}"),
    "where a range begins": ("table: {ranges: [{from: a, lane: 1}]}", "table: {ranges: [{from: b, lane: 1}]}"),
    "where a range ends": ("table: {ranges: [{below: a, lane: 1}]}", "table: {ranges: [{below: b, lane: 1}]}"),
    "a range's lane": ("table: {ranges: [{from: a, lane: 1}]}", "table: {ranges: [{from: a, lane: 2}]}"),
    "which side of a range is open": (
        "table: {ranges: [{from: a, lane: 1}]}",
        "table: {ranges: [{below: a, lane: 1}]}",
    ),
}


def test_a_fingerprint_is_64_hex_digits(contract: Callable[..., Contract]) -> None:
    assert re.fullmatch("[0-9a-f]{64}", fingerprint(contract()))
    assert re.fullmatch("[0-9a-f]{64}", placement_fingerprint(contract()))
    assert fingerprint(contract()) != placement_fingerprint(contract())


def test_the_fingerprint_of_a_released_contract_never_changes(
    design_example: str, contract: Callable[..., Contract]
) -> None:
    """It is in record headers and checkpoints of running systems: another number would be another contract."""
    assert fingerprint(parse_contract(design_example)) == GOLDEN_DESIGN
    assert placement_fingerprint(parse_contract(design_example)) == GOLDEN_DESIGN_PLACEMENT
    assert fingerprint(contract(EVERY_FIELD, "{name: payments, epoch: 3}")) == GOLDEN_EVERY_FIELD


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_layout_is_not_part_of_a_fingerprint(text: str, contract: Callable[..., Contract]) -> None:
    assert fingerprint(parse_contract(text)) == fingerprint(contract())


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_two_ways_to_write_one_placement_have_one_fingerprint(
    one: str, other: str, contract: Callable[..., Contract]
) -> None:
    assert fingerprint(contract(one)) == fingerprint(contract(other))
    assert placement_fingerprint(contract(one)) == placement_fingerprint(contract(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_another_placement_has_another_fingerprint(one: str, other: str, contract: Callable[..., Contract]) -> None:
    assert fingerprint(contract(one)) != fingerprint(contract(other))
    assert placement_fingerprint(contract(one)) != placement_fingerprint(contract(other))


@pytest.mark.parametrize(
    ("spec", "metadata"),
    [
        pytest.param("", "{name: payments, epoch: 2}", id="epoch"),
        pytest.param("", "{name: refunds}", id="name"),
        pytest.param("streams: [refunds]", "{name: payments}", id="streams"),
        pytest.param("streams: [payments, refunds]", "{name: payments}", id="a stream more"),
    ],
)
def test_whose_placement_it_is_changes_the_fingerprint_but_not_that_of_the_placement(
    spec: str, metadata: str, contract: Callable[..., Contract]
) -> None:
    assert fingerprint(contract(spec, metadata)) != fingerprint(contract())
    assert placement_fingerprint(contract(spec, metadata)) == placement_fingerprint(contract())


@pytest.mark.parametrize(
    ("spec", "metadata"),
    [
        pytest.param("", "{name: payments, owner: team-a}", id="owner"),
        pytest.param("", "{name: payments, labels: {tier: gold}}", id="labels"),
        pytest.param("expect: {max_over_mean: 1.3, max_null_share: 0}", "{name: payments}", id="expect"),
        pytest.param("golden: [{key: a, lane: 3}]", "{name: payments}", id="golden"),
    ],
)
def test_what_says_nothing_about_where_a_record_goes_is_in_neither_fingerprint(
    spec: str, metadata: str, contract: Callable[..., Contract]
) -> None:
    assert fingerprint(contract(spec, metadata)) == fingerprint(contract())
    assert placement_fingerprint(contract(spec, metadata)) == placement_fingerprint(contract())


def test_two_keys_that_look_alike_are_not_one(contract: Callable[..., Contract]) -> None:
    """Neither how a key is cut into fields nor which letters it has may be lost on the way to a digest."""
    specs = [
        "key: {fields: [a, b]}\n" + hot(f"keys: [{key}], pin: {{lanes: [1]}}")
        for key in (
            "[x, yz]",
            "[xy, z]",
            "[x, 'y z']",
            "[x, 7]",
            "['x, y', z]",
            "['', xyz]",
            "[ä, yz]",
            '["\\xe5", yz]',
        )
    ]
    assert len({fingerprint(contract(spec)) for spec in specs}) == len(specs)


def test_asking_twice_gives_the_same_and_changes_nothing(contract: Callable[..., Contract]) -> None:
    made = contract(EVERY_FIELD)
    before = made.model_dump_json()
    assert fingerprint(made) == fingerprint(made)
    assert made.model_dump_json() == before


def test_pins_in_either_form_are_one_promise(contract: Callable[..., Contract]) -> None:
    """The same number, the same answers and the same lanes, whichever way they are written."""
    from keylane import Router
    from keylane.contract.answers import answers

    old, new, other = (
        contract(f"hot_keys: [{text}]")
        for text in (
            "{keys: [a, b], pin: {lanes: [5, 3]}}",
            "{pins: [{key: b, lane: 3}, {key: a, lane: 5}]}",
            "{pins: [{key: b, lane: 5}, {key: a, lane: 3}]}",
        )
    )
    assert (fingerprint(old), answers(old)) == (fingerprint(new), answers(new))
    assert fingerprint(new) != fingerprint(other)
    for key in ("a", "b", "c"):
        assert Router(old).place({"merchant": key}).lane == Router(new).place({"merchant": key}).lane

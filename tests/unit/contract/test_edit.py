"""A contract's text is changed where the contract changes: what people wrote stays, letter by letter."""

from __future__ import annotations

from difflib import ndiff

import pytest

from keylane.contract.edit import edited_text
from keylane.contract.parse import parse_contract

OURS = """\
# yaml-language-server: $schema=./keylane-contract.schema.json
# Payments of the shop. Ask Anna before you change it.
apiVersion: keylane/v1
kind: RoutingContract
metadata:
  name: payments   # as the topic
  epoch: 4
  owner: 'anna'
spec:
  streams: [payments]
  # eight since 2021
  lanes: 8  # as the topic has
  key:
    fields: [merchant]   # the id
    encoding: utf8
  partitioner: "kafka-java"

  # agreed with finance
  expect: {max_over_mean: 3.0}
  golden:
    - {key: a, lane: 1}  # seen in production
    - {key: b, lane: 2}
"""
PINNED = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: "payments", epoch: 5, owner: "anna"}
spec:
  streams: ["payments"]
  lanes: 8
  key: {fields: ["merchant"]}
  partitioner: kafka-java
  hot_keys:
    - pins:
        # lane 3: 2 keys, 12.0% of the records
        - {key: "A", lane: 3}  # 8.1%
        - {key: "B", lane: 3}  # 3.9%
  expect: {max_over_mean: 3.0}
"""
PINS = PINNED[PINNED.index("  hot_keys") : PINNED.index("  expect")]


def changed(former: str, wanted: str, golden: int = 0) -> tuple[list[str], list[str]]:
    """The lines that go, and those that come."""
    before = parse_contract(former)
    text = edited_text(former, before, wanted, before.spec.golden[:golden])
    found = parse_contract(text)
    assert (found.fingerprint, len(found.spec.golden)) == (parse_contract(wanted).fingerprint, golden)
    lines = list(ndiff(former.splitlines(), text.splitlines()))
    return [line[2:] for line in lines if line[0] == "-"], [line[2:] for line in lines if line[0] == "+"]


def test_a_commented_contract_keeps_all_but_what_changes() -> None:
    gone, come = changed(OURS, PINNED, golden=1)
    assert gone == ["  epoch: 4", "    - {key: b, lane: 2}"]
    assert come == ["  epoch: 5", *PINS.splitlines()]


def test_a_contract_that_is_the_same_in_meaning_is_not_touched() -> None:
    same = PINNED.replace("epoch: 5", "epoch: 4").replace(PINS, "")
    before = parse_contract(OURS)
    assert edited_text(OURS, before, same, before.spec.golden) == OURS


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_stay(ends: str, mark: str) -> None:
    former = mark + OURS.replace("\n", ends)
    text = edited_text(former, parse_contract(former), PINNED)
    assert text.startswith(mark + "# yaml-language-server")
    assert text.count("\n") == text.count(ends)
    assert parse_contract(text).metadata.epoch == 5


def test_what_is_in_one_line_is_opened_only_where_more_than_a_line_comes() -> None:
    former = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}  # ours
spec: {streams: [payments], lanes: 6, key: {fields: [merchant], encoding: utf8}, partitioner: kafka-java}  # all
"""
    plain = PINNED.replace(', owner: "anna"', "").replace("  expect: {max_over_mean: 3.0}\n", "")
    _, come = changed(former, plain.replace(PINS, ""))
    assert come == [
        "metadata: {name: payments, epoch: 5}  # ours",
        former.splitlines()[3].replace("lanes: 6", "lanes: 8"),
    ]
    _, come = changed(former, plain)
    assert come[1:6] == [
        "spec:  # all",
        "  streams: [payments]",
        "  lanes: 8",
        "  key: {fields: [merchant], encoding: utf8}",
        "  partitioner: kafka-java",
    ]


def test_remarks_on_keys_go_where_the_keys_go_and_old_shares_are_replaced() -> None:
    """From pins to pins, and from pins to a table; the key that is no longer named takes its remark with it."""
    ours = PINNED.replace('        - {key: "A"', '        # do not move: contract with the bank\n        - {key: "A"')
    ours = ours.replace("  # 3.9%", "  # B is the fair in May")
    moved = PINNED.replace('"A", lane: 3}  # 8.1%', '"A", lane: 4}  # 9.9%').replace("epoch: 5", "epoch: 6")
    text = edited_text(ours, parse_contract(ours), moved)
    assert '# do not move: contract with the bank\n        - {key: "A", lane: 4}  # 9.9%\n' in text
    assert '# B is the fair in May\n        - {key: "B", lane: 3}  # 3.9%\n' in text
    assert "8.1%" not in text
    table = '  table:\n    values:\n      # lane 4: 1 key, 9.9% of the records\n      "A": 4  # 9.9%\n'
    text = edited_text(ours, parse_contract(ours), moved.replace(PINS.replace("3}  # 8.1%", "4}  # 9.9%"), table))
    assert '      # do not move: contract with the bank\n      "A": 4  # 9.9%\n' in text
    assert "fair in May" not in text
    assert edited_text(text, parse_contract(text), text) == text


def test_a_text_that_cannot_be_changed_in_place_is_replaced_whole_and_right() -> None:
    """The twin: an alias stands for a text elsewhere, and an edit there would be of two fields."""
    former = OURS.replace("name: payments ", "name: &name payments ").replace("[payments]", "[*name]")
    text = edited_text(former, parse_contract(former), PINNED)
    assert text == OURS.partition("\n")[0] + "\n" + PINNED

"""Reading a contract: every problem of a file at once, each at its line, in words that help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane.contract.model import Contract
from keylane.contract.parse import examine, load_contract, parse_contract
from keylane.contract.yaml_tree import MAX_BYTES
from keylane.errors import ContractError, KeylaneError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.records import Finding

MANY_PROBLEMS = """\
apiVersion: keylane/v2
kind: RoutingContract
metadata:
  name: pay ments
  epoch: 0
  ownr: team-a
spec:
  streams: [payments, refunds, payments]
  lanes: twelve
  key:
    fields: [merchant]
    on_null: stiky
  partitioner: kafka-jav
  hot_keys:
    - keys: [a]
    - keys: [b]
      spread: {over: 2, by: merchant}
  table:
    ranges:
      - {from: z, below: a, lane: 1}
  expect: {max_key_share: 2%}
  golden:
    - {lane: 3}
"""
MANY = [
    (1, "apiVersion", "got 'keylane/v2'; allowed: keylane/v1"),
    (4, "metadata.name", "got 'pay ments'; allowed: "),
    (5, "metadata.epoch", "got 0; allowed: a whole number from 1 to"),
    (6, "metadata.ownr", "'owner'"),
    (8, "spec.streams[2]", "given twice: got 'payments'"),
    (9, "spec.lanes", "got 'twelve'; allowed: a whole number from 1 to 100,000 or live"),
    (12, "spec.key.on_null", "'sticky'"),
    (13, "spec.partitioner", "'kafka-java'"),
    (15, "spec.hot_keys[0]", "is required"),
    (17, "spec.hot_keys[1].spread.by", "got 'merchant'"),
    (20, "spec.table.ranges[0]", "'z' is not below 'a'"),
    (21, "spec.expect.max_key_share", "got '2%'; allowed: a number above 0, at most 1"),
    (23, "spec.golden[0]", "is required"),
]

#: path of a mapping: (the spec around `{}` in that mapping, a near miss of one of its fields, that field)
NEAR_MISSES = {
    "spec": ("lanez: 4", "spec.lanez", "lanes"),
    "key": ("key: {fields: [a], encodng: utf8}", "spec.key.encodng", "encoding"),
    "key, in Java's way": ("key: {fields: [a], onNull: hash}", "spec.key.onNull", "on_null"),
    "window": ("key: {fields: [a], window: {field: t, size: 1h, sizes: 1h}}", "spec.key.window.sizes", "size"),
    "window, its alias": ("key: {fields: [a], window: {field: t, size: 1h, ass: index}}", "spec.key.window.ass", "as"),
    "hot keys": ("hot_keys: [{keys: [a], pin: {lanes: [1]}, key: [b]}]", "spec.hot_keys[0].key", "keys"),
    "pin": ("hot_keys: [{keys: [a], pin: {lanes: [1], lane: 1}}]", "spec.hot_keys[0].pin.lane", "lanes"),
    "spread": (
        "hot_keys: [{keys: [a], spread: {over: 2, by: o, by_positon: true}}]",
        "spec.hot_keys[0].spread.by_positon",
        "by_position",
    ),
    "tier": (
        "hot_keys: [{keys: [a], tier: {stream: v, lanes: 4, spred: {}}}]",
        "spec.hot_keys[0].tier.spred",
        "spread",
    ),
    "spread of a tier": (
        "hot_keys: [{keys: [a], tier: {stream: v, lanes: 4, spread: {over: 2, by: o, overs: 2}}}]",
        "spec.hot_keys[0].tier.spread.overs",
        "over",
    ),
    "table": ("table: {values: {a: 1}, othrwise: hash}", "spec.table.othrwise", "otherwise"),
    "range of a table": ("table: {ranges: [{form: a, lane: 1}]}", "spec.table.ranges[0].form", "from"),
    "expect": ("expect: {max_over_men: 2}", "spec.expect.max_over_men", "max_over_mean"),
    "golden": ("golden: [{key: a, lane: 1, steam: s}]", "spec.golden[0].steam", "stream"),
}


def test_a_file_with_a_dozen_problems_reports_every_one_in_file_order() -> None:
    contract, findings = examine(MANY_PROBLEMS)
    assert contract is None
    assert [(finding.line, finding.where) for finding in findings] == [(line, where) for line, where, _ in MANY]
    assert all(finding.severity == "error" for finding in findings)


@pytest.mark.parametrize(("line", "where", "part"), MANY, ids=[where for _, where, _ in MANY])
def test_each_of_many_problems_is_explained(line: int, where: str, part: str) -> None:
    (finding,) = [finding for finding in examine(MANY_PROBLEMS)[1] if finding.where == where]
    assert finding.line == line
    assert part in finding.message


def test_the_error_says_all_problems_and_carries_them() -> None:
    with pytest.raises(ContractError) as caught:
        parse_contract(MANY_PROBLEMS, name="payments.yaml")
    lines = str(caught.value).splitlines()
    assert lines[0] == f"payments.yaml has {len(MANY)} problems:"
    assert lines[1:] == [f"  {finding}" for finding in caught.value.findings]
    assert lines[4].startswith("  error: line 6: metadata.ownr: ")
    assert "'owner'" in lines[4]
    assert caught.value.findings == tuple(examine(MANY_PROBLEMS)[1])


def test_a_contract_error_is_a_value_error_of_keylane_that_ends_with_two() -> None:
    with pytest.raises(ValueError, match=r"contract has 1 problem:") as caught:
        parse_contract("[]")
    error: Exception = caught.value
    assert isinstance(error, KeylaneError)
    assert type(error) is ContractError
    assert error.exit_code == 2


def test_a_good_file_has_a_contract_and_no_findings(document: Callable[..., str]) -> None:
    contract, findings = examine(document())
    assert isinstance(contract, Contract)
    assert findings == []


@pytest.mark.parametrize(("spec", "where", "meant"), NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_an_unknown_field_names_the_one_that_was_probably_meant(
    spec: str, where: str, meant: str, findings: Callable[..., list[Finding]]
) -> None:
    told = {finding.where: finding.message for finding in findings(spec)}
    assert f"did you mean {meant!r}" in told[where]


@pytest.mark.parametrize(
    ("text", "where", "meant"),
    [
        pytest.param("apiversion: keylane/v1", "apiversion", "apiVersion", id="contract"),
        pytest.param("metadata: {nam: p}", "metadata.nam", "name", id="metadata"),
        pytest.param("kinds: RoutingContract", "kinds", "kind", id="contract, a plural"),
    ],
)
def test_an_unknown_field_at_the_top_names_the_one_that_was_probably_meant(text: str, where: str, meant: str) -> None:
    told = {finding.where: finding.message for finding in examine(text)[1]}
    assert f"did you mean {meant!r}" in told[where]


def test_an_unknown_field_like_no_other_lists_what_there_is(findings: Callable[..., list[Finding]]) -> None:
    (finding,) = findings("table: {values: {a: 1}, zzz: 1}")
    assert str(finding) == ("error: line 9: spec.table.zzz: unknown field; allowed: values, ranges, by, otherwise")


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        pytest.param("partitioner: murmur2-bigendian", "murmur2-big-endian", id="partitioner"),
        pytest.param("partitioner: librdkafka-murmur2_random", "librdkafka-murmur2-random", id="with an underscore"),
        pytest.param("key: {fields: [a], encoding: utf-8}", "utf8", id="encoding"),
        pytest.param("key: {fields: [a, b], encoding: [utf8, int64]}", "int64be", id="one of several encodings"),
        pytest.param("key: {fields: [a], on_empty: rejct}", "reject", id="rule"),
        pytest.param("key: {fields: [a], registry_header: stripped}", "strip", id="registry header"),
        pytest.param("key: {fields: [a], window: {field: t, size: 1h, as: start}}", "start_s", id="window"),
        pytest.param("table: {values: {a: 1}, otherwise: hsh}", "hash", id="otherwise"),
        pytest.param("lanes: lve", "live", id="lanes"),
    ],
)
def test_a_value_of_a_closed_list_names_the_one_that_was_probably_meant(
    spec: str, meant: str, findings: Callable[..., list[Finding]]
) -> None:
    assert any(finding.message.endswith(f"hint: did you mean {meant!r}?") for finding in findings(spec))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param("lanes: 0", "got 0; allowed: a whole number from 1 to 100,000 or live", id="number"),
        pytest.param("lanes: true", "got true; allowed: a whole number from 1 to 100,000 or live", id="boolean"),
        pytest.param("lanes: 1.5", "got 1.5; allowed: a whole number from 1 to 100,000 or live", id="float"),
        pytest.param("expect: {max_key_share: 0}", "got 0; allowed: a number above 0, at most 1", id="bound"),
    ],
)
def test_a_message_says_what_was_got_and_what_is_allowed(
    spec: str, message: str, findings: Callable[..., list[Finding]]
) -> None:
    assert [finding.message for finding in findings(spec)] == [message]


def test_a_message_does_not_repeat_a_megabyte(findings: Callable[..., list[Finding]]) -> None:
    (finding,) = findings(f"partitioner: {'x' * 200_000}")
    assert len(finding.message) < 2000
    assert "…" in finding.message


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        pytest.param("streams: [tx events]", "spec.streams[0]", id="a stream's name"),
        pytest.param("key: {fields: ['']}", "spec.key.fields[0]", id="a field's name"),
        pytest.param("key: {fields: [a, b], encoding: [utf8, int]}", "spec.key.encoding[1]", id="an encoding of two"),
        pytest.param("hot_keys: [{keys: [1.5], spread: {over: 2, by: o}}]", "spec.hot_keys[0].keys[0]", id="a hot key"),
        pytest.param("hot_keys: [{keys: [a], pin: {lanes: [-1]}}]", "spec.hot_keys[0].pin.lanes[0]", id="a lane"),
        pytest.param("lanes: 99999999999999999999999", "spec.lanes", id="a number too long"),
    ],
)
def test_one_problem_is_one_finding(spec: str, where: str, findings: Callable[..., list[Finding]]) -> None:
    """A list of one bad entry is not also too short, and a number too long was not `got 0`."""
    assert [finding.where for finding in findings(spec)] == [where]


BLOCK = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata:
  name: payments
spec:
  streams:
    - payments
    - 7
  lanes: 12
  key:
    fields:
      - merchant
    window:
      field: at
      size: 1w
  partitioner: kafka-java
  hot_keys:
    - keys:
        - a
        - b
      pin:
        lanes:
          - 3
          - 12
"""
FLOW = """\
{apiVersion: keylane/v1, kind: RoutingContract, metadata: {name: payments},
 spec: {
  streams: [payments,
   7],
  lanes: 12, key: {fields: [merchant], window: {field: at,
    size: 1w}},
  partitioner: kafka-java,
  hot_keys: [{keys: [a, b], pin: {lanes: [3,


   12]}}]}}
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(BLOCK, {"spec.streams[1]": 8, "spec.key.window.size": 15, "lanes[1]": 24}, id="block"),
        pytest.param(FLOW, {"spec.streams[1]": 4, "spec.key.window.size": 6, "lanes[1]": 11}, id="flow"),
    ],
)
def test_lines_are_right_in_either_style(text: str, lines: dict[str, int]) -> None:
    found = {finding.where: finding.line for finding in examine(text)[1]}
    assert found["spec.streams[1]"] == lines["spec.streams[1]"]
    assert found["spec.key.window.size"] == lines["spec.key.window.size"]
    assert found["spec.hot_keys[0].pin.lanes[1]"] == lines["lanes[1]"]


def test_a_missing_field_has_the_line_of_where_it_belongs() -> None:
    text = (
        "apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {name: p}\nspec:\n  lanes: 1\n  key:\n    join: x\n"
    )
    told = [(f.line, f.where) for f in examine(text)[1] if f.message == "required, but missing"]
    assert told == [(4, "spec.partitioner"), (4, "spec.streams"), (6, "spec.key.fields")]


def test_problems_of_the_yaml_and_of_the_contract_are_reported_together(document: Callable[..., str]) -> None:
    text = document("lanes: 0\nlanes: 0\nexpect: {max_key_share: !percent 2}")
    assert {finding.where for finding in examine(text)[1]} == {"spec.lanes", "spec.expect.max_key_share"}
    assert any("given twice" in finding.message for finding in examine(text)[1])
    assert any("tags are not allowed" in finding.message for finding in examine(text)[1])


def test_a_field_given_twice_refuses_the_file_even_when_both_are_good(document: Callable[..., str]) -> None:
    contract, findings = examine(document("lanes: 12\nlanes: 12"))
    assert contract is None
    assert [finding.where for finding in findings] == ["spec.lanes"]


def test_a_merge_key_is_an_unknown_field(document: Callable[..., str]) -> None:
    contract, findings = examine(document("expect: &e {max_key_share: 0.5}\ngolden: [{<<: *e, key: a, lane: 1}]"))
    assert contract is None
    assert [finding.where for finding in findings] == ["spec.golden[0].<<"]


def test_an_alias_may_stand_for_a_part_of_a_contract(document: Callable[..., str]) -> None:
    text = document(
        """
        hot_keys:
          - {keys: [a], spread: &two {over: 2, by: order}}
          - {keys: [b], spread: *two}
        """
    )
    contract, findings = examine(text)
    assert findings == []
    assert contract is not None
    assert contract.spec.hot_keys[0].spread == contract.spec.hot_keys[1].spread


@pytest.mark.parametrize(
    ("text", "given"),
    [("[]", "[]"), ("7", "7"), ("null", "nothing"), ("hello", "'hello'"), ("1.5", "1.5"), ("true", "true")],
    ids=lambda value: value,
)
def test_a_file_that_is_no_mapping_is_refused(text: str, given: str) -> None:
    (finding,) = examine(text)[1]
    assert str(finding).startswith("error: line 1: (file): ")
    assert f"got {given};" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("{", id="not YAML"),
        pytest.param("{}", id="an empty mapping"),
        pytest.param("spec: 7", id="a spec that is a number"),
        pytest.param("spec: {key: 7, hot_keys: 7, table: 7, golden: 7, expect: 7}", id="numbers everywhere"),
        pytest.param("spec: {key: [], hot_keys: {}, table: [], golden: {}, streams: {}}", id="the wrong containers"),
        pytest.param("spec: {hot_keys: [7, [], null], golden: [7, [], null]}", id="entries that are no mappings"),
        pytest.param("spec: {table: {values: [], ranges: {}}}", id="a table of the wrong shape"),
        pytest.param("spec: {table: {ranges: [7, null, {from: [], below: {}}]}}", id="ranges of the wrong shape"),
        pytest.param("spec: {lanes: [], hot_keys: [{keys: a, pin: a, spread: a, tier: a}]}", id="text everywhere"),
        pytest.param("spec: {streams: [null], hot_keys: [{keys: [a]}]}", id="a stream that is null"),
        pytest.param("spec: {streams: [[], {}], key: {fields: [[], {}]}}", id="unhashable names"),
        pytest.param("spec: {partitioner: [], key: {encoding: {}}}", id="unhashable choices"),
        pytest.param("spec: {key: {encoding: [[], {}], fields: [a]}, partitioner: kafka-java}", id="encodings"),
        pytest.param("spec: {hot_keys: [{keys: [{}, [[]]], spread: {lanes: [[], {}]}}]}", id="unhashable keys"),
        pytest.param("spec: {golden: [{key: {}, record: [], lane: [], lanes: {}}]}", id="golden of the wrong shape"),
        pytest.param("? [a]\n: b", id="a list as a field name"),
        pytest.param("1: 2", id="a number as a field name"),
    ],
)
def test_no_shape_of_file_raises(text: str) -> None:
    contract, findings = examine(text)
    assert contract is None
    assert findings


def test_a_file_is_read_from_its_path(tmp_path: Path, document: Callable[..., str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(document("lanes: 24"), encoding="utf-8")
    assert load_contract(file).spec.lanes == 24
    assert load_contract(str(file)) == load_contract(file)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "with a byte order mark"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old mac"])
def test_a_file_of_any_editor_is_read(mark: bytes, ends: str, tmp_path: Path, document: Callable[..., str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(mark + document("key: {fields: [händler]}").replace("\n", ends).encode())
    assert load_contract(file).spec.key.fields == ("händler",)


def test_a_file_with_problems_is_named_in_the_error(tmp_path: Path, document: Callable[..., str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(document("lanes: 0"), encoding="utf-8")
    with pytest.raises(ContractError, match=r"c\.yaml has 1 problem") as caught:
        load_contract(file)
    assert [finding.where for finding in caught.value.findings] == ["spec.lanes"]


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_contract(tmp_path / "nowhere.yaml")


def test_a_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        load_contract(tmp_path)


def test_a_file_that_is_not_utf8_is_refused_with_its_first_wrong_bytes(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"metadata: {name: caf\xe9}")
    with pytest.raises(ContractError, match=r"got b'\\xe9}' at byte 20"):
        load_contract(file)


def test_a_file_that_is_not_utf8_is_a_finding_like_every_other_problem(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"\xff\xfea\x00:\x00")
    with pytest.raises(ContractError) as caught:
        load_contract(file)
    assert len(caught.value.findings) == 1


def test_a_file_too_large_is_refused_after_the_bytes_that_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    with file.open("wb") as stream:
        stream.truncate(8 << 30)  # a sparse file: eight gigabytes that take no room
    with pytest.raises(ContractError, match="too large"):
        load_contract(file)


def test_a_file_too_large_is_not_called_something_else_where_the_cut_splits_a_letter(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("é" * MAX_BYTES, encoding="utf-8")
    with pytest.raises(ContractError, match="too large"):
        load_contract(file)

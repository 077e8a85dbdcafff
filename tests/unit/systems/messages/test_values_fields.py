"""Fields of a topic's records without Spark; that they are Spark's: `tests/spark/test_topic_fields.py`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from keylane import parse_contract
from keylane.contract.fields import FieldSpec
from keylane.errors import UsageError
from keylane.keys import json_columns as columns_of_json
from keylane.systems.endpoint import StreamOptions
from keylane.systems.messages.values import fields_for

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: t}
spec:
  streams: [t]
  lanes: 4
  key: {fields: FIELDS, encoding: utf8}
  partitioner: kafka-java
"""


def agreed(fields: str, encoding: str = "utf8") -> Any:
    return parse_contract(CONTRACT.replace("FIELDS", fields).replace("utf8", encoding))


def read(values: Sequence[bytes | None], names: list[str], form: str = "json", contract: Any = None) -> list[list[Any]]:
    fields = fields_for(FieldSpec.of(contract, names), StreamOptions(value=form))
    keys = pa.nulls(len(values), pa.binary())
    return [column.to_pylist() for column in fields.columns(keys, pa.array(values, pa.binary()), None)]


def test_json_is_read_at_once_and_one_by_one_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [json.dumps({"x": n, "k": f"ü-{n}", "deep": {"k": 1}}).encode() for n in range(50)]
    values += [b'{"x": 1}', b'{"k": null}', b'{ "k" : "a\\nb" }']
    quick = read(values, ["k"])
    assert quick[0][:2] == ["ü-0", "ü-1"]
    assert quick[0][-3:] == [None, None, "a\nb"]
    monkeypatch.setattr(columns_of_json, "_json_at_once", lambda *_: None)
    assert read(values, ["k"]) == quick


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b'{"k": 7}', "7"),
        (b'{"k": 1.50}', None),
        (b'{"k": true}', None),
        (b'{"k": "a", "k": "b"}', "b"),
        (b'{"k": ["x",1]}', None),
        (b'{"k":\n"line"}', "line"),
        (b'\x00\x00\x00\x00\x07{"k": "headed"}', "headed"),
        (b"{broken", None),
        (b"", None),
        (b"[1]", None),
        (b"\xff\xfe", None),
        (None, None),
    ],
)
def test_values_of_other_forms(value: bytes | None, text: str | None) -> None:
    assert read([value], ["k"]) == [[text]]
    # One of them among others changes nothing for these.
    assert read([b'{"k": "plain"}', value, b'{"k": "other"}'], ["k"]) == [["plain", text, "other"]]


def test_two_objects_in_one_value_do_not_shift_the_others() -> None:
    assert read([b'{"k": "a"}{"k": "b"}', b'{"k": "c"}', b""], ["k"]) == [[None, "c", None]]


@pytest.mark.parametrize(
    "values",
    [
        [b'{"a":', b'{"k":"x"}}', b'{"k":"y"}{"k":"z"}'],
        [b'{"k":"a"', b'}{"k":"b"}', b'{"k":"c"}{"k":"d"}'],
        [b'{"k":"a"}{"k":"b"}', b'{"k":', b'"c"}'],
        [b'{"k":"a"}{"k":"b"}', b'{"k":"}', b'{"k":"c"}'],
        [b'{"k":[}', b'{"x":1}]}', b'{"k":"c"}{"k":"d"}'],
    ],
)
def test_what_one_value_leaves_open_no_other_closes(values: list[bytes]) -> None:
    together = read(values, ["k"])
    assert together == [[one for value in values for one in read([value], ["k"])[0]]]
    assert together[0].count(None) >= 2


def test_whole_numbers_are_numbers_and_nothing_else() -> None:
    given = agreed("[k]", "int64be")
    values = [b'{"k": 5}', b'{"k": "5"}', b'{"k": 5.0}', b'{"k": 9223372036854775808}', b'{"k": true}']
    assert read(values, ["k"], contract=given) == [[5, None, None, None, None]]


@pytest.mark.parametrize(
    ("encoding", "key", "number"),
    [
        ("int32be", (-2).to_bytes(4, "big", signed=True), -2),
        ("int64be", (2**62).to_bytes(8, "big"), 2**62),
        ("int64be", b"\x00\x01", None),
        ("int32be", None, None),
    ],
)
def test_a_key_that_spells_a_number(encoding: str, key: bytes | None, number: int | None) -> None:
    fields = fields_for(FieldSpec.of(agreed("[key]", encoding)), StreamOptions())
    (column,) = fields.columns(pa.array([key], pa.binary()), None, None)
    assert column.to_pylist() == [number]


def test_text_that_is_none_is_null() -> None:
    assert read([b"a", b"\xff", None], ["value"], "utf8") == [["a", None, None]]


def test_nobody_guesses_how_values_are_written() -> None:
    with pytest.raises(UsageError, match=r"merchant .*value"):
        fields_for(FieldSpec(("merchant",)), StreamOptions())
    with pytest.raises(UsageError, match="one field"):
        fields_for(FieldSpec(("merchant",)), StreamOptions(value="utf8"))
    with pytest.raises(UsageError, match="schema"):
        fields_for(FieldSpec(("merchant",)), StreamOptions(value="avro"))

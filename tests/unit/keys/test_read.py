from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from keylane.contract.model import Key
from keylane.errors import DataError, UnplacedError
from keylane.keys.read import base_key, encode_key_value, read_batch, record_reader
from keylane.records import Reason

HOUR_WINDOW = {"field": "t", "size": "1h", "as": "index"}


def key(**options: Any) -> Key:
    return Key.model_validate({"fields": ["a"], **options})


TWO_TEXTS = key(fields=["a", "b"])
TWO_NUMBERS = key(fields=["a", "b"], encoding=["int32be", "int64be"])
NUMBER_AND_TEXT = key(fields=["a", "b"], encoding=["int32be", "utf8"])


@pytest.mark.parametrize(
    ("of", "between"),
    [
        (TWO_TEXTS, b"|"),
        (TWO_NUMBERS, b""),
        (NUMBER_AND_TEXT, b"|"),
        (key(fields=["a", "b"], join="::"), b"::"),
        (key(fields=["a", "b"], encoding="int32be", join="·"), "·".encode()),
    ],
    ids=["text", "fixed widths", "mixed", "given", "given for fixed widths"],
)
def test_parts_are_joined_by_a_bar_unless_widths_are_fixed_or_the_contract_says(of: Key, between: bytes) -> None:
    assert of.joined_by == between


@pytest.mark.parametrize(
    ("of", "record", "expected"),
    [
        (key(), {"a": "x"}, b"x"),
        (TWO_TEXTS, {"a": "x", "b": 7}, b"x|7"),
        (TWO_NUMBERS, {"a": 1, "b": 2}, b"\0\0\0\1" + b"\0" * 7 + b"\2"),
        (TWO_TEXTS, {"a": "", "b": ""}, b"|"),
        (TWO_TEXTS, {"a": "x", "b": None}, None),
        (key(encoding="raw", registry_header="strip"), {"a": b"\0\0\0\0\1x"}, b"x"),
    ],
    ids=["one", "two", "fixed widths", "both empty", "one null", "header"],
)
def test_base_key_of_a_record(of: Key, record: dict[str, Any], expected: bytes | None) -> None:
    assert base_key(record, of) == expected
    assert record_reader(of)(record) == (expected, expected)


@pytest.mark.parametrize(
    ("encoding", "value", "routing"),
    [("utf8", "x", b"x|3"), ("int32be", 1, b"\0\0\0\1" + b"\0" * 7 + b"\3")],
)
def test_a_window_is_digits_after_text_and_eight_bytes_after_fixed_widths(
    encoding: str, value: Any, routing: bytes
) -> None:
    base, whole = record_reader(key(encoding=encoding, window=HOUR_WINDOW))({"a": value, "t": 3 * 3_600_000})
    assert whole == routing
    assert base == encode_key_value(value, key(encoding=encoding))


@pytest.mark.parametrize("record", [{"a": None, "t": 0}, {"a": "x", "t": None}, {"a": None, "t": "never"}], ids=str)
def test_a_null_field_or_time_makes_the_key_null(record: dict[str, Any]) -> None:
    assert record_reader(key(window=HOUR_WINDOW))(record) == (None, None)


@pytest.mark.parametrize("of", [key(), TWO_TEXTS, key(window=HOUR_WINDOW)], ids=["one", "two", "window"])
def test_a_missing_field_is_named_with_what_there_is(of: Key) -> None:
    with pytest.raises(UnplacedError, match=r"no field '\w': got \['z'\]") as error:
        record_reader(of)({"z": 1})
    assert error.value.reason is Reason.MISSING_FIELD


def test_a_missing_time_is_a_missing_field() -> None:
    with pytest.raises(UnplacedError, match="no field 't'"):
        record_reader(key(window=HOUR_WINDOW))({"a": "x"})


@pytest.mark.parametrize("missing", ["a", "t"])
def test_a_missing_column_stops_the_batch(missing: str) -> None:
    columns = {"a": ["x"], "t": [0]}
    del columns[missing]
    with pytest.raises(DataError, match=f"column '{missing}'"):
        read_batch(pa.RecordBatch.from_pydict(columns), key(window=HOUR_WINDOW))


@pytest.mark.parametrize(
    "of",
    [
        key(),
        TWO_TEXTS,
        key(fields=["b"]),
        key(fields=["b"], encoding="int32be"),
        key(fields=["b", "a"], encoding=["int64be", "utf8"]),
        key(window=HOUR_WINDOW),
        key(fields=["b"], encoding="int64be", window=HOUR_WINDOW),
    ],
    ids=["text", "two", "digits", "int32be", "mixed", "text window", "fixed window"],
)
def test_a_batch_has_the_keys_of_its_records(of: Key) -> None:
    records: list[dict[str, Any]] = [
        {"a": "x", "b": 1, "t": 0},
        {"a": None, "b": None, "t": 3_600_000},
        {"a": "", "b": -1, "t": None},
        {"a": "天", "b": 2**31 - 1, "t": -1},
    ]
    keys = read_batch(pa.RecordBatch.from_pylist(records), of)
    read = record_reader(of)
    assert keys.routing.to_pylist() == [read(record)[1] for record in records]
    assert not keys.malformed.any()


def test_malformed_rows_are_null_and_marked_apart_from_null_ones() -> None:
    keys = read_batch(pa.RecordBatch.from_pydict({"a": [7, None, 2**40]}), key(encoding="int32be"))
    assert keys.routing.to_pylist() == [b"\0\0\0\x07", None, None]
    assert keys.malformed.tolist() == [False, False, True]


def test_a_misfit_time_does_not_make_a_null_key_malformed() -> None:
    batch = pa.RecordBatch.from_pydict({"a": ["x", None], "t": [2**62, 2**62]})
    assert read_batch(batch, key(window=HOUR_WINDOW)).malformed.tolist() == [True, False]


def test_a_key_written_in_a_contract_has_the_bytes_of_the_record() -> None:
    assert encode_key_value("x", key()) == b"x"
    assert encode_key_value(("x", 7), TWO_TEXTS) == base_key({"a": "x", "b": 7}, TWO_TEXTS)

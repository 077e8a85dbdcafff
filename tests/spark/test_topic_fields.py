"""What `verify` reads of a topic's keys and values is what `route` reads of them, value for value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType
from tests.hostile_values import JSON_VALUES

from keylane import parse_contract
from keylane.contract.fields import FieldSpec
from keylane.keys import json_columns
from keylane.systems.endpoint import StreamOptions
from keylane.systems.messages.frames import message_columns
from keylane.systems.messages.values import fields_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from keylane import Contract

CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: t}
spec: {streams: [t], lanes: 4, key: {fields: [FIELD], encoding: ENCODING}, partitioner: kafka-java}
"""
VALUES = [
    *(b'{"k": "a"}', b'{"k": 7}', b'{"k": 1.5}', b'{"k": true}', b'{"k": null}', b'{"x": 1}', b"{}"),
    *(b'{"k": "a", "k": "b"}', b'{"k": ["x",1]}', b'{"k":\n"line"}', b'{"k": "\xc3\xbc"}', b'{"k": {"in": "side"}}'),
    *(b'\x00\x00\x00\x00\x07{"k": "headed"}', b"{broken", b"", b"[1]", b"null", b"7", b'{"k": "a"} ', b' {"k": "a"}'),
    *(b'{"k": 9223372036854775807}', b'{"k": 9223372036854775808}', b'{"k": "5"}', b'{"k": -1}', None),
    *JSON_VALUES,
]
KEYS = [b"a", b"\x00\x00\x00\x05", bytes(7) + b"\x07", b"\xff" * 8, b"", None]


@pytest.mark.parametrize(
    ("field", "encoding", "form"),
    [
        *(("k", "utf8", "json"), ("k", "int64be", "json"), ("value", "utf8", "utf8")),
        *(("key", "int32be", None), ("key", "int64be", None), ("key", "utf8", None)),
    ],
)
def test_the_same_fields(field: str, encoding: str, form: str | None, spark: SparkSession) -> None:
    agreed = parse_contract(CONTRACT.replace("FIELD", field).replace("ENCODING", encoding))
    check_same(agreed, field, form, VALUES, spark)


def test_the_same_degrees(spark: SparkSession) -> None:
    agreed = parse_contract(CONTRACT.replace("FIELD", "k, lng").replace("ENCODING}", "place}, geo: {resolution: 3}"))
    check_same(agreed, "k", "json", VALUES, spark)


def test_a_reader_that_is_not_strict_is_found_out(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: what Python's reader takes by itself, without the bounds and rules of keylane."""
    monkeypatch.setattr(json_columns, "read_object", lambda text: json.JSONDecoder().raw_decode(text.decode())[0])
    agreed = parse_contract(CONTRACT.replace("FIELD", "k").replace("ENCODING", "utf8"))
    with pytest.raises((AssertionError, UnicodeEncodeError, RecursionError)):
        check_same(agreed, "k", "json", JSON_VALUES, spark)


def check_same(
    agreed: Contract, field: str, form: str | None, given: Sequence[bytes | None], spark: SparkSession
) -> None:
    keys = (KEYS * len(given))[: len(given)]
    shape = StructType([StructField(name, BinaryType()) for name in ("key", "value")])
    rows: list[Any] = list(zip(keys, given, strict=True))
    spec, options = FieldSpec.of(agreed), StreamOptions(value=form)
    columns, unread = message_columns(spec, options)
    frame = spark.createDataFrame(rows, shape).select(columns[field].alias("found"))
    theirs = [bytes(row[0]) if isinstance(row[0], bytearray) else row[0] for row in frame.collect()]
    ours, *_ = fields_for(spec, options).columns(pa.array(keys, pa.binary()), pa.array(given, pa.binary()), None)
    bad = [False] * len(given)
    if unread is not None:
        bad = [row[0] for row in spark.createDataFrame(rows, shape).select(unread).collect()]
    # Of what cannot be read a route makes dead letters, whatever Spark has found in it.
    expected = [None if broken else found for found, broken in zip(theirs, bad, strict=True)]
    assert ours.to_pylist() == expected
    # One by one too, and where all that can be read stand together, which Arrow reads at once.
    read = fields_for(spec, options).columns
    alone = [read(pa.array([key], pa.binary()), pa.array([one], pa.binary()), None)[0] for key, one in rows]
    assert [column.to_pylist()[0] for column in alone] == expected
    good = [n for n, broken in enumerate(bad) if not broken and given[n] is not None]
    some = [pa.array([rows[n][column] for n in good], pa.binary()) for column in (0, 1)]
    together = read(some[0], some[1], None)
    assert together[0].to_pylist() == [expected[n] for n in good]

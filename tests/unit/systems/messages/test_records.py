"""Records out of messages: fields have the types of their schema, and what no column can have is named."""

from __future__ import annotations

import json
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from keylane.errors import DataError, UsageError
from keylane.systems.endpoint import StreamOptions
from keylane.systems.messages.records import check_record_options, read_records, record_form
from keylane.systems.messages.values import UNREAD

if TYPE_CHECKING:
    from pathlib import Path


def record(*fields: dict[str, Any], name: str = "event") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def named(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


HEADER = record(named("id", "string"), named("again", ["null", "header"]), name="header")
AVRO = record(
    named("n", "int"),
    named("amount", ["null", "float"]),
    named("either", ["null", "long", "double"]),
    named("ok", "boolean"),
    named("kind", {"type": "enum", "name": "kinds", "symbols": ["buy", "sell"]}),
    named("ts", {"type": "long", "logicalType": "timestamp-micros"}),
    named("day", ["null", {"type": "int", "logicalType": "date"}]),
    named("header", ["null", HEADER]),
    named("tags", {"type": "array", "items": "string"}),
    named("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
)
EVENT = {
    "n": 3,
    "amount": 1.5,
    "either": 4,
    "ok": True,
    "kind": "sell",
    "ts": 1_700_000_000_000_001,
    "day": 19_000,
    "header": {"id": "h1", "again": None},
    "tags": ["a"],
    "price": b"\x01",
}


def written(schema: dict[str, Any], event: dict[str, Any], number: int | None = None) -> bytes:
    out = BytesIO()
    plain = json.loads(json.dumps(schema).replace("logicalType", "was"))
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), event)
    return (b"" if number is None else b"\x00" + number.to_bytes(4, "big")) + out.getvalue()


def avro(path: Path, *schemas: dict[str, Any]) -> StreamOptions:
    if len(schemas) == 1:
        path.write_text(json.dumps(schemas[0]))
    else:
        path.mkdir()
        for number, schema in enumerate(schemas):
            (path / f"{number}.avsc").write_text(json.dumps(schema))
    return StreamOptions(value="avro", value_schema=str(path))


def test_avro_fields_have_the_types_of_their_schema(tmp_path: Path) -> None:
    form = record_form(avro(tmp_path / "a.avsc", AVRO), [field["name"] for field in AVRO["fields"]])
    assert dict(form.kinds) == {
        "n": "integer",
        "amount": "degrees",
        "either": "degrees",
        "ok": "flag",
        "kind": "text",
        "ts": "micros",
        "day": "days",
        "header.id": "text",
    }
    assert dict(form.refused) == {
        "tags": "the field tags of the schema is array, which is not read",
        "price": "the field price of the schema is bytes (decimal), which is not read",
    }
    body = written(AVRO, EVENT)
    rows = read_records(form, pa.array([body, None, body[:-1], b"\xff", body + b"x"])).to_pylist()
    assert rows[0] == {
        "n": 3,
        "amount": 1.5,
        "either": 4.0,
        "ok": "true",
        "kind": "sell",
        "ts": 1_700_000_000_000_001,
        "day": 19_000,
        "header.id": "h1",
        UNREAD: False,
    }
    assert [row[UNREAD] for row in rows] == [False, False, True, True, True]
    assert {name for name, value in rows[1].items() if value is not None} == {UNREAD}


def test_every_value_is_read_by_its_own_schema(tmp_path: Path) -> None:
    first, second = record(named("a", "int")), record(named("a", "double"), named("b", "string"))
    form = record_form(avro(tmp_path / "schemas", first, second), ["a", "b", "c"])
    assert dict(form.kinds) == {"a": "degrees", "b": "text"}
    values = [written(first, {"a": 1}, 0), written(second, {"a": 2.5, "b": "x"}, 1), written(first, {"a": 1}, 7)]
    rows = read_records(form, pa.array(values)).to_pylist()
    assert rows == [
        {"a": 1.0, "b": None, UNREAD: False},
        {"a": 2.5, "b": "x", UNREAD: False},
        {"a": None, "b": None, UNREAD: True},
    ]


def test_a_field_of_two_types_is_named(tmp_path: Path) -> None:
    form = record_form(avro(tmp_path / "schemas", record(named("a", "int")), record(named("a", "string"))), ["a"])
    assert (form.kinds, form.refused) == (
        (),
        (("a", "the field a of the schema is of several types, which is not read"),),
    )


def test_protobuf_fields_have_the_types_of_their_message(tmp_path: Path) -> None:
    field = descriptor_pb2.FieldDescriptorProto
    one = descriptor_pb2.FileDescriptorProto(name="e.proto", package="shop", syntax="proto3")
    inner = one.message_type.add(name="At")
    inner.field.add(name="seconds", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    event = one.message_type.add(name="Event")
    for number, (name, kind) in enumerate(
        [("n", field.TYPE_UINT32), ("x", field.TYPE_FLOAT), ("ok", field.TYPE_BOOL), ("s", field.TYPE_STRING)], 1
    ):
        event.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    event.field.add(name="raw", number=5, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    event.field.add(name="many", number=6, type=field.TYPE_INT32, label=field.LABEL_REPEATED)
    event.field.add(name="at", number=7, type=field.TYPE_MESSAGE, type_name=".shop.At", label=field.LABEL_OPTIONAL)
    path = tmp_path / "e.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[one]).SerializeToString())
    options = StreamOptions(value="protobuf", value_schema=str(path), message="shop.Event")
    form = record_form(options, ["n", "x", "ok", "s", "raw", "many", "at"])
    assert dict(form.kinds) == {"n": "integer", "x": "degrees", "ok": "flag", "s": "text", "at.seconds": "integer"}
    assert set(dict(form.refused)) == {"raw", "many"}
    pool = descriptor_pool.DescriptorPool()
    pool.Add(one)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Event"))
    value = made(n=4, x=0.5, ok=False, s="ü", at={"seconds": 9}).SerializeToString()
    rows = read_records(form, pa.array([value, b"\xff\xff"])).to_pylist()
    assert rows[0] == {"n": 4, "x": 0.5, "ok": "false", "s": "ü", "at.seconds": 9, UNREAD: False}
    assert rows[1][UNREAD]


@pytest.mark.parametrize(
    ("options", "messages", "problem"),
    [
        (StreamOptions(value="utf8"), True, "records, with fields and a time"),
        (StreamOptions(value="avro"), True, "avro values need their schema"),
        (StreamOptions(value="avro", value_schema="nowhere.avsc"), True, "cannot be read"),
        (StreamOptions(value_schema="a.avsc"), True, "with --value avro or protobuf"),
        (StreamOptions(value="json", message="E"), True, "with --value avro or protobuf"),
        (StreamOptions(value="avro", value_schema="a.avsc"), False, "the source is files"),
    ],
)
def test_what_no_record_can_be_read_of_is_refused(options: StreamOptions, messages: bool, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_record_options(options, messages=messages)


def test_a_schema_that_is_none_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.avsc").write_text("{}")
    with pytest.raises(DataError, match="Avro schema of a record"):
        check_record_options(StreamOptions(value="avro", value_schema=str(tmp_path / "a.avsc")), messages=True)
    check_record_options(StreamOptions(), messages=True)
    check_record_options(StreamOptions(value="json"), messages=True)
    check_record_options(StreamOptions(), messages=False)

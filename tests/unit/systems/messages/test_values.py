"""Avro and Protobuf values: the fields asked for, the registry's header, tombstones, bytes that do not fit."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
from io import BytesIO
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from keylane.errors import DataError, MissingExtraError, UnknownNameError, UsageError
from keylane.systems.messages.values import ValueForm, read_fields, reader, value_form

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": "long"}},
        {
            "name": "where",
            "type": ["null", {"type": "record", "name": "At", "fields": [{"name": "x", "type": "double"}]}],
        },
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 2}},
        {"name": "paid", "type": "boolean"},
        {"name": "merchant", "type": ["null", "string"]},
        {"name": "number", "type": "long"},
        {"name": "then", "type": ["null", "At"]},
    ],
}


def zigzag(number: int) -> bytes:
    left, out = (number << 1) ^ (number >> 63), b""
    while left > 0x7F:
        out += bytes([left & 0x7F | 0x80])
        left >>= 7
    return out + bytes([left])


def text(value: str) -> bytes:
    return zigzag(len(value.encode())) + value.encode()


def order(merchant: str | None, number: int) -> bytes:
    """By the specification, by hand: an array in two blocks, one of them with its size before it."""
    tags = zigzag(1) + text("a") + zigzag(-1) + zigzag(len(text("bb"))) + text("bb") + zigzag(0)
    more = zigzag(1) + text("n") + zigzag(-300) + zigzag(0)
    where = zigzag(1) + struct.pack("<d", 1.5)
    who = zigzag(0) if merchant is None else zigzag(1) + text(merchant)
    return tags + more + where + zigzag(1) + b"\x01\x02" + b"\x01" + who + zigzag(number) + zigzag(0)


def headed(number: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, number) + body


def test_only_the_fields_that_are_asked_for_are_built() -> None:
    read = reader(json.dumps(SCHEMA), ["number", "merchant", "kind"])
    assert read(order("münch", -(2**63))) == (-(2**63), "münch", "OLD")
    assert read(order(None, 2**63 - 1)) == (2**63 - 1, None, "OLD")


@pytest.mark.parametrize("cut", range(1, 12))
def test_bytes_that_do_not_fit_are_refused(cut: int) -> None:
    read, whole = reader(json.dumps(SCHEMA), ["merchant"]), order("m", 5)
    with pytest.raises((ValueError, LookupError, EOFError)):
        read(whole[:-cut])
    with pytest.raises(ValueError, match="left over"):
        read(whole + b"\x00")


def test_a_schema_that_is_none_or_lacks_the_field_is_refused() -> None:
    with pytest.raises(DataError, match="not an Avro schema"):
        reader("{", ["a"])
    with pytest.raises(DataError, match="of a record"):
        reader('"string"', ["a"])
    with pytest.raises(UnknownNameError, match="did you mean 'merchant'"):
        reader(json.dumps(SCHEMA), ["merchnat"])


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def one_field(kind: Any, *, number: bool = False, degrees: bool = False) -> Any:
    """How the field `k` of this type is read, as text unless it is asked for as a number."""
    schemas = ((-1, json.dumps(record(k=kind)).encode()),)
    return ValueForm("avro", schemas, "", ("k",), ("k",) * number, ("k",) * degrees)


EIGHT = {"type": "fixed", "name": "Eight", "size": 8}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
DAY = {"type": "int", "logicalType": "date"}


@pytest.mark.parametrize(
    ("kind", "value", "asked", "right"),
    [
        ("double", struct.pack("<d", 52.51), {"degrees": True}, 52.51),
        ("float", struct.pack("<f", -0.25), {"degrees": True}, -0.25),
        ("int", zigzag(7), {"degrees": True}, 7.0),
        (["null", "double"], zigzag(1) + struct.pack("<d", 0.1), {"degrees": True}, 0.1),
        (["null", "double"], zigzag(0), {"degrees": True}, None),
        ("double", struct.pack("<d", 52.51), {}, "52.51"),
        ("boolean", b"\x01", {}, "true"),
        ("boolean", b"\x00", {}, "false"),
        (EIGHT, b"merchant", {}, "merchant"),
        ({"type": "fixed", "name": "One", "size": 1}, b"m", {}, "m"),
        ("bytes", zigzag(2) + b"ab", {}, "ab"),
        ("long", zigzag(2**63 - 1), {"number": True}, 2**63 - 1),
        ("long", zigzag(5), {}, "5"),
        (MILLIS, zigzag(1_700_000_000_000), {"number": True}, 1_700_000_000_000),
        (DAY, zigzag(19_000), {}, "19000"),
        ({"type": "string", "logicalType": "uuid"}, text("no uuid"), {}, "no uuid"),
        ({"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}, zigzag(1), {}, "OLD"),
    ],
)
def test_every_simple_type_is_read(kind: Any, value: bytes, asked: dict[str, bool], right: Any) -> None:
    assert found(one_field(kind, **asked), value) == [{"k": right, "keylane_unread": False}]


@pytest.mark.parametrize(
    ("kind", "value", "asked"),
    [
        (EIGHT, b"\xff" * 8, {}),
        (EIGHT, b"1234567", {}),
        ("double", b"1234567", {"degrees": True}),
        ("boolean", b"", {}),
        ("boolean", b"\x01", {"degrees": True}),
        ("boolean", b"\x01", {"number": True}),
        ("double", struct.pack("<d", 1.0), {"number": True}),
        ("string", text("7"), {"number": True}),
        ("string", text("7"), {"degrees": True}),
        ("string", zigzag(2**40) + b"abc", {}),
        ("string", zigzag(-5) + b"abc", {}),
        ("long", b"\xff" * 40, {"number": True}),
        (["null", "string"], zigzag(9) + text("a"), {}),
        ({"type": "array", "items": "string"}, zigzag(1) + text("a") + zigzag(0), {}),
        ({"type": "map", "values": "string"}, zigzag(0), {}),
    ],
)
def test_what_is_not_of_the_type_is_marked_and_never_null(kind: Any, value: bytes, asked: dict[str, bool]) -> None:
    assert found(one_field(kind, **asked), value) == [{"k": None, "keylane_unread": True}]


def test_one_short_name_in_two_namespaces_is_two_types() -> None:
    first = {"type": "fixed", "name": "x.T", "size": 1}
    second = {"type": "enum", "name": "y.T", "symbols": ["P", "Q"]}
    read = reader(json.dumps(record(a=first, b=second, c="x.T", d="y.T")), ["a", "b", "c", "d"])
    assert read(b"1" + zigzag(1) + b"2" + zigzag(0)) == (b"1", "Q", b"2", "P")


#: A record that may hold another of its own kind, and one that always does.
NESTED, ENDLESS = ["null", "r"], "r"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "array", "items": "string"}, b"\x01\x03"),
        ({"type": "array", "items": "long"}, b"\x01\x03"),
        ({"type": "map", "values": "null"}, b"\x01\x03"),
        ({"type": "array", "items": "long"}, zigzag(2**40) + b"\x00"),
        ({"type": "array", "items": "long"}, zigzag(-(2**40)) + zigzag(2**40) + b"\x00"),
        ({"type": "map", "values": "null"}, zigzag(2**40) + b"\x00"),
        ({"type": "array", "items": {"type": "array", "items": "long"}}, zigzag(2**40) + b"\x00"),
        (NESTED, b"\x02" * 100_000 + b"\x00"),
        ({"type": "array", "items": "r"}, b"\x02" * 100_000 + b"\x00"),
        (ENDLESS, b""),
    ],
)
def test_a_poisonous_value_is_marked_and_ends_nothing(kind: Any, value: bytes) -> None:
    assert found(one_field(kind), value) == [{"k": None, "keylane_unread": True}]


def test_a_record_of_its_own_kind_is_read_where_it_ends() -> None:
    read = reader(json.dumps(record(k="string", more=NESTED)), ["k"])
    assert read(text("a") + zigzag(1) + text("b") + zigzag(0)) == ("a",)


@pytest.mark.parametrize(
    "items",
    ["null", {"type": "fixed", "name": "f", "size": 0}, {**record(), "name": "e"}, {**record(x="e"), "name": "e"}],
)
def test_an_array_of_items_without_bytes_is_refused_with_its_schema(items: Any) -> None:
    with pytest.raises(DataError, match="array items in the Avro schema may have no bytes"):
        reader(json.dumps(record(k=["null", {"type": "array", "items": items}])), ["k"])


@pytest.mark.parametrize(
    ("kind", "value", "ends_by"),
    [
        ({"type": "array", "items": "null"}, zigzag(2**40) + b"\x00", signal.SIGALRM),
        (NESTED, b"\x02" * 100_000 + b"\x00", signal.SIGSEGV),
    ],
    ids=["no end", "too deep"],
)
def test_without_its_guard_the_library_would_not_survive(kind: Any, value: bytes, ends_by: int) -> None:
    """The twin: should it survive one day, the guard can go."""
    code = f"""
import fastavro, io, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.alarm(1)
fastavro.schemaless_reader(io.BytesIO({value!r}), fastavro.parse_schema({record(k=kind)!r}), None)
"""
    assert subprocess.run([sys.executable], input=code.encode(), check=False).returncode == -ends_by


def test_no_value_stops_the_others() -> None:
    chance, whole = Random(7), order("münch", 5)
    form = ValueForm("avro", ((-1, json.dumps(SCHEMA).encode()),), "", ("merchant", "number"), ("number",))
    values = []
    for _ in range(3_000):
        broken = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            broken[chance.randrange(len(whole))] = chance.randrange(256)
        values.append(bytes(broken[: chance.choice([len(whole), chance.randrange(len(whole))])]))
    rows = found(form, *values, whole)
    assert rows[-1] == {"merchant": "münch", "number": 5, "keylane_unread": False}
    assert 1_000 < sum(row["keylane_unread"] for row in rows) < 3_000
    assert all(row["merchant"] is None for row in rows if row["keylane_unread"])


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "record"}',
        '{"type": "record", "name": "r", "fields": 5}',
        '{"type": "record", "name": "r", "fields": [{"name": "k"}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "k", "type": {"type": "array"}}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "k", "type": {"type": "fixed", "name": "f"}}]}',
    ],
)
def test_a_schema_with_something_missing_is_refused(schema: str) -> None:
    with pytest.raises(DataError, match="Avro schema"):
        reader(schema, ["k"])


def test_a_type_that_nothing_explains_is_refused() -> None:
    with pytest.raises(DataError, match="the Avro schema uses a type that it does not define: got 'What'"):
        reader(json.dumps(record(k="What")), ["k"])


def test_without_the_library_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[avro\]"):
        reader(json.dumps(SCHEMA), ["merchant"])


def found(form: Any, *values: bytes | None) -> list[dict[str, Any]]:
    return list(read_fields(form, pa.array(values, pa.binary())).to_pylist())


def test_avro_with_and_without_the_header(tmp_path: Path) -> None:
    (tmp_path / "s.avsc").write_text(json.dumps(SCHEMA))
    form = value_form("avro", str(tmp_path / "s.avsc"), None, ["merchant", "number"], ["number"])
    rows = found(form, order("m", 5), headed(7, order("m", 6)), None, b"\xff", b"")
    assert rows == [
        {"merchant": "m", "number": 5, "keylane_unread": False},
        {"merchant": "m", "number": 6, "keylane_unread": False},
        {"merchant": None, "number": None, "keylane_unread": False},
        {"merchant": None, "number": None, "keylane_unread": True},
        {"merchant": None, "number": None, "keylane_unread": True},
    ]


def test_the_header_says_which_schema_of_a_folder(tmp_path: Path) -> None:
    one = {"type": "record", "name": "r", "fields": [{"name": "k", "type": "string"}]}
    two = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}, {"name": "k", "type": "string"}]}
    (tmp_path / "1.avsc").write_text(json.dumps(one))
    (tmp_path / "2.avsc").write_text(json.dumps(two))
    form = value_form("avro", str(tmp_path), None, ["k"], [])
    rows = found(form, headed(1, text("a")), headed(2, zigzag(3) + text("b")), headed(3, text("c")), text("d"))
    assert [(row["k"], row["keylane_unread"]) for row in rows] == [
        ("a", False),
        ("b", False),
        (None, True),
        (None, True),
    ]


@pytest.fixture
def descriptors(tmp_path: Path) -> tuple[str, Any]:
    """A descriptor set made in code, and a class of its message."""
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="merchant", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    message.field.add(name="number", number=2, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    path = tmp_path / "o.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return str(path), message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_with_and_without_the_header_and_its_index(descriptors: tuple[str, Any]) -> None:
    path, kind = descriptors
    form = value_form("protobuf", path, None, ["merchant", "number"], ["number"])
    body = kind(merchant="m", number=5).SerializeToString()
    rows = found(form, body, headed(7, b"\x00" + body), headed(7, b"\x04\x02\x02" + body), None, b"\xff\xff")
    assert [(row["merchant"], row["number"], row["keylane_unread"]) for row in rows] == [
        ("m", 5, False),
        ("m", 5, False),
        ("m", 5, False),
        (None, None, False),
        (None, None, True),
    ]


def test_what_a_descriptor_set_lacks_is_reported(descriptors: tuple[str, Any], tmp_path: Path) -> None:
    path, _ = descriptors
    with pytest.raises(UnknownNameError, match="did you mean 'merchant'"):
        value_form("protobuf", path, None, ["merchnat"], [])
    with pytest.raises(UnknownNameError, match=r"shop\.Order"):
        value_form("protobuf", path, "shop.Ordr", ["merchant"], [])
    (tmp_path / "bad").write_bytes(b"\xff\xff\xff")
    with pytest.raises(DataError, match="not a Protobuf descriptor set"):
        value_form("protobuf", str(tmp_path / "bad"), None, ["merchant"], [])
    with pytest.raises(UsageError, match="need their schema"):
        value_form("avro", None, None, ["merchant"], [])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "enum", "name": "e", "symbols": ["A", "B", "C"]}, zigzag(-1)),
        (["null", "string"], zigzag(-1) + text("a")),
        (["null", "string"], zigzag(-2)),
        ("long", b"\xff" * 11 + b"\x01"),
        ("long", b"\x80" * 20 + b"\x01"),
        ("long", b"\xff" * 9 + b"\x7f"),
    ],
    ids=["enum", "union", "null of a union", "wraps", "overlong", "65 bits"],
)
def test_a_corrupt_index_or_number_is_marked_and_not_read_as_another(kind: Any, value: bytes) -> None:
    assert found(one_field(kind), value) == [{"k": None, "keylane_unread": True}]


def test_the_compiled_reader_would_read_another_value() -> None:
    import fastavro

    schema = fastavro.parse_schema(record(k={"type": "enum", "name": "e", "symbols": ["A", "B", "C"]}))
    assert fastavro.schemaless_reader(BytesIO(zigzag(-1)), schema, None) == {"k": "C"}


@pytest.mark.parametrize("field", [{"default": 5}, {"default": float("nan")}], ids=["another type", "not a number"])
def test_what_a_reader_does_not_need_is_not_checked(field: dict[str, Any]) -> None:
    schema = {"type": "record", "fields": [{"name": "k", "type": "string", **field}]}
    assert reader(json.dumps(schema), ["k"])(text("a")) == ("a",)


def test_a_schema_that_cannot_be_read_in_finite_time_is_refused() -> None:
    kind: Any = {"type": "record", "name": "r0", "fields": []}
    for level in range(1, 30):
        again = kind["name"]
        pair = [{"name": "a", "type": kind}, {"name": "b", "type": again}]
        kind = {"type": "record", "name": f"r{level}", "fields": pair}
    with pytest.raises(DataError, match="too many nested fields"):
        reader(json.dumps(kind), ["a"])
    with pytest.raises(DataError, match="Avro schema"):
        reader("[" * 100_000, ["k"])

"""Avro and Protobuf values: the fields asked for, the registry's header, tombstones, bytes that do not fit."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from keylane.errors import DataError, UnknownNameError, UsageError
from keylane.systems.kafka.values import read_fields, reader, value_form

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
    with pytest.raises((ValueError, LookupError)):
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


def test_what_a_descriptor_set_lacks_is_said(descriptors: tuple[str, Any], tmp_path: Path) -> None:
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

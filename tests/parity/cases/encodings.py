"""Every encoding, with the values it cannot hold; keys of several fields; registry headers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.parity.cases.case import Case, crossed, key, of
from tests.parity.cases.partitioners import BYTES, LONGS

UUID = "123e4567-e89b-12d3-a456-426614174000"
CELL = 0x08928308280FFFFF
CELLS = [CELL, 0, -1, 1 << 59, 2 << 59, (2 << 59) - 1, 0x832830FFFFFFFFF, 2**63 - 1, None]
UUIDS = [UUID, UUID.upper(), UUID.replace("1", "f"), None]
NO_UUIDS = [
    *(UUID[:-1], UUID + "\n", UUID.replace("-", ""), UUID[:-1] + "g", UUID.replace("-", "_"), "x" * 36, ""),
    *("{" + UUID + "}", "urn:uuid:" + UUID, " " + UUID, "①" * 12, UUID[:-1] + "１"),
]
CELL_TEXTS = [
    *("8928308280fffff", "08928308280FFFFF", "0x8928308280fffff", "8928308280ffff", "18928308280fffff"),
    *("7928308280fffff", "8928308280fffff\n", " 8928308280fffff", "8928308280ffffg", "８928308280fffff", "", None),
]

TYPES = {
    "utf8 of binary": Case(key("utf8"), of(BYTES)),
    "utf8 of integers": Case(key("utf8"), of(LONGS)),
    "utf8 of int8": Case(key("utf8"), of([0, -7, 127, None], pa.int8())),
    "utf8 of int16": Case(key("utf8"), of([0, -7, 32767, None], pa.int16())),
    "utf8 of uint64": Case(key("utf8"), of([0, 2**64 - 1, None], pa.uint64())),
    "utf8 of fixed size": Case(key("utf8"), of([b"ab", b"\xff\xff", None], pa.binary(2))),
    "nulls of numbers": Case(key("int64be"), of([None, None], pa.int64())),
    "int32be": Case(key("int32be"), of(LONGS)),
    "int32be of int8": Case(key("int32be"), of([0, 127, -128, None], pa.int8())),
    "int32be of int16": Case(key("int32be"), of([0, -1, 32767, None], pa.int16())),
    "int32be of uint32": Case(key("int32be"), of([0, 2**31, 2**32 - 1, None], pa.uint32())),
    "int64be": Case(key("int64be"), of(LONGS)),
    "int64be of int8": Case(key("int64be"), of([0, -1, 127, None], pa.int8())),
    "int64be of int32": Case(key("int64be"), of([0, -1, 2**31 - 1, None], pa.int32())),
    "int64be of uint64": Case(key("int64be"), of([0, 2**63 - 1, 2**63, 2**64 - 1, None], pa.uint64())),
    "uuid text": Case(key("uuid"), of(UUIDS)),
    "uuid text with misfits": Case(key("uuid"), of([*UUIDS, *NO_UUIDS])),
    "uuid bytes": Case(key("uuid"), of([bytes(16), bytes(range(16)), b"\xff" * 16])),
    "uuid bytes with misfits": Case(key("uuid"), of([b"\xff" * 16, bytes(15), bytes(17), UUID.encode(), b"", None])),
    "uuid of fixed size": Case(key("uuid"), of([bytes(16), None], pa.binary(16))),
    "uuid of another fixed size": Case(key("uuid"), of([bytes(15), None], pa.binary(15))),
    "h3 numbers": Case(key("h3"), of(CELLS)),
    "h3 unsigned": Case(key("h3"), of([CELL, CELL | 1 << 63, 2**64 - 1, None], pa.uint64())),
    "h3 too narrow": Case(key("h3"), of([1, -1, None], pa.int32())),
    "h3 text": Case(key("h3"), of(CELL_TEXTS)),
    "raw": Case(key("raw"), of(BYTES)),
    "raw of fixed size": Case(key("raw"), of([b"ab", b"\xff\xff", None], pa.binary(2))),
}

NULLS = {
    f"nothing but nulls as {encoding}": Case(key(encoding), of([None, None]))
    for encoding in ("utf8", "int32be", "int64be", "uuid", "h3", "raw")
}

TYPED: dict[str, list[Any]] = {
    "int32be": LONGS,
    "h3": CELLS,
    "uuid": [*UUIDS, "x"],
    "utf8": ["a", "ab", "abc", "abcd", "abcde", "", "Zoë", None],
}
BY_SPARK = {
    f"{encoding}, spark-hash": Case({**key(encoding), "partitioner": "spark-hash"}, of(values))
    for encoding, values in TYPED.items()
}
OTHERS = {
    "h3, abs-long-hashcode": Case({**key("h3"), "partitioner": "abs-long-hashcode", "lanes": 60}, of(CELLS)),
    "int32be, crc32": Case({**key("int32be"), "partitioner": "librdkafka-consistent"}, of(LONGS)),
    "uuid, fnv1a": Case({**key("uuid"), "partitioner": "sarama-hash"}, of([*UUIDS, "x"])),
}

COMPOSITE = crossed(k=["x", "", "天", None], n=[0, -1, 2**40, None])
FIELDS = {
    "two fields": Case(key(fields=("k", "n")), COMPOSITE),
    "two fields, nothing between": Case(key(fields=("k", "n"), join="", on_empty="reject"), COMPOSITE),
    "two fields, not ASCII between": Case(key(fields=("k", "n"), join="·", on_null="reject"), COMPOSITE),
    "two fields, mixed": Case(key(["utf8", "int32be"], fields=("k", "n"), join="·"), COMPOSITE),
    "two fields, mixed and joined": Case(key(["utf8", "int64be"], fields=("k", "n"), join="::"), COMPOSITE),
    "two numbers": Case(key("int32be", fields=("n", "m")), crossed(n=[0, None, 2**40], m=[0, None, 2**40])),
    "two texts that are all empty": Case(
        key(fields=("k", "m"), join="", on_empty="round_robin"), crossed(k=["", "a"], m=["", None])
    ),
    "a null and a misfit": Case(
        key(["uuid", "int32be"], fields=("k", "n")), crossed(k=[UUID, "x", None], n=[7, 2**40, None])
    ),
    "names with dots and ticks": Case(
        {"key": {"fields": ["a.b`c", "d e"]}}, {"a.b`c": pa.array(["x", None]), "d e": pa.array(["y", "z"])}
    ),
}

HEADED = [b"\0\0\0\0\x07key", b"\0\0\0\0\x08key", b"\0\0\0\0\x07", None]
HEADERLESS = [b"", b"\0", b"\0\0\0\0", b"key", b"a longer key", b"\x01\0\0\0\x07key"]
SOME: dict[str, list[Any]] = {"all": HEADED, "some": [*HEADED, *HEADERLESS], "none": HEADERLESS}
STRIPPED = {
    f"registry header of {which}, null and empty {rule}": Case(
        key("raw", registry_header="strip", on_null=rule, on_empty=rule), of(values)
    )
    for which, values in SOME.items()
    for rule in ("client", "reject")
}

CASES = {**TYPES, **NULLS, **BY_SPARK, **OTHERS, **FIELDS, **STRIPPED}

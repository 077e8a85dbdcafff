"""Every encoding, with the values it cannot hold; composite keys; registry headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.parity.conftest import Way

    from keylane.contract.model import Contract

UUID = "123e4567-e89b-12d3-a456-426614174000"
CELL = 0x08928308280FFFFF

CASES: dict[str, tuple[str, list[Any], pa.DataType | None]] = {
    "utf8 text": ("utf8", ["a", "Zoë", "😀", "", None], None),
    "utf8 bytes": ("utf8", [b"a", "Zoë".encode(), b"\xff", b"\xed\xa0\x80", b"", None], None),
    "utf8 numbers": ("utf8", [0, -7, 2**63 - 1, -(2**63), None], None),
    "utf8 unsigned": ("utf8", [0, 2**64 - 1, None], pa.uint64()),
    "int32be": ("int32be", [0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, None], None),
    "int32be of int8": ("int32be", [0, 127, -128, None], pa.int8()),
    "int32be of uint32": ("int32be", [0, 2**31, 2**32 - 1, None], pa.uint32()),
    "int64be": ("int64be", [0, 1, -1, 2**63 - 1, -(2**63), None], None),
    "int64be of uint64": ("int64be", [0, 2**63 - 1, 2**63, 2**64 - 1, None], pa.uint64()),
    "uuid text": ("uuid", [UUID, UUID.upper(), UUID.replace("1", "f")], None),
    "uuid text with misfits": ("uuid", [UUID, UUID[:-1], UUID.replace("-", ""), UUID[:-1] + "g", "", None], None),
    "uuid text of the right length": ("uuid", [UUID, "x" * 36, UUID.replace("-", "_"), UUID[:-1] + "g"], None),
    "uuid bytes": ("uuid", [bytes(16), bytes(range(16)), b"\xff" * 16], None),
    "uuid bytes with misfits": ("uuid", [bytes(16), bytes(15), UUID.encode(), b"", None], None),
    "uuid of fixed size": ("uuid", [bytes(16), None], pa.binary(16)),
    "h3 numbers": ("h3", [CELL, 0, -1, 1 << 59, 2 << 59, (2 << 59) - 1, 2**63 - 1, None], None),
    "h3 unsigned": ("h3", [CELL, CELL | 1 << 63, 2**64 - 1, None], pa.uint64()),
    "h3 too narrow": ("h3", [1, -1, None], pa.int32()),
    "h3 text": ("h3", ["8928308280fffff", "08928308280FFFFF", "8928308280ffff", "18928308280fffff", "", None], None),
    "raw": ("raw", [b"\x00\xff", b"", b"\x80" * 9, None], None),
    "raw of fixed size": ("raw", [b"ab", b"\xff\xff", None], pa.binary(2)),
}


@pytest.mark.parametrize(("encoding", "values", "kind"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("repeat", [1, 10], ids=["few", "many"])
def test_every_encoding(
    way: Way,
    one_by_one: Way,
    contract: Callable[..., Contract],
    encoding: str,
    values: list[Any],
    kind: pa.DataType | None,
    repeat: int,
) -> None:
    promise = contract(key={"fields": ["k"], "encoding": encoding})
    records = [{"k": value} for value in values] * repeat
    at = list(range(len(records)))
    assert way(promise, records, at, types={"k": kind} if kind else None) == one_by_one(promise, records, at)


@pytest.mark.parametrize(
    ("encoding", "values"),
    [
        ("utf8", ["a", "abcde", "", None]),
        ("int32be", [0, 7, -1, None]),
        ("int64be", [0, 7, -1, None]),
        ("uuid", [UUID, UUID.upper(), None]),
        ("h3", [CELL, CELL + 1, None]),
    ],
    ids=["utf8", "int32be", "int64be", "uuid", "h3"],
)
def test_spark_hashes_by_type(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], encoding: str, values: list[Any]
) -> None:
    promise = contract(partitioner="spark-hash", key={"fields": ["k"], "encoding": encoding})
    records = [{"k": value} for value in values] * 10
    assert way(promise, records) == one_by_one(promise, records)


@pytest.mark.parametrize(
    "key",
    [
        {},
        {"join": ""},
        {"join": "·"},
        {"encoding": ["utf8", "int32be"]},
        {"encoding": ["utf8", "int64be"], "join": "::"},
        {"on_empty": "reject", "join": ""},
        {"on_null": "reject"},
    ],
    ids=[
        "default",
        "nothing between",
        "not ASCII between",
        "mixed",
        "mixed and joined",
        "empty rejected",
        "null rejected",
    ],
)
def test_keys_of_two_fields(way: Way, one_by_one: Way, contract: Callable[..., Contract], key: dict[str, Any]) -> None:
    promise = contract(key={"fields": ["a", "b"], **key})
    records = [{"a": a, "b": b} for a in ("x", "", "天", None) for b in (0, -1, 2**40, None)]
    at = list(range(len(records)))
    assert way(promise, records, at) == one_by_one(promise, records, at)


def test_a_null_and_a_malformed_field_together(way: Way, one_by_one: Way, contract: Callable[..., Contract]) -> None:
    promise = contract(key={"fields": ["a", "b"], "encoding": ["int32be", "int32be"]})
    records = [{"a": a, "b": b} for a in (0, None, 2**40) for b in (0, None, 2**40)]
    at = list(range(len(records)))
    assert way(promise, records, at) == one_by_one(promise, records, at)


HEADED = [b"\0\0\0\0\x07key", b"\0\0\0\0\x08key", b"\0\0\0\0\x07", None]
HEADINGS = ["an even number", "an odd number", "some without", "all without"]
HEADERLESS = [b"", b"\0", b"\0\0\0\0", b"key", b"a longer key", b"\x01\0\0\0\x07key"]


@pytest.mark.parametrize("rule", ["client", "reject"])
@pytest.mark.parametrize("values", [HEADED, HEADED[:3], HEADED + HEADERLESS, HEADERLESS[:5]], ids=HEADINGS)
def test_registry_headers(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], values: list[bytes | None], rule: str
) -> None:
    key = {"fields": ["k"], "encoding": "raw", "registry_header": "strip", "on_empty": rule, "on_null": rule}
    promise = contract(key=key)
    records = [{"k": value} for value in values]
    at = list(range(len(records)))
    assert way(promise, records, at) == one_by_one(promise, records, at)


@pytest.mark.parametrize("key", ["\ud800", "a\udfff", "\ude00\ud83d"], ids=ascii)
def test_text_that_no_column_can_hold_is_malformed(
    one_by_one: Way, contract: Callable[..., Contract], key: str
) -> None:
    assert [outcome.reason for outcome in one_by_one(contract(), [{"k": key}])] == ["malformed-key"]


def test_a_way_that_keeps_the_registry_header_would_be_caught(
    way: Way, one_by_one: Way, contract: Callable[..., Contract]
) -> None:
    keep, strip = (
        contract(key={"fields": ["k"], "encoding": "raw", "registry_header": rule}) for rule in ("keep", "strip")
    )
    assert way(keep, [{"k": HEADED[0]}]) != one_by_one(strip, [{"k": HEADED[0]}])

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from keylane.errors import DataError, UnplacedError
from keylane.keys.columns import encode_column, strip_registry_headers
from keylane.keys.encode import encode

if TYPE_CHECKING:
    from keylane.contract.names import Encoding

UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"
UUID_BYTES = bytes.fromhex(UUID_TEXT.replace("-", ""))
CELL = 0x08928308280FFFFF

COLUMNS = [
    ("utf8", pa.array(["a", None, "Zoë", "😀", ""])),
    ("utf8", pa.array(["a", None, "Zoë", "😀", ""], pa.large_string())),
    ("utf8", pa.array(["a", None, "Zoë", "😀", ""], pa.string_view())),
    ("utf8", pa.array(["a", None, "Zoë", "a"]).dictionary_encode()),
    ("utf8", pa.array([b"a", None, b"\xff", b""])),
    ("utf8", pa.array([b"a", None, b"\xff", b""], pa.large_binary())),
    ("utf8", pa.array([b"ab", b"\xff\xff"], pa.binary(2))),
    ("utf8", pa.array([0, -5, None, 2**63 - 1])),
    ("utf8", pa.array([0, 2**64 - 1], pa.uint64())),
    ("int32be", pa.array([0, None, -1, 2**31, -(2**31) - 1])),
    ("int32be", pa.array([0, None, -1], pa.int8())),
    ("int32be", pa.array([0, 2**32 - 1], pa.uint32())),
    ("int64be", pa.array([0, None, -(2**63), 2**63 - 1])),
    ("int64be", pa.array([0, 2**64 - 1, 2**63 - 1], pa.uint64())),
    ("int64be", pa.array([0, -1, None], pa.int32())),
    ("uuid", pa.array([UUID_TEXT, UUID_TEXT.upper()])),
    ("uuid", pa.array([UUID_TEXT, None, "not one"])),
    ("uuid", pa.array([UUID_TEXT, UUID_TEXT.replace("1", "g", 1)])),
    ("uuid", pa.array([UUID_TEXT.replace("-", "_"), UUID_TEXT])),
    ("uuid", pa.array([UUID_BYTES, bytes(16)])),
    ("uuid", pa.array([UUID_BYTES, None, b"short"])),
    ("uuid", pa.array([UUID_BYTES, None], pa.binary(16))),
    ("uuid", pa.array(["sixteen letters!"])),
    ("h3", pa.array([CELL, None, 0, -1, 2 << 59])),
    ("h3", pa.array([CELL, CELL | 1 << 63], pa.uint64())),
    ("h3", pa.array([1, None], pa.int32())),
    ("h3", pa.array(["8928308280fffff", None, "08928308280FFFFF", "x"])),
    ("raw", pa.array([b"\x00\xff", None, b""])),
    ("raw", pa.array([b"\x00\xff", None, b""], pa.binary_view())),
    ("raw", pa.array([b"\x00\xff", None], pa.binary(2))),
]


def one_by_one(value: Any, encoding: Encoding) -> tuple[bytes | None, bool]:
    try:
        return (None if value is None else encode(value, encoding)), False
    except UnplacedError:
        return None, True


@pytest.mark.parametrize(("encoding", "column"), COLUMNS, ids=[f"{e} {c.type} {i}" for i, (e, c) in enumerate(COLUMNS)])
@pytest.mark.parametrize("start", [0, 1], ids=["whole", "slice"])
def test_a_column_is_encoded_as_its_values_are(encoding: Encoding, column: pa.Array, start: int) -> None:
    part = column.slice(start)
    keys, bad = encode_column(part, encoding, "k")
    assert list(zip(keys.to_pylist(), bad.tolist(), strict=True)) == [one_by_one(v, encoding) for v in part.to_pylist()]


@pytest.mark.parametrize("encoding", ["utf8", "int32be", "int64be", "uuid", "h3", "raw"])
def test_a_column_without_a_type_holds_null_keys(encoding: Encoding) -> None:
    keys, bad = encode_column(pa.nulls(2), encoding, "k")
    assert keys.to_pylist() == [None, None]
    assert not bad.any()


@pytest.mark.parametrize(
    ("encoding", "column"),
    [
        ("utf8", pa.array([1.5])),
        ("utf8", pa.array([True])),
        ("int32be", pa.array(["7"])),
        ("int64be", pa.array([True])),
        ("uuid", pa.array([7])),
        ("h3", pa.array([b"8928308280fffff"])),
        ("raw", pa.array(["text"])),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_a_column_that_can_hold_no_key_is_refused_whole(encoding: Encoding, column: pa.Array) -> None:
    with pytest.raises(DataError, match=f"column 'k' holds no {encoding} keys: got '{column.type}'; allowed: "):
        encode_column(column, encoding, "k")


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_registry_headers_are_dropped_and_null_stays_null(kind: pa.DataType) -> None:
    keys, bad = strip_registry_headers(pa.array([b"\0\0\0\0\x07key", None, b"\0\0\0\0\x07"], kind))
    assert keys.to_pylist() == [b"key", None, b""]
    assert not bad.any()


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_registry_headers_are_dropped_from_any_number_of_rows(rows: int) -> None:
    """pyarrow 26 cannot slice an even number of rows to an open end."""
    keys, _ = strip_registry_headers(pa.array([b"\0\0\0\0\x07key"] * rows))
    assert keys.to_pylist() == [b"key"] * rows


@pytest.mark.parametrize("odd_one", [b"", b"\0", b"\0\0\0\0", b"abc", b"a long key without one"])
def test_a_key_without_its_registry_header_is_malformed(odd_one: bytes) -> None:
    keys, bad = strip_registry_headers(pa.array([b"\0\0\0\0\x07key", odd_one, None]))
    assert keys.to_pylist() == [b"key", None, None]
    assert bad.tolist() == [False, True, False]

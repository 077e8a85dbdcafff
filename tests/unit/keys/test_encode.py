from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pytest

from keylane.contract.names import ENCODINGS, FIXED_WIDTH, Encoding
from keylane.errors import UnplacedError
from keylane.keys.encode import ENCODERS, encode, strip_registry_header
from keylane.records import Reason

UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"
UUID_BYTES = bytes.fromhex(UUID_TEXT.replace("-", ""))
CELL = 0x08928308280FFFFF


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("", b""),
        ("Zoë", b"Zo\xc3\xab"),
        ("😀", b"\xf0\x9f\x98\x80"),
        (42, b"42"),
        (-7, b"-7"),
        (10**30, b"1" + b"0" * 30),
        ("Zoë".encode(), b"Zo\xc3\xab"),
    ],
    ids=ascii,
)
def test_utf8_takes_text_whole_numbers_and_utf8_bytes(value: Any, key: bytes) -> None:
    assert encode(value, "utf8") == key


def test_composed_and_decomposed_letters_are_different_keys() -> None:
    assert encode("\u00e9", "utf8") != encode("e\u0301", "utf8")


@pytest.mark.parametrize(
    ("value", "key"), [(0, "00000000"), (-1, "ffffffff"), (2**31 - 1, "7fffffff"), (-(2**31), "80000000")]
)
def test_int32be_is_four_bytes_big_endian_signed(value: int, key: str) -> None:
    assert encode(value, "int32be").hex() == key


@pytest.mark.parametrize(("value", "key"), [(1, "0000000000000001"), (-(2**63), "8000000000000000")])
def test_int64be_is_eight_bytes_big_endian_signed(value: int, key: str) -> None:
    assert encode(value, "int64be").hex() == key


@pytest.mark.parametrize("value", [UUID_TEXT, UUID_TEXT.upper(), UUID(UUID_TEXT), UUID_BYTES], ids=repr)
def test_every_form_of_a_uuid_has_the_same_bytes(value: Any) -> None:
    assert encode(value, "uuid") == UUID_BYTES


@pytest.mark.parametrize("value", [CELL, "8928308280fffff", "8928308280FFFFF", "08928308280fffff"], ids=repr)
def test_every_form_of_a_cell_has_the_same_bytes(value: Any) -> None:
    assert encode(value, "h3") == CELL.to_bytes(8, "big")


@pytest.mark.parametrize("value", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")], ids=repr)
def test_raw_takes_bytes_as_they_are(value: Any) -> None:
    assert encode(value, "raw") == b"\x00\xff"


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("utf8", "\ud800"),
        ("utf8", b"\xff"),
        ("utf8", True),
        ("utf8", 1.5),
        ("utf8", ["a"]),
        ("int32be", 2**31),
        ("int32be", -(2**31) - 1),
        ("int32be", "7"),
        ("int32be", True),
        ("int64be", 2**63),
        ("int64be", 1.0),
        ("uuid", UUID_TEXT.replace("-", "")),
        ("uuid", "{" + UUID_TEXT + "}"),
        ("uuid", UUID_TEXT + "\n"),
        ("uuid", UUID_BYTES[:15]),
        ("uuid", 7),
        ("h3", "89283082"),
        ("h3", "18928308280fffff"),
        ("h3", "٨928308280fffff"),
        ("h3", 0),
        ("h3", -1),
        ("h3", 2 << 59),
        ("h3", CELL | 1 << 63),
        ("h3", True),
        ("raw", "text"),
        ("raw", 7),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_value_that_does_not_fit_is_malformed_and_never_coerced(encoding: Encoding, value: Any) -> None:
    with pytest.raises(UnplacedError, match=f"not a {encoding} key: got {type(value).__name__} .*; allowed: ") as error:
        encode(value, encoding)
    assert error.value.reason is Reason.MALFORMED_KEY


def test_a_value_that_compares_in_its_own_way_is_malformed_too() -> None:
    with pytest.raises(UnplacedError, match="not a utf8 key: got ndarray"):
        encode(np.arange(3), "utf8")


@pytest.mark.parametrize("encoding", ["utf8", "int32be"])
def test_a_number_with_more_digits_than_python_will_write_is_malformed(encoding: Encoding) -> None:
    with pytest.raises(UnplacedError):
        encode(10**5000, encoding)


def test_a_megabyte_of_bad_key_stays_out_of_the_message() -> None:
    with pytest.raises(UnplacedError) as error:
        encode("x" * 2**20, "int32be")
    assert len(str(error.value)) < 300


def test_there_is_an_encoder_for_every_name_and_no_other() -> None:
    assert tuple(ENCODERS) == ENCODINGS


@pytest.mark.parametrize(
    ("encoding", "value"), [("int32be", 7), ("int64be", 7), ("uuid", UUID_TEXT), ("h3", CELL)], ids=str
)
def test_fixed_widths_are_what_the_encoder_gives(encoding: Encoding, value: Any) -> None:
    assert len(encode(value, encoding)) == FIXED_WIDTH[encoding]


def test_a_registry_header_is_five_bytes() -> None:
    assert strip_registry_header(b"\x00\x00\x00\x01\x02key") == b"key"
    assert strip_registry_header(b"\x00\x00\x00\x01\x02") == b""


@pytest.mark.parametrize("key", [b"", b"\x00\x00\x00\x01", b"key without one"])
def test_a_key_without_its_registry_header_is_malformed(key: bytes) -> None:
    with pytest.raises(UnplacedError, match="not a registry key") as error:
        strip_registry_header(key)
    assert error.value.reason is Reason.MALFORMED_KEY

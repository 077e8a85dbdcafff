from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.keys.arrow_bytes import as_binary, binary_of_rows, fixed_rows, lengths_and_data, nulls_of, plain

TEXT = pa.array(["a", None, "bc"])


@pytest.mark.parametrize(
    "column",
    [
        TEXT,
        pa.chunked_array([TEXT.slice(0, 1), TEXT.slice(1)]),
        TEXT.dictionary_encode(),
        pa.chunked_array([TEXT.dictionary_encode(), TEXT.slice(3).dictionary_encode()]),
    ],
    ids=["array", "chunks", "dictionary", "dictionary chunks"],
)
def test_plain_joins_chunks_and_unwraps_dictionaries(column: Any) -> None:
    assert plain(column).equals(TEXT)


def test_plain_unwraps_an_extension_type() -> None:
    identifiers = pa.array([bytes(16)], pa.uuid())
    assert plain(identifiers).type == pa.binary(16)


def test_plain_of_no_chunks_is_an_empty_array() -> None:
    assert plain(pa.chunked_array([], pa.string())).equals(pa.array([], pa.string()))


@pytest.mark.parametrize(
    ("kind", "binary"),
    [
        (pa.string(), pa.binary()),
        (pa.string_view(), pa.binary()),
        (pa.binary(), pa.binary()),
        (pa.large_string(), pa.large_binary()),
        (pa.large_binary(), pa.large_binary()),
    ],
    ids=str,
)
def test_every_layout_becomes_one_with_offsets_and_null_becomes_empty(kind: pa.DataType, binary: pa.DataType) -> None:
    viewed = as_binary(TEXT.cast(kind))
    assert viewed.type == binary
    assert viewed.to_pylist() == [b"a", b"", b"bc"]


def test_lengths_and_data_look_only_at_the_slice() -> None:
    lengths, data = lengths_and_data(pa.array([b"xxx", b"ab", b"", b"c", b"yyy"]).slice(1, 3))
    assert lengths.tolist() == [2, 0, 1]
    assert data.tobytes() == b"abc"


def test_keys_of_one_length_are_rows() -> None:
    rows = fixed_rows(pa.array([b"xx", b"ab", b"cd"]).slice(1))
    assert rows is not None
    assert rows.tolist() == [[97, 98], [99, 100]]


def test_empty_keys_are_rows_of_no_length() -> None:
    rows = fixed_rows(pa.array([b"", b""]))
    assert rows is not None
    assert rows.shape == (2, 0)


@pytest.mark.parametrize("keys", [[], [b"a", b"bc"]], ids=["none", "mixed"])
def test_keys_of_several_lengths_or_none_are_not_rows(keys: list[bytes]) -> None:
    assert fixed_rows(pa.array(keys, pa.binary())) is None


def test_rows_become_binary_with_their_nulls() -> None:
    rows = np.arange(6, dtype=np.uint8).reshape(3, 2)
    built = binary_of_rows(rows, np.array([False, True, False]))
    built.validate(full=True)
    assert built.to_pylist() == [b"\x00\x01", None, b"\x04\x05"]


def test_nulls_are_reported() -> None:
    assert nulls_of(TEXT).tolist() == [False, True, False]

"""One key or a batch, in whatever layout Arrow has the batch: the same hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.hashing import HASHES
from keylane.hashing.batch import FEW, hash_batch
from keylane.keys.columns import encode_column

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.names import Encoding

BYTES_LAYOUTS: dict[str, Callable[[list[Any]], Any]] = {
    "binary": lambda keys: pa.array(keys, pa.binary()),
    "large": lambda keys: pa.array(keys, pa.large_binary()),
    "view": lambda keys: pa.array(keys, pa.binary_view()),
    "slice": lambda keys: pa.array([b"before", *keys, b"after"], pa.binary()).slice(1, len(keys)),
    "large slice": lambda keys: pa.array([None, *keys, None], pa.large_binary()).slice(1, len(keys)),
    "dictionary": lambda keys: pa.array(keys, pa.binary()).dictionary_encode(),
    "dictionary slice": lambda keys: pa.array([b"x", *keys], pa.binary()).dictionary_encode().slice(1),
    "chunks": lambda keys: pa.chunked_array([keys[:3], keys[3:]], pa.binary()),
}
TEXT_LAYOUTS: dict[str, Callable[[list[Any]], Any]] = {
    "string": lambda keys: pa.array(keys, pa.string()),
    "large": lambda keys: pa.array(keys, pa.large_string()),
    "view": lambda keys: pa.array(keys, pa.string_view()),
    "slice": lambda keys: pa.array(["before", *keys, "after"], pa.string()).slice(1, len(keys)),
    "dictionary": lambda keys: pa.array(keys, pa.string()).dictionary_encode(),
    "chunks": lambda keys: pa.chunked_array([keys[:3], keys[3:]], pa.string()),
}


def some(keys: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """A few keys or, of each, enough for the kernels to take them."""
    return st.builds(lambda few, times: few * times, st.lists(keys, max_size=8), st.sampled_from([1, FEW]))


def agree(name: str, column: Any, encoding: Encoding) -> None:
    hash_ = HASHES[name]
    keys, _ = encode_column(column, encoding, "k")
    hashed = hash_batch(hash_, keys).tolist()
    numbers = [high << 64 | low for high, low in hashed] if hash_.bits == 128 else hashed
    assert numbers == [hash_.one(key or b"") for key in keys.to_pylist()]


@pytest.mark.parametrize("name", sorted(set(HASHES) - {"java-string", "java-long"}))
@given(keys=some(st.none() | st.binary(max_size=70)), layout=st.sampled_from(sorted(BYTES_LAYOUTS)))
def test_bytes_of_any_lengths_and_layout(name: str, keys: list[bytes | None], layout: str) -> None:
    agree(name, BYTES_LAYOUTS[layout](keys), "raw")


@pytest.mark.parametrize("name", ["java-string", "murmur2"])
@given(keys=some(st.none() | st.text(max_size=12)), layout=st.sampled_from(sorted(TEXT_LAYOUTS)))
def test_text_of_any_characters_and_layout(name: str, keys: list[str | None], layout: str) -> None:
    agree(name, TEXT_LAYOUTS[layout](keys), "utf8")


@given(keys=some(st.binary(min_size=8, max_size=8)), layout=st.sampled_from(sorted(BYTES_LAYOUTS)))
def test_longs(keys: list[bytes], layout: str) -> None:
    agree("java-long", BYTES_LAYOUTS[layout](keys), "raw")

from __future__ import annotations

import numpy as np
import pytest

from keylane.hashing.murmur2 import murmur2, murmur2_big_endian, murmur2_big_endian_rows, murmur2_rows


def test_is_unsigned_where_java_shows_a_negative_number() -> None:
    assert murmur2(b"21") == -973932308 + 2**32


def test_empty_key_is_hashed_like_any_other() -> None:
    assert murmur2(b"") % 1000 != 0
    assert (murmur2(b"") & 0x7FFFFFFF) % 1000 == 681


def test_trailing_zero_bytes_make_another_key() -> None:
    assert len({murmur2(b"a" + bytes(zeros)) for zeros in range(9)}) == 9


@pytest.mark.parametrize("key", [b"", b"a", b"abc"])
def test_word_order_plays_no_part_below_four_bytes(key: bytes) -> None:
    assert murmur2_big_endian(key) == murmur2(key)


def test_big_endian_words_are_the_hash_of_the_key_with_each_word_turned_round() -> None:
    assert murmur2_big_endian(b"abcdefghij") == murmur2(b"dcbahgfeij")
    assert murmur2_big_endian(b"abcdefghij") != murmur2(b"abcdefghij")


@pytest.mark.parametrize("length", range(10))
def test_rows_give_what_single_keys_give(length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (20, length), np.uint8)
    assert murmur2_rows(rows).tolist() == [murmur2(row.tobytes()) for row in rows]
    assert murmur2_big_endian_rows(rows).tolist() == [murmur2_big_endian(row.tobytes()) for row in rows]

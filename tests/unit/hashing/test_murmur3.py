from __future__ import annotations

import numpy as np
import pytest

from keylane.hashing.murmur3 import (
    SPARK_SEED,
    murmur3_32,
    murmur3_32_rows,
    spark_bytes,
    spark_bytes_rows,
    spark_int,
    spark_long,
    spark_words_rows,
)

I32 = 2**31 - 1
I64 = 2**63 - 1


@pytest.mark.parametrize(
    ("key", "seed", "value"),
    [(b"", 0, 0), (b"", 1, 0x514E28B7), (b"", 0xFFFFFFFF, 0x81F16F39), (b"\xff" * 4, 0, 0x76293B50)],
)
def test_published_values_of_other_seeds(key: bytes, seed: int, value: int) -> None:
    assert murmur3_32(key, seed) == value


@pytest.mark.parametrize(
    ("number", "value"),
    [(1, 0xDEA578E3), (0, 0x379FAE8F), (-1, 0xA0590E3D), (I32, 0x07FB67E7), (-I32 - 1, 0x2B1F0FC6)],
)
def test_spark_hashes_an_int_as_one_word(number: int, value: int) -> None:
    assert spark_int(number) == value


@pytest.mark.parametrize(
    ("number", "value"),
    [(1, 0x99F0149D), (0, 0x9C67B85D), (-1, 0xC8008529), (I64, 0xA05B5D7B), (-I64 - 1, 0xCD1E64FB)],
)
def test_spark_hashes_a_long_as_two_words(number: int, value: int) -> None:
    assert spark_long(number) == value


def test_spark_agrees_with_the_published_form_on_whole_words_only() -> None:
    assert spark_bytes(b"abcd") == murmur3_32(b"abcd", SPARK_SEED)
    assert spark_bytes(b"abcde") != murmur3_32(b"abcde", SPARK_SEED)


def test_spark_reads_tail_bytes_signed() -> None:
    assert spark_bytes(b"\xff") == spark_bytes_rows(np.array([[0xFF]], np.uint8))[0]
    assert spark_bytes(b"\xff") != spark_bytes(b"\x7f")


@pytest.mark.parametrize("length", range(10))
def test_rows_give_what_single_keys_give(length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (20, length), np.uint8)
    assert murmur3_32_rows(rows).tolist() == [murmur3_32(row.tobytes()) for row in rows]
    assert spark_bytes_rows(rows).tolist() == [spark_bytes(row.tobytes()) for row in rows]


def test_word_rows_hold_numbers_big_endian() -> None:
    numbers = np.array([0, 1, -1, I32, -I32 - 1])
    ints, longs = (numbers.astype(kind).view(np.uint8).reshape(5, -1) for kind in (">i4", ">i8"))
    assert spark_words_rows(ints).tolist() == [spark_int(number) for number in numbers.tolist()]
    assert spark_words_rows(longs).tolist() == [spark_long(number) for number in numbers.tolist()]

from __future__ import annotations

import numpy as np
import pytest

from keylane.hashing.row_words import seeded, sign_extended, tail, word

ROWS = np.arange(14, dtype=np.uint8).reshape(2, 7)


def test_word_reads_four_bytes_of_every_row_in_the_order_asked_for() -> None:
    assert word(ROWS, 0).tolist() == [0x03020100, 0x0A090807]
    assert word(ROWS, 1, ">").tolist() == [0x01020304, 0x08090A0B]


@pytest.mark.parametrize("length", [4, 8, 11])
def test_no_rows_have_no_words(length: int) -> None:
    """A batch without keyless rows, under a client that ignores keys, ended in an error of NumPy's."""
    rows = np.empty((0, length), np.uint8)
    assert [word(rows, at).tolist() for at in range(0, length - 3, 4)] == [[]] * (length // 4)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 6, 7, 9])
def test_tail_is_the_bytes_after_the_last_word_little_endian(length: int) -> None:
    rows = np.arange(3 * length, dtype=np.uint8).reshape(3, length)
    expected = [int.from_bytes(row.tobytes()[length // 4 * 4 :], "little") for row in rows]
    assert tail(rows).tolist() == expected


def test_seeded_starts_one_accumulator_a_row() -> None:
    assert seeded(ROWS, 7).tolist() == [7, 7]
    assert seeded(ROWS, 7).dtype == np.uint32


def test_sign_extension_reads_bytes_as_java_does() -> None:
    assert sign_extended(np.array([0, 127, 128, 255], np.uint8)).tolist() == [0, 127, 2**32 - 128, 2**32 - 1]

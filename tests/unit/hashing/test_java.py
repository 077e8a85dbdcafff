from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from keylane.hashing.java import java_long, java_long_rows, java_string, java_string_rows
from keylane.placement.fold import absolute

TEXTS = ["", "abc", "Zoë", "天地", "a😀b", "😀😀", "\x00", "\x7f\x80߿ࠀ\uffff𐀀\U0010ffff"]


def utf16_hash(text: str) -> int:
    """`String.hashCode` from its definition, over the UTF-16 units of the text."""
    units = np.frombuffer(text.encode("utf-16-le"), "<u2").tolist()
    return sum(unit * 31 ** (len(units) - 1 - i) for i, unit in enumerate(units)) % 2**32


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_string_hash_is_over_utf16_units(text: str) -> None:
    assert java_string(text.encode()) == utf16_hash(text)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_string_rows_give_what_single_keys_give(text: str) -> None:
    rows = np.frombuffer(text.encode() * 3, np.uint8).reshape(3, -1)
    assert java_string_rows(rows).tolist() == [utf16_hash(text)] * 3


def test_string_rows_may_mix_ascii_with_wider_characters() -> None:
    texts = ["abcd", "天a", "😀", "éé"]
    rows = np.frombuffer("".join(texts).encode(), np.uint8).reshape(4, 4)
    assert java_string_rows(rows).tolist() == [utf16_hash(text) for text in texts]


@pytest.mark.parametrize("number", [0, 1, -1, 2**63 - 1, -(2**63), 0x0123456789ABCDEF])
def test_long_hash_is_the_high_half_xor_the_low_half(number: int) -> None:
    key = number.to_bytes(8, "big", signed=True)
    assert java_long(key) == (number >> 32 ^ number) % 2**32
    assert java_long_rows(np.frombuffer(key, np.uint8).reshape(1, 8)).tolist() == [java_long(key)]


@pytest.mark.parametrize(("lanes", "reached"), [(60, 15), (64, 4)])
def test_coarse_h3_cells_reach_few_lanes(lanes: int, reached: int) -> None:
    """Resolution 3: base cell and three digits vary, and the 36 bits below are ones."""
    fixed = 1 << 59 | 3 << 52 | (1 << 36) - 1
    cells = (fixed | base << 45 | a << 42 | b << 39 | c << 36 for base, a, b, c in product(range(122), *[range(7)] * 3))
    assert len({absolute(java_long(cell.to_bytes(8, "big")), lanes) for cell in cells}) == reached

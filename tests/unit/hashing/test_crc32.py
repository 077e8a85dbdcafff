from __future__ import annotations

import zlib

import numpy as np
import pytest

from keylane.hashing.crc32 import crc32, crc32_rows


def test_uses_the_ieee_polynomial_and_not_castagnolis() -> None:
    assert crc32(b"123456789") == 0xCBF43926  # CRC-32C would be 0xE3069283


def test_empty_key_is_zero() -> None:
    assert crc32(b"") == 0


@pytest.mark.parametrize("length", range(10))
def test_rows_give_what_zlib_gives(length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (20, length), np.uint8)
    assert crc32_rows(rows).tolist() == [zlib.crc32(row.tobytes()) for row in rows]

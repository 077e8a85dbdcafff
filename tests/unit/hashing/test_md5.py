from __future__ import annotations

import hashlib

import numpy as np
import pytest

from keylane.hashing.md5 import md5_128, md5_128_rows


def test_is_the_digest_read_big_endian_and_unsigned() -> None:
    assert f"{md5_128(b'abc'):032x}" == hashlib.md5(b"abc").hexdigest()
    assert md5_128(b"abc") == 0x900150983CD24FB0D6963F7D28E17F72 > 2**127


@pytest.mark.parametrize("length", [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128])
def test_rows_are_right_on_both_sides_of_every_padding_boundary(length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (9, length), np.uint8)
    digests = [hashlib.md5(row.tobytes()).hexdigest() for row in rows]
    assert [f"{high:016x}{low:016x}" for high, low in md5_128_rows(rows).tolist()] == digests

from __future__ import annotations

import numpy as np
import pytest

from keylane.hashing.fnv1a import BASIS, PRIME, fnv1a, fnv1a_rows


def test_empty_key_is_the_basis() -> None:
    assert fnv1a(b"") == BASIS


def test_xors_before_it_multiplies() -> None:
    assert fnv1a(b"a") == (BASIS ^ ord("a")) * PRIME % 2**32
    assert fnv1a(b"a") != BASIS * PRIME % 2**32 ^ ord("a")  # FNV-1, without the a


@pytest.mark.parametrize("length", range(10))
def test_rows_give_what_single_keys_give(length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (20, length), np.uint8)
    assert fnv1a_rows(rows).tolist() == [fnv1a(row.tobytes()) for row in rows]

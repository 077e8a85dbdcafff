from __future__ import annotations

import pyarrow as pa
import pytest

from keylane.hashing import HASHES
from keylane.hashing.batch import BLOCK, FEW, WINDOW, hash_batch

MURMUR2 = HASHES["murmur2"]


def one_by_one(keys: list[bytes]) -> list[int]:
    return [MURMUR2.one(key) for key in keys]


def test_mixed_lengths_come_back_in_the_order_they_came() -> None:
    keys = [b"ab", b"c", b"de", b"", b"fghij", b"k"] * 5
    assert hash_batch(MURMUR2, pa.array(keys)).tolist() == one_by_one(keys)


def test_no_keys_give_no_hashes() -> None:
    assert hash_batch(MURMUR2, pa.array([], pa.binary())).tolist() == []
    assert hash_batch(HASHES["md5-128"], pa.array([], pa.binary())).shape == (0, 2)


def test_null_gives_the_hash_of_the_empty_key() -> None:
    assert hash_batch(MURMUR2, pa.array([None, b"", b"a"])).tolist() == one_by_one([b"", b"", b"a"])


@pytest.mark.parametrize("rows", [1, FEW - 1, FEW, FEW + 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_every_cut_of_the_work_gives_the_same_hashes(rows: int) -> None:
    keys = [b"%06d" % i for i in range(rows)]
    hashed = hash_batch(MURMUR2, pa.array(keys)).tolist()
    assert hashed[:: max(1, rows // 50)] == one_by_one(keys[:: max(1, rows // 50)])
    assert hashed[-1] == MURMUR2.one(keys[-1])


def test_keys_on_both_sides_of_a_window_keep_their_places() -> None:
    keys = [b"%d" % i for i in range(WINDOW + 3)]
    hashed = hash_batch(MURMUR2, pa.array(keys)).tolist()
    assert hashed[-6:] == one_by_one(keys[-6:])
    assert hashed[:3] == one_by_one(keys[:3])


def test_128_bit_hashes_come_as_high_and_low_halves() -> None:
    md5 = HASHES["md5-128"]
    keys = [b"abc", b"", b"a" * 100] * FEW
    halves = hash_batch(md5, pa.array(keys)).tolist()
    assert [high << 64 | low for high, low in halves] == [md5.one(key) for key in keys]

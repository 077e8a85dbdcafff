from __future__ import annotations

import numpy as np
import pytest

from keylane.hashing.kafkajs_legacy import kafkajs_legacy, kafkajs_legacy_rows
from keylane.hashing.murmur2 import murmur2


@pytest.mark.parametrize("key", [b"1", b"abc", b"abcd", b"100:48069"])
def test_is_not_murmur2(key: bytes) -> None:
    assert kafkajs_legacy(key) != murmur2(key)


def test_keeps_the_published_value_of_the_issue_that_found_it() -> None:
    assert kafkajs_legacy(b"100:48069") == 1713501762  # tulios/kafkajs#357


@pytest.mark.parametrize("length", range(10))
def test_rows_give_what_single_keys_give(length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (20, length), np.uint8)
    assert kafkajs_legacy_rows(rows).tolist() == [kafkajs_legacy(row.tobytes()) for row in rows]

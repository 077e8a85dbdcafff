from __future__ import annotations

import numpy as np
import pytest

from keylane.placement.fold import FOLDS, absolute, masked, positive, unsigned

EDGES = [0, 1, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF]


def signed(h: int) -> int:
    return h - 2**32 if h >= 2**31 else h


@pytest.mark.parametrize("h", EDGES, ids=hex)
@pytest.mark.parametrize("lanes", [1, 2, 7, 64, 100_000])
def test_each_rule_is_what_its_clients_compute(h: int, lanes: int) -> None:
    assert masked(h, lanes) == (h & 0x7FFFFFFF) % lanes
    assert unsigned(h, lanes) == h % lanes
    assert absolute(h, lanes) == abs(signed(h)) % lanes
    assert positive(h, lanes) == signed(h) % lanes


@pytest.mark.parametrize("lanes", [1, 2, 7, 64, 100_000])
def test_remainder_first_and_absolute_value_after_gives_the_same_lane(lanes: int) -> None:
    """Sarama takes the remainder of the signed hash, which in Go has the sign of the hash, and drops the sign."""
    for h in EDGES:
        remainder = int(np.fmod(signed(h), lanes))
        assert absolute(h, lanes) == abs(remainder)


@pytest.mark.parametrize("name", FOLDS)
def test_arrays_give_what_numbers_give(name: str) -> None:
    fold = FOLDS[name]
    for lanes in (1, 2, 7, 64, 99_999, 100_000):
        folded = fold(np.array(EDGES, np.uint32), lanes)
        assert folded.tolist() == [fold(h, lanes) for h in EDGES]
        assert folded.dtype == np.uint32


def test_rules_differ_above_the_sign_bit_and_agree_below() -> None:
    assert {fold(0x7FFFFFFF, 10) for fold in FOLDS.values()} == {7}
    assert [fold(0x80000001, 10) for fold in (masked, unsigned, absolute, positive)] == [1, 9, 7, 3]

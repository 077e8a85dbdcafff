"""The four sequences: their first keys, both ways round, and how uneven each is at worst."""

from __future__ import annotations

import pytest

from keylane.errors import UsageError
from keylane.keyspace.sequences import SEQUENCES, Sequence, nth_key, number_of
from keylane.placement.ranges import KeySpace

FIRST = {
    "tree": [64, 32, 96, 16, 80, 48, 112, 8, 72, 40],
    "left-right": [64, 32, 96, 16, 48, 80, 112, 8, 24, 40],
    "halves": [64, 32, 96, 16, 80, 48, 112, 8, 40, 72],
}
SHARDS = (2, 3, 8, 10, 48, 64)
#: Largest difference between two of so many shards, for up to 4,095 keys.
APART = {
    "tree": (1, 6, 1, 6, 5, 1),
    "left-right": (1023, 683, 256, 206, 44, 32),
    "halves": (511, 342, 128, 104, 23, 16),
    "golden": (3, 4, 3, 3, 4, 4),
}


@pytest.mark.parametrize("sequence", FIRST)
def test_the_first_keys(sequence: Sequence) -> None:
    assert [nth_key(sequence, n, 7) for n in range(1, 11)] == FIRST[sequence]


def test_over_the_whole_space_the_tree_begins_with_its_middles() -> None:
    assert [nth_key("tree", n) for n in (1, 2, 3)] == [2**127, 2**126, 3 * 2**126]


def test_the_halves_part_from_the_tree_at_the_ninth_key_and_their_halves_at_the_same() -> None:
    assert [nth_key("halves", n) for n in range(1, 9)] == [nth_key("tree", n) for n in range(1, 9)]
    nine = [nth_key("halves", n) for n in range(1, 10)]
    assert (sum(key < 2**127 for key in nine), sum(key > 2**127 for key in nine)) == (5, 3)


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("bits", [1, 2, 3, 5, 8])
def test_every_key_comes_once_and_has_its_number(sequence: Sequence, bits: int) -> None:
    last = 2**bits - (sequence != "golden")
    keys = [nth_key(sequence, n, bits) for n in range(1, last + 1)]
    assert len(set(keys)) == last
    assert [number_of(sequence, key, bits) for key in keys] == list(range(1, last + 1))
    for number in (0, last + 1):
        with pytest.raises(UsageError):
            nth_key(sequence, number, bits)


def test_a_large_number_is_exact() -> None:
    # Doubles give a wrong level from 2**49 on.
    for number in (2**49, 2**49 + 1, 2**53 - 1, 2**100 + 7):
        for sequence in SEQUENCES:
            assert number_of(sequence, nth_key(sequence, number)) == number


@pytest.mark.parametrize("sequence", APART)
def test_how_far_apart_shards_are_at_worst(sequence: Sequence) -> None:
    keys = [nth_key(sequence, number) for number in range(1, 4096)]
    assert tuple(apart(keys, shards) for shards in SHARDS) == APART[sequence]


def apart(keys: list[int], shards: int) -> int:
    counts, most, space = [0] * shards, 0, KeySpace.equal(shards)
    for key in keys:
        counts[space.lane_of(key)] += 1
        most = max(most, max(counts) - min(counts))
    return most

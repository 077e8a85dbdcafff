"""The constant tables behind the lanes of shards: every key in a slot of its own, every boundary where it is."""

from __future__ import annotations

from bisect import bisect_right
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.parity.cases.partitioners import TWINS

from keylane.hashing.md5 import md5_128
from keylane.spark import shard_lanes
from keylane.spark.shard_lanes import HashKeyTable, bucket_table, hash_key_table

if TYPE_CHECKING:
    from collections.abc import Callable


def slot(table: HashKeyTable, key: bytes) -> int:
    """As the column computes it."""
    high = md5_128(key) >> 64
    by = table.displacements[high * len(table.displacements) >> 64]
    return ((high >> table.shift) & (len(table.keys) - 1)) ^ by


@pytest.mark.parametrize("count", [1, 2, 100, 10_000])
def test_every_account_is_in_the_slot_that_its_digest_names(count: int) -> None:
    given = {f"account-{n}".encode(): n % 64 for n in range(count)}
    table = hash_key_table(given)
    assert table is not None
    found = {key: (table.keys[slot(table, key)], table.lanes[slot(table, key)]) for key in given}
    assert found == {key: (key, lane) for key, lane in given.items()}
    assert sum(lane >= 0 for lane in table.lanes) == count


def test_keys_that_no_table_holds_are_left_to_joins() -> None:
    assert hash_key_table({key.encode(): 0 for key in TWINS}) is None
    assert hash_key_table({key.encode(): 0 for key in TWINS[:1]}) is not None


def test_every_account_has_its_bit_and_few_others_have() -> None:
    table = hash_key_table({f"account-{n}".encode(): 0 for n in range(10_000)})
    assert table is not None
    words = table.bits

    def is_set(key: str) -> bool:
        high = md5_128(key.encode()) >> 64
        return bool(words[(high >> 6) & (len(words) - 1)] >> (high & 63) & 1)

    assert all(is_set(f"account-{n}") for n in range(10_000))
    assert sum(is_set(f"other-{n}") for n in range(10_000)) < 1_000


def stepped(starts: list[int], key: int) -> int:
    """The range of a key, as the column finds it."""
    table = bucket_table(starts)
    assert table is not None
    at = table.firsts[key >> (128 - table.bits)]
    for _ in range(table.steps):
        at += at + 1 < len(starts) and key >= starts[at + 1]
    return at


@pytest.mark.parametrize("count", [2, 64, 1_000])
def test_a_few_steps_lead_to_the_range_of_every_key(count: int) -> None:
    rng = Random(count)
    starts = [0, *sorted(rng.getrandbits(128) for _ in range(count - 1))]
    keys = [one + step for one in starts for step in (-1, 0, 1) if one + step >= 0] + [2**128 - 1]
    assert [stepped(starts, key) for key in keys] == [bisect_right(starts, key) - 1 for key in keys]


def test_narrow_ranges_are_bisected() -> None:
    assert bucket_table([0, *range(2**100, 2**100 + 20, 2)]) is None


@pytest.mark.parametrize("plant", [lambda table: (*table.firsts[:-1], 0), lambda table: (0,) * len(table.firsts)])
def test_a_wrong_bucket_would_be_caught(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[shard_lanes.BucketTable], tuple[int, ...]]
) -> None:
    starts = [0, 2**126, 2**127, 3 * 2**126]
    table = bucket_table(starts)
    assert table is not None
    wrong = shard_lanes.BucketTable(table.bits, plant(table), table.steps)
    monkeypatch.setattr(f"{__name__}.bucket_table", lambda _: wrong)
    assert [stepped(starts, one) for one in (0, 2**127, 2**128 - 1)] != [0, 2, 3]

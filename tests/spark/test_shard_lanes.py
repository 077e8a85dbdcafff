"""The constant table behind the lanes of shards: every boundary where it is."""

from __future__ import annotations

from bisect import bisect_right
from random import Random
from typing import TYPE_CHECKING

import pytest

from keylane.spark import shard_lanes
from keylane.spark.shard_lanes import bucket_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def stepped(starts: list[int], keys: Iterable[int]) -> list[int]:
    """The range of each key, as the column finds it."""
    table = bucket_table(starts)
    assert table is not None
    found = []
    for key in keys:
        at = table.firsts[key >> (128 - table.bits)]
        for _ in range(table.steps):
            at += at + 1 < len(starts) and key >= starts[at + 1]
        found.append(at)
    return found


@pytest.mark.parametrize("count", [2, 64, 1_000])
def test_a_few_steps_lead_to_the_range_of_every_key(count: int) -> None:
    rng = Random(count)
    starts = [0, *sorted(rng.getrandbits(128) for _ in range(count - 1))]
    keys = [one + step for one in starts for step in (-1, 0, 1) if one + step >= 0] + [2**128 - 1]
    assert stepped(starts, keys) == [bisect_right(starts, key) - 1 for key in keys]


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
    assert stepped(starts, (0, 2**127, 2**128 - 1)) != [0, 2, 3]

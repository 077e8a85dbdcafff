"""The calls between two layouts: as many as boundaries differ, in an order that the rules of a layout allow."""

from __future__ import annotations

from math import gcd

import pytest

from keylane.keyspace.layout import Shard, ShardLayout, layout_of, new_layout
from keylane.keyspace.reshard import Resharding, difference, resharding

LAST = 2**128 - 1


def carried_out(layout: ShardLayout, change: Resharding) -> ShardLayout:
    """The calls made one by one, under every rule of a layout."""
    for call in change.calls:
        layout = layout.split(call.shards[0], call.at) if call.call == "SplitShard" else layout.merge(*call.shards)
        assert len(layout.open) == call.after
        assert {shard.id for shard in layout.open} >= set(call.makes)
    return layout


@pytest.mark.parametrize(("a", "b"), [(4, 3), (3, 4), (10, 12), (10, 20), (7, 5), (1, 64), (64, 1), (48, 52), (5, 5)])
def test_between_equal_shards(a: int, b: int) -> None:
    layout, target = new_layout(a), new_layout(b)
    change = resharding(layout, target.starts)
    done = carried_out(layout, change)
    assert [(one.id, one.start, one.end) for one in done.open] == [
        (one.id, one.start, one.end) for one in change.layout.open
    ]
    assert done.starts == target.starts
    assert len(change.calls) == difference(layout, target.starts)
    assert (change.splits - change.merges, change.peak <= max(a, b) + 1) == (b - a, True)


@pytest.mark.parametrize(("a", "b"), [(4, 3), (8, 12), (16, 24), (32, 20)])
def test_boundaries_that_are_exactly_shared_are_kept(a: int, b: int) -> None:
    # Cut at whole parts of one fine layout, so that the floor rule plays no part.
    fine = 2**128 // (a * b)
    old = layout_of(Shard(f"s-{n}", n * b * fine, LAST if n == a - 1 else (n + 1) * b * fine - 1) for n in range(a))
    assert len(resharding(old, [n * a * fine for n in range(b)]).calls) == a + b - 2 * gcd(a, b)


def test_a_boundary_that_moves_by_one_key_is_merged_before_it_is_split() -> None:
    layout = layout_of([Shard("a0", 0, 99), Shard("a1", 100, LAST)])
    for at in (99, 101):
        change = resharding(layout, [0, at])
        assert [call.call for call in change.calls] == ["MergeShards", "SplitShard"]
        assert carried_out(layout, change).starts == [0, at]
    assert [call.call for call in resharding(layout, [0, 102]).calls] == ["SplitShard", "MergeShards"]


def test_a_merge_never_makes_more_than_a_new_shard() -> None:
    layout, starts = new_layout(12), new_layout(7).starts
    change = resharding(layout, starts)
    ends = dict(zip(starts, [*starts[1:], LAST + 1], strict=True))
    now = layout
    for call in change.calls:
        now = now.split(call.shards[0], call.at) if call.call == "SplitShard" else now.merge(*call.shards)
        if call.call == "MergeShards":
            made = now.named(call.makes[0])
            inside = max(start for start in starts if start <= made.start)
            assert made.end < ends[inside]


def test_ids_go_on_from_the_largest_that_was_ever_used() -> None:
    layout = layout_of([Shard("shardId-000000000041", 0, LAST, closed=True), Shard("shardId-000000000007", 0, LAST)])
    call = resharding(layout, [0, 2**127]).calls[0]
    assert (call.shards, call.makes) == (
        ("shardId-000000000007",),
        ("shardId-000000000042", "shardId-000000000043"),
    )

"""Layouts of shards: ranges of a new stream, what is wrong with one, splits, merges and their lineage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keylane.errors import UnknownNameError, UsageError
from keylane.keyspace.layout import (
    Shard,
    ShardLayout,
    layout_from_json,
    layout_of,
    layout_problems,
    layout_to_json,
    new_layout,
)

LAST = 2**128 - 1


def ranges(layout: ShardLayout) -> list[tuple[str, int, int]]:
    return [(shard.id[-2:], shard.start, shard.end) for shard in layout.open]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 11, 48, 100])
def test_a_new_stream_has_equal_shards_and_the_last_takes_the_rest(count: int) -> None:
    shards, width = new_layout(count).open, 2**128 // count
    assert [shard.start for shard in shards] == [n * width for n in range(count)]
    assert [shard.width for shard in shards[:-1]] == [width] * (count - 1)
    assert (shards[-1].end, shards[-1].width - width) == (LAST, 2**128 % count)


def test_a_split_closes_the_parent_and_opens_two() -> None:
    layout = new_layout(2).split("shardId-000000000000", 2**126)
    assert ranges(layout) == [("02", 0, 2**126 - 1), ("03", 2**126, 2**127 - 1), ("01", 2**127, LAST)]
    children = [shard.id[-2:] for shard in layout.shards if "shardId-000000000000" in shard.parents]
    assert children == ["02", "03"]
    assert layout.named("shardId-000000000000").closed
    assert list(layout_problems(layout)) == []
    for again in ("shardId-000000000000", "none"):
        with pytest.raises((UsageError, UnknownNameError)):
            layout.split(again, 2**125)


def test_a_merge_names_the_lower_shard_first_and_takes_one_id() -> None:
    layout = new_layout(4)
    ids = [shard.id for shard in layout.open]
    merged = layout.merge(ids[1], ids[2])
    assert ranges(merged)[1] == ("04", 2**126, 3 * 2**126 - 1)
    assert merged.named("shardId-000000000004").parents == (ids[1], ids[2])
    for lower, upper in ((ids[2], ids[1]), (ids[0], ids[2]), (ids[0], ids[0])):
        with pytest.raises(UsageError):
            layout.merge(lower, upper)


def test_every_shard_keeps_two_keys() -> None:
    layout = layout_of([Shard("a0", 0, 9), Shard("a1", 10, LAST)])
    for at in (0, 1, 9, 10, 11):
        with pytest.raises(UsageError):
            layout.split("a0", at)
    assert [shard.width for shard in layout.split("a0", 2).open][:2] == [2, 8]
    assert [shard.width for shard in layout.split("a0", 8).open][:2] == [8, 2]
    assert layout.split("a0", 4).next_ids(1) == ["a4"]


@pytest.mark.parametrize(
    ("shards", "named"),
    [
        ([("a", 1, LAST)], ["hole", "0 to 0"]),
        ([("a", 0, 9), ("b", 11, LAST)], ["hole", "10 to 10", "'b'"]),
        ([("a", 0, 9), ("b", 9, LAST)], ["overlap", "9 to 9", "'a' and 'b'"]),
        ([("a", 0, 99), ("b", 10, 20), ("c", 100, LAST)], ["overlap", "10 to 20"]),
        ([("a", 0, LAST - 1)], ["hole", f"{LAST} to {LAST}"]),
        ([("a", 0, 9), ("a", 10, LAST)], ["2 shards", "'a'"]),
        ([("a", 0, 0), ("b", 1, LAST)], ["'a'", "one key"]),
        ([("a", 0, LAST), ("b", 9, 5)], ["'b' ends before"]),
        ([("a", 0, 9), ("b", 20, 29), ("c", 25, LAST)], ["hole from 10 to 19", "overlap from 25 to 29"]),
    ],
)
def test_what_is_wrong_is_named_with_its_numbers(shards: list[tuple[str, int, int]], named: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        layout_of(Shard(*one) for one in shards)
    assert [word for word in named if word not in str(caught.value)] == []
    assert caught.value.exit_code == 2


def test_closed_shards_may_overlap_and_an_open_parent_may_not() -> None:
    parent = Shard("a", 0, LAST, closed=True)
    halves = [Shard("b", 0, 2**127 - 1, parents=("a",)), Shard("c", 2**127, LAST, parents=("a",))]
    assert [shard.id for shard in layout_of([parent, *halves]).open] == ["b", "c"]
    with pytest.raises(UsageError):
        layout_of([Shard("a", 0, 2**127 - 1), Shard("c", 2**127, LAST, parents=("a",))])
    with pytest.raises(UsageError):
        layout_of([parent])


def test_a_layout_comes_back_from_its_json() -> None:
    layout = new_layout(3).split("shardId-000000000001", 2**127)
    assert layout_from_json(json.dumps(layout_to_json(layout))) == layout


@pytest.mark.parametrize(
    "shard",
    [
        {"start": 0},
        {"start": "00"},
        {"start": " 0"},
        {"start": "٠"},
        {"end": str(2**128)},
        {"end": "-1"},
        {"end": None},
        {"id": ""},
        {"id": 7},
        {"id": "\ud800"},
        {"id": "s-" + "9" * 5_000},
        {"load": -1},
        {"load": "5"},
        {"load": float("nan")},
        {"load": float("inf")},
        {"load": True},
        {"load": 10**400},
        {"parents": "a"},
        {"parents": ["\ud800"]},
        {"closed": 1},
    ],
    ids=str,
)
def test_a_bad_value_of_the_json_is_named(shard: dict[str, Any]) -> None:
    text = json.dumps({"shards": [{"id": "a", "start": "0", "end": str(LAST), **shard}]})
    with pytest.raises(UsageError) as caught:
        layout_from_json(text)
    assert next(iter(shard)) in str(caught.value)


def test_loads_that_no_number_holds_together_are_refused() -> None:
    halves = [(0, LAST // 2), (LAST // 2 + 1, LAST)]
    shards = [{"id": str(n), "start": str(a), "end": str(b), "load": 1.5e308} for n, (a, b) in enumerate(halves)]
    with pytest.raises(UsageError, match="add up"):
        layout_from_json(json.dumps({"shards": shards}))
    shards[0]["load"] = 1.0
    assert layout_from_json(json.dumps({"shards": shards})).loads == [1.0, 1.5e308]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"shards": []}', '{"shards": [1]}', '{"shards": {}}', "[" * 100_000])
def test_what_is_no_layout_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        layout_from_json(text)


def test_the_key_space_of_a_layout_places_by_its_open_shards() -> None:
    layout = new_layout(2).split("shardId-000000000001", 3 * 2**126)
    space = layout.key_space
    assert [space.lane_of(key) for key in (2**127 - 1, 2**127, 3 * 2**126 - 1, 3 * 2**126, LAST)] == [0, 1, 1, 2, 2]
    assert space.ids == tuple(shard.id for shard in layout.open)

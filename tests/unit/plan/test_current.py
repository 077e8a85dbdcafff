"""Today's contract is counted as its router places, and a change is counted key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from keylane.plan.candidates import candidates, standing
from keylane.plan.current import moved_from, today_of
from keylane.plan.hashed_keys import ProfiledStream
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract
    from keylane.profile.model import Profile

    Contracts = Callable[..., Contract]


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"hot_keys": [{"keys": ["key-00000", "key-00003"], "pin": {"lanes": [3, 3]}}]},
        {"table": {"values": {"key-00001": 5, "key-00002": 0}}},
        {"table": {"ranges": [{"from": "key-00010", "below": "key-00020", "lane": 7}]}},
    ],
    ids=["hash", "pins", "values", "ranges"],
)
def test_whole_keys_are_where_the_router_has_them(rules: Any, steady: Profile, contract: Contracts) -> None:
    stream, today = ProfiledStream(steady), contract(lanes=8, **rules)
    found = today_of(stream, today, 8)
    assert found.home.tolist() == Router(today).lanes(steady.keys).to_pylist()
    loads = np.bincount(found.home, steady.records, minlength=8)
    assert standing(stream, today, 8, found.fitted).loads.sum(axis=1) == pytest.approx(loads)


def test_a_spread_key_has_all_of_its_lanes(steady: Profile, contract: Contracts) -> None:
    today = contract(lanes=8, hot_keys=[{"keys": ["key-00000"], "spread": {"lanes": [1, 2, 6], "by": "order"}}])
    found = today_of(ProfiledStream(steady), today, 8)
    rank = steady.keys.column("k").to_pylist().index("key-00000")
    assert (found.home[rank], found.fitted.moves[rank]) == (-1, (1, 2, 6))


def test_a_tier_has_lanes_of_its_own(steady: Profile, contract: Contracts) -> None:
    rule = {"keys": ["key-00000"], "tier": {"stream": "t.hot", "lanes": 4}}
    found = today_of(ProfiledStream(steady), contract(lanes=8, hot_keys=[rule]), 8)
    assert found.fitted.tier_lanes == 4
    assert all(8 <= lane < 12 for lanes in found.fitted.moves.values() for lane in lanes)


def test_twice_the_lanes_move_half_of_the_keys(steady: Profile, contract: Contracts) -> None:
    stream = ProfiledStream(steady)
    today = today_of(stream, contract(lanes=8), 8)
    found = {one.lanes: one for one in candidates(stream, "kafka-java", (8, 16)) if one.strategy == "hash"}
    assert moved_from(today, stream, found[8]).keys == 0
    assert moved_from(today, stream, found[16]).keys == pytest.approx(0.5, abs=0.05)


def test_only_what_is_pinned_moves(steady: Profile, contract: Contracts) -> None:
    stream = ProfiledStream(steady)
    today = today_of(stream, contract(lanes=8), 8)
    one = next(one for one in candidates(stream, "kafka-java", (8,)) if one.strategy == "pin")
    moved = moved_from(today, stream, one)
    ranks = list(one.fitted.moves)
    assert moved.keys == pytest.approx(len(ranks) / steady.keys.num_rows)
    assert moved.traffic == pytest.approx(steady.records[ranks].sum() / steady.records.sum())


def test_a_key_that_is_spread_from_its_lane_keeps_its_part_there(steady: Profile, contract: Contracts) -> None:
    stream = ProfiledStream(steady)
    home = int(stream.hashed("kafka-java", 8).home[0])
    today = today_of(stream, contract(lanes=8), 8)
    one = next(one for one in candidates(stream, "kafka-java", (8,)) if one.strategy == "spread")
    from dataclasses import replace

    from keylane.plan.strategies import Fitted

    spread = replace(one, fitted=Fitted({0: (home, (home + 1) % 8)}))
    assert moved_from(today, stream, spread).traffic == pytest.approx(steady.records[0] / 2 / steady.records.sum())


def test_keys_that_the_table_rejects_are_on_no_lane(steady: Profile, contract: Contracts) -> None:
    stream = ProfiledStream(steady)
    today = contract(lanes=8, table={"values": {"key-00000": 5}, "otherwise": "reject"})
    found = today_of(stream, today, 8)
    rank = steady.keys.column("k").to_pylist().index("key-00000")
    assert [int(found.home[rank]), int((found.home >= 0).sum())] == [5, 1]
    loads = standing(stream, today, 8, found.fitted).loads
    assert loads.sum() == pytest.approx(steady.records[rank])


def test_keys_that_the_profile_does_not_know_are_counted(steady: Profile, contract: Contracts) -> None:
    pins = {"keys": ["key-00000", "gone-1"], "pin": {"lanes": [3, 4]}}
    today = contract(lanes=8, hot_keys=[pins], table={"values": {"gone-2": 5, "key-00001": 1}})
    assert today_of(ProfiledStream(steady), today, 8).unseen == 2
    assert today_of(ProfiledStream(steady), contract(lanes=8), 8).unseen == 0

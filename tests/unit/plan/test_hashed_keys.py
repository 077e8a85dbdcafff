"""The lanes of a plan are the router's, whatever the shortcut."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from keylane.placement.ranges import KeySpace
from keylane.plan.current import today_of
from keylane.plan.hashed_keys import ProfiledStream, moved_loads
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract
    from keylane.profile.model import Profile

NAMES = ("kafka-java", "librdkafka-consistent-random", "sarama-hash", "pulsar-murmur3", "kinesis-md5", "spark-hash")


@pytest.mark.parametrize("name", NAMES)
def test_keys_are_where_the_router_puts_them(name: str, steady: Profile, contract: Callable[..., Contract]) -> None:
    router = Router(contract(partitioner=name, lanes=24))
    assert ProfiledStream(steady).hashed(name, 24).home.tolist() == router.lanes(steady.keys).to_pylist()


@pytest.mark.parametrize("name", ["kafka-java", "kinesis-md5"])
def test_keys_are_there_also_where_shards_are_uneven(
    name: str, steady: Profile, contract: Callable[..., Contract]
) -> None:
    space, live = KeySpace((0, 2**99, 2**126, 2**127, 2**127 + 1)), contract(partitioner=name, lanes="live")
    shards = [[id_, str(start)] for id_, start in zip(space.ids, space.starts, strict=True)]
    stream = ProfiledStream(replace(steady, facts=(*steady.facts, ("shards", shards))), (5, 10))
    right = Router(live, key_space=space).lanes(steady.keys).to_pylist()
    hashed = stream.hashed(name, 5)
    assert hashed.home.tolist() == today_of(stream, live, 5).home.tolist() == right
    assert hashed.loads.sum(axis=1).tolist() == np.bincount(right, steady.records, minlength=5).tolist()
    # The twins: equal ranges have them elsewhere, unless the client folds by the count alone.
    equal = today_of(stream, contract(partitioner=name, lanes=5), 5).home.tolist()
    assert equal == ProfiledStream(steady, (5, 10)).hashed(name, 5).home.tolist()
    assert (equal == right) == (name == "kafka-java")


@pytest.mark.parametrize("name", NAMES)
def test_loads_under_a_common_multiple_are_those_counted_apart(name: str, steady: Profile) -> None:
    counts = (3, 8, 12, 20)
    together = ProfiledStream(steady, counts)
    for lanes in counts:
        apart = ProfiledStream(steady).hashed(name, lanes)
        assert np.array_equal(together.hashed(name, lanes).loads, apart.loads)
        assert apart.loads.sum() == steady.records.sum()


def test_a_common_multiple_too_large_is_not_used(steady: Profile) -> None:
    counts = (1009, 1013, 1019)
    assert set(ProfiledStream(steady, counts)._hashed) == set()
    stream = ProfiledStream(steady, counts)
    stream.hashed("kafka-java", 1009)
    assert [lanes for _, lanes in stream._hashed] == [1009]


def test_moved_loads_are_what_a_count_of_the_moved_keys_gives(steady: Profile) -> None:
    hashed = ProfiledStream(steady).hashed("kafka-java", 8)
    moves: dict[int, tuple[int, ...]] = {0: (3,), 1: (0, 1, 2, 7), 5: (8, 9)}
    expected = np.zeros((10, 8))
    for rank, row in enumerate(steady.by_window):
        for lane in moves.get(rank, (int(hashed.home[rank]),)):
            expected[lane] += row / len(moves.get(rank, (0,)))
    assert moved_loads(hashed, moves, steady.by_window, more_lanes=2) == pytest.approx(expected)


def test_no_record_is_lost_by_moving(steady: Profile) -> None:
    hashed = ProfiledStream(steady).hashed("kafka-java", 8)
    everything: Any = {rank: (rank % 8, (rank + 1) % 8) for rank in range(100)}
    assert moved_loads(hashed, everything, steady.by_window).sum() == pytest.approx(steady.records.sum())

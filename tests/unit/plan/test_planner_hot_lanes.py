"""What a profile says of hot lanes, with and without lanes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keylane.plan.hashed_keys import ProfiledStream
from keylane.plan.planner import assumed, heat_of
from keylane.profile.model import ObservedLanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract
    from keylane.profile.model import Profile

    Made = Callable[..., Profile]
    Contracts = Callable[..., Contract]


def test_one_hot_key_is_named_as_the_cause(profile: Made, contract: Contracts) -> None:
    found = heat_of(profile([[3_000] * 4, *[[4] * 4] * 3_000]), contract(lanes=8), seed=1)
    assert found is not None
    assert (found.cause, found.lanes[0].cause) == ("one-key", "one-key")


def test_many_even_keys_are_fair(profile: Made, contract: Contracts) -> None:
    found = heat_of(profile(np.full((20_000, 4), 3)), contract(lanes=8), seed=1)
    assert found is not None
    assert (found.cause, found.alarm, found.lanes) == ("fair", False, [])


def test_records_in_lanes_that_the_hash_does_not_give_are_a_mixed_writer(profile: Made) -> None:
    """Every record of the topic lies where Java puts it, but for a fifth that a second writer put on lane 0."""
    keys = profile(np.full((5_000, 4), 4))
    loads = ProfiledStream(keys).hashed("kafka-java", 8).loads
    mixed = np.floor(loads * 0.8)
    mixed[0] += loads.sum(axis=0) - mixed.sum(axis=0)
    same = profile(np.full((5_000, 4), 4), lanes=ObservedLanes(loads.astype(np.int64)))
    other = profile(np.full((5_000, 4), 4), lanes=ObservedLanes(mixed.astype(np.int64)))
    found = [heat_of(one, assumed(one), seed=1) for one in (same, other)]
    assert [one and one.cause for one in found] == ["fair", "mixed-writer"]


def test_without_two_lanes_there_is_nothing_to_tell(profile: Made, contract: Contracts) -> None:
    keys = profile([[5, 5], [3, 3]])
    assert heat_of(keys, contract(lanes=1), seed=1) is None
    assert heat_of(keys, contract(lanes="live"), seed=1) is None

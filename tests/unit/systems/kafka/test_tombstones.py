"""A tombstone reaches the lane of the record that it deletes, or the compacted target is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from keylane.errors import UsageError
from keylane.systems.endpoint import parse_address
from keylane.systems.kafka.topics import check_tombstones

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]

TARGET = parse_address("kafka://localhost:9092/lanes")


class Compacted:
    """A cluster that knows which topics are compacted."""

    def __init__(self, *topics: str) -> None:
        self.topics = topics

    def is_compacted(self, topic: str) -> bool:
        return topic in self.topics


def check(contract: Contract, *compacted: str) -> None:
    check_tombstones(cast("Any", Compacted(*compacted)), contract, TARGET)


@pytest.mark.parametrize(
    ("spec", "got"),
    [
        ({"key": {"fields": ["merchant"]}}, "lanes by merchant"),
        ({"key": {"fields": ["key"], "window": {"field": "timestamp", "size": "1h"}}}, "lanes by timestamp"),
        ({"key": {"fields": ["key"]}, "hot_keys": [{"keys": ["a"], "spread": {"over": 2, "by": "order"}}]}, "by order"),
        (
            {"key": {"fields": ["key"]}, "hot_keys": [{"keys": ["a"], "spread": {"over": 2, "by_position": True}}]},
            "none",
        ),
        ({"key": {"fields": ["key"]}, "partitioner": "librdkafka-random"}, "order none"),
    ],
    ids=["a field of the value", "a window", "a sub-key", "by position", "no key"],
)
def test_lanes_that_a_key_alone_does_not_decide_are_refused(contract: Make, spec: dict[str, Any], got: str) -> None:
    agreed = contract(**spec)
    with pytest.raises(UsageError, match=rf"lanes is compacted.*got '.*{got}.*fields: \[key\].*cleanup.policy=delete"):
        check(agreed, "lanes")
    check(agreed, "lanes.dlq")


def test_lanes_by_the_key_alone_are_not(contract: Make) -> None:
    check(contract(key={"fields": ["key"]}), "lanes")
    check(contract(key={"fields": ["key"]}, hot_keys=[{"keys": ["a"], "pin": {"lanes": [3]}}]), "lanes")


def test_a_compacted_tier_counts_too(contract: Make) -> None:
    tier = {"keys": ["a"], "tier": {"stream": "vip", "lanes": 2}}
    with pytest.raises(UsageError, match="vip is compacted"):
        check(contract(key={"fields": ["merchant"]}, hot_keys=[tier]), "vip")

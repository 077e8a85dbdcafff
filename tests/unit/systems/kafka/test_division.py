"""How a batch of a topic is divided among writers: by part, but by lane where many partitions have little."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from keylane.spark.messages import Messages
from keylane.systems.kafka.target import FEW_RECORDS, MANY_PARTITIONS, KafkaTarget

SOME = 4
MANY = MANY_PARTITIONS * SOME + 1


def offsets(partitions: int, records: int) -> str:
    """Each partition ends there."""
    return json.dumps({"raw": {str(part): records for part in range(partitions)}})


def writers(before: str, after: str, given: int = 0, topic: str = "raw") -> int:
    target: Any = SimpleNamespace(
        topics=SimpleNamespace(writers=given), last=SimpleNamespace(offsets=before), some_writers=SOME
    )
    frame: Any = None
    return KafkaTarget._writers(target, Messages(frame, topic=topic), after)


@pytest.mark.parametrize(
    ("partitions", "records", "expected"),
    [
        pytest.param(MANY, FEW_RECORDS - 1, SOME, id="many with little"),
        pytest.param(MANY, FEW_RECORDS, 0, id="many with much"),
        pytest.param(MANY - 1, 1, 0, id="few with little"),
    ],
)
def test_many_partitions_with_little_are_divided_by_lane(partitions: int, records: int, expected: int) -> None:
    assert writers(offsets(partitions, 5_000), offsets(partitions, 5_000 + records)) == expected


def test_a_number_that_is_given_and_a_route_that_begins_are_as_they_were() -> None:
    assert writers(offsets(MANY, 1), offsets(MANY, 2), given=3) == 3
    assert writers("", offsets(MANY, 2)) == 0
    assert writers(offsets(MANY, 1), offsets(MANY, 2), topic="") == 0


def test_partitions_that_are_added_count_from_their_beginning() -> None:
    assert writers(offsets(1, FEW_RECORDS), offsets(MANY, FEW_RECORDS)) == SOME
    assert writers(offsets(1, 0), offsets(MANY, FEW_RECORDS)) == 0

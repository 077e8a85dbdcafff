"""The source of topics, in Java, without a broker: its offsets say all that a batch depends on beside its records."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import IllegalArgumentException
from tests.match.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE = {"read": [5, 0, 0], "end": [5, 0, 0], "clock": 0}
AFTER = {"read": [90_005, 40_000, 0], "end": [200_000, 40_000, 0], "clock": 1_763_208_000_000_000}


@pytest.fixture(scope="module")
def steps(spark: SparkSession) -> Steps:
    return Steps(spark)


def stream(steps: Steps) -> Any:
    java = steps.gateway.jvm
    packer = steps.plan.plan.packer(steps.plan.rules, 0, None, None).asText()
    given = {"topic": "t", "start": "5,0,0", "max": "1000", "tasks": "2", "packer": packer}
    options = java.org.apache.spark.sql.util.CaseInsensitiveStringMap(given)
    return steps.new("topics.TopicSource").newScanBuilder(options).build().toMicroBatchStream("")


def text(offset: dict[str, Any]) -> str:
    return json.dumps(offset, separators=(",", ":"))


def value(of: Any, name: str) -> Any:
    field = of.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)


def tasks(steps: Steps, before: dict[str, Any], after: dict[str, Any]) -> list[tuple[int, list[tuple[int, ...]]]]:
    """The clock of each task of a batch, and what it reads: partition, from, to, unread after it."""
    opened = stream(steps)
    planned = opened.planInputPartitions(*(opened.deserializeOffset(text(one)) for one in (before, after)))
    names = ("partition", "from", "to", "unread")
    return [
        (value(task, "clock"), [tuple(value(one, name) for name in names) for one in value(task, "ranges")])
        for task in planned
    ]


def test_a_batch_is_planned_from_its_offsets_alone_whenever_that_is(steps: Steps) -> None:
    first = tasks(steps, BEFORE, AFTER)
    assert first == [
        (AFTER["clock"], [(0, 5, 90_005, 109_995)]),
        (AFTER["clock"], [(1, 0, 40_000, 0)]),
    ], "the largest partition first, each to the task with the least; one without records to none"
    time.sleep(0.01)
    assert tasks(steps, BEFORE, AFTER) == first
    other = tasks(steps, BEFORE, {**AFTER, "end": AFTER["read"], "clock": 1})
    assert other == [(1, [(0, 5, 90_005, 0)]), (1, [(1, 0, 40_000, 0)])], "what was unread is in the offset alone"


def test_offsets_are_read_as_they_were_written_and_partitions_may_be_added(steps: Steps) -> None:
    opened = stream(steps)
    assert opened.deserializeOffset(text(AFTER)).json() == text(AFTER)
    assert json.loads(opened.initialOffset().json())["read"] == BEFORE["read"]
    grown = {"read": [5, 0, 0, 3], "end": [5, 0, 0, 3], "clock": 7}
    assert tasks(steps, BEFORE, grown) == [(7, [(3, 0, 3, 0)])]


@pytest.mark.parametrize("damaged", ["", "{}", '{"read":[1],"end":[1]}', '{"read":1,"clock":1}', "v1"])
def test_an_offset_that_is_none_is_named(steps: Steps, damaged: str) -> None:
    with pytest.raises(IllegalArgumentException, match="not the offset of a topic"):
        stream(steps).deserializeOffset(damaged)

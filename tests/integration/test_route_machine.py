"""`route` into a topic, through kills, restores and damage that meet each other (`tests.route.route_machine`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.route_records import contract, read_committed
from tests.integration.topics import create_topic
from tests.route.route_machine import World, drive

from keylane.pipelines.route import KafkaOptions, Options, route

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

LANES = 4


class TopicWorld(World):
    """The target is a topic of its own, the state a folder beside the source."""

    def __init__(
        self, folder: Path, broker: Cluster, topic: Callable[..., str], spark: SparkSession, **kafka: Any
    ) -> None:
        self.topic = topic(LANES, "machine")
        create_topic(broker, f"{self.topic}.dlq", 1)
        super().__init__(folder, contract(self.topic, LANES, **{"[key]": "[k]"}))
        self.broker, self.spark, self.kafka = broker, spark, kafka

    def route(self, probe: Callable[[str, int], None]) -> None:
        options = Options(max_files=2, kafka=KafkaOptions(state=str(self.state), **self.kafka))
        target = f"kafka://{self.broker.bootstrap}/{self.topic}"
        source = str(self.source)
        route(self.contract, source, target, options=options, spark=self.spark, say=lambda _: None, probe=probe)

    def records(self) -> list[list[tuple[str, int]]]:
        lanes: list[list[tuple[str, int]]] = [[] for _ in range(LANES)]
        for record in read_committed(self.broker, self.topic):
            row = json.loads(record.value or b"{}")
            lanes[record.lane].append((row["k"], row["n"]))
        return lanes


@pytest.mark.faults
def test_many_steps(broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path) -> None:
    drive(lambda folder: TopicWorld(folder, broker, topic, spark), tmp_path, max_examples=8, stateful_step_count=20)


@pytest.mark.faults
def test_a_route_that_writes_a_batch_twice_is_found(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """The planted twin: without transactions, a batch that was written before a kill is written once more."""
    twice = {"delivery": "at-least-once"}
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        drive(
            lambda folder: TopicWorld(folder, broker, topic, spark, **twice),
            tmp_path,
            max_examples=8,
            stateful_step_count=20,
        )

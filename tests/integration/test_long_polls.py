"""Spark's consumers are made without long polls, in a batch and as a stream: as the tasks have it that Spark ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.route_records import numbered, send

from keylane.systems.kafka import access as kafka
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.follow import TopicFollowed
from keylane.systems.kafka.frames import read_between

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster


def of_stream(execution: Any) -> set[str]:
    """How long a broker may hold back an answer, by the consumers of the last batch's tasks."""
    (scan,) = items(execution.executedPlan().collectLeaves())
    return {task.executorKafkaParams().get("fetch.max.wait.ms") for task in items(scan.inputPartitions())}


def of_batch(execution: Any) -> set[str]:
    """The same of a batch: Spark's connector keeps it in a private field of what reads."""
    rdd = execution.toRdd()
    while not rdd.dependencies().isEmpty():
        rdd = rdd.dependencies().head().rdd()
    (field,) = (one for one in rdd.getClass().getDeclaredFields() if one.getName().endswith("executorKafkaParams"))
    field.setAccessible(True)
    return {field.get(rdd).get("fetch.max.wait.ms")}


def items(found: Any) -> list[Any]:
    return [found.apply(at) for at in range(found.size())]


@pytest.mark.parametrize("wait", [kafka.LONG_POLL_MS, pytest.param("500", id="twin: Kafka's own default")])
def test_no_consumer_of_a_topic_waits_for_records(
    wait: str,
    broker: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka, "LONG_POLL_MS", wait)
    name, access = topic(2), kafka_access(broker.bootstrap)
    send(broker, name, numbered(0, 10))
    batch = read_between(spark, access, name, [(0, 5), (0, 5)])
    assert batch.count() == 10
    stream = TopicFollowed(spark, access, name, {}).stream().writeStream.format("noop")
    query = stream.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert of_batch(batch._jdf.queryExecution()) == {wait}
    assert of_stream(query._jsq.streamingQuery().lastExecution()) == {wait}

"""Streams of Kinesis and topics of Kafka as the two ends of a route: both ways, on a real broker and a real API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.integration.topics import create_topic

from keylane.pipelines.route import KafkaOptions, Options, route
from keylane.pipelines.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.kinesis.servers import KinesisServer

    from keylane.contract.model import Contract
    from keylane.systems.broker import Cluster


@pytest.mark.faults
def test_a_stream_is_routed_into_a_topic_and_back(
    broker: Cluster,
    kinesalite: KinesisServer,
    contract: Callable[..., Contract],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    client, source, back = kinesalite.client(), kinesalite.fresh_stream(2), kinesalite.fresh_stream(2)
    client.create_stream(StreamName=f"{back}.dlq", ShardCount=1)
    records = [{"Data": json.dumps({"n": n}).encode(), "PartitionKey": f"k{n % 11}"} for n in range(200)]
    client.put_records(StreamName=source, Records=records)
    topic = f"from-{source}"
    for name in (topic, f"{topic}.dlq"):
        create_topic(broker, name, 3)
    by_key = contract(streams=[topic], lanes=3, key={"fields": ["key"]})
    there = kinesalite.address(source), f"kafka://{broker.bootstrap}/{topic}"
    first = Options(kafka=KafkaOptions(state=str(tmp_path / "there")))
    assert route(by_key, *there, options=first, spark=spark).counts.out == 200
    assert verify(*there, by_key, topics=first.kafka).outcome == "certified"

    shards = contract(streams=[back], lanes=2, key={"fields": ["key"]}, partitioner="kinesis-md5")
    again = f"kafka://{broker.bootstrap}/{topic}", kinesalite.address(back)
    second = Options(kafka=KafkaOptions(state=str(tmp_path / "back")))
    assert route(shards, *again, options=second, spark=spark, say=print).counts.out == 200
    assert verify(*again, shards, mode="at-least-once", topics=second.kafka).outcome == "certified"

"""A route from a stream and into one, on Spark, against a real API: the promises from end to end, one case of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from keylane.pipelines.route import KafkaOptions, Options, route
from keylane.pipelines.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.kinesis.servers import KinesisServer

    from keylane.contract.model import Contract

pytestmark = pytest.mark.usefixtures("aws_access")


def put(client: Any, stream: str, numbers: range, keys: int = 17) -> None:
    """Records of some keys, in an order that each key has to keep."""
    records = [{"Data": json.dumps({"n": n}).encode(), "PartitionKey": f"k{n % keys}"} for n in numbers]
    answer = client.put_records(StreamName=stream, Records=records)
    assert answer["FailedRecordCount"] == 0


def split(server: KinesisServer, stream: str, shard: int, at: int) -> None:
    name = f"shardId-{shard:012d}"
    server.client().split_shard(StreamName=stream, ShardToSplit=name, NewStartingHashKey=str(at))
    server.until_active(stream)


def test_a_stream_is_routed_into_a_stream_over_a_split(
    kinesalite: KinesisServer, contract: Callable[..., Contract], spark: SparkSession, tmp_path: Path
) -> None:
    client, source, target = kinesalite.client(), kinesalite.fresh_stream(2), kinesalite.fresh_stream(3)
    client.create_stream(StreamName=f"{target}.dlq", ShardCount=1)
    live = contract(streams=["s"], lanes="live", key={"fields": ["key"]}, partitioner="kinesis-md5")
    put(client, source, range(300))
    split(kinesalite, source, 0, 2**126)
    put(client, source, range(300, 600))
    options = Options(kafka=KafkaOptions(state=str(tmp_path / "state")))
    ends = kinesalite.address(source), kinesalite.address(target)
    done = route(live, *ends, options=options, spark=spark, say=print)
    assert (done.counts.in_, done.counts.out, done.counts.dead) == (600, 600, 0)
    found = verify(*ends, live, mode="at-least-once", topics=options.kafka)
    assert (found.outcome, found.verdict.records) == ("certified", 600)
    split(kinesalite, target, 1, 2**127)
    put(client, source, range(600, 700))
    again = route(live, *ends, options=options, spark=spark, say=print)
    assert (again.counts.in_, again.total.in_) == (100, 700)
    found = verify(*ends, live, mode="at-least-once", topics=options.kafka)
    assert (found.outcome, found.verdict.records) == ("certified", 700)


def test_a_stream_is_routed_into_a_folder_and_a_file_into_a_stream(
    kinesalite: KinesisServer, contract: Callable[..., Contract], spark: SparkSession, tmp_path: Path
) -> None:
    client, source, target = kinesalite.client(), kinesalite.fresh_stream(2), kinesalite.fresh_stream(2)
    client.create_stream(StreamName=f"{target}.dlq", ShardCount=1)
    put(client, source, range(200))
    by_key = contract(streams=["s"], lanes=3, key={"fields": ["key"]})
    ends = kinesalite.address(source), str(tmp_path / "lanes")
    assert route(by_key, *ends, spark=spark).counts.out == 200
    assert verify(*ends, by_key).outcome == "certified"

    lines = [json.dumps({"k": f"k{n % 7}", "n": n}) for n in range(100)] + ["no record"]
    (tmp_path / "day.json").write_text("\n".join(lines) + "\n")
    options = Options(kafka=KafkaOptions(state=str(tmp_path / "state"), delivery="at-least-once"))
    shards = contract(streams=[target], lanes=2, partitioner="kinesis-md5")
    ends = str(tmp_path / "day.json"), kinesalite.address(target)
    done = route(shards, *ends, options=options, spark=spark)
    assert (done.counts.out, done.counts.dead) == (100, 1)
    found = verify(*ends, shards, mode="at-least-once", topics=options.kafka)
    assert (found.unproven, found.outcome, found.verdict.facts["dead"]) == ((), "certified", 1)

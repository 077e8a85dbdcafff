"""A route from a stream and into one, on Spark, against a real API: the promises from end to end, one case of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from keylane.errors import TargetError
from keylane.pipelines.route import KafkaOptions, Options, route
from keylane.pipelines.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.kinesis.servers import KinesisServer

    from keylane.contract.model import Contract


def put(client: Any, stream: str, numbers: range, keys: int = 17) -> None:
    """Records of some keys, in an order that each key has to keep."""
    records = [{"Data": json.dumps({"n": n}).encode(), "PartitionKey": f"k{n % keys}"} for n in numbers]
    answer = client.put_records(StreamName=stream, Records=records)
    assert answer["FailedRecordCount"] == 0


def split(server: KinesisServer, stream: str, shard: int, at: int) -> None:
    name = f"shardId-{shard:012d}"
    server.client().split_shard(StreamName=stream, ShardToSplit=name, NewStartingHashKey=str(at))
    server.until_active(stream)


@pytest.fixture
def streams(kinesalite: KinesisServer) -> tuple[str, str]:
    """A source of two shards with a split in its middle, and a target with a stream for dead letters."""
    client, source, target = kinesalite.client(), kinesalite.fresh_stream(2), kinesalite.fresh_stream(3)
    client.create_stream(StreamName=f"{target}.dlq", ShardCount=1)
    put(client, source, range(150))
    split(kinesalite, source, 0, 2**126)
    put(client, source, range(150, 300))
    return source, target


def by_shards(contract: Callable[..., Contract]) -> Contract:
    return contract(streams=["s"], lanes="live", key={"fields": ["key"]}, partitioner="kinesis-md5")


def test_a_stream_is_routed_into_a_stream_over_a_split(
    kinesalite: KinesisServer,
    streams: tuple[str, str],
    contract: Callable[..., Contract],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    live, ends = by_shards(contract), (kinesalite.address(streams[0]), kinesalite.address(streams[1]))
    options, said = Options(kafka=KafkaOptions(state=str(tmp_path / "state"))), list[str]()
    done = route(live, *ends, options=options, spark=spark, say=said.append)
    assert (done.counts.in_, done.counts.out, done.counts.dead) == (300, 300, 0)
    assert any("at least once" in text for text in said), "what the service cannot promise is said"
    # The service remembers no route, but its records say where they came from.
    other = Options(kafka=KafkaOptions(state=str(tmp_path / "other")))
    with pytest.raises(TargetError, match=r"records of this source already.*--second-route"):
        route(live, *ends, options=other, spark=spark, say=said.append)
    found = verify(*ends, live, mode="at-least-once", topics=options.kafka)
    assert (found.outcome, found.verdict.records) == ("certified", 300)


@pytest.mark.faults
def test_a_route_goes_on_after_a_split_of_its_target(
    kinesalite: KinesisServer,
    streams: tuple[str, str],
    contract: Callable[..., Contract],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    live, ends = by_shards(contract), (kinesalite.address(streams[0]), kinesalite.address(streams[1]))
    options, said = Options(kafka=KafkaOptions(state=str(tmp_path / "state"))), list[str]()
    route(live, *ends, options=options, spark=spark, say=said.append)
    split(kinesalite, streams[1], 1, 2**127)
    put(kinesalite.client(), streams[0], range(300, 400))
    again = route(live, *ends, options=options, spark=spark, say=said.append)
    assert (again.counts.in_, again.total.in_) == (100, 400)
    assert any("4 open shards now" in text for text in said)
    found = verify(*ends, live, mode="at-least-once", topics=options.kafka)
    assert (found.outcome, found.verdict.records) == ("certified", 400)


def test_a_stream_is_routed_into_a_folder_exactly_once(
    kinesalite: KinesisServer,
    streams: tuple[str, str],
    contract: Callable[..., Contract],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    by_key = contract(streams=["s"], lanes=3, key={"fields": ["key"]})
    ends = kinesalite.address(streams[0]), str(tmp_path / "lanes")
    assert route(by_key, *ends, spark=spark).counts.out == 300
    assert verify(*ends, by_key).outcome == "certified"


@pytest.mark.faults
def test_a_file_is_routed_into_a_stream_with_its_dead_letters(
    kinesalite: KinesisServer,
    streams: tuple[str, str],
    contract: Callable[..., Contract],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    lines = [json.dumps({"k": f"k{n % 7}", "n": n}) for n in range(100)]
    # Neither has a place there: the one has no key, and the other more bytes than a record may have.
    lines += [json.dumps({"k": None, "n": 0}), json.dumps({"k": "large", "n": "x" * 1_100_000})]
    (tmp_path / "day.json").write_text("\n".join(lines) + "\n")
    options = Options(kafka=KafkaOptions(state=str(tmp_path / "state"), delivery="at-least-once"))
    shards = contract(streams=[streams[1]], lanes=3, partitioner="kinesis-md5")
    ends = str(tmp_path / "day.json"), kinesalite.address(streams[1])
    done = route(shards, *ends, options=options, spark=spark)
    assert (done.counts.out, done.counts.dead) == (100, 2)
    found = verify(*ends, shards, mode="at-least-once", topics=options.kafka)
    # Of the large one the value is left out, so that its content cannot be compared.
    assert (found.outcome, found.verdict.facts["dead"], found.broken) == ("not proven", 2, False)
    assert {one.rule for one in found.unproven} <= {"changed", "misrouted"}


#: A route in a process of its own, which holds in its second batch until it is killed.
HOLDS = """
import sys, time
from pathlib import Path
from keylane.contract.parse import parse_contract
from keylane.pipelines.route import KafkaOptions, Options, route

def held(step, batch):
    if (step, batch) == ("written", 1) and sys.argv[5] == "hold":
        Path(sys.argv[4], "held").touch()
        time.sleep(600)

options = Options(kafka=KafkaOptions(state=sys.argv[4] + "/state", max_records=60))
route(parse_contract(sys.argv[1]), sys.argv[2], sys.argv[3], options=options, say=print, probe=held)
"""


@pytest.mark.faults
@pytest.mark.jvm
def test_a_route_that_was_killed_goes_on_and_what_it_wrote_twice_is_marked(
    kinesalite: KinesisServer, streams: tuple[str, str], contract: Callable[..., Contract], tmp_path: Path
) -> None:
    live, ends = by_shards(contract), (kinesalite.address(streams[0]), kinesalite.address(streams[1]))
    text = "{apiVersion: keylane/v1, kind: RoutingContract, metadata: {name: test}, spec: {streams: [s], lanes: live, "
    text += "key: {fields: [key]}, partitioner: kinesis-md5}}"
    command = [sys.executable, "-c", HOLDS, text, *ends, str(tmp_path)]
    with subprocess.Popen([*command, "hold"], start_new_session=True) as first:
        last = time.monotonic() + 300
        while not (tmp_path / "held").exists():
            assert first.poll() is None
            assert time.monotonic() < last
            time.sleep(0.1)
        os.killpg(first.pid, signal.SIGKILL)
    subprocess.run([*command, "go on"], check=True, timeout=300)
    options = KafkaOptions(state=str(tmp_path / "state"))
    found = verify(*ends, live, mode="at-least-once", topics=options)
    assert (found.outcome, found.verdict.facts["repeats"] > 0) == ("certified", True)
    assert verify(*ends, live).verdict.counts["duplicated"] == found.verdict.facts["repeats"]

"""`keylane migrate` by a mirror into a stream of shards: files and topics, killed copies, and what is refused."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tests.kinesis.test_migrate_shards import contract, put

from keylane.pipelines.migrate import plan_migrate
from keylane.pipelines.migrate_run import run_migrate
from keylane.pipelines.migrate_verify import verify_migrate

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.kinesis.servers import KinesisServer

    from keylane.documents.migrate import MigrateCertificateDocument

KEYS = 7


def lines(numbers: range) -> str:
    return "".join(json.dumps({"key": f"k{n % KEYS}", "n": n}) + "\n" for n in numbers)


def files_plan(server: KinesisServer, stream: str, folder: Path) -> Path:
    """Files of a day, into a stream of three shards."""
    (folder / "days").mkdir()
    (folder / "days" / "1.json").write_text(lines(range(100)))
    old = contract(folder / "old.yaml", "days", 2, 1, partitioner="kafka-java")
    new = contract(folder / "new.yaml", stream, 3, 2)
    document = plan_migrate(str(old), str(new), source=str(folder / "days"), target=server.address(stream))
    assert (document.mode, document.copies) == ("mirror", "at-least-once")
    assert any("at least once" in text for text in document.breaks)
    assert any("at least once" in one.action for one in document.steps)
    (folder / "plan.json").write_text(json.dumps(document.as_json()))
    return folder / "plan.json"


def judged(found: MigrateCertificateDocument) -> dict[str, int]:
    return {one.rule: one.broken for one in found.rules if one.broken}


def test_files_are_mirrored_into_a_stream(kinesalite: KinesisServer, spark: SparkSession, tmp_path: Path) -> None:
    stream, client = f"mirror-{os.getpid()}", kinesalite.client()
    plan = files_plan(kinesalite, stream, tmp_path)
    done = run_migrate(plan, all_stopped=True, patience=60, say=print)
    assert (done.phase, done.copies) == ("done", "at-least-once")
    assert done.begins is not None
    assert [one.shard for one in done.begins] == [f"shardId-{n:012d}" for n in range(3)]
    for n in range(KEYS):
        put(client, stream, "new", n, epoch=2)
    client.split_shard(StreamName=stream, ShardToSplit="shardId-000000000001", NewStartingHashKey=str(2**127))
    kinesalite.until_active(stream)
    for n in range(KEYS, 3 * KEYS):
        put(client, stream, "new", n, epoch=2)
    found = verify_migrate(plan)
    assert (judged(found), found.repeats, found.records) == ({}, 0, 3 * KEYS)
    assert {one.rule: one.checked for one in found.rules}["copied"] == 100
    # A record of the copies once more, behind newer ones of its key: no rewind, and not what was copied.
    shard = client.list_shards(StreamName=stream)["Shards"][0]["ShardId"]
    first = client.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    record = client.get_records(ShardIterator=first["ShardIterator"], Limit=1)["Records"][0]
    client.put_record(StreamName=stream, Data=record["Data"], PartitionKey=record["PartitionKey"])
    assert judged(verify_migrate(plan)) != {}

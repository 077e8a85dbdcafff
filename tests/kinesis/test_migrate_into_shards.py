"""`keylane migrate` by a mirror into a stream of shards: files, killed copies, and what is refused.

A topic into a stream: `tests.integration.test_migrate_kinesis`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.kinesis.command import run
from tests.kinesis.migrating import KEYS, broken, contract, judged, printed, put

from keylane.numbers import plural
from keylane.pipelines.migrate import plan_migrate
from keylane.pipelines.migrate_run import run_migrate
from keylane.pipelines.migrate_verify import verify_migrate
from keylane.systems.kinesis.aggregated import parsed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.kinesis.servers import KinesisServer


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
    # The twin: a copy that comes late writes one of its records behind the fence.
    shard = client.list_shards(StreamName=stream)["Shards"][0]["ShardId"]
    first = client.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    record = client.get_records(ShardIterator=first["ShardIterator"], Limit=1)["Records"][0]
    client.put_record(StreamName=stream, Data=record["Data"], PartitionKey=record["PartitionKey"])
    late = verify_migrate(plan)
    again = len(parsed(record["Data"]) or ())
    assert judged(late) == {"copied": again}
    assert late.examples[-1] == f"copied: {plural(again, 'copy')} of 1.json behind the fences"


@pytest.mark.faults
@pytest.mark.jvm
def test_what_a_killed_copy_writes_again_is_counted(kinesalite: KinesisServer, tmp_path: Path) -> None:
    """At least once: repeats are named, nothing is lost, and every key stays in order."""
    stream = f"killed-mirror-{os.getpid()}"
    plan = files_plan(kinesalite, stream, tmp_path)
    line = [sys.executable, "-m", "tests.kinesis.killed_copy", "migrate", "run", str(plan), "--producers-stopped"]
    with subprocess.Popen(line, start_new_session=True) as killed:
        assert killed.wait(300) == -9
    assert printed(run("migrate", "status", str(plan), "-o", "json"), 3)["phase"] == "copying"
    done = run("migrate", "run", str(plan), "--producers-stopped")
    assert done.returncode == 0, done.stderr
    assert "at least once" in done.stdout
    found = printed(run("migrate", "verify", str(plan), "-o", "json"), 4)
    assert (broken(found), found["repeats"], found["copies"]) == ({}, 100, "at-least-once")
    assert "with 100 repeats" in run("migrate", "verify", str(plan)).stdout


@pytest.mark.parametrize(
    ("lanes", "spec", "options", "says"),
    [
        ("live", {}, (), "needs a lane count"),
        (3, {}, ("--producer", "api"), "no producer that goes on"),
        (4, {}, (), "does not have the shards"),
    ],
)
def test_a_mirror_that_nobody_could_judge_is_refused(
    kinesalite: KinesisServer,
    tmp_path: Path,
    lanes: int | str,
    spec: dict[str, Any],
    options: tuple[str, ...],
    says: str,
) -> None:
    stream = kinesalite.fresh_stream(3)
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "1.json").write_text(lines(range(10)))
    old = contract(tmp_path / "old.yaml", "days", 2, 1, partitioner="kafka-java")
    new = contract(tmp_path / "new.yaml", stream, lanes, 2, **spec)
    ends = ("--from", str(tmp_path / "days"), "--to", kinesalite.address(stream))
    refused = run("migrate", "plan", str(old), str(new), *ends, *options)
    assert refused.returncode == 2, refused.stdout
    assert says in refused.stderr

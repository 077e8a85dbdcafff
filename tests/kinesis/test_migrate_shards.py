"""`keylane migrate` over splits and merges on real servers: under writers, killed between its calls, and its twins.

kinesis-local puts one ending sequence number at all closed shards, so that its certificate is not proven, and says why;
all other rules hold there, too.
"""

from __future__ import annotations

import json
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.kinesis.command import run
from tests.kinesis.migrating import KEYS, broken, contract, printed, put

from keylane.keyspace.layout import new_layout
from keylane.migration.cutover import opened
from keylane.pipelines.migrate_lineage import verify_shards
from keylane.pipelines.migrate_run import read_plan
from keylane.systems.endpoint import open_endpoint

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kinesis.servers import KinesisServer

    from keylane.systems.shard_migrations import LineageShard

WRITERS = 3


class NamedWriter(threading.Thread):
    """Puts records with their source and epoch, each key in one order, and goes on until it is told to end."""

    def __init__(self, server: KinesisServer, stream: str, number: int) -> None:
        super().__init__(daemon=True)
        self.client, self.stream, self.name, self.ending = server.client(), stream, f"w{number}", threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self.ending.is_set():
            put(self.client, self.stream, self.name, self.sent)
            self.sent += 1
            self.ending.wait(0.01)


def plan_of(server: KinesisServer, stream: str, folder: Path, lanes: tuple[int | str, int]) -> Path:
    old, new = (contract(folder / f"{n}.yaml", stream, lanes[n], n + 1) for n in (0, 1))
    plan = folder / "plan.json"
    made = run("migrate", "plan", str(old), str(new), "--from", server.address(stream), "--out", str(plan))
    assert made.returncode == 3, made.stderr
    return plan


@pytest.mark.parametrize("server", ["kinesalite", pytest.param("kinesis_local", marks=pytest.mark.faults)])
@pytest.mark.node
def test_split_and_merged_under_writers_and_killed_between_calls(
    server: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    running: KinesisServer = request.getfixturevalue(server)
    stream = running.fresh_stream(3)
    plan = plan_of(running, stream, tmp_path, (3, 5))
    document = json.loads(plan.read_text())
    assert (document["mode"], document["observed"]["records"], bool(document["shards"]["calls"])) == (
        "in-place",
        None,
        True,
    )
    writers = [NamedWriter(running, stream, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for where in ("before", "behind"):
            line = ("-m", "tests.kinesis.killed_apply", where, "2")
            assert run("migrate", "run", str(plan), command=line).returncode == -9
        half = printed(run("migrate", "status", str(plan), "-o", "json"), 3)
        assert half["phase"] == "resharding"
        assert 0 < half["calls_done"] < len(document["shards"]["calls"])
        done = printed(run("migrate", "run", str(plan), "-o", "json"))
    finally:
        for writer in writers:
            writer.ending.set()
            writer.join()
    assert (done["phase"], done["calls_left"], done["pause_seconds"]) == ("done", 0, 0.0)
    assert open_endpoint(running.address(stream)).layout().starts == new_layout(5).starts
    found = printed(run("migrate", "verify", str(plan), "-o", "json"), 0 if server == "kinesalite" else 4)
    assert broken(found) == {}
    assert found["records"] == sum(writer.sent for writer in writers) > 0
    assert (found["verdict"], found["unproven"]) == (
        ("certified", [])
        if server == "kinesalite"
        else ("not proven", [f"the service gives no ending sequence number of {closed(found)} closed shards"])
    )
    # Each parent's end is where its children begin: no number of the one is behind any of the other's.
    by_id = {one["id"]: one for one in found["shards"]}
    ended = [
        (by_id[parent]["last"], one["first"]) for one in found["shards"] for parent in one["parents"] if one["first"]
    ]
    assert ended
    assert all(int(last) < int(first) for last, first in ended if last)
    judged_by_twins(plan)


def closed(found: dict[str, Any]) -> int:
    return sum(one["closed"] for one in found["shards"])


def open_first(shards: list[LineageShard]) -> list[LineageShard]:
    """The planted bug: who is open is read at once, and the closed ones later."""
    return sorted(shards, key=lambda one: one.shard.closed)


def judged_by_twins(plan: Path) -> None:
    saved = read_plan(plan, None, None)
    entry = opened(saved.journal.entries())
    assert entry is not None
    told: dict[str, Any] = {"around": None, "keep": 5, "watch": iter}
    right = verify_shards(saved, entry, **told)
    assert right.violations == 0
    wrong = verify_shards(saved, entry, **told, order=open_first)
    counts = {one.rule: one.broken for one in wrong.rules}
    assert wrong.verdict == "broken"
    assert counts["reordered"] > 0
    assert counts["fenced"] > 0
    moved = entry._replace(fences=tuple(fence + 1 for fence in entry.fences))
    assert {one.rule: one.broken for one in verify_shards(saved, moved, **told).rules}["fenced"] > 0


def test_what_a_stream_does_not_show_is_not_proven(kinesalite: KinesisServer, tmp_path: Path) -> None:
    """Records without tags, and one whose hash key the service does not give back."""
    stream, client = kinesalite.fresh_stream(2), kinesalite.client()
    plan = plan_of(kinesalite, stream, tmp_path, ("live", 1))
    early = run("migrate", "verify", str(plan))
    assert early.returncode == 2
    for n in count():
        client.put_record(StreamName=stream, Data=b"x", PartitionKey=f"k{n}")
        if n == 20:
            break
    client.put_record(StreamName=stream, Data=b"x", PartitionKey="k0", ExplicitHashKey="0")
    client.put_record(StreamName=stream, Data=b"x", PartitionKey="k0", ExplicitHashKey=str(2**128 - 1))
    assert run("migrate", "run", str(plan)).returncode == 0
    found = printed(run("migrate", "verify", str(plan), "-o", "json"), 4)
    assert found["verdict"] == "broken"
    assert broken(found) == {"split_keys": 1}
    assert "'k0'" in found["examples"][0]
    assert [text.split(" records ")[1][:30] for text in found["unproven"]] == [
        "carry no keylane.source: their",
        "have a hash key that the servi",
    ]
    assert found["records"] == 23


def test_repeats_are_counted_and_those_that_are_no_rewind_are_broken(kinesalite: KinesisServer, tmp_path: Path) -> None:
    stream, client = kinesalite.fresh_stream(1), kinesalite.client()
    plan = plan_of(kinesalite, stream, tmp_path, (1, 2))
    for n in (0, KEYS, 0, KEYS):
        put(client, stream, "w", n)
    assert run("migrate", "run", str(plan)).returncode == 0
    put(client, stream, "w", 2 * KEYS, epoch=1)
    found = printed(run("migrate", "verify", str(plan), "-o", "json"))
    assert (found["verdict"], found["repeats"], broken(found)) == ("certified", 2, {})
    assert [(one["writer"], one["epoch"], one["records"]) for one in found["late_writers"]] == [("w/0", 1, 1)]
    assert "with 2 repeats" in run("migrate", "verify", str(plan)).stdout
    put(client, stream, "w", 0, epoch=2)
    inside = printed(run("migrate", "verify", str(plan), "-o", "json"), 4)
    assert (inside["verdict"], broken(inside)) == ("not proven", {})
    assert inside["unproven"][0].startswith("the stream ends inside of a repeat: 2 records")
    put(client, stream, "w", 2 * KEYS, epoch=2)
    again = printed(run("migrate", "verify", str(plan), "-o", "json"), 4)
    assert set(broken(again)) == {"duplicated"}


def test_the_way_back_is_open_until_the_first_call(kinesalite: KinesisServer, tmp_path: Path) -> None:
    stream = kinesalite.fresh_stream(1)
    plan = plan_of(kinesalite, stream, tmp_path, (1, 2))
    line = ("-m", "tests.kinesis.killed_apply", "behind", "1")
    assert run("migrate", "rollback", str(plan)).returncode == 2
    assert run("migrate", "run", str(plan), command=line).returncode == -9
    refused = run("migrate", "rollback", str(plan))
    assert refused.returncode == 1
    assert "forward-only" in refused.stderr
    assert printed(run("migrate", "run", str(plan), "-o", "json"))["phase"] == "done"


def test_a_stream_that_somebody_else_split_is_refused(kinesalite: KinesisServer, tmp_path: Path) -> None:
    stream, client = kinesalite.fresh_stream(2), kinesalite.client()
    plan = plan_of(kinesalite, stream, tmp_path, (2, 4))
    client.split_shard(StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey="77")
    kinesalite.until_active(stream)
    refused = run("migrate", "run", str(plan))
    assert refused.returncode == 1
    assert "not as planned" in refused.stderr
    assert len(open_endpoint(kinesalite.address(stream)).layout().open) == 3


@pytest.mark.parametrize(
    ("lanes", "spec", "options", "says"),
    [
        ((2, 4), {}, ("--producer", "api"), "need no fence"),
        ((2, 4), {}, ("--group", "ledger"), "need no fence"),
        ((2, 4), {"key": {"fields": ["other"]}}, (), "other hash keys"),
        ((2, 4), {"partitioner": "kafka-java"}, (), "cannot be changed by splits and merges alone"),
        ((2, 4), {"hot_keys": [{"keys": ["k"], "pin": {"lanes": [1]}}]}, (), "a rule of a contract"),
        ((3, 4), {}, (), "contradicts the contract"),
    ],
)
def test_what_calls_alone_cannot_do_is_refused(
    kinesalite: KinesisServer,
    tmp_path: Path,
    lanes: tuple[int, int],
    spec: dict[str, Any],
    options: tuple[str, ...],
    says: str,
) -> None:
    stream = kinesalite.fresh_stream(2)
    old = contract(tmp_path / "old.yaml", stream, lanes[0], 1)
    new = contract(tmp_path / "new.yaml", stream, lanes[1], 2, **spec)
    refused = run("migrate", "plan", str(old), str(new), "--from", kinesalite.address(stream), *options)
    assert refused.returncode == 2, refused.stdout
    assert says in refused.stderr

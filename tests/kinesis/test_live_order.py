"""The order of keys on a real API: writers at work, two splits and a merge under them, readers that are killed."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.kinesis.replayed import OpenFirst, batches, feed_of, written

from keylane.pipelines.verify import verify
from keylane.systems.endpoint import parse_address
from keylane.systems.kinesis.access import access_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kinesis.servers import KinesisServer

    from keylane.contract.model import Contract

#: Writers, each with keys of its own, so that every key has one order.
WRITERS = 3
KEYS = 7


class LiveWriter(threading.Thread):
    """Puts numbered records, and goes on until it is told to end."""

    def __init__(self, server: KinesisServer, stream: str, number: int) -> None:
        super().__init__()
        self.client, self.stream, self.number, self.ending = server.client(), stream, number, threading.Event()

    def run(self) -> None:
        for n in count():
            key = f"w{self.number}-{n % KEYS}"
            self.client.put_record(StreamName=self.stream, Data=json.dumps({"n": n}).encode(), PartitionKey=key)
            if self.ending.is_set():
                return


def halves(client: Any, stream: str, at: int) -> dict[str, Any]:
    """The open shard at a place in the order of ranges."""
    shards = [one for one in client.list_shards(StreamName=stream)["Shards"] if is_open(one)]
    found: dict[str, Any] = sorted(shards, key=lambda one: int(one["HashKeyRange"]["StartingHashKey"]))[at]
    return found


def is_open(shard: dict[str, Any]) -> bool:
    return "EndingSequenceNumber" not in shard["SequenceNumberRange"]


def reshard(server: KinesisServer, stream: str, step: int) -> None:
    client = server.client()
    if step < 2:
        shard = halves(client, stream, 2 * step)
        first, last = (int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
        middle = str((first + last) // 2)
        client.split_shard(StreamName=stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=middle)
    else:
        low, high = (halves(client, stream, at)["ShardId"] for at in (1, 2))
        client.merge_shards(StreamName=stream, ShardToMerge=low, AdjacentShardToMerge=high)
    server.until_active(stream)


@pytest.mark.parametrize("server", ["kinesalite", pytest.param("kinesis_local", marks=pytest.mark.faults)])
@pytest.mark.node
def test_verify_finds_nothing_after_live_splits_and_a_merge(
    server: str, request: pytest.FixtureRequest, contract: Callable[..., Contract], tmp_path: Path
) -> None:
    running: KinesisServer = request.getfixturevalue(server)
    source, target = running.fresh_stream(2), running.fresh_stream(3)
    ends = running.address(source), running.address(target)
    access = access_of(parse_address(ends[0]))
    by = contract(streams=[target], lanes=3, key={"fields": ["key"]}, partitioner="kinesis-md5")
    writers = [LiveWriter(running, source, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    position, run = None, count()
    try:
        for step in range(4):
            if step < 3:
                reshard(running, source, step)
            else:
                for writer in writers:
                    writer.ending.set()
                    writer.join()
            # Killed after the first batch is read, and before it is written.
            next(batches(feed_of(access, source, tmp_path / f"{next(run)}", most=50), position), None)
            for end, rows in batches(feed_of(access, source, tmp_path / f"{next(run)}", most=500), position):
                if rows:
                    written(rows, access, target, by)
                position = end
    finally:
        for writer in writers:
            writer.ending.set()
            writer.join()
    found = verify(*ends, by)
    assert (found.outcome, found.verdict.records > 3 * KEYS) == ("certified", True)
    assert len(running.client().list_shards(StreamName=source)["Shards"]) == 7
    seen = defaultdict(list)
    for _, rows in batches(feed_of(access, source, tmp_path / "all")):
        for row in rows:
            seen[row["key"]].append(json.loads(row["value"])["n"])
    assert all(numbers == sorted(numbers) for numbers in seen.values())


@pytest.mark.parametrize("twin", [False, True], ids=["parents first", "a twin: open shards first"])
@pytest.mark.parametrize("server", ["kinesalite", pytest.param("kinesis_local", marks=pytest.mark.faults)])
@pytest.mark.node
def test_a_reader_of_open_shards_first_is_found(
    server: str, twin: bool, request: pytest.FixtureRequest, contract: Callable[..., Contract], tmp_path: Path
) -> None:
    """Records before and after each of two splits and a merge, read when all of it is done."""
    running: KinesisServer = request.getfixturevalue(server)
    source, target = running.fresh_stream(2), running.fresh_stream(3)
    ends, client, numbers = (running.address(source), running.address(target)), running.client(), count()
    access = access_of(parse_address(ends[0]))
    by = contract(streams=[target], lanes=3, key={"fields": ["key"]}, partitioner="kinesis-md5")
    for step in range(4):
        some = [next(numbers) for _ in range(10 * KEYS)]
        put = [{"Data": json.dumps({"n": n}).encode(), "PartitionKey": f"k{n % KEYS}"} for n in some]
        assert client.put_records(StreamName=source, Records=put)["FailedRecordCount"] == 0
        if step < 3:
            reshard(running, source, step)
    rule: dict[str, Any] = {"is_readable": OpenFirst()} if twin else {}
    for _, rows in batches(feed_of(access, source, tmp_path / "run", **rule)):
        if rows:
            written(rows, access, target, by)
    found = verify(*ends, by)
    assert found.outcome == ("broken" if twin else "certified")
    assert (found.verdict.counts["reordered"] > 0, found.verdict.counts["lost"]) == (twin, 0)

"""The order of every key over splits and merges, with writers at work and readers killed; and twins that break it."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.kinesis.replayed import ACCESS, ADDRESS, OpenFirst, batches, feed_of, written

from keylane.cli.verify import as_result as verify_result
from keylane.pipelines.certificate import document_of
from keylane.pipelines.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kinesis.model import ModelService

    from keylane.contract.model import Contract
    from keylane.history.verdict import Mode

KEYS = 23
MODES: tuple[Mode, Mode] = ("exactly-once", "at-least-once")


class Writer:
    """Writes numbered records of some keys, one after the other for each."""

    def __init__(self, service: ModelService, stream: str) -> None:
        self.service, self.stream, self.numbers = service, stream, count()

    def put(self, records: int) -> None:
        for _ in range(records):
            n = next(self.numbers)
            data = json.dumps({"n": n}).encode()
            self.service.put_records(StreamName=self.stream, Records=[{"Data": data, "PartitionKey": f"k{n % KEYS}"}])


def reshard(service: ModelService, stream: str, step: int) -> None:
    """Two splits, then a merge of what was split."""
    if step < 2:
        shard = service.streams[stream].layout.open[step]
        middle = str((shard.start + shard.end) // 2)
        service.split_shard(StreamName=stream, ShardToSplit=shard.id, NewStartingHashKey=middle)
    elif step == 2:
        low, high = service.streams[stream].layout.open[1:3]
        service.merge_shards(StreamName=stream, ShardToMerge=low.id, AdjacentShardToMerge=high.id)


def routed(service: ModelService, by: Contract, tmp_path: Path, **feed: Any) -> None:
    """Live writers, two splits and a merge; the reader is killed after each batch, and once in the middle of one."""
    for name, shards in (("s", 2), ("t", 3)):
        service.create_stream(StreamName=name, ShardCount=shards)
    writer, at, run = Writer(service, "s"), None, count()
    for step in range(5):
        writer.put(60)
        reshard(service, "s", step)
        writer.put(60)
        # A process that is killed has read ahead, and written nothing: the next begins where the last batch ended.
        killed = batches(feed_of(ACCESS, "s", tmp_path / f"run{next(run)}", most=40, **feed), at)
        next(killed, None)
        for end, rows in batches(feed_of(ACCESS, "s", tmp_path / f"run{next(run)}", most=40, **feed), at):
            if rows:
                written(rows, ACCESS, "t", by)
            at = end
        if step == 1:
            reshard(service, "t", 0)


def of_three(contract: Callable[..., Contract]) -> Contract:
    return contract(streams=["t"], lanes=3, key={"fields": ["key"]}, partitioner="kinesis-md5")


def test_verify_finds_nothing_after_splits_merges_and_kills(
    service: ModelService, contract: Callable[..., Contract], tmp_path: Path
) -> None:
    by = of_three(contract)
    routed(service, by, tmp_path)
    found = verify(ADDRESS.format("s"), ADDRESS.format("t"), by)
    assert (found.outcome, found.verdict.records) == ("certified", 600)
    assert not any(found.verdict.counts.values())
    assert len(service.streams["s"].layout.shards) == 7
    # The first shard of the target was split on the way: its lane begins in it, and ends in the last of its children.
    lane = document_of(found).lanes[0]
    assert (lane.first_shard, lane.first, lane.last_shard) == ("shardId-000000000000", 0, "shardId-000000000004")
    assert lane.last < lane.records
    assert verify_result(found).sections[-1].columns[3:] == ("first_shard", "first", "last_shard", "last")


def test_twin_that_reads_open_shards_first_is_found(
    service: ModelService, contract: Callable[..., Contract], tmp_path: Path
) -> None:
    by = of_three(contract)
    routed(service, by, tmp_path, is_readable=OpenFirst())
    found = verify(ADDRESS.format("s"), ADDRESS.format("t"), by)
    assert found.outcome == "broken"
    assert found.verdict.counts["reordered"] > 0
    assert found.verdict.counts["lost"] == 0


def test_a_batch_that_is_written_again_is_marked_and_found(
    service: ModelService, contract: Callable[..., Contract], tmp_path: Path
) -> None:
    for name, shards in (("s", 2), ("t", 3)):
        service.create_stream(StreamName=name, ShardCount=shards)
    Writer(service, "s").put(100)
    ((_, rows),) = [one for one in batches(feed_of(ACCESS, "s", tmp_path / "a")) if one[1]]
    by = of_three(contract)
    written(rows[:60], ACCESS, "t", by)
    written(rows, ACCESS, "t", by, attempt=2)
    ends = ADDRESS.format("s"), ADDRESS.format("t")
    once, least = (verify(*ends, by, mode=mode) for mode in MODES)
    assert (once.outcome, once.verdict.counts["duplicated"]) == ("broken", 60)
    assert (least.outcome, least.verdict.facts["repeats"]) == ("certified", 60)
    # A third time, of which only the first record is there: its key ends with an old record.
    written(rows[:1], ACCESS, "t", by, attempt=3)
    cut = verify(*ends, by, mode="at-least-once")
    later = sum(row["key"] == rows[0]["key"] for row in rows) - 1
    assert (cut.outcome, [(one.rule, one.records) for one in cut.unproven]) == ("not proven", [("duplicated", later)])
    written(rows[1:], ACCESS, "t", by, attempt=3)
    assert verify(*ends, by, mode="at-least-once").outcome == "certified"
    written(rows[:5], ACCESS, "t", by)
    unmarked = verify(*ends, by, mode="at-least-once")
    assert (unmarked.outcome, unmarked.verdict.counts["duplicated"]) == ("broken", 5)

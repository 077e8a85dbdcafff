"""A route without Spark: a feed cut into batches, each read by parts, and written by the writer of a task.

What Spark would do between them is no more than this: it keeps the end of a batch, runs the parts of a batch in any
order, and gives a task the rows of some lanes in the order of the source.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keylane.contract.fingerprint import abbreviated
from keylane.hashing.md5 import md5_128
from keylane.router import Router
from keylane.systems.kinesis.access import KinesisAccess
from keylane.systems.kinesis.follow import ShardFeed
from keylane.systems.kinesis.shards import in_lineage
from keylane.systems.kinesis.writer import Slot, Writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from keylane.contract.model import Contract
    from keylane.keyspace.layout import Shard, ShardLayout
    from keylane.placement.ranges import KeySpace

#: Nobody is there: the model answers (`service`, in conftest.py).
ACCESS = KinesisAccess("eu-west-1", "http://127.0.0.1:1")
ADDRESS = "kinesis://eu-west-1/{}?endpoint=http://127.0.0.1:1"


def feed_of(access: KinesisAccess, stream: str, folder: Path, **more: Any) -> ShardFeed:
    """A feed as a new process has it: nothing is kept but the folder, which may be a new one."""
    folder.mkdir(exist_ok=True)
    return ShardFeed(access, stream, "earliest", more.pop("most", 1_000_000), str(folder), **more)


def batches(feed: ShardFeed, start: dict[str, Any] | None = None) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """The batches of what is there: where each ends, as the checkpoint keeps it, and its rows in the source's order."""
    feed.only_what_is_there()
    at = start or feed.first()
    while (end := json.loads(json.dumps(feed.end(at)))) != at:
        parts = feed.parts(at, end)
        rows = [row for part in parts for batch in feed.read(part) for row in batch.to_pylist()]
        yield end, sorted(rows, key=lambda row: (row["partition"], row["offset"]))
        at = end


class OpenFirst:
    """The planted bug, for the order of shards: whoever is open is read at once, and the closed ones later."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(
        self, layout: ShardLayout, is_ended: Callable[[str], bool], _started: Iterable[str] = ()
    ) -> list[Shard]:
        left = [shard for shard in in_lineage(layout) if not is_ended(shard.id)]
        opened = [shard for shard in left if not shard.closed]
        fresh = [shard for shard in opened if shard.id not in self.seen]
        self.seen |= {shard.id for shard in opened}
        return fresh or left


def written(
    rows: list[dict[str, Any]],
    access: KinesisAccess,
    target: str,
    contract: Contract,
    attempt: int = 1,
    space: KeySpace | None = None,
) -> None:
    """The rows of a batch into the lanes of a stream, by a contract of shards and the hash of their keys.

    `space` are the lanes of a tier; otherwise they are those of the contract.
    """
    space = space or Router(contract).key_space
    slots = tuple(Slot(target, lane, space.range_of(lane), 1 << 20) for lane in range(len(space)))
    made = [
        {
            "slot": space.lane_of(md5_128(row["key"])),
            "key": row["key"],
            "value": row["value"],
            "time": int(row["timestamp"].timestamp() * 1000),
            "source": None,
            "headers": row["headers"],
            "part": row["partition"],
            "place": row["offset"],
            "letter": None,
        }
        for row in rows
    ]
    tags = (("keylane.contract", abbreviated(contract.fingerprint)), ("keylane.epoch", str(contract.metadata.epoch)))
    writing = Writing(access, slots, tags, attempt, rows[0]["topic"])
    list(writing([pa.RecordBatch.from_pylist(made)], 0))

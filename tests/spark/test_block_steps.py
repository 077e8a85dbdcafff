"""Stateful steps on packed blocks, by a step that is none of the package's own: counts by key, as in its documentation.

The steps of a match: tests/match/test_steps.py.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from tests.match.steps import COUNTS, Record, time_record, unpacked

from keylane.placement.lane_keys import lane_keys
from keylane.spark.blocks import BLOCKS, loading_by, use_slots
from keylane.spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

EXAMPLE = Path(__file__).parent / "steps"
EVENT, SENT = 2, 64
MINUTE = 60_000_000
SLOTS = 2
#: Longer than what is kept as a log before it becomes a snapshot.
MANY = 30_000


def event(key: str, ts: int) -> Record:
    return Record(EVENT, struct.pack("<q", ts) + key.encode())


def slot_of(key: str) -> int:
    return sum(key.encode()) % SLOTS


class Counting:
    """A query that counts, over files of blocks, whose checkpoint outlives its runs."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.batches = spark.newSession(), folder, 0
        use_slots(self.spark, SLOTS)
        loaded = java_class(self.spark, (BLOCKS, EXAMPLE), "example.CountByKey")
        gateway: Any = spark.sparkContext._gateway
        given = gateway.new_array(gateway.jvm.java.lang.Object, 1)
        given[0] = SLOTS
        self.step = loaded.getConstructors()[0].newInstance(given)
        (folder / "in").mkdir(parents=True)

    def give(self, events: Iterable[tuple[str, int]], newest: int) -> None:
        """One more file of blocks: those of each slot, and the time for both."""
        rows = [(slot_of(key), event(key, ts).packed) for key, ts in events]
        keys = lane_keys(SLOTS)
        blocks = [
            (keys[slot], bytearray(time_record(0, 0, newest).packed + b"".join(one for to, one in rows if to == slot)))
            for slot in range(SLOTS)
        ]
        frame = self.spark.createDataFrame(blocks, "_1 int, _2 binary")
        waiting = self.folder / f"part{self.batches}"
        frame.coalesce(1).write.parquet(f"file://{waiting}")
        (part,) = waiting.glob("*.parquet")
        part.rename(self.folder / "in" / f"{self.batches:04d}.parquet")
        self.batches += 1

    def run(self) -> tuple[Counter[tuple[int, str]], list[dict[str, Any]]]:
        """A run over what is new: counts that were sent, and what slots reported."""
        sent: Counter[tuple[int, str]] = Counter()
        reports: list[dict[str, Any]] = []

        def take(frame: DataFrame, _batch: int) -> None:
            for _, block in frame.collect():
                for one in unpacked(bytes(block)):
                    if one.kind == COUNTS:
                        reports.append(json.loads(one.text))
                    else:
                        assert one.kind == SENT
                        minute, many = struct.unpack_from("<qq", one.fields)
                        sent[minute, one.fields[16:].decode()] += many

        options = {"maxFilesPerTrigger": "1"}
        blocks = self.spark.readStream.schema("_1 int, _2 binary").options(**options)
        read: Any = blocks.parquet(f"file://{self.folder / 'in'}")
        frame = ClassicFrame(self.step.after(read._jdf), self.spark)
        writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True)
        with loading_by(self.spark, self.step.getClass().getClassLoader()):
            query = writer.option("checkpointLocation", f"file://{self.checkpoint}").start()
        try:
            query.awaitTermination()
        finally:
            self.dropped = self.step.forget(str(query.id)), self.step.forget(str(query.id))
        return sent, reports

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"


def by_definition(events: Iterable[tuple[str, int]], before: int) -> Counter[tuple[int, str]]:
    return Counter((ts // MINUTE, key) for key, ts in events if ts // MINUTE < before // MINUTE)


def test_counts_by_key_go_on_from_a_snapshot_and_the_log_after_it(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    counting = Counting(spark, tmp_path)
    first = [(f"key-{rng.randrange(50)}-{'x' * 100}", rng.randrange(5 * MINUTE)) for _ in range(MANY)]
    counting.give(first, 2 * MINUTE)
    sent, reports = counting.run()
    assert {(one["slot"], one["found"], one["restored"]) for one in reports} == {(0, -1, 0), (1, -1, 0)}
    assert all(one["state_bytes"] < 100_000 for one in reports), "a log as long as this becomes a snapshot"
    assert counting.dropped == (SLOTS, 0), "what a query has in memory goes with it"
    second, third = [("late", MINUTE), ("a", 7 * MINUTE)], [("b", 7 * MINUTE)]
    counting.give(second, 4 * MINUTE)
    sent += counting.run()[0]
    counting.give(third, 8 * MINUTE)
    counting.give([], 9 * MINUTE)
    more, reports = counting.run()
    assert sent + more == by_definition([*first, *second, *third], 9 * MINUTE)
    # The first batch of a run has nothing in memory, the next one has.
    assert sorted((one["found"], one["restored"]) for one in reports) == [(1, 1), (1, 1), (2, 0), (2, 0)]


def other_slot(checkpoint: Path) -> None:
    """The files of one slot in the place of the other's, with their checksums: nothing that Spark would notice."""
    slots = checkpoint / "state" / "0"
    shutil.rmtree(slots / "1")
    shutil.copytree(slots / "0", slots / "1")


@pytest.mark.parametrize("damage", [other_slot, pytest.param(lambda _: None, id="twin: as it was")])
def test_a_slot_reports_which_batch_it_found(spark: SparkSession, tmp_path: Path, damage: Any) -> None:
    counting = Counting(spark, tmp_path)
    counting.give([("a", 1), ("b", 2)], 1)
    counting.run()
    damage(counting.checkpoint)
    counting.give([("a", 3), ("b", 4)], 2 * MINUTE)
    found = {one["slot"]: one["found"] for one in counting.run()[1]}
    assert found == {0: 0, 1: -1 if damage is other_slot else 0}

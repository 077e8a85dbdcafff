"""`keylane migrate` by a mirror of a topic on a real broker into a stream of a real Kinesis server.

Files, killed copies, and what is refused: `tests.kinesis.test_migrate_into_shards`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.kinesis.migrating import KEYS, contract, judged, put

from keylane.migration.cutover import opened
from keylane.pipelines.migrate import plan_migrate
from keylane.pipelines.migrate_run import read_plan, run_migrate
from keylane.pipelines.migrate_verify import of_mirror, verify_migrate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.kinesis.servers import KinesisServer

    from keylane.systems.broker import Cluster


@pytest.mark.faults
@pytest.mark.node
def test_a_topic_is_mirrored_into_a_stream(
    kinesalite: KinesisServer, broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Writers of the topic stop at the fence; those of the stream go on behind it, each key in its order."""
    name, stream = topic(4), f"mirror-of-topic-{os.getpid()}"
    old = contract(tmp_path / "old.yaml", name, 4, 1, partitioner="kafka-java")
    new = contract(tmp_path / "new.yaml", stream, 3, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    for n in range(300):
        tags: list[tuple[str, str | bytes | None]] = [("keylane.source", b"w/0/%d" % n), ("keylane.epoch", b"1")]
        producer.produce(name, b"%d" % n, b"k%d" % (n % KEYS), headers=tags)
    assert producer.flush(30) == 0
    addresses = f"kafka://{broker.bootstrap}/{name}", kinesalite.address(stream)
    document = plan_migrate(str(old), str(new), source=addresses[0], target=addresses[1])
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(document.as_json()))
    assert run_migrate(plan, all_stopped=True, patience=60, say=print).phase == "done"
    client = kinesalite.client()
    for n in range(3 * KEYS):
        put(client, stream, "w", 300 + n, epoch=2)
    found = verify_migrate(plan)
    assert (judged(found), found.repeats, found.records) == ({}, 0, 300 + 3 * KEYS)
    assert [text for text in found.unproven if "reader group" not in text] == []
    assert sum(one.checked for one in found.rules if one.rule == "copied") == 300
    starts = [int(one.after) for one in found.begins or ()]
    assert len(starts) == 3
    assert all(starts)
    # The twin: one that the copies end in front of is lost.
    saved = read_plan(plan, None, None)
    entry = opened(saved.journal.entries())
    assert entry is not None
    early = entry._replace(starts=tuple(1 for _ in starts))
    assert judged(of_mirror(saved, (early,), early, None, 5, iter))["copied"] >= 300

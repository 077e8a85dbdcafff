"""A migration in place: the drain graph of 1,500 lanes, the pause of a producer at the fence, and `migrate verify`.

The pause is that of a live `MigratingProducer` into a topic that grows from 16 to 32 lanes, from when it stopped to
when it could send again. `verify` has a peer in the same run: a plain consumer that only counts the same records.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from benchmarks.timing import Figure, best, spent
from keylane import Router, parse_contract
from keylane.migration.drain import drain_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.systems.broker import Cluster

RECORDS, KEYS = 1_000_000, 10_000
OLD, NEW = 16, 32


def text(lanes: int, epoch: int) -> str:
    """A contract of so many lanes."""
    spec = f"{{streams: [payments], lanes: {lanes}, key: {{fields: [k]}}, partitioner: kafka-java}}"
    head = f"metadata: {{name: payments, epoch: {epoch}}}"
    return f"apiVersion: keylane/v1\nkind: RoutingContract\n{head}\nspec: {spec}\n"


def run() -> Iterator[Figure]:
    """The graph, then a real migration."""
    from keylane.systems.broker import running

    yield from _graph()
    with tempfile.TemporaryDirectory() as folder, running(heap="1g") as cluster:
        yield from _migrated(Path(folder), cluster)


def _graph() -> Iterator[Figure]:
    old, new = (Router(parse_contract(text(lanes, epoch))) for epoch, lanes in ((1, 1_000), (2, 1_500)))
    seconds = best(3, graph=lambda: drain_graph(old, new).listed)["graph"]
    yield Figure("drain graph, 1,000 to 1,500 lanes", seconds, "s", at_most=1.0)
    listed = drain_graph(old, new).listed
    assert listed is not None
    yield Figure("  parents of a lane, at most", max(map(len, listed.values())), "lanes", at_most=2)


def _migrated(folder: Path, cluster: Cluster) -> Iterator[Figure]:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from keylane import migrate_plan, migrate_run, migrate_verify
    from keylane.systems.broker import librdkafka_settings
    from keylane.systems.broker.nodes import process_of
    from keylane.systems.kafka import MigratingProducer

    client = AdminClient({**librdkafka_settings(cluster)})
    client.create_topics([NewTopic("payments", OLD)])["payments"].result(60)
    files = [folder / f"{epoch}.yaml" for epoch in (1, 2)]
    for epoch, (file, lanes) in enumerate(zip(files, (OLD, NEW), strict=True), 1):
        file.write_text(text(lanes, epoch))
    address, plan = f"kafka://{cluster.bootstrap}/payments", folder / "plan.json"
    plan.write_text(json.dumps(migrate_plan(*files, source=address, producers=["api"]).as_json()))
    old, new = map(Router, files)
    half = Event()

    def produce(producer: MigratingProducer) -> None:
        for number in range(RECORDS):
            producer.send({"k": f"k{number * 7 % KEYS}"}, b"x" * 100)
            if number == RECORDS // 2:
                half.set()

    with MigratingProducer(f"{plan}.journal", "api", old=old, new=new, bootstrap=cluster.bootstrap) as producer:
        thread = Thread(target=produce, args=(producer,))
        thread.start()
        half.wait()
        status = migrate_run(plan)
        thread.join()
        producer.flush()
        assert status.pause_seconds is not None
        yield Figure(f"pause of a live producer at the fence, {NEW} lanes", producer.pause, "s", at_most=2.0)
        yield Figure("  by the journal, from holding to open", status.pause_seconds, "s")
    server = process_of(cluster, 1)
    verify, counted = spent(lambda: migrate_verify(plan), server), spent(lambda: _counted(cluster), server)
    yield Figure("verify of 1 M records", verify.clock, "s", at_most=30.0)
    yield Figure("  processor time beside a consumer that only counts", verify.own / counted.own, "times")


def _counted(cluster: Cluster) -> int:
    """Every record of the topic, with its headers."""
    from confluent_kafka import Consumer, TopicPartition

    from keylane.systems.broker import librdkafka_settings

    consumer = Consumer({**librdkafka_settings(cluster), "group.id": "count", "enable.auto.commit": False})
    consumer.assign([TopicPartition("payments", lane, 0) for lane in range(NEW)])
    found = 0
    try:
        while found < RECORDS:
            found += sum(one.headers() is not None for one in consumer.consume(1_000, 1.0))
    finally:
        consumer.close()
    return found

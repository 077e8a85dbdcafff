"""A migration: the drain graph of 1,500 lanes, the pause of a producer at the fence, `migrate verify`, and a mirror.

The pause is that of a live `MigratingProducer` into a topic that grows from 16 to 32 lanes, from when it stopped to
when it could send again. `verify` has a peer in the same run: a plain consumer that only counts the same records.

The mirror copies the same million records into a new topic of 24 lanes. Its peer is `route` under the same contract,
from the same topic into another one, without a migration; both take turns in one session of Spark, and the first round
of each, in which Java compiles, is not counted. The mirror's side is the whole of `migrate run` with producers that
have stopped: the new topic, journal and lease, the copy, and that nothing is left to copy, before and behind the fence.
The route's is a topic made beforehand, and one run to the end. Processor time is that of Spark, of what drives it and
of the broker.
"""

from __future__ import annotations

import json
import tempfile
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Figure, best, least, spent
from keylane import Router, parse_contract
from keylane.migration.drain import drain_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.documents.migrate import MigrateCertificateDocument
    from keylane.systems.broker import Cluster

RECORDS, KEYS = 1_000_000, 10_000
OLD, NEW = 16, 32
#: Of the mirror's topic, and how often each side of it is measured.
MIRROR, ROUNDS = 24, 3


def text(lanes: int, epoch: int, stream: str = "payments") -> str:
    """A contract of so many lanes."""
    spec = f"{{streams: [{stream}], lanes: {lanes}, key: {{fields: [k]}}, partitioner: kafka-java}}"
    head = f"metadata: {{name: payments, epoch: {epoch}}}"
    return f"apiVersion: keylane/v1\nkind: RoutingContract\n{head}\nspec: {spec}\n"


def run() -> Iterator[Figure]:
    """The graph, then a real migration."""
    from keylane.systems.broker import running

    yield from _graph()
    with tempfile.TemporaryDirectory() as folder, running(heap="1g") as cluster:
        yield from _migrated(Path(folder), cluster)
        yield from _mirrored(Path(folder), cluster)


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


def _mirrored(folder: Path, cluster: Cluster) -> Iterator[Figure]:
    """The topic that has grown, copied into topics that are new in every round."""
    from keylane import migrate_verify
    from keylane.spark import local_session
    from keylane.systems.broker.nodes import process_of
    from keylane.systems.jars import connector_settings

    spark, numbers, server = local_session(conf=connector_settings()), count(1), process_of(cluster, 1)
    plans = [_mirror_plan(folder, cluster, f"mirror-{number}") for number in range(ROUNDS + 1)]
    left = iter(plans)
    sides: dict[str, Any] = {
        "mirror": lambda: _mirror(next(left)),
        "route": lambda: _route(folder, cluster, f"route-{next(numbers)}"),
    }
    for side in sides.values():
        side()  # the first of each compiles
    found = least(ROUNDS, server, **sides)
    spark.stop()
    mine, peer = found["mirror"], found["route"]
    yield Figure("mirror of 1 M records", RECORDS / mine.clock, "records/s")
    yield Figure("route of the same records, without a migration", RECORDS / peer.clock, "records/s")
    what = "  speed of the mirror against that of the route"
    yield Figure(f"{what}, processor time", peer.processors / mine.processors, "times", at_least=0.7)
    yield Figure(f"{what}, processor time without the broker's", peer.own / mine.own, "times", at_least=0.7)
    yield Figure(f"{what}, clock", peer.clock / mine.clock, "times", at_least=0.7)
    verify = spent(lambda: _certified(migrate_verify(plans[-1])), server)
    yield Figure("verify of a mirror of 1 M records", verify.clock, "s", at_most=30.0)
    yield Figure("  processor time without the broker's", verify.own, "s")


def _mirror_plan(folder: Path, cluster: Cluster, topic: str) -> Path:
    from keylane import migrate_plan

    new, plan = folder / f"{topic}.yaml", folder / f"{topic}.json"
    new.write_text(text(MIRROR, 3, topic))
    addresses = [f"kafka://{cluster.bootstrap}/{name}" for name in ("payments", topic)]
    found = migrate_plan(folder / "2.yaml", new, source=addresses[0], target=addresses[1])
    plan.write_text(json.dumps(found.as_json()))
    return plan


def _mirror(plan: Path) -> None:
    from keylane import migrate_run

    assert migrate_run(plan, producers_stopped=True).phase == "done"


def _route(folder: Path, cluster: Cluster, topic: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from keylane.pipelines.route import KafkaOptions, Options, route
    from keylane.systems.broker import librdkafka_settings

    client = AdminClient({**librdkafka_settings(cluster)})
    for made in client.create_topics([NewTopic(topic, MIRROR), NewTopic(f"{topic}.dlq", 1)]).values():
        made.result(60)
    addresses = [f"kafka://{cluster.bootstrap}/{name}" for name in ("payments", topic)]
    options = Options(kafka=KafkaOptions(state=str(folder / topic), keys_sent=True))
    found = route(parse_contract(text(MIRROR, 3, topic)), *addresses, options=options)
    assert found.counts.out == RECORDS


def _certified(found: MigrateCertificateDocument) -> None:
    broken = {one.rule: one.broken for one in found.rules if one.broken}
    assert not broken, broken
    assert next(one.checked for one in found.rules if one.rule == "copied") == RECORDS


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

"""`keylane migrate` on a real broker: a topic grows under live producers and a live reader; the twin without the gate.

The large runs, with kills and cut networks: `test_migrate_faults.py`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewPartitions
from tests.integration.commands import Ended
from tests.integration.live_migration import GROUP, LiveMigration, contract_file, wait_for
from tests.integration.topics import create_topic, delete_topic

from keylane import Router, migration_gate
from keylane.cli.main import _run
from keylane.errors import FencedError, TargetError, UsageError
from keylane.migration.cutover import Entry
from keylane.pipelines.migrate_run import rollback_migrate, run_migrate, status_migrate
from keylane.pipelines.migrate_verify import verify_migrate
from keylane.systems.broker import librdkafka_settings
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.migration import TopicJournal
from keylane.systems.kafka.migration_clients import GatedConsumer, spark_offsets
from keylane.systems.kafka.producers import KeyedProducer
from keylane.systems.messages.headers import CONTRACT, EPOCH, SOURCE
from keylane.systems.migrations import SAY_AFTER, UNNAMED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster


def live(
    cluster: Cluster, folder: Path, topic: str, lanes: tuple[int, int] = (4, 6), *, gated: bool = True
) -> LiveMigration:
    old, new = (contract_file(folder, topic, count, epoch) for epoch, count in enumerate(lanes, 1))
    return LiveMigration(cluster, topic, folder, old, new, gated=gated)


def test_a_topic_grows_under_live_producers_and_a_live_reader(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(4))
    run.save_plan()
    with run.running(lambda n: f"k{n * 7 % 100}", 2_000, per_second=800, on=True):
        begun = run_migrate(run.plan, most=2, patience=30)
        assert (begun.phase, begun.appended) == ("holding", 2)
        # Another process goes on where the first one stopped.
        done = run_migrate(run.plan, patience=60)
    assert (done.phase, done.over, done.late_writers) == ("done", True, [])
    assert [one.drained for one in done.lanes] == [True] * 4
    verdict = run.judged()
    assert verdict.ok, verdict.violations[:5]
    assert verdict.facts["applies"] == verdict.records == len(run.sends) >= 4_000
    assert {one.generation for one in verdict.lanes} == {0, 1}
    certificate = verify_migrate(run.plan)
    assert (certificate.verdict, certificate.violations, certificate.records) == ("certified", 0, len(run.sends))
    assert run.pauses.keys() == {"p0", "p1"}, "each of them paused, and went on"
    assert verify_migrate(run.plan).digest == certificate.digest


def test_twin_without_the_gate_is_caught(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    run = live(broker, tmp_path, topic(4), gated=False)
    run.save_plan()
    with run.running(lambda n: f"k{n * 7 % 100}", 2_000, per_second=1_000, on=True):
        # From its first commit on the reader leaves a lane alone: old records wait there.
        wait_for(lambda: len(run.applies) > 1_000 or bool(run.failures))
        assert run_migrate(run.plan, patience=60).phase == "done"
    verdict = run.judged()
    assert verdict.counts["early_applies"] > 0, "new records were applied before old ones of their keys"
    assert sum(verdict.counts.values()) == verdict.counts["early_applies"], "and the log itself is in order"


def test_the_way_back_lets_producers_go_on_as_before(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(4))
    run.save_plan()
    with run.running(lambda n: f"k{n % 20}", 600, per_second=400):
        assert run_migrate(run.plan, most=3, patience=30).phase == "fenced"
        back = rollback_migrate(run.plan)
        assert (back.phase, back.over) == ("rolled-back", True)
        run.slow_over.set()
    assert {epoch for *_, epoch, _, _ in run.applies} == {0}
    assert len(run.sends) == len(run.applies) == 1_200
    assert status_migrate(run.plan).phase == "rolled-back"
    assert run_migrate(run.plan).appended == 0
    with pytest.raises(TargetError, match="cannot be rolled back any more"):
        rollback_migrate(run.plan)


def begun(run: LiveMigration, **more: Any) -> None:
    """A plan without producers that acknowledge, carried out up to the hold."""
    run.save_plan(producers=(), groups=[], **more)
    waits = run_migrate(run.plan, patience=2)
    assert waits.waits_for is not None
    assert (waits.phase, waits.waits_for.why) == ("holding", "producers")


def test_a_world_that_is_not_as_planned_is_refused(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    run = live(broker, tmp_path, topic(4))
    begun(run)
    client = AdminClient({**librdkafka_settings(broker)})
    client.create_partitions([NewPartitions(run.topic, 5)])[run.topic].result(30)
    with pytest.raises(TargetError, match=r"another lane count than planned.*got '5'; allowed: 4"):
        run_migrate(run.plan, all_stopped=True, patience=10)
    delete_topic(broker, run.topic)
    create_topic(broker, run.topic, 4)
    with pytest.raises(TargetError, match="deleted and recreated since the plan was made"):
        run_migrate(run.plan, all_stopped=True, patience=10)
    run.old.write_text(run.old.read_text().replace("kafka-java", "librdkafka-fnv1a"))
    with pytest.raises(UsageError, match="has changed since the plan was made"):
        run_migrate(run.plan)


def test_a_compacted_topic_and_a_count_that_the_broker_refuses_are_refused_before(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(4, cleanup_policy="compact"))
    with pytest.raises(UsageError, match="a compacted topic cannot be changed in place"):
        run.save_plan()
    run = live(broker, tmp_path, topic(4), (4, 99_999))
    with pytest.raises(UsageError, match="the cluster refuses 99999 partitions"):
        run.save_plan()


def test_by_a_journal_in_a_topic_a_late_producer_is_named_and_a_late_driver_fenced(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(4))
    run.save_plan(producers=(), groups=[])
    at = f"kafka://{broker.bootstrap}/{run.topic}.journal"
    first = TopicJournal(kafka_access(broker.bootstrap), f"{run.topic}.journal")
    assert run_migrate(run.plan, journal=at, most=1).phase == "begun"
    assert [one.phase for one in first.entries()] == ["begun"]
    first.append(Entry(1, 1, "holding"))
    # Whoever opens the journal later ends this one.
    done = run_migrate(run.plan, journal=at, all_stopped=True, patience=30)
    assert (done.phase, done.lag) == ("done", None)
    with pytest.raises(FencedError):
        first.append(Entry(1, 9, "rolled-back"))
    headers = [(SOURCE, b"cart.1/7"), (CONTRACT, b"0" * 64), (EPOCH, b"1")]
    with KeyedProducer(Router(run.new), broker.bootstrap) as producer:
        producer.send({"k": "a"}, b"1", headers=headers)
        producer.send({"k": "b"}, b"2")
    late = status_migrate(run.plan, journal=at).late_writers
    assert {(one.writer, one.epoch, one.records) for one in late} == {("cart.1", 1, 1), (UNNAMED, None, 1)}
    found = verify_migrate(run.plan, journal=at)
    assert (found.verdict, found.violations) == ("broken", 1)
    assert [one.rule for one in found.rules if one.broken] == ["wrong_epoch"]


def test_a_topic_that_was_migrated_before_is_judged_by_its_last_two_contracts(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(2)
    for epoch, lanes in enumerate((2, 3, 5), 1):
        file = contract_file(tmp_path, name, lanes, epoch)
        run = LiveMigration(broker, name, tmp_path / str(epoch), tmp_path / f"{epoch - 1}.yaml", file)
        if epoch > 1:
            run.folder.mkdir()
            run.save_plan(producers=(), groups=[])
            assert run_migrate(run.plan, all_stopped=True, patience=30).phase == "done"
        with KeyedProducer(Router(file), broker.bootstrap) as producer:
            for number in range(30):
                headers = [(SOURCE, f"p/{epoch * 30 + number}".encode()), (EPOCH, str(epoch).encode())]
                producer.send({"k": f"k{number}"}, b"1", headers=headers)
    found = verify_migrate(run.plan)
    assert (found.violations, found.records, found.examples) == (0, 90, [])
    first = found.unproven[0].partition(":")[0]
    assert first == "30 records are of the epoch of another migration"
    with KeyedProducer(Router(run.new), broker.bootstrap) as producer:
        producer.send({"k": "k1"}, b"1", headers=[(SOURCE, b"p/500"), (EPOCH, b"1")])
    late = verify_migrate(run.plan)
    assert [one.rule for one in late.rules if one.broken][-1] == "wrong_epoch", "twin: behind the fence it is an error"


def test_records_without_an_epoch_below_a_second_growth_are_not_proven(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(2)
    for epoch, lanes in enumerate((2, 3, 5), 1):
        file = contract_file(tmp_path, name, lanes, epoch)
        run = LiveMigration(broker, name, tmp_path / str(epoch), tmp_path / f"{epoch - 1}.yaml", file)
        if epoch > 1:
            run.folder.mkdir()
            run.save_plan(producers=(), groups=[])
            assert run_migrate(run.plan, all_stopped=True, patience=30).phase == "done"
        if epoch == 1:
            writer = Producer({**librdkafka_settings(broker), "partitioner": "murmur2"})
            for number in range(30):
                writer.produce(name, b"1", f"k{number}")
            writer.flush()
    found = verify_migrate(run.plan)
    assert (found.violations, found.records) == (0, 30)
    assert any("carry no epoch and are not in the lanes of the old contract" in text for text in found.unproven)


def test_marks_of_transactions_below_a_fence_do_not_hold_a_lane(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(2), (2, 3))
    run.save_plan(producers=(), groups=[GROUP])
    writer = Producer({**librdkafka_settings(broker), "transactional.id": run.topic})
    writer.init_transactions(30)
    for _ in range(2):
        writer.begin_transaction()
        writer.produce(run.topic, b"1", b"k", partition=0)
        writer.commit_transaction(30)
    own = {"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**librdkafka_settings(broker), **own})
    try:
        # The record of the second transaction is at 2, and its mark at 3: nobody commits 4.
        consumer.commit(offsets=[TopicPartition(run.topic, 0, 2)], asynchronous=False)
        said = list[str]()
        waits = run_migrate(run.plan, all_stopped=True, patience=SAY_AFTER + 1, say=said.append)
        assert waits.waits_for is not None
        assert waits.waits_for.names == ["0"]
        assert said[-1] == "it waits for readers to drain 1 old lane by commits up to the fences: 0"
        consumer.commit(offsets=[TopicPartition(run.topic, 0, 3)], asynchronous=False)
        assert run_migrate(run.plan, all_stopped=True, patience=30).phase == "done"
    finally:
        consumer.close()


def test_a_commit_that_the_client_ignores_in_silence_is_refused(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A reader that only calls `commit()` drains no lane: nothing is stored for it, as the gate asks for."""
    name = topic(1)
    writer = Producer(librdkafka_settings(broker))
    writer.produce(name, b"1", b"k")
    writer.flush(30)
    own = {"group.id": name, "enable.auto.commit": False, "enable.auto.offset.store": False}
    consumer = Consumer({**librdkafka_settings(broker), **own, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(name, 0, 0)])
    gated = GatedConsumer(consumer, tmp_path / "journal")
    try:
        record = gated.poll(30)
        assert record.error() is None
        with pytest.raises(UsageError, match=r"commit\(message=record\)"):
            gated.commit()
        consumer.store_offsets(message=record)
        assert [one.offset for one in gated.commit()] == [1]
        assert [one.offset for one in gated.commit(message=record, asynchronous=False)] == [1]
    finally:
        gated.close()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """A command of `keylane`, in this process: a start of Python for each would take most of the time."""

    def command(*arguments: str) -> Ended:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["keylane", *arguments])
        code = _run()
        return Ended(code, *capsys.readouterr())

    return command


def test_the_commands_from_plan_to_certificate(
    command: Callable[..., Ended], broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(4))
    with KeyedProducer(Router(run.old), broker.bootstrap) as producer:
        producer.send({"k": "a"}, b"1")
    page = tmp_path / "page.html"
    planned = command(
        *("migrate", "plan", str(run.old), str(run.new), "--from", run.address, "--group", GROUP),
        *("--out", str(run.plan), "--report", str(page), "-o", "json"),
    )
    assert (planned.code, planned.document["observed"]["records"]) == (3, 1)
    assert "Who waits for whom" in page.read_text()
    early = command("migrate", "verify", str(run.plan))
    assert (early.code, early.out) == (2, "")
    waits = command("migrate", "run", str(run.plan), "--patience", "2s", "-o", "json")
    assert (waits.code, waits.document["waits_for"]["why"]) == (3, "producers")
    waits = command("migrate", "run", str(run.plan), "--producers-stopped", "--patience", "5s")
    assert waits.code == 3
    assert "waits for readers to drain 1 old lane" in waits.out
    status = command("migrate", "status", str(run.plan))
    assert (status.code, status.out.partition(":")[0]) == (3, "open")
    late = command("migrate", "rollback", str(run.plan))
    assert late.code == 1
    assert "forward-only from here" in late.err
    certificate = command("migrate", "verify", str(run.plan), "-o", "json")
    assert (certificate.code, certificate.document["verdict"]) == (4, "not proven"), "a lane is not drained"


def test_a_spark_batch_reads_what_the_gate_allows(
    spark: SparkSession, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Two batches: what lies below the fences, and, when that is applied, the rest."""
    run = live(broker, tmp_path, topic(2), (2, 3))
    run.save_plan(producers=(), groups=[])
    for file, lanes in ((run.old, 2), (run.new, 3)):
        with KeyedProducer(Router(file), broker.bootstrap) as producer:
            for number in range(30):
                producer.send({"k": f"k{number}"}, str(lanes).encode())
        if lanes == 2:
            run_migrate(run.plan, all_stopped=True, patience=30)
    gate = migration_gate(run.journal)
    assert gate is not None
    client = AdminClient({**librdkafka_settings(broker)})
    asked = {TopicPartition(run.topic, lane): OffsetSpec.latest() for lane in range(3)}  # type: ignore[no-untyped-call]  # has no types
    ends = {at.partition: answer.result(30).offset for at, answer in client.list_offsets(asked).items()}
    positions: dict[int, int] = {}
    for old in (True, False):
        options = spark_offsets(gate, run.topic, positions, ends)
        frame = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": broker.bootstrap}, **options).load()
        values = [bytes(row["value"]) for row in frame.select("value").collect()]
        assert values == [b"2" if old else b"3"] * 30
        positions = {lane: end for lane, (_, end) in gate.readable(positions, ends).items()}

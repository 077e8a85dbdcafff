"""What was found by attacking `migrate` on a real broker, one test of each: small topics, no Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.integration.live_migration import GROUP, LiveMigration, contract_file
from tests.integration.topics import create_topic, delete_topic

from keylane import Router
from keylane.errors import KeylaneError, TargetError, UsageError
from keylane.pipelines.migrate_run import run_migrate, status_migrate
from keylane.pipelines.migrate_verify import verify_migrate
from keylane.systems.broker import librdkafka_settings
from keylane.systems.kafka.migration_clients import GatedConsumer
from keylane.systems.kafka.producers import KeyedProducer
from keylane.systems.messages.headers import CONTRACT, EPOCH, SOURCE
from keylane.systems.migration_journal import MigrationView

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.systems.broker import Cluster

KEYS = 7


def live(cluster: Cluster, folder: Path, topic: str, lanes: tuple[int, int] = (2, 3), first: int = 1) -> LiveMigration:
    folder.mkdir(exist_ok=True)
    old, new = (contract_file(folder, topic, count, epoch) for epoch, count in enumerate(lanes, first))
    return LiveMigration(cluster, topic, folder, old, new)


def write(run: LiveMigration, contract: Path, epoch: int, numbers: range) -> None:
    """Records as a producer named `p` writes them."""
    router = Router(contract)
    with KeyedProducer(router, run.bootstrap) as producer:
        for number in numbers:
            headers = [
                (SOURCE, f"p.1/{number}".encode()),
                (CONTRACT, router.contract.fingerprint.encode()),
                (EPOCH, str(epoch).encode()),
            ]
            producer.send({"k": f"k{number % KEYS}"}, str(number).encode(), headers=headers)


def consumer(run: LiveMigration, group: str = GROUP) -> Consumer:
    own = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return Consumer({**librdkafka_settings(run.cluster), **own, "enable.auto.offset.store": False})


def moved(run: LiveMigration, **more: Any) -> None:
    """Carried out, without producers that acknowledge."""
    run.save_plan(**{"producers": (), "groups": [], **more})
    assert run_migrate(run.plan, all_stopped=True, patience=30).phase == "done"


def delete_records(run: LiveMigration, ends: dict[int, int]) -> None:
    client = AdminClient({**librdkafka_settings(run.cluster)})
    asked = [TopicPartition(run.topic, lane, end) for lane, end in ends.items()]
    for done in client.delete_records(asked).values():
        done.result(30)


@pytest.mark.parametrize(
    ("part", "value", "refused"),
    [
        (("drain", "2"), [], "drain of the plan"),
        (("new", "lanes"), 4, r"new\.lanes of the plan"),
        (("old", "epoch"), 7, r"old\.epoch of the plan"),
    ],
)
def test_a_plan_that_was_edited_is_not_carried_out(
    part: tuple[str, str], value: Any, refused: str, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(2))
    plan = run.save_plan(producers=(), groups=[])
    plan[part[0]][part[1]] = value
    run.plan.write_text(json.dumps(plan))
    with pytest.raises(UsageError, match=f"{refused} is not what its contracts give"):
        run_migrate(run.plan, all_stopped=True, patience=10)
    assert not (tmp_path / "plan.json.journal").exists()


def test_a_named_producer_is_waited_for_whoever_else_has_stopped(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(2))
    run.save_plan(producers=("p0",), groups=[])
    waits = run_migrate(run.plan, all_stopped=True, patience=2).waits_for
    assert waits is not None
    assert (waits.why, waits.names) == ("producers", ["p0"])


def test_the_journal_of_another_plan_is_neither_shown_nor_rolled_back(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    one, other = (live(broker, tmp_path / name, topic(2)) for name in "ab")
    for run in (one, other):
        run.save_plan(producers=(), groups=[])
    run_migrate(one.plan, most=1, patience=10)
    with pytest.raises(TargetError, match="the journal is of another plan"):
        status_migrate(other.plan, journal=one.journal)


@pytest.mark.parametrize(
    ("lanes", "settings"), [(1, {"cleanup_policy": "compact"}), (1, {"retention_ms": "60000"}), (2, {})]
)
def test_a_topic_that_would_lose_entries_is_no_journal(
    lanes: int, settings: dict[str, str], broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(2))
    run.save_plan(producers=(), groups=[])
    at = f"kafka://{broker.bootstrap}/{topic(lanes, **settings)}"
    with pytest.raises(TargetError, match="cannot be the journal of a migration"):
        run_migrate(run.plan, journal=at, all_stopped=True, patience=10)


def test_the_migrated_topic_is_no_journal(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    run = live(broker, tmp_path, topic(1, retention_ms="-1"), (1, 2))
    write(run, run.old, 1, range(3))
    run.save_plan(producers=(), groups=[])
    with pytest.raises(TargetError, match="records that are not of a migration"):
        run_migrate(run.plan, journal=run.address, all_stopped=True, patience=10)


def test_what_a_look_at_the_journal_broke_off_is_handed_out_later(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = live(broker, tmp_path, topic(2))
    write(run, run.old, 1, range(40))
    look, looks = MigrationView.look, list[int]()

    def sometimes(view: MigrationView) -> Any:
        looks.append(1)
        if len(looks) in (2, 3):
            raise TargetError.of("the folder is away")
        return look(view)

    monkeypatch.setattr(MigrationView, "look", sometimes)
    client = consumer(run)
    gate, applied, failed = GatedConsumer(client, run.journal), list[tuple[int, int]](), 0
    try:
        gate.subscribe([run.topic])
        while len(applied) < 40 and len(looks) < 200:
            try:
                applied += [(one.partition(), one.offset()) for one in gate.consume(10, 1.0) if one.error() is None]
            except KeylaneError:
                failed += 1
    finally:
        gate.close()
    assert (failed, len(applied), len(set(applied))) == (2, 40, 40)


def by_gates(run: LiveMigration, journals: list[str], records: int, group: str) -> list[list[int]]:
    """What a reader applies that begins when all is over: by key the numbers, in that order. Lane 0 comes last."""
    client: Any = consumer(run, group)
    slow = [TopicPartition(run.topic, 0)]
    for journal in journals:
        client = GatedConsumer(client, journal)
    applied, idle, paused = dict[bytes, list[int]](), 0, False
    try:
        client.subscribe([run.topic], on_assign=lambda of, lanes: (of.assign(lanes), of.pause(slow)))
        while sum(map(len, applied.values())) < records and idle < 60:
            found = [one for one in client.consume(50, 0.3) if one.error() is None]
            for one in found:
                applied.setdefault(one.key(), []).append(int(one.value()))
                at = TopicPartition(run.topic, one.partition(), one.offset() + 1)
                client.commit(offsets=[at], asynchronous=False)
            idle = 0 if found else idle + 1
            if idle > 5 and not paused and client.assignment():
                client.resume(slow)
                paused = True
    finally:
        client.close()
    assert sum(map(len, applied.values())) == records
    return list(applied.values())


def test_two_migrations_after_one_another_keep_order_by_both_gates_and_each_has_its_certificate(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(2)
    one = live(broker, tmp_path / "one", name, (2, 3))
    write(one, one.old, 1, range(60))
    moved(one)
    write(one, one.new, 2, range(60, 120))
    two = live(broker, tmp_path / "two", name, (3, 6), 2)
    moved(two)
    write(two, two.new, 3, range(120, 180))
    for run in (one, two):
        found = verify_migrate(run.plan)
        assert (found.verdict, found.violations) == ("not proven", 0), found.examples
        assert "60 records are of the epoch of another migration" in " ".join(found.unproven)
        assert status_migrate(run.plan).late_writers == []
    both = by_gates(one, [one.journal, two.journal], 180, "both")
    assert all(numbers == sorted(numbers) for numbers in both)
    second = by_gates(one, [two.journal], 180, "second")
    assert any(numbers != sorted(numbers) for numbers in second), "twin: one gate of two keeps no order"


def test_records_that_were_deleted_before_a_group_applied_them_are_said_to_be(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(1), (1, 2))
    write(run, run.old, 1, range(10))
    client = consumer(run)
    try:
        client.commit(offsets=[TopicPartition(run.topic, 0, 1)], asynchronous=False)
        run.save_plan(producers=(), groups=[GROUP])
        assert run_migrate(run.plan, all_stopped=True, patience=5).phase == "open"
        delete_records(run, {0: 10})
        assert run_migrate(run.plan, patience=30).phase == "done"
        found = verify_migrate(run.plan)
        assert found.verdict == "not proven"
        assert "were deleted before group ledger committed them" in found.unproven[-1]
        # Twin: nothing is missing of a group that has committed all of it.
        client.commit(offsets=[TopicPartition(run.topic, 0, 10)], asynchronous=False)
        assert verify_migrate(run.plan).verdict == "certified"
    finally:
        client.close()


def test_a_group_that_has_missed_records_since_the_plan_was_made_is_refused(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(1), (1, 2))
    write(run, run.old, 1, range(10))
    client = consumer(run)
    try:
        client.commit(offsets=[TopicPartition(run.topic, 0, 1)], asynchronous=False)
        run.save_plan(producers=(), groups=[GROUP])
        delete_records(run, {0: 5})
        with pytest.raises(UsageError, match="records were deleted before group ledger has applied them"):
            run_migrate(run.plan, all_stopped=True, patience=10)
        assert status_migrate(run.plan).phase is None
    finally:
        client.close()


def test_a_topic_that_is_recreated_while_readers_are_waited_for_is_refused_by_all_commands(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = live(broker, tmp_path, topic(2))
    write(run, run.old, 1, range(10))
    run.save_plan(producers=(), groups=[GROUP], gated=False)
    assert run_migrate(run.plan, all_stopped=True, patience=2).phase == "growing"
    delete_topic(broker, run.topic)
    create_topic(broker, run.topic, 3)
    for look in (status_migrate, run_migrate):
        with pytest.raises(TargetError, match="deleted and recreated since the plan was made"):
            look(run.plan)

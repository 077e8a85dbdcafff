"""Owners on a real broker with leases in a file: paused beyond the lease, killed, stopped; with the twins.

The long run, with ZooKeeper and cut networks: `test_owner_faults.py`.
"""

from __future__ import annotations

import re
import shutil
import signal
import time
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from tests.integration.owner_run import OwnerRun, judged, messages_of, reader_of, resume, wrong_states
from tests.integration.topics import create_topic, delete_topic

from keylane.errors import DataError, FencedError, KeylaneError
from keylane.groups.ownership import Lease, Terms, claim_of
from keylane.systems.kafka import InputRecord, JsonStep, LaneOwner, OutputRecord, OwnerPlan, kafka_access
from keylane.systems.kafka import owner as owning
from keylane.systems.kafka.owner_terms import TermFilter
from keylane.systems.kafka.owner_writers import Duty, Produced, TransactionalWriter, fence_all
from keylane.systems.leases import open_leases
from keylane.systems.leases.keeper import LeaseKeeper
from keylane.systems.leases.sqlite import sqlite_leases
from keylane.systems.snapshots import Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from keylane.systems.broker import Cluster

TTL = 3.0


def paused_and_killed(run: OwnerRun) -> None:
    """An owner that stops in the middle of a batch, beyond its lease, and wakes up; then its successor is killed.

    How long the id is without an owner is held by `test_owner_faults`.
    """
    first, second = run.start(), run.start()
    run.wait_for("serving")
    run.wait_for_outputs()
    paused = next(iter(run.owners().values()))["pid"]
    successor = second if paused == first else first
    run.stop_in_batch(paused)
    stopped = time.monotonic()
    owned = run.wait_for("owned", since=stopped, pid=successor)
    run.wait_for("serving", since=stopped, pid=successor)
    run.wait_for_outputs()
    resume(paused)
    run.wait_for("lost", since=stopped, pid=paused)
    killed = time.monotonic()
    run.end(successor)
    again = run.wait_for("owned", since=killed, pid=paused)
    assert (owned["term"], again["term"]) == (2, 3)
    run.wait_for("serving", since=killed, pid=paused)
    run.wait_for_outputs()


@pytest.fixture
def run_of(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> Callable[[str], OwnerRun]:
    def make(fence: str) -> OwnerRun:
        source, output = topic(2, "owned"), topic(2, "made")
        return OwnerRun(tmp_path / "run", broker.bootstrap, str(tmp_path / "l.db"), source, output, 2, 1, TTL, fence)

    return make


def test_a_paused_owner_gets_no_record_accepted_by_the_broker(run_of: Callable[[str], OwnerRun]) -> None:
    with run_of("transactions") as run:
        paused_and_killed(run)
        run.finish()
        assert run.wait_for("fenced")["why"].startswith("another owner has taken id 0")
        sources, (outputs, _) = run.sources(), run.outputs(raw=True)
    verdict = judged(run.topic, sources, outputs)
    assert verdict.ok, verdict.violations
    assert {one.term for one in outputs} == {1, 2, 3}
    assert wrong_states(sources, outputs) == 0


def test_a_paused_owner_gets_no_record_accepted_by_readers_of_terms(run_of: Callable[[str], OwnerRun]) -> None:
    with run_of("headers") as run:
        paused_and_killed(run)
        run.finish()
        sources, (outputs, fence), (raw, _) = run.sources(), run.outputs(), run.outputs(raw=True)
    verdict = judged(run.topic, sources, outputs)
    # At least once: what a killed owner wrote behind its last snapshot is written again.
    allowed = {"duplicated", "reordered"}
    assert {rule for rule, count in verdict.counts.items() if count} <= allowed, verdict.violations
    assert wrong_states(sources, outputs) == 0
    assert fence.counts["stale"] > 0
    assert judged(run.topic, sources, raw).counts["stale_epochs"] > 0, "twin: a reader without the filter"
    assert judged(run.topic, sources, raw).counts["two_owners"] > 0


@pytest.mark.faults
def test_an_owner_without_a_fence_is_caught(run_of: Callable[[str], OwnerRun]) -> None:
    with run_of("none") as run:
        paused_and_killed(run)
        run.finish()
        verdict = judged(run.topic, run.sources(), run.outputs(raw=True)[0])
    assert verdict.counts["stale_epochs"] > 0
    assert verdict.counts["two_owners"] > 0


def test_a_rolling_deploy_replays_nothing_and_moves_nothing_else(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, output = topic(2, "owned"), topic(2, "made")
    with OwnerRun(tmp_path / "run", broker.bootstrap, str(tmp_path / "l.db"), source, output, 2, 2, TTL) as run:
        owners = [run.start() for _ in range(2)]
        for instance in (0, 1):
            run.wait_for("serving", instance=instance)
        other = run.owners()[1]
        leaving = run.owners()[0]["pid"]
        spare = run.start()
        assert run.end(leaving, signal.SIGTERM) == 0
        run.wait_for("serving", pid=spare, instance=0)
        assert run.owners()[1] == other
        assert other["pid"] in owners
        run.finish()
        assert not [event for event in run.events() if event["event"] in ("lost", "fenced", "interrupted", "failed")]
        sources, (outputs, _) = run.sources(), run.outputs(raw=True)
    assert judged(run.topic, sources, outputs).ok
    assert wrong_states(sources, outputs) == 0


class Echo(JsonStep):
    """Writes each record with the number of those before it."""

    def apply(self, state: dict[str, Any], record: InputRecord) -> Iterable[OutputRecord]:
        state["count"] = state.get("count", 0) + 1
        return [OutputRecord(record.key, str(state["count"]).encode())]


def owned(
    plan: OwnerPlan,
    instances: int,
    seconds: float = 60.0,
    until: int = 0,
    midway: tuple[int, Callable[[], None]] = (0, lambda: None),
    step: Echo | None = None,
) -> None:
    """Run an owner in this process until it has written so many records, and stop it gracefully.

    `midway` is called once, when it has written so many.
    """
    with open_leases(plan.folder.parent / "leases.db", plan.group, instances, TTL) as store:
        owner = LaneOwner(plan, step or Echo(), store)
        failure: list[BaseException] = []

        thread = Thread(target=failing_into(failure, owner.run))
        thread.start()
        end = time.monotonic() + seconds
        try:
            for many, then in (midway, (until, owner.stop)):
                while thread.is_alive() and owner.health()[1]["written"] < many:
                    assert time.monotonic() < end, str(owner.health())
                    time.sleep(0.05)
                then()
        finally:
            owner.stop()
        thread.join()
        if failure:
            raise failure[0]


def send(broker: Cluster, topic: str, count: int, lane: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), "k", lane)
    assert producer.flush(60) == 0


def test_what_cannot_go_on_is_an_error(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    """An output without the partition, a topic that was made anew, a topic that is not there."""
    source, narrow, wide = topic(2, "owned"), topic(1, "made"), topic(2, "made")
    send(broker, source, 3, lane=1)
    plan = OwnerPlan(kafka_access(broker.bootstrap), "errors", source, narrow, tmp_path / "snapshots", Terms(TTL))
    with pytest.raises(DataError, match="partition"):
        owned(plan, 1, until=3)
    owned(replace(plan, output=wide), 1, until=3)
    delete_topic(broker, source)
    create_topic(broker, source, 2)
    send(broker, source, 9, lane=1)
    with pytest.raises(DataError, match="made anew"):
        owned(replace(plan, output=wide), 1, until=12)
    with pytest.raises(KeylaneError, match="nowhere"):
        owned(replace(plan, topic="nowhere"), 1, until=1)


def test_a_spare_that_waited_while_the_topic_was_made_anew_takes_no_old_state(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, output = topic(2, "owned"), topic(2, "made")
    plan = OwnerPlan(kafka_access(broker.bootstrap), "spare", source, output, tmp_path / "snapshots", Terms(TTL))
    send(broker, source, 3, lane=1)
    owned(plan, 1, until=3)
    with open_leases(tmp_path / "leases.db", plan.group, 1, TTL) as store:
        holder = LeaseKeeper(store, claim_of("holder", 1, plan.terms), time.monotonic)
        with holder:
            until_true(lambda: holder.lease() is not None)
            spare = LaneOwner(plan, Echo(), store)
            failure: list[BaseException] = []
            thread = Thread(target=failing_into(failure, spare.run))
            thread.start()
            until_true(lambda: spare.health()[1]["phase"] == "waiting")
            delete_topic(broker, source)
            create_topic(broker, source, 2)
            send(broker, source, 9, lane=1)
        thread.join(60)
        spare.stop()
        thread.join()
    assert len(failure) == 1
    assert "made anew since the snapshot of lane" in str(failure[0])


def failing_into(failures: list[BaseException], run: Callable[[], None]) -> Callable[[], None]:
    def running() -> None:
        try:
            run()
        except KeylaneError as error:
            failures.append(error)

    return running


def until_true(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_lanes_that_a_topic_gains_are_read(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owning, "GROWTH_SECONDS", 0.2)
    source, output = topic(2, "owned"), topic(2, "made")
    client = AdminClient({"bootstrap.servers": broker.bootstrap})

    def grow() -> None:
        for name in (output, source):
            for done in client.create_partitions([NewPartitions(name, 3)]).values():
                done.result(60)
        until_partitions(broker, source, 3)
        send(broker, source, 4, lane=2)

    plan = OwnerPlan(kafka_access(broker.bootstrap), "gained", source, output, tmp_path / "snapshots", Terms(TTL))
    send(broker, source, 3, lane=1)
    owned(plan, 1, until=7, midway=(3, grow))
    reader = reader_of(broker.bootstrap)
    for lane, many in ((1, 3), (2, 4)):
        values = [message.value() for message in messages_of(reader, output, lane, 0, 10**6)]
        assert values == [str(number).encode() for number in range(1, many + 1)]
    reader.close()


def until_partitions(broker: Cluster, topic: str, count: int) -> None:
    client, end = AdminClient({"bootstrap.servers": broker.bootstrap}), time.monotonic() + 60
    while len(client.list_topics(topic, timeout=10).topics[topic].partitions) < count:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_another_number_of_ids_begins_behind_a_fence(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, output = topic(4, "owned"), topic(4, "made")
    plan = OwnerPlan(kafka_access(broker.bootstrap), "grown", source, output, tmp_path / "snapshots", Terms(TTL))
    for lane in range(4):
        send(broker, source, 5, lane)
    owned(replace(plan, instance=0), 2, until=10)
    owned(replace(plan, instance=1), 2, until=10)
    with sqlite_leases(tmp_path / "leases.db", "grown", 2) as store:
        former = TransactionalWriter(Duty(plan.access, "grown", source, (1,), output, 4, Lease(1, 2), 10.0))
        former.begin()
        store.resize(1)
    fence_all(plan.access, "grown", 2)
    for lane in range(4):
        send(broker, source, 5, lane)
    owned(plan, 1, until=20)
    own = {"group.id": "grown", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **own})
    with pytest.raises(FencedError):
        former.write([Produced(1, b"k", b"late", [])], {1: 6}, consumer)
    former.close()
    consumer.close()
    reader = reader_of(broker.bootstrap)
    for lane in range(4):
        values = [message.value() for message in messages_of(reader, output, lane, 0, 10**6)]
        assert values == [str(number).encode() for number in range(1, 11)]
    reader.close()


class Yielding(Echo):
    """The same as a generator: what it does to the state happens as its outputs are read."""

    def apply(self, state: dict[str, Any], record: InputRecord) -> Iterator[OutputRecord]:
        yield from super().apply(state, record)


@pytest.mark.parametrize("step", [Echo, Yielding])
def test_a_replay_makes_the_same_state_however_a_step_returns_its_outputs(
    step: type[Echo], broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    plan = plan_of(broker, "replayed", topic(1, "owned"), topic(1, "made"), tmp_path)
    send(broker, plan.topic, 5)
    owned(plan, 1, until=5, step=step())
    shutil.rmtree(plan.folder)
    send(broker, plan.topic, 3)
    owned(plan, 1, until=3, step=step())
    assert outputs_of(plan) == [str(number).encode() for number in range(1, 9)]


def plan_of(broker: Cluster, group: str, source: str, output: str, folder: Path, **more: Any) -> OwnerPlan:
    access = kafka_access(broker.bootstrap)
    return OwnerPlan(access, f"{group}-{source}", source, output, folder / "snapshots", Terms(TTL), **more)


def outputs_of(plan: OwnerPlan, fence: TermFilter | None = None) -> list[bytes]:
    """What is in the only partition of the output; of a reader with a filter, what that lets through."""
    reader = reader_of(plan.access.brokers)
    try:
        there = [message for message in messages_of(reader, plan.output, 0, 0, 10**6) if message.value() is not None]
        if fence is None:
            return [message.value() for message in there]
        every = messages_of(reader, plan.output, 0, 0, 10**6)
        return [message.value() for message in every if fence.accepts(message)]
    finally:
        reader.close()


def test_two_groups_of_one_topic_share_a_folder_and_no_state(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    one = plan_of(broker, "one", topic(1, "owned"), topic(1, "made"), tmp_path)
    send(broker, one.topic, 5)
    owned(one, 1, until=5)
    other = replace(one, group=f"other-{one.topic}", output=topic(1, "made"))
    owned(other, 1, until=5)
    assert outputs_of(one) == outputs_of(other) == [str(number).encode() for number in range(1, 6)]


@pytest.mark.parametrize("left", ["notes and snapshots", "notes", "snapshots", "nothing"])
def test_a_lost_store_of_leases_gives_terms_above_those_that_were_given(
    left: str, broker: Cluster, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(broker, "lost", topic(1, "owned"), topic(1, "made"), tmp_path, fence="headers")
    for many in (3, 2, 2):
        send(broker, plan.topic, many)
        owned(plan, 1, until=many)
    (tmp_path / "leases.db").unlink()
    if "notes" not in left:
        monkeypatch.setattr(LaneOwner, "_noted_terms", lambda *_: {})
    if "snapshots" not in left:
        monkeypatch.setattr(Snapshots, "highest_term", lambda *_: 0)
    send(broker, plan.topic, 2)
    owned(plan, 1, until=2)
    fence = TermFilter()
    known = outputs_of(plan, fence)
    if left == "nothing":
        assert len(known) == 7, "twin: readers take the new owner for a former one"
        return
    assert known == [str(number).encode() for number in range(1, 10)]
    assert not fence.counts["stale"]
    newest, _ = Snapshots(plan.folder, plan.group).newest(plan.topic, 0)
    assert newest is not None
    assert newest.position == 9


@pytest.mark.parametrize("gone", [(), ("snapshots",), ("snapshots", "notes")])
def test_offsets_that_are_gone_are_refused_and_the_command_that_is_named_goes_on_exactly_once(
    gone: tuple[str, ...], broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    plan = plan_of(broker, "expired", topic(1, "owned"), topic(1, "made"), tmp_path)
    send(broker, plan.topic, 5)
    owned(plan, 1, until=5)
    owned(plan, 1)
    forget(broker, plan.group)
    if "notes" in gone:
        forget(broker, owning.notes_of(plan.group))
    if "snapshots" in gone:
        shutil.rmtree(plan.folder)
    send(broker, plan.topic, 2)
    with pytest.raises(DataError, match="are gone, or went back") as caught:
        owned(plan, 1, until=2)
    assert len(outputs_of(plan)) == 5
    found = re.search(r"--group (\S+) --reset-offsets --topic (\S+):0 --to-offset (\d+) --execute", str(caught.value))
    assert found is not None
    group, name, at = found.groups()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(name, 0, int(at))], asynchronous=False)
    consumer.close()
    owned(plan, 1, until=2)
    assert outputs_of(plan) == [str(number).encode() for number in range(1, 8)]


def forget(broker: Cluster, group: str) -> None:
    """Delete the offsets of a group, by a new client for each try: one that asks too early finds no coordinator."""

    def gone() -> bool:
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        try:
            client.delete_consumer_groups([group])[group].result(10)
        except TimeoutError:
            return False
        except KafkaException as error:
            return bool(error.args[0].name() == "GROUP_ID_NOT_FOUND")
        return True

    until_true(gone)


def test_offsets_that_went_back_are_refused(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    plan = plan_of(broker, "reset", topic(1, "owned"), topic(1, "made"), tmp_path)
    send(broker, plan.topic, 5)
    owned(plan, 1, until=5)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": plan.group})
    consumer.commit(offsets=[TopicPartition(plan.topic, 0, 2)], asynchronous=False)
    consumer.close()
    with pytest.raises(DataError, match="went back"):
        owned(plan, 1, until=1)


def test_a_new_group_begins_on_an_output_that_others_have_written_to(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Twin of those above: nobody has lost anything."""
    one = plan_of(broker, "one", topic(1, "owned"), topic(1, "made"), tmp_path)
    send(broker, one.topic, 5)
    owned(one, 1, until=5)
    other = replace(one, group=f"other-{one.topic}", folder=tmp_path / "other")
    owned(other, 1, until=5)
    send(broker, one.topic, 1)
    owned(other, 1, until=1)
    assert len(outputs_of(one)) == 11

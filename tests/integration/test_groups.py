"""Consumer groups on a real broker: read as they are, decided by keylane, and read by a manual assignment."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from kafka import KafkaConsumer

import keylane
from keylane.cli.main import _run
from keylane.errors import BrokerError, UnknownNameError, UsageError
from keylane.systems.broker import librdkafka_settings
from keylane.systems.kafka.group import live_group, manual_assignment
from keylane.systems.kafka.group_assignor import group_assignor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from keylane.systems.broker import Cluster

SECONDS = 120.0


def wait_for(met: Callable[[], bool], *polled: Any) -> None:
    """Poll consumers, which is how they join and agree, until something is true."""
    until = time.monotonic() + SECONDS
    while not met():
        assert time.monotonic() < until, "the group did not settle"
        for consumer in polled:
            consumer.poll(timeout_ms=100) if isinstance(consumer, KafkaConsumer) else consumer.poll(0.1)


@contextmanager
def consumer(broker: Cluster, group: str, topic: str, **settings: Any) -> Iterator[KafkaConsumer]:
    made = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=300,
        **settings,
    )
    try:
        made.subscribe([topic])
        # A group that is joined before the partitions are known is joined again when they are. kafka-python 3.0.12
        # forgets that second join for good, heartbeats and all, if a poll ends while it is under way.
        while topic not in made.topics():
            pass
        yield made
    finally:
        made.close()


def lanes(one: KafkaConsumer) -> set[int]:
    return {lane.partition for lane in one.assignment()}


def fill(broker: Cluster, topic: str, counts: list[int]) -> None:
    producer = Producer(librdkafka_settings(broker))
    for lane, many in enumerate(counts):
        for n in range(many):
            producer.produce(topic, str(n), partition=lane)
    assert producer.flush(SECONDS) == 0


def test_two_consumers_are_assigned_by_load_and_take_over(broker: Cluster, topic: Callable[..., str]) -> None:
    name = topic(lanes=4)
    loads = {(name, 0): 7.0, (name, 1): 4.0, (name, 2): 2.0, (name, 3): 1.0}
    group = f"by-load-{name}"
    with ExitStack() as open_:
        first = open_.enter_context(
            consumer(broker, group, name, partition_assignment_strategy=[group_assignor("by-load", loads=loads)])
        )
        wait_for(lambda: lanes(first) == {0, 1, 2, 3}, first)
        with consumer(
            broker, group, name, partition_assignment_strategy=[group_assignor("by-load", loads=lambda: loads)]
        ) as second:
            wait_for(lambda: len(lanes(first)) + len(lanes(second)) == 4 and bool(lanes(second)), first, second)
            assert lanes(first) | lanes(second) == {0, 1, 2, 3}
            carried = sorted(sum(loads[name, lane] for lane in lanes(one)) for one in (first, second))
            assert carried == [7.0, 7.0], "by count it would be two lanes each, and 8 or more of 14"
            found = live_group(f"kafka://{broker.bootstrap}", group)
            assert (found.assignor, found.protocol, len(found.members)) == ("keylane-by-load", "classic", 2)
            assert sorted(map(len, found.assignment.as_lists().values())) == sorted(
                (len(lanes(first)), len(lanes(second)))
            )
        wait_for(lambda: lanes(first) == {0, 1, 2, 3}, first)


def test_a_live_group_is_read_with_its_lag_and_planned(broker: Cluster, topic: Callable[..., str]) -> None:
    name = topic(lanes=3)
    fill(broker, name, [5, 0, 2])
    address, group = f"kafka://{broker.bootstrap}", f"live-{name}"
    settings = {
        **librdkafka_settings(broker),
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    reader = Consumer({**settings, "partition.assignment.strategy": "range"})
    try:
        reader.subscribe([name])
        read: list[Any] = []
        wait_for(lambda: _has_read(reader, read, 7))
        reader.commit(offsets=[_offset(name, 0, 3), _offset(name, 2, 2)], asynchronous=False)
        found = live_group(address, group)
        assert (found.assignor, found.state) == ("range", "stable")
        assert {lane[1]: lag for lane, lag in found.lag.items()} == {0: 2, 2: 0}
        document = keylane.assign(address, group=group, add=["new"])
        assert (document.assignor, document.load_from, document.group) == ("range", "lag", group)
        assert sum(row.lag or 0 for row in document.members) == 2
        assert any("1 lane has no committed offset" in note for note in document.notes)
        assert {row.assignor: row.moved for row in document.compared}["cooperative-sticky"] == 1
    finally:
        reader.close()
    with pytest.raises(UsageError):
        keylane.assign(address, group=group)
    with pytest.raises(UnknownNameError, match=group):
        live_group(address, f"{group}x")


def test_a_live_group_of_the_protocol_of_kafka_4_is_read(broker: Cluster, topic: Callable[..., str]) -> None:
    name = topic(lanes=4)
    fill(broker, name, [1, 1, 1, 1])
    group = f"modern-{name}"
    settings = {**librdkafka_settings(broker), "group.id": group, "auto.offset.reset": "earliest"}
    readers = [Consumer({**settings, "group.protocol": "consumer"}) for _ in range(2)]
    try:
        for reader in readers:
            reader.subscribe([name])
        wait_for(lambda: all(len(reader.assignment()) == 2 for reader in readers), *readers)
        found = live_group(f"kafka://{broker.bootstrap}", group)
        assert (found.protocol, found.assignor, len(found.members)) == ("consumer", "uniform", 2)
        document = keylane.assign(f"kafka://{broker.bootstrap}", group=group, remove=[found.members[0].id])
        assert (document.assignor, document.moved) == ("uniform", 2)
    finally:
        for reader in readers:
            reader.close()


def _has_read(reader: Consumer, read: list[Any], wanted: int) -> bool:
    message = reader.poll(0.2)
    if message is not None and message.error() is None:
        read.append(message)
    return len(read) >= wanted


def _offset(topic: str, lane: int, offset: int) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, lane, offset)


def test_a_plan_is_read_by_manual_assignment(broker: Cluster, topic: Callable[..., str]) -> None:
    name = topic(lanes=3)
    fill(broker, name, [4, 3, 2])
    plan = keylane.assign(lanes={name: 3}, members=["A", "B"], assignor="by-load")
    seen: list[tuple[int, int]] = []
    for member in ("A", "B"):
        reader = Consumer({**librdkafka_settings(broker), "group.id": f"manual-{name}", "enable.auto.commit": False})
        try:
            mine = manual_assignment(plan.assignment, member)
            for lane in mine:
                lane.offset = 0
            reader.assign(mine)
            wanted = sum([4, 3, 2][lane.partition] for lane in mine)
            until = time.monotonic() + SECONDS
            own: list[tuple[int, int]] = []
            while len(own) < wanted and time.monotonic() < until:
                message = reader.poll(0.5)
                if message is not None and message.error() is None:
                    own.append((message.partition() or 0, message.offset() or 0))
            seen += own
        finally:
            reader.close()
    assert sorted(seen) == [(lane, n) for lane, many in enumerate([4, 3, 2]) for n in range(many)], "each record once"
    with pytest.raises(UnknownNameError):
        manual_assignment(plan.assignment, "C")


def test_a_broker_that_is_away_is_an_error_of_one_line() -> None:
    with pytest.raises(BrokerError, match="no broker answers"):
        live_group("kafka://127.0.0.1:1", "any")


def test_a_group_that_has_not_seen_the_new_lanes_of_a_grown_topic_is_named_until_it_has(
    invoked: Callable[..., int], broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The step between more partitions and the first record in them, of a topic that is grown by hand."""
    name, group = topic(2), "latest"
    spec = {"streams": [name], "lanes": 4, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "t"}, "spec": spec}
    contract, at = tmp_path / "t.yaml", f"kafka://{broker.bootstrap}/{name}"
    contract.write_text(yaml.safe_dump(document))

    def asked() -> tuple[bool, list[str]]:
        found = keylane.check(contract, data=at, group=group)
        return found.ok, [one.message for one in found.findings]

    own = {"group.id": group, "auto.offset.reset": "latest", "enable.auto.commit": False}
    reader = Consumer({**librdkafka_settings(broker), **own})
    try:
        reader.subscribe([name])
        wait_for(lambda: len(reader.assignment()) == 2, reader)
        ok, messages = asked()
        assert (ok, len(messages)) == (False, 2)
        assert "has 2 lanes, and 4 by the contract" in messages[0]
        client = AdminClient({**librdkafka_settings(broker)})
        client.create_partitions([NewPartitions(name, 4)])[name].result(30)
        ok, messages = asked()
        assert (ok, len(messages)) == (False, 1)
        assert "has 2 of 4 lanes, and not 2, 3" in messages[0]
        assert invoked("check", str(contract), "--data", at, "--group", group) == 4
    finally:
        reader.close()
    # The way on that it names: a member that begins anew.
    again = Consumer({**librdkafka_settings(broker), **own})
    try:
        again.subscribe([name])
        wait_for(lambda: len(again.assignment()) == 4, again)
        assert asked() == (True, [])
        assert invoked("check", str(contract), "--data", at, "--group", group) == 0
    finally:
        again.close()


@pytest.fixture
def invoked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The exit code of a command of `keylane`, in this process."""

    def invoked(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["keylane", *arguments])
        return _run()

    return invoked


@pytest.mark.parametrize("given", [("--group", "g"), ("--data", "there.csv", "--group", "g")])
def test_a_group_without_a_topic_is_refused(
    given: tuple[str, ...], invoked: Callable[..., int], tmp_path: Path
) -> None:
    contract = tmp_path / "t.yaml"
    spec = {"streams": ["t"], "lanes": 4, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "t"}, "spec": spec}
    contract.write_text(yaml.safe_dump(document))
    (tmp_path / "there.csv").write_text("k,lane\na,1\n")
    given = tuple(str(tmp_path / one) if one.endswith(".csv") else one for one in given)
    assert invoked("check", str(contract), *given) == 2

"""What is read of a cluster, and a change carried out on one: throttled, waited for, and tidied up, come what may."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.errors import ClusterAuthorizationFailedError, KafkaTimeoutError
from tests.unit.brokers.example_clusters import Admin, lane, layout, on_two_brokers

from keylane.brokers.layout import Layout, figures
from keylane.brokers.rebalance import reassignment
from keylane.errors import BrokerError, UsageError
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.reassign import (
    applied,
    cluster_access,
    explained,
    observed,
    open_admin,
    throttle_of,
    throttles,
    under_way,
)

RATE = 5_000_000


def apply(cluster: Admin, change: Any = None, rate: int | None = RATE) -> Any:
    return applied(cluster, change or reassignment(cluster.now), rate, said.append, poll=0.0)


said: list[str] = []


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(on_two_brokers(), id="two of three brokers"),
        pytest.param(layout(lane(0, 1, 2, isr=(1,), min_isr=2), racks=("a", "b", "c")), id="a copy behind"),
        pytest.param(layout(lane(0, 1, 2, isr=(), leader=-1)), id="nobody leads"),
        pytest.param(layout(), id="nothing"),
    ],
)
def test_a_cluster_is_read_as_it_is_and_nothing_is_written(there: Layout) -> None:
    cluster = Admin(there)
    assert observed(cluster) == there
    assert under_way(cluster) == {}
    assert throttles(cluster, there) == {"broker": {}, "topic": {}}
    assert cluster.written == []


def test_sizes_that_the_user_may_not_see_are_not_known() -> None:
    found = observed(Admin(on_two_brokers(), sizes_hidden=True))
    assert {one.size for one in found.lanes} == {None}
    assert figures(found).bytes is None


def test_a_change_is_carried_out_as_planned_and_leaves_no_throttle() -> None:
    cluster = Admin(on_two_brokers(), steps=3)
    change = reassignment(cluster.now)
    done = apply(cluster)
    assert [one.replicas for one in cluster.now.lanes] == [one.replicas for one in change.after]
    assert [one.leader for one in cluster.now.lanes] == [one.leader for one in change.after]
    assert (done.lanes, done.not_elected) == (len(change.moves), 0)
    assert cluster.left == {}
    assert "0 of 4 lanes moved, 0 B of 3.8 MiB" in said


def test_the_throttle_is_there_before_the_first_byte_moves() -> None:
    cluster = Admin(on_two_brokers())
    change = reassignment(cluster.now)
    apply(cluster)
    started = cluster.set_when_started
    assert {who for who, _ in started} == {"broker", "topic"}
    assert [started["broker", str(n)] for n in (1, 2, 3)] == [
        {"leader.replication.throttled.rate": "5000000", "follower.replication.throttled.rate": "5000000"}
    ] * 3
    followers = started["topic", "t"]["follower.replication.throttled.replicas"]
    assert set(followers.split(",")) == {f"{move.partition}:{to}" for move in change.moves for to in move.added}
    leaders = started["topic", "t"]["leader.replication.throttled.replicas"]
    assert set(leaders.split(",")) == {f"{move.partition}:{old}" for move in change.moves for old in move.before}


@pytest.mark.parametrize("rate", [None, RATE])
def test_what_copies_nothing_sets_no_throttle(rate: int | None) -> None:
    cluster = Admin(layout(*(lane(p, 1, 2, 3) for p in range(6))))
    apply(cluster, rate=rate)
    assert set(cluster.written) == {"reassign", "elect"}
    assert figures(cluster.now).leaders.counts == (2, 2, 2)


def test_a_throttle_of_none_sets_none() -> None:
    assert throttle_of(reassignment(on_two_brokers()).moves, None) == {}


def test_elections_alone_move_nothing() -> None:
    cluster = Admin(layout(lane(0, 1, 2, leader=2), lane(1, 2, 3), lane(2, 3, 1)))
    assert apply(cluster).elected == 1
    assert cluster.written == ["elect"]


def test_a_throttle_that_somebody_else_set_is_there_again_afterwards() -> None:
    theirs = {("broker", "1"): {"leader.replication.throttled.rate": "77"}}
    cluster = Admin(on_two_brokers(), settings={who: dict(values) for who, values in theirs.items()})
    apply(cluster)
    assert cluster.left == theirs


@pytest.mark.parametrize("rate", [RATE, 2 * RATE], ids=["at the same rate", "at another rate"])
def test_a_throttle_that_a_killed_run_of_the_same_plan_left_is_removed(rate: int) -> None:
    cluster = Admin(on_two_brokers())
    cluster.settings = throttle_of(reassignment(cluster.now).moves, rate)
    apply(cluster)
    assert cluster.left == {}


def test_an_interrupt_removes_the_throttle_and_the_same_change_again_finishes() -> None:
    cluster = Admin(on_two_brokers(), steps=100)
    change = reassignment(cluster.now)

    def interrupt() -> None:
        if cluster.looks == 3 and cluster.moving:
            raise KeyboardInterrupt

    cluster.on_look = interrupt
    with pytest.raises(KeyboardInterrupt):
        apply(cluster, change)
    assert cluster.moving
    assert cluster.left == {}

    cluster.on_look, cluster.looks, cluster.steps, cluster.written = (lambda: None), 0, 3, []
    assert apply(cluster, change).not_elected == 0
    assert "reassign" not in cluster.written
    assert any(written.startswith("SET") for written in cluster.written)
    assert [one.replicas for one in cluster.now.lanes] == [one.replicas for one in change.after]
    assert cluster.left == {}


def test_an_error_in_between_removes_the_throttle_too() -> None:
    cluster = Admin(on_two_brokers(), refuses={("t", 0)})
    with pytest.raises(BrokerError, match="got 't-0: InvalidReplicationAssignmentError'"):
        apply(cluster)
    assert cluster.left == {}


def test_a_stale_change_is_refused_and_nothing_is_written() -> None:
    cluster = Admin(on_two_brokers())
    change = reassignment(cluster.now)
    cluster.now = Layout(cluster.now.brokers, (*cluster.now.lanes, lane(6, 3)))
    with pytest.raises(BrokerError, match="changed since"):
        apply(cluster, change)
    assert cluster.written == []


def test_a_reassignment_of_somebody_else_is_left_alone() -> None:
    cluster = Admin(on_two_brokers(), steps=100, moving={("t", 5): (1, 3)})
    with pytest.raises(BrokerError, match=r"reassignment.*t-5"):
        apply(cluster, reassignment(on_two_brokers()))
    assert cluster.written == []


@pytest.mark.parametrize(
    "address",
    ["kafka://b:9092/topic", "b:9092", "kinesis://eu-west-1", "kafka://", "kafka://b", "lanes/", "kafka://b:1;c"],
)
def test_what_is_no_address_of_a_cluster_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="a cluster"):
        cluster_access(address)


def test_kafka_python_gets_the_settings_of_the_other_clients(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "canary")
    (tmp_path / "own.pem").write_text("")
    given = [
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "app"),
        ("sasl.password", "${env:KAFKA_PASSWORD}"),
        ("ssl.keystore.location", str(tmp_path / "own.pem")),
        ("ssl.endpoint.identification.algorithm", "none"),
        ("socket.timeout.ms", "5000"),
        ("compression.type", "lz4"),
    ]
    told = kafka_access("a:1,b:2", given).kafka_python()
    assert told == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "app",
        "sasl_plain_password": "canary",
        "ssl_certfile": str(tmp_path / "own.pem"),
        "ssl_keyfile": str(tmp_path / "own.pem"),
        "ssl_check_hostname": False,
        "request_timeout_ms": 5000,
    }
    assert set(told) <= set(KafkaAdminClient.DEFAULT_CONFIG)


def test_an_error_that_a_missing_right_causes_names_the_right() -> None:
    error = explained(ClusterAuthorizationFailedError("no"), "b:1")
    assert "AlterConfigs for --apply" in str(error)


def test_a_real_client_shows_its_settings_in_no_log(
    broker: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python logs all it is given when debugging is on; here that is the address, elsewhere the password.

    The mock cluster is too old for its admin client, which gives up after that.
    """
    caplog.set_level(logging.DEBUG, "kafka")
    monkeypatch.setattr("keylane.systems.kafka.reassign.ANSWER_MS", 300)

    def shown() -> list[str]:
        return [record.getMessage() for record in caplog.records if broker in record.getMessage()]

    with (
        pytest.raises(BrokerError, match="a broker does not answer"),
        open_admin(cluster_access(f"kafka://{broker}")),
    ):
        pass
    assert shown() == []
    assert logging.getLogger("kafka").level == logging.DEBUG
    with pytest.raises(KafkaTimeoutError):
        KafkaAdminClient(bootstrap_servers=[broker], bootstrap_timeout_ms=300)
    assert shown()


def test_a_broker_that_dies_keeps_no_throttle_on_the_others() -> None:
    cluster = Admin(on_two_brokers())

    def die() -> None:
        if cluster.moving:
            cluster.dead.add("3")

    cluster.on_look = die
    with pytest.raises(BrokerError, match="broker 3: NodeNotReadyError"):
        apply(cluster)
    assert set(cluster.left) == {("broker", "3")}


def test_an_interrupt_in_the_middle_of_the_removal_leaves_no_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, whole = Admin(on_two_brokers()), Admin.alter_configs
    removed: list[str] = []

    def interrupted_once(self: Admin, resources: list[Any], **options: Any) -> dict[str, Any]:
        if any(operation == "DELETE" for one in resources for operation, _ in one.configs.values()):
            removed.append(resources[0].name)
            if len(removed) == 2:
                raise KeyboardInterrupt
        return whole(self, resources, **options)

    monkeypatch.setattr(Admin, "alter_configs", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        apply(cluster)
    assert cluster.left == {}
    assert len(removed) > 4

"""`keylane brokers` on three real brokers with TLS: seen, refused, fixed under a throttle, cut short and finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from jsonschema import Draft202012Validator
from tests.integration.topics import read_back
from tests.interrupts import interruptible
from tests.running import keylane as keylane_here

import keylane
from keylane.systems.broker import librdkafka_settings
from keylane.systems.broker.tls import USER, password_file
from keylane.systems.kafka.reassign import cluster_access, observed, open_admin, throttles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.brokers.layout import Layout
    from keylane.systems.broker import Cluster

SCHEMAS = Path(keylane.__file__).with_name("schemas")
ON_TWO = [[1, 2], [2, 1], [1, 2], [2, 1], [1, 2], [2, 1]]
EVEN = [[1, 2], [2, 3], [3, 1]]


@pytest.fixture(scope="module")
def cluster(secured: Cluster) -> Cluster:
    return secured


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of the test's own, on the brokers that it says; gone afterwards, so that the next one starts even."""
    client, name = AdminClient({**librdkafka_settings(cluster)}), request.node.originalname[:60]
    lists: list[list[int]] = getattr(request, "param", ON_TWO)
    client.create_topics([NewTopic(name, len(lists), replica_assignment=lists)])[name].result(30)
    yield name
    client.delete_topics([name], operation_timeout=30)[name].result(30)


def produce(cluster: Cluster, topic: str, lanes: list[int], each: int, size: int = 1_000) -> set[tuple[int, bytes]]:
    """So many records on each lane; what was sent."""
    producer = Producer({**librdkafka_settings(cluster), "linger.ms": 20, "queue.buffering.max.kbytes": 200_000})
    sent = {(lane, b"%d-%d" % (lane, i)) for lane in lanes for i in range(each)}
    for lane, key in sorted(sent):
        producer.produce(topic, os.urandom(size // 2) * 2, key, lane)
    assert producer.flush(60) == 0
    return sent


def login(cluster: Cluster) -> dict[str, str]:
    """What the cluster asks for, with the password by reference."""
    folder = cluster.folder / "tls"
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": f"${{file:{password_file(cluster)}}}",
        "ssl.ca.location": str(folder / "ca.pem"),
    }


def command(cluster: Cluster, *options: str) -> list[str]:
    pairs = [part for name, text in login(cluster).items() for part in ("--kafka", f"{name}={text}")]
    return [sys.executable, "-m", "keylane", "brokers", f"kafka://{cluster.bootstrap}", *pairs, *options]


def brokers(cluster: Cluster, *options: str, folder: Path) -> tuple[int, Any, str]:
    """Exit code, document, and what was said."""
    with chdir(folder):
        done = keylane_here(*command(cluster, *options, "-o", "json")[3:])
    document = json.loads(done.out) if done.out else {}
    if document:
        schema = document["schema"].removeprefix("keylane.").partition("/")[0]
        Draft202012Validator(json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8"))).validate(document)
    return done.code, document, done.err


def seen(cluster: Cluster) -> tuple[Layout, dict[str, Any]]:
    """The cluster as it is, and the throttles on it."""
    with open_admin(cluster_access(f"kafka://{cluster.bootstrap}", login(cluster).items())) as client:
        layout = observed(client)
        return layout, throttles(client, layout)


@pytest.mark.parametrize("topic", [EVEN], indirect=True)
def test_a_cluster_in_balance_is_left_alone(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    produce(cluster, topic, [0, 1, 2], 10)
    before = seen(cluster)
    code, found, _ = brokers(cluster, "--apply", "--yes", "--out", "r.json", folder=tmp_path)
    assert (code, found["ok"], found["plan"], found["applied"], found["files"]) == (0, True, None, None, None)
    assert found["replicas"]["max_over_min"] == found["leaders"]["max_over_min"] == 1.0
    assert list(tmp_path.iterdir()) == []
    assert seen(cluster) == before


def test_copies_on_two_of_three_brokers_are_evened_out(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    sent = produce(cluster, topic, [0, 1, 2, 3, 4, 5], 200) | produce(cluster, topic, [4, 5], 600)
    before = seen(cluster)

    code, found, _ = brokers(cluster, "--out", "r.json", "--throttle", "5MB", folder=tmp_path)
    assert code == 3
    assert found["replicas"]["max_over_min"] is None
    assert not found["replicas"]["even"]
    assert found["plan"]["replicas"]["even"]
    assert found["plan"]["leaders"]["even"]
    assert {one["partition"] for one in found["plan"]["partitions"]} <= {0, 1, 2, 3}
    assert seen(cluster) == before

    plan = str(tmp_path / "r.plan.json")
    code, done, said = brokers(cluster, "--plan", plan, "--apply", "--yes", "--throttle", "5MB", folder=tmp_path)
    assert (code, done["ok"], done["applied"]["not_elected"]) == (0, True, 0), said
    layout, set_now = seen(cluster)
    wanted = {lane.partition: list(lane.replicas) for lane in before[0].lanes if lane.topic == topic} | {
        one["partition"]: one["replicas"] for one in json.loads((tmp_path / "r.json").read_text())["partitions"]
    }
    assert {lane.partition: list(lane.replicas) for lane in layout.lanes if lane.topic == topic} == wanted
    assert all(lane.leader == lane.replicas[0] for lane in layout.lanes)
    assert all(set(lane.isr) == set(lane.replicas) for lane in layout.lanes)
    assert set_now == {"broker": {}, "topic": {}}
    assert {(read.lane, read.key) for read in read_back(cluster, topic)} == sent
    assert brokers(cluster, folder=tmp_path)[0] == 0


def test_a_plan_of_a_cluster_that_has_changed_is_refused(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    assert brokers(cluster, "--out", "r.json", folder=tmp_path)[0] == 3
    client = AdminClient({**librdkafka_settings(cluster)})
    client.create_topics([NewTopic("other", 1, replica_assignment=[[3]])])["other"].result(30)
    try:
        before = seen(cluster)
        code, found, said = brokers(cluster, "--plan", "r.plan.json", "--apply", "--yes", folder=tmp_path)
        assert (code, found) == (1, {})
        assert "changed since" in said
        assert seen(cluster) == before
    finally:
        client.delete_topics(["other"], operation_timeout=30)["other"].result(30)


@pytest.mark.faults
def test_an_interrupt_removes_the_throttle_and_the_same_plan_again_finishes(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    sent = produce(cluster, topic, [0, 1, 2, 3, 4, 5], 3_000)
    options = ("--apply", "--yes", "--throttle", "50kB")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with interruptible(), subprocess.Popen(command(cluster, *options), cwd=tmp_path, **pipes) as run:
        assert run.stderr is not None
        assert "lanes moved" in run.stderr.readline()
        _, during = seen(cluster)
        status = brokers(cluster, "--status", folder=tmp_path)[1]
        other = brokers(cluster, "--apply", "--yes", "--out", "other.json", folder=tmp_path)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=120)
    assert run.returncode == 130
    assert "Traceback" not in said
    assert "--plan reassignment.plan.json --apply" in said
    assert set(during["broker"]) == {"1", "2", "3"}
    assert set(during["broker"]["1"].values()) == {"50000"}
    assert set(during["topic"]) == {topic}
    assert status["under_way"]
    assert len(status["throttles"]) == 8
    assert other[0] == 1
    assert "another reassignment" in other[2]
    assert seen(cluster)[1] == {"broker": {}, "topic": {}}

    code, done, said = brokers(cluster, "--plan", "reassignment.plan.json", *options[:2], folder=tmp_path)
    assert (code, done["ok"], done["applied"]["not_elected"]) == (0, True, 0), said
    layout, set_now = seen(cluster)
    assert set_now == {"broker": {}, "topic": {}}
    assert all(set(lane.isr) == set(lane.replicas) for lane in layout.lanes)
    assert {(read.lane, read.key) for read in read_back(cluster, topic)} == sent


def reassign_tool(cluster: Cluster, *options: str) -> str:
    """Kafka's own tool."""
    from keylane.systems.jars import fetched

    classes = ":".join(map(str, fetched("tools")))
    tool = ["java", "-Xmx256m", "-cp", classes, "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"]
    config = cluster.folder / "tools.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={cluster.folder / 'tls' / 'ca.pem'}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{USER}" password="{password_file(cluster).read_text().strip()}";\n'
    )
    run = [*tool, "--bootstrap-server", cluster.bootstrap, "--command-config", str(config), *options]
    return subprocess.run(run, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.faults
def test_kafkas_own_tool_takes_the_file_and_the_way_back(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    produce(cluster, topic, [0, 1, 2, 3, 4, 5], 100)
    code, found, _ = brokers(cluster, "--out", str(tmp_path / "r.json"), folder=tmp_path)
    assert code == 3
    before = {lane.partition: lane.replicas for lane in seen(cluster)[0].lanes if lane.topic == topic}
    there, back = (["--reassignment-json-file", str(tmp_path / name)] for name in ("r.json", "r.rollback.json"))
    moved = {one["partition"]: tuple(one["replicas"]) for one in found["plan"]["partitions"]}
    for file, wanted in ((there, before | moved), (back, before)):
        assert "Successfully started partition reassignment" in reassign_tool(cluster, *file, "--execute")
        assert brokers(cluster, "--status", "--wait", folder=tmp_path)[1]["under_way"] == []
        assert "is completed" in reassign_tool(cluster, *file, "--verify")
        assert {lane.partition: lane.replicas for lane in seen(cluster)[0].lanes if lane.topic == topic} == wanted


@pytest.mark.faults
def test_a_cluster_with_tls_is_reached_by_certificate_and_not_by_another_password(
    cluster: Cluster, tmp_path: Path
) -> None:
    trust = {"ssl.ca.location": login(cluster)["ssl.ca.location"]}
    certified = {"security.protocol": "SSL", "ssl.keystore.location": str(cluster.folder / "tls" / "client.pem")}
    (tmp_path / "wrong").write_text("guess")
    wrong = {**login(cluster), "sasl.password": f"${{file:{tmp_path / 'wrong'}}}"}
    for place, settings, code, word in (
        (str(cluster.mtls_bootstrap), certified, 0, ""),
        (cluster.bootstrap, wrong, 1, "rejected the login"),
    ):
        pairs = [part for name, text in {**trust, **settings}.items() for part in ("--kafka", f"{name}={text}")]
        done = subprocess.run(
            [sys.executable, "-m", "keylane", "brokers", f"kafka://{place}", *pairs],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, word in done.stderr) == (code, True), done.stderr

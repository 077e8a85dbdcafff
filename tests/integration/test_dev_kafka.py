"""`keylane dev kafka` as a user has it: three brokers with TLS, up, asked for, hurt, and down with nothing left."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.integration.commands import dev_kafka, run
from tests.integration.topics import create_topic, read_back
from tests.listening_sockets import LOOPBACK, answer_of, listening

from keylane.errors import BrokerError
from keylane.systems.atomic import started
from keylane.systems.broker import find, librdkafka_settings, nodes, up
from keylane.systems.broker.cluster import answers, brokers_at
from keylane.systems.broker.faults import kill9, paused, restart

if TYPE_CHECKING:
    from tests.integration.commands import Ended

    from keylane.systems.broker import Cluster


def test_up_says_where_it_is(begun: Ended, secured: Cluster) -> None:
    document = begun.document
    assert document["bootstrap"] == secured.bootstrap
    assert (document["running"], document["new"]) == (True, True)
    assert [row["state"] for row in document["brokers"]] == ["answers"] * 3
    assert Path(document["tls"]["ca"]).exists()


def test_up_again_says_where_it_is_and_starts_nothing(begun: Ended, secured: Cluster, secured_folder: Path) -> None:
    again = dev_kafka("up", secured_folder, "--brokers", "3", "--tls", "-o", "json")
    assert again.code == 0
    assert again.document == {**begun.document, "new": False}
    other = dev_kafka("up", secured_folder)
    assert (other.code, other.out) == (1, "")
    assert "another cluster" in other.err


def test_records_come_and_go_by_password_and_by_certificate(secured: Cluster) -> None:
    topic = create_topic(secured, "secret", 3)
    for mtls in (False, True):
        producer = Producer(librdkafka_settings(secured, mtls=mtls))
        producer.produce(topic, b"value", key=b"key")
        assert producer.flush(30) == 0
    assert [read.value for read in read_back(secured, topic)] == [b"value"] * 2


#: Which versions of the protocol a broker speaks: the first request of every client, and never refused.
API_VERSIONS = b"\x00\x00\x00\x0c\x00\x12\x00\x00\x00\x00\x00\x07\x00\x02me"


def handshake(port: int, cluster: Cluster, certificate: str | None) -> str:
    """How a TLS handshake ends: `fine`, or the alert. A missing certificate is refused after it, at the first byte."""
    context = ssl.create_default_context(cafile=str(cluster.folder / "tls" / "ca.pem"))
    if certificate:
        context.load_cert_chain(str(cluster.folder / "tls" / certificate))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=120) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as there,
        ):
            there.sendall(API_VERSIONS)
            return "fine" if there.recv(64)[4:8] == b"\x00\x00\x00\x07" else "no answer"
    except OSError as error:
        return str(error)


def test_every_port_of_a_secured_cluster_speaks_tls_and_nothing_else(secured: Cluster) -> None:
    for node in secured.nodes:
        pid = nodes.process_of(secured, node.number)
        assert pid is not None
        there = listening(pid)
        assert {port for _, port in there} == {node.port, node.controller, node.mtls}
        assert {address for address, _ in there} <= LOOPBACK
        for _, port in there:
            told = answer_of(port, API_VERSIONS)
            assert b"\x00\x00\x00\x07" not in told, f"port {port} answered without TLS"
            assert handshake(port, secured, "server.pem") == "fine"
        for certified in (node.controller, node.mtls or 0):
            assert handshake(certified, secured, None) != "fine"


def test_twin_a_plain_broker_answers_on_every_port(broker: Cluster) -> None:
    pid = nodes.process_of(broker, 1)
    assert pid is not None
    told = b"\x00\x00\x00\x07"
    assert [told in answer_of(port, API_VERSIONS, 60, until=told) for _, port in listening(pid)] == [True, True]


@pytest.mark.faults
def test_nobody_comes_in_with_the_wrong_password_the_wrong_trust_or_nothing(secured: Cluster) -> None:
    right, other = librdkafka_settings(secured), str(secured.folder / "tls" / "other-ca.pem")
    certified = librdkafka_settings(secured, mtls=True)
    assert brokers_at(right, 10) == brokers_at(certified, 10) == 3
    for wrong in (
        {**right, "sasl.password": "guess"},
        {**right, "ssl.ca.location": other},
        {"bootstrap.servers": secured.bootstrap},
        {name: value for name, value in certified.items() if name.split(".")[1] not in ("certificate", "key")},
    ):
        assert brokers_at(wrong, 1.5) is None


def test_no_password_is_in_any_output_log_or_argument(begun: Ended, secured: Cluster, secured_folder: Path) -> None:
    passwords = [path.read_text() for path in (secured.folder / "tls").glob("*.password")]
    assert len(passwords) == 2
    pids = [nodes.process_of(secured, node.number) for node in secured.nodes]
    shown = [
        begun.out,
        dev_kafka("status", secured_folder).out,
        *(secured.log(node.number).read_text() for node in secured.nodes),
    ]
    shown += [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids]
    assert all(len(text) > 20 for text in shown[:2] + shown[-3:])
    assert not any(password in text for password in passwords for text in shown)


@pytest.mark.faults
def test_a_node_that_does_not_start_says_why_and_leaves_only_its_log(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"node 1 .*[Hh]eap.*node-1\.log"):
        up(tmp_path / "k", heap="1k")
    assert sorted(path.name for path in (tmp_path / "k").iterdir()) == [".keylane-kafka", "logs"]
    with pytest.raises(BrokerError, match="Invalid value x for configuration"):
        up(tmp_path / "k", extra={"node.id": "x"})


def test_the_jars_it_is_made_of_are_there_and_whole(secured: Cluster) -> None:
    document = run("dev", "jars", "broker", "-o", "json").document
    assert len(document["jars"]) == 46
    assert all(Path(document["folder"], jar["file"]).exists() for jar in document["jars"])


def test_the_doctor_finds_a_broker_that_answers(broker: Cluster) -> None:
    for kit in ("connector", "geo"):
        run("dev", "jars", kit)
    found = run("doctor", "--broker", broker.bootstrap, "-o", "json")
    assert (found.code, found.document["ok"]) == (0, True)
    assert all(part["state"] == "ok" for part in found.document["parts"])
    spared = {"dev kafka", "locations", "faster cells", "brokers", "Kinesis"}
    assert all(part["needed"] for part in found.document["parts"] if part["used_for"] not in spared)


@pytest.mark.faults
def test_up_takes_the_port_that_is_asked_for_and_refuses_one_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.listen()
        refused = dev_kafka("up", tmp_path / "k", "--port", str(port), "-o", "json")
        assert refused.code == 1
        assert f"the port is in use: got {port}; hint: another --port" in refused.err
        assert not (tmp_path / "k").exists() or find(tmp_path / "k") is None
    begun = dev_kafka("up", tmp_path / "k", "--port", str(port), "-o", "json")
    try:
        assert (begun.code, begun.document["bootstrap"]) == (0, f"127.0.0.1:{port}"), begun.err
        (tmp_path / "pay.csv").write_text("merchant;n\n" + "".join(f"m-{n};{n}\n" for n in range(300)), "utf-8")
        asked = (str(tmp_path / "pay.csv"), "--key", "merchant", "--delimiter", ";", "-n", "4")
        loaded = dev_kafka("load", tmp_path / "k", *asked, "-o", "json")
        assert (loaded.code, loaded.document["address"]) == (0, f"kafka://127.0.0.1:{port}/pay"), loaded.err
        # As a user goes on: the variable that `env` prints, and the short address.
        shown = dev_kafka("env", tmp_path / "k").out.removeprefix("export ").strip().partition("=")
        environ = {**os.environ, shown[0]: shown[2]}
        command = [sys.executable, "-m", "keylane", "identify", "kafka:pay", "-o", "json"]
        found = subprocess.run(command, capture_output=True, text=True, check=True, env=environ, timeout=120)
        assert (json.loads(found.stdout)["rows"], json.loads(found.stdout)["lanes"]) == (300, 4)
    finally:
        dev_kafka("down", tmp_path / "k")


@pytest.mark.faults
def test_a_node_that_is_killed_is_seen_and_comes_back_on_its_own_data(secured: Cluster, secured_folder: Path) -> None:
    kill9(secured, 2)
    seen = dev_kafka("status", secured_folder, "-o", "json")
    assert seen.code == 1
    assert [row["state"] for row in seen.document["brokers"]] == ["answers", "ended", "answers"]
    restart(secured, 2)
    with paused(secured, 3):
        assert not answers(secured, 3, 1.0)
    assert answers(secured, 3, 30.0)
    assert dev_kafka("status", secured_folder).code == 0


def test_down_ends_all_of_it_and_keeps_the_logs(secured: Cluster, secured_folder: Path) -> None:
    """Last of all tests: the cluster is gone after it."""
    pids = [nodes.process_of(secured, node.number) for node in secured.nodes]
    ended = dev_kafka("down", secured_folder, "-o", "json")
    assert (ended.code, ended.document["bootstrap"]) == (0, None)
    assert [started(pid) for pid in pids if pid] == [None] * 3
    assert sorted(path.name for path in (secured_folder / "logs").iterdir()) == [
        "node-1.log",
        "node-2.log",
        "node-3.log",
    ]
    assert not list(secured_folder.glob("node-*"))
    again = dev_kafka("down", secured_folder)
    assert (again.code, again.out) == (0, f"nothing ran in {secured_folder}\n")
    assert dev_kafka("status", secured_folder, "-o", "json").code == 1

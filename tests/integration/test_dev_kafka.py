"""`keylane dev kafka` as a user has it: three brokers with TLS, up, asked for, hurt, and down with nothing left."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from jsonschema import Draft202012Validator
from tests.integration.topics import create_topic, read_back

import keylane
from keylane.errors import BrokerError
from keylane.systems.atomic import started
from keylane.systems.broker import find, librdkafka_settings, nodes, up
from keylane.systems.broker.cluster import answers, brokers_at
from keylane.systems.broker.faults import kill9, paused, restart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.systems.broker import Cluster

SCHEMAS = Path(keylane.__file__).with_name("schemas")


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        schema = document["schema"].removeprefix("keylane.").removesuffix("/1")
        Draft202012Validator(json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8"))).validate(document)
        return document


def run(*arguments: str) -> Ended:
    command = [sys.executable, "-m", "keylane", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return Ended(done.returncode, done.stdout, done.stderr)


def kafka(verb: str, folder: Path, *options: str) -> Ended:
    return run("dev", "kafka", verb, "--dir", str(folder), *options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("dev") / "kafka"
    yield folder
    kafka("down", folder)


@pytest.fixture(scope="module")
def begun(folder: Path) -> Ended:
    return kafka("up", folder, "--brokers", "3", "--tls", "-o", "json")


@pytest.fixture(scope="module")
def cluster(begun: Ended, folder: Path) -> Cluster:
    assert begun.code == 0
    assert not [line for line in begun.err.splitlines() if not line.startswith("fetching ")], begun.err
    there = find(folder)
    assert there is not None
    return there


def test_up_says_where_it_is(begun: Ended, cluster: Cluster) -> None:
    document = begun.document
    assert document["bootstrap"] == cluster.bootstrap
    assert (document["running"], document["new"]) == (True, True)
    assert [row["state"] for row in document["brokers"]] == ["answers"] * 3
    assert Path(document["tls"]["ca"]).exists()


def test_up_again_says_where_it_is_and_starts_nothing(begun: Ended, cluster: Cluster, folder: Path) -> None:
    again = kafka("up", folder, "--brokers", "3", "--tls", "-o", "json")
    assert again.code == 0
    assert again.document == {**begun.document, "new": False}
    other = kafka("up", folder)
    assert (other.code, other.out) == (1, "")
    assert "another cluster" in other.err


def test_records_come_and_go_by_password_and_by_certificate(cluster: Cluster) -> None:
    topic = create_topic(cluster, "secret", 3)
    for mtls in (False, True):
        producer = Producer(librdkafka_settings(cluster, mtls=mtls))
        producer.produce(topic, b"value", key=b"key")
        assert producer.flush(30) == 0
    assert [read.value for read in read_back(cluster, topic)] == [b"value"] * 2


@pytest.mark.faults
def test_nobody_comes_in_with_the_wrong_password_the_wrong_trust_or_nothing(cluster: Cluster) -> None:
    right, other = librdkafka_settings(cluster), str(cluster.folder / "tls" / "other-ca.pem")
    certified = librdkafka_settings(cluster, mtls=True)
    assert brokers_at(right, 10) == brokers_at(certified, 10) == 3
    for wrong in (
        {**right, "sasl.password": "guess"},
        {**right, "ssl.ca.location": other},
        {"bootstrap.servers": cluster.bootstrap},
        {name: value for name, value in certified.items() if name.split(".")[1] not in ("certificate", "key")},
    ):
        assert brokers_at(wrong, 1.5) is None


def test_no_password_is_in_any_output_log_or_argument(begun: Ended, cluster: Cluster, folder: Path) -> None:
    passwords = [path.read_text() for path in (cluster.folder / "tls").glob("*.password")]
    assert len(passwords) == 2
    pids = [nodes.process_of(cluster, node.number) for node in cluster.nodes]
    shown = [begun.out, kafka("status", folder).out, *(cluster.log(node.number).read_text() for node in cluster.nodes)]
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


def test_the_jars_it_is_made_of_are_there_and_whole(cluster: Cluster) -> None:
    document = run("dev", "jars", "broker", "-o", "json").document
    assert len(document["jars"]) == 46
    assert all(Path(document["folder"], jar["file"]).exists() for jar in document["jars"])


def test_the_doctor_finds_a_broker_that_answers(broker: Cluster) -> None:
    for kit in ("connector", "geo"):
        run("dev", "jars", kit)
    found = run("doctor", "--broker", broker.bootstrap, "-o", "json")
    assert (found.code, found.document["ok"]) == (0, True)
    assert all(part["state"] == "ok" for part in found.document["parts"])
    spared = {"dev kafka", "places", "quick cells", "budget"}
    assert all(part["needed"] for part in found.document["parts"] if part["used_for"] not in spared)


def test_a_node_that_is_killed_is_seen_and_comes_back_on_its_own_data(cluster: Cluster, folder: Path) -> None:
    kill9(cluster, 2)
    seen = kafka("status", folder, "-o", "json")
    assert seen.code == 1
    assert [row["state"] for row in seen.document["brokers"]] == ["answers", "ended", "answers"]
    restart(cluster, 2)
    with paused(cluster, 3):
        assert not answers(cluster, 3, 1.0)
    assert answers(cluster, 3, 30.0)
    assert kafka("status", folder).code == 0


def test_down_ends_all_of_it_and_keeps_the_logs(cluster: Cluster, folder: Path) -> None:
    """Last of this file: the cluster is gone after it."""
    pids = [nodes.process_of(cluster, node.number) for node in cluster.nodes]
    ended = kafka("down", folder, "-o", "json")
    assert (ended.code, ended.document["bootstrap"]) == (0, None)
    assert [started(pid) for pid in pids if pid] == [None] * 3
    assert sorted(path.name for path in (folder / "logs").iterdir()) == ["node-1.log", "node-2.log", "node-3.log"]
    assert not list(folder.glob("node-*"))
    again = kafka("down", folder)
    assert (again.code, again.out) == (0, f"nothing ran in {folder}\n")
    assert kafka("status", folder, "-o", "json").code == 1

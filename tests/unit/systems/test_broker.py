"""A cluster on paper and on disk, without Kafka: settings, whose folder it is, which process is whose."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from keylane.errors import BrokerError, UsageError
from keylane.systems.atomic import started
from keylane.systems.broker import Cluster, down, find, nodes, up
from keylane.systems.broker import cluster as state
from keylane.systems.broker.faults import kill9, pause, paused, restart
from keylane.systems.broker.layout import PORTS, designed, properties
from keylane.systems.broker.tls import java_settings, librdkafka_settings, make_tls, password_file, scram_users

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def cluster_in(folder: Path, brokers: int = 1, *, tls: bool = False) -> Cluster:
    return designed(folder, brokers, tls=tls, heap="96m")


def told(cluster: Cluster, number: int = 1, extra: dict[str, str] | None = None) -> dict[str, str]:
    text = properties(cluster, cluster.node(number), extra or {}, "secret")
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose one node is played by a process that sleeps."""
    with state.held(tmp_path / "k"):
        cluster = cluster_in(tmp_path / "k")
        cluster.home(1).mkdir()
        state.write(cluster)
    with subprocess.Popen(["sleep", "600"]) as process:
        note(cluster, process.pid, started(process.pid))
        yield cluster
        process.kill()


def note(cluster: Cluster, pid: int, start: str | None) -> None:
    (cluster.home(1) / "process.json").write_text(json.dumps({"pid": pid, "started": start}))


def test_with_tls_no_listener_is_plain(tmp_path: Path) -> None:
    secured, plain = (told(cluster_in(tmp_path, 3, tls=tls)) for tls in (True, False))
    kinds = [pair.split(":")[1] for pair in secured["listener.security.protocol.map"].split(",")]
    assert sorted(kinds) == ["SASL_SSL", "SSL", "SSL"]
    assert secured["listener.name.controller.ssl.client.auth"] == "required"
    assert "PLAINTEXT" not in "".join(secured.values())
    assert plain["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"


def test_everything_listens_on_loopback_and_on_ports_of_its_own(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path, 3, tls=True)
    ports = [port for node in cluster.nodes for port in (node.port, node.controller, node.mtls)]
    assert len(set(ports)) == 9
    assert all(port in PORTS for port in ports)
    for node in cluster.nodes:
        listeners = told(cluster, node.number)["listeners"].split(",")
        assert [one.partition("://")[2].partition(":")[0] for one in listeners] == ["127.0.0.1"] * 3
    assert cluster.bootstrap == ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, "1", "1"), (3, "3", "2")])
def test_copies_are_as_many_as_brokers(tmp_path: Path, brokers: int, copies: str, in_sync: str) -> None:
    settings = told(cluster_in(tmp_path, brokers))
    assert settings["default.replication.factor"] == settings["offsets.topic.replication.factor"] == copies
    assert settings["min.insync.replicas"] == settings["transaction.state.log.min.isr"] == in_sync
    assert settings["auto.create.topics.enable"] == "false"


def test_what_is_given_wins(tmp_path: Path) -> None:
    assert told(cluster_in(tmp_path), extra={"node.id": "7"})["node.id"] == "7"


def test_with_tls_nobody_comes_in_without(tmp_path: Path) -> None:
    settings = told(cluster_in(tmp_path, tls=True))
    assert settings["listener.security.protocol.map"] == "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:SSL"
    assert settings["listener.name.ssl.ssl.client.auth"] == "required"
    assert 'password="secret"' in settings["listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"]


def test_a_cluster_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path, 3, tls=True)
    state.write(cluster)
    assert find(tmp_path) == cluster
    (tmp_path / "cluster.json").write_text('{"nodes": 3}')
    with pytest.raises(BrokerError, match=r"got .*cluster\.json"):
        find(tmp_path)


def test_certificates_and_passwords_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path, tls=True)
    make_tls(cluster)
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    for name in ("server.pem", "client.pem", "app.password", "admin.password"):
        assert stat.S_IMODE((tmp_path / "tls" / name).stat().st_mode) == 0o600
    # Kafka reads no other form of key.
    assert (tmp_path / "tls" / "server.pem").read_text().startswith("-----BEGIN PRIVATE KEY-----")
    password = password_file(cluster).read_text()
    assert len(password) == 32
    assert scram_users(cluster)[1] == f"SCRAM-SHA-512=[name=app,password={password}]"
    assert librdkafka_settings(cluster)["sasl.password"] == password
    assert f'password="{password}"' in java_settings(cluster)["sasl.jaas.config"]
    assert "sasl.mechanism" not in librdkafka_settings(cluster, mtls=True) | java_settings(cluster, mtls=True)


def test_the_certificates_are_signed_by_the_one_authority_and_not_by_the_other(tmp_path: Path) -> None:
    make_tls(cluster_in(tmp_path, tls=True))

    def verified(authority: str, name: str) -> bool:
        command = ["openssl", "verify", "-CAfile", f"{authority}.pem", f"{name}.crt"]
        return subprocess.run(command, cwd=tmp_path / "tls", capture_output=True, check=False).returncode == 0

    assert verified("ca", "server")
    assert verified("ca", "client")
    assert not verified("other-ca", "server")


def test_a_folder_with_something_else_in_it_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "mine").touch()
    with pytest.raises(BrokerError, match="was changed"), state.held(tmp_path):
        pass
    with pytest.raises(BrokerError, match="not a cluster of keylane"):
        down(tmp_path)
    assert (tmp_path / "node-1" / "mine").exists()
    (tmp_path / "file").touch()
    with pytest.raises(BrokerError, match="is a file"):
        down(tmp_path / "file")


def test_down_where_nothing_is_makes_nothing(tmp_path: Path) -> None:
    assert down(tmp_path / "nowhere") is None
    assert not (tmp_path / "nowhere").exists()


def test_down_ends_the_process_and_removes_all_but_the_logs(played: Cluster) -> None:
    (played.folder / "logs").mkdir()
    played.log(1).write_text("said\n")
    pid = nodes.process_of(played, 1)
    assert pid is not None
    assert down(played.folder) == played
    assert started(pid) is None
    assert sorted(path.name for path in played.folder.iterdir()) == [".keylane-kafka", "logs"]
    assert down(played.folder) is None


def test_a_number_that_is_another_process_by_now_is_never_touched(played: Cluster) -> None:
    """A stale state file: the node is gone, and its number went to somebody else."""
    pid = nodes.process_of(played, 1)
    assert pid is not None
    note(played, pid, "1")
    assert nodes.process_of(played, 1) is None
    with pytest.raises(BrokerError, match="is not running"):
        pause(played)
    down(played.folder)
    assert started(pid) is not None


@pytest.mark.parametrize("noted", ["", "{", '{"pid": 4194300, "started": "1"}'])
def test_a_node_whose_process_is_not_to_be_found_does_not_run(played: Cluster, noted: str) -> None:
    (played.home(1) / "process.json").write_text(noted)
    assert nodes.process_of(played, 1) is None
    with pytest.raises(BrokerError, match="is not running"):
        kill9(played)


def test_a_paused_node_goes_on_whatever_happens(played: Cluster) -> None:
    def state_of(pid: int) -> str:
        return str(
            subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        )

    pid = nodes.process_of(played, 1)
    assert pid is not None
    with suppress(RuntimeError), paused(played):
        assert "T" in state_of(pid)
        raise RuntimeError
    assert "T" not in state_of(pid)
    with pytest.raises(BrokerError, match="this node is running"):
        restart(played)
    kill9(played)
    assert nodes.process_of(played, 1) is None


def test_a_cluster_that_ran_elsewise_is_not_passed_off_as_the_one_asked_for(
    played: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keylane.systems.jars.fetched", lambda _kit, **_options: [])
    assert up(played.folder) == (played, False)
    with pytest.raises(BrokerError, match=r"got '1 broker at 127"):
        up(played.folder, 3)
    with pytest.raises(UsageError, match="got 2"):
        up(played.folder, 2)


def test_the_watch_ends_the_cluster_of_a_process_that_was_killed(played: Cluster) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(played.folder)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert owner.stdout
    watch = int(owner.stdout.readline())
    pid = nodes.process_of(played, 1)
    owner.send_signal(signal.SIGKILL)
    owner.communicate(timeout=120)
    while started(watch) is not None:
        os.sched_yield()
    assert pid is not None
    assert started(pid) is None
    assert find(played.folder) is None


OWNER = """
import sys, time
from pathlib import Path
import subprocess
from keylane.systems.broker import cluster
popen = subprocess.Popen
def told(*a, **k):
    made = popen(*a, **k)
    print(made.pid, flush=True)
    return made
subprocess.Popen = told
with cluster._watched(Path(sys.argv[1])):
    time.sleep(600)
"""


def test_without_proc_ps_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from keylane.systems import atomic

    monkeypatch.setattr(atomic, "PROC", tmp_path / "no")
    assert started(os.getpid())
    assert started(4_194_300) is None

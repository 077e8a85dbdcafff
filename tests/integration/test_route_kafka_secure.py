"""A broker with TLS and SASL/SCRAM, through the command line; and nowhere a trace of the password, or of a record.

The canaries are the password itself and the value of one record. They are looked for in everything that a run prints,
writes or shows to others: output, state, Spark's own log, temporary files, the arguments of every process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.route_records import CONTRACT, contract, faults, numbered, read_committed, send
from tests.integration.topics import create_topic
from tests.route.killable_routes import ROOT, environment, quick_conf
from tests.running import keylane as keylane_here

from keylane.systems.broker.tls import USER, password_file

if TYPE_CHECKING:
    from keylane.systems.broker import Cluster


@pytest.fixture(scope="module")
def guarded(secured: Cluster) -> Cluster:
    """The cluster that lets nobody in without a password, with a topic to read."""
    create_topic(secured, "src", 2)
    return secured


def keylane(folder: Path, cluster: Cluster, *more: str, **environ: str) -> subprocess.Popen[str]:
    (folder / "c.yaml").write_text(CONTRACT.replace("STREAM", "dst").replace("LANES", "4"))
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": "${env:KAFKA_PASSWORD}",
        "ssl.ca.location": str(cluster.folder / "tls" / "ca.pem"),
    }
    (folder / "kafka.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    events = folder / "events"
    events.mkdir(exist_ok=True)
    conf = {**quick_conf(), "spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    command = [
        *(sys.executable, "-m", "keylane", "route", str(folder / "c.yaml")),
        *("--from", f"kafka://{cluster.bootstrap}/src", "--to", f"kafka://{cluster.bootstrap}/dst", "--create"),
        *("--kafka-file", str(folder / "kafka.properties"), "--state", str(folder / "state"), "-o", "json"),
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
        *more,
    ]
    env = {**environment(), "TMPDIR": str(temporary(folder)), **environ}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env)


def temporary(folder: Path) -> Path:
    """The temporary folder of the commands of a test."""
    (folder / "tmp").mkdir(exist_ok=True)
    return folder / "tmp"


class Watcher(threading.Thread):
    """Reads the arguments of every process, and what others can read of a temporary folder, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.over = folder, threading.Event()
        self.arguments: set[str] = set()
        self.open: dict[str, bytes] = {}

    def run(self) -> None:
        while not self.over.wait(0.2):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.arguments.add(path.read_text(errors="replace"))
                except OSError:
                    continue
            for path in self.folder.iterdir():
                if path.stat().st_mode & 0o077:
                    self.open[path.name] = path.read_bytes() if path.is_file() else b"a folder"

    def stop(self) -> None:
        self.over.set()
        self.join(10)


#: Every command that takes client properties and needs no Spark; those on Spark share the login of `route`.
OTHERS = {
    "identify": ("identify", "kafka://{}/dst", "-k", "key", "-l", "lane"),
    "check": ("check", "{contract}", "--data", "kafka://{}/dst"),
    "brokers": ("brokers", "kafka://{}"),
}


def words(folder: Path, cluster: Cluster, name: str) -> list[str]:
    """One of the other commands over the same login, as it is typed."""
    filled = [
        word.replace("{contract}", str(folder / "c.yaml")).replace("{}", cluster.bootstrap) for word in OTHERS[name]
    ]
    return [*filled, "--kafka-file", str(folder / "kafka.properties")]


def asked(folder: Path, cluster: Cluster, name: str, *more: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "keylane", *words(folder, cluster, name), *more]
    env = {**environment(), "TMPDIR": str(temporary(folder)), **environ}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT, env=env)


def verified(folder: Path, cluster: Cluster, **environ: str) -> subprocess.CompletedProcess[str]:
    """`verify` over the same login."""
    command = [
        *(sys.executable, "-m", "keylane", "verify", "-c", str(folder / "c.yaml"), "-o", "json"),
        *("--source", f"kafka://{cluster.bootstrap}/src", "--target", f"kafka://{cluster.bootstrap}/dst"),
        *("--kafka-file", str(folder / "kafka.properties"), "--state", str(folder / "state")),
    ]
    env = {**environment(), "TMPDIR": str(temporary(folder)), **environ}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT, env=env)


def traces(secret: str, folder: Path, *texts: str) -> list[str]:
    """Where a secret shows: in these texts, or in a file."""
    found = [f"text {number}" for number, text in enumerate(texts) if secret in text]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return found + [str(path) for path in files if secret.encode() in path.read_bytes()]


#: The value of a record: a number, as all of them are, that is nowhere else.
RECORD = b"4111111111111111471108150817"


def test_a_route_that_logs_in_leaves_no_trace_of_its_password(
    guarded: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, record = password_file(guarded).read_text().strip(), RECORD.decode()
    send(guarded, "src", [*numbered(0, 299), (0, b"key-0", RECORD)])
    watcher = Watcher(temporary(tmp_path))
    watcher.start()
    process = keylane(tmp_path, guarded, KAFKA_PASSWORD=secret)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    assert json.loads(out)["out"] == 300
    assert faults(read_committed(guarded, "src"), read_committed(guarded, "dst"), contract("dst")) == []
    told = verified(tmp_path, guarded, KAFKA_PASSWORD=secret)
    assert (json.loads(told.stdout)["ok"], json.loads(told.stdout)["records"]) == (True, 300)
    texts = [out, err, told.stdout, told.stderr]
    monkeypatch.setenv("KAFKA_PASSWORD", secret)
    for name in OTHERS:
        alone = asked(tmp_path, guarded, name, "-o", "json", KAFKA_PASSWORD=secret)
        here = keylane_here(*words(tmp_path, guarded, name), "-o", "table")
        assert {alone.returncode, here.code} <= {0, 3, 4}, alone.stderr + here.err
        texts += [alone.stdout, alone.stderr, here.out, here.err]
    watcher.stop()
    assert any("SparkSubmit" in arguments for arguments in watcher.arguments), "Java was not looked at"
    assert any((tmp_path / "events").rglob("*")), "Spark's own log of what it did was not looked at"
    for canary in (secret, record):
        assert traces(canary, tmp_path, *texts, *watcher.arguments) == []
    assert watcher.open == {}, "what lies in the temporary folder is for its owner alone"
    assert "rejected the login" in verified(tmp_path, guarded, KAFKA_PASSWORD="wrong").stderr


@pytest.mark.faults
@pytest.mark.parametrize("name", OTHERS)
def test_a_wrong_password_of_the_other_commands_is_reported_and_not_shown(
    guarded: Cluster, tmp_path: Path, name: str
) -> None:
    keylane(tmp_path, guarded, "--no-such-option").communicate(timeout=120)
    found = asked(tmp_path, guarded, name, KAFKA_PASSWORD="canary-4711")
    assert found.returncode == 1
    assert "login" in found.stderr
    assert traces("canary-4711", tmp_path, found.stdout, found.stderr) == []


def test_twin_a_secret_that_is_written_is_found(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\x00password=canary\x00")
    assert len(traces("canary", tmp_path, "no", "a canary")) == 2


@pytest.mark.faults
def test_a_wrong_password_is_reported_and_not_shown(guarded: Cluster, tmp_path: Path) -> None:
    process = keylane(tmp_path, guarded, KAFKA_PASSWORD="canary-4711")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "rejected the login" in err
    assert traces("canary-4711", tmp_path, out, err) == []


@pytest.mark.faults
def test_a_wrong_authority_is_reported(guarded: Cluster, tmp_path: Path) -> None:
    other = guarded.folder / "tls" / "other-ca.pem"
    process = keylane(tmp_path, guarded, "--kafka", f"ssl.ca.location={other}", KAFKA_PASSWORD="x")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "trust" in err

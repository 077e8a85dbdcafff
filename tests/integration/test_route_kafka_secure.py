"""A broker with TLS and SASL/SCRAM, through the command line; and nowhere a trace of the password.

The canary is the password itself: it is looked for in everything that a run prints, writes or shows to others.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

import pytest
from tests.integration.route_records import CONTRACT, contract, faults, numbered, read_committed, send
from tests.integration.topics import create_topic
from tests.route.killable_routes import ROOT, environment, quick_conf

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
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**environment(), **environ}
    )


def verified(folder: Path, cluster: Cluster, **environ: str) -> subprocess.CompletedProcess[str]:
    """`verify` over the same login."""
    command = [
        *(sys.executable, "-m", "keylane", "verify", "-c", str(folder / "c.yaml"), "-o", "json"),
        *("--source", f"kafka://{cluster.bootstrap}/src", "--target", f"kafka://{cluster.bootstrap}/dst"),
        *("--kafka-file", str(folder / "kafka.properties"), "--state", str(folder / "state")),
    ]
    env = {**environment(), **environ}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT, env=env)


def traces(secret: str, folder: Path, *texts: str) -> list[str]:
    """Where a secret shows: in these texts, or in a file."""
    found = [f"text {number}" for number, text in enumerate(texts) if secret in text]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return found + [str(path) for path in files if secret.encode() in path.read_bytes()]


def test_a_route_that_logs_in_leaves_no_trace_of_its_password(guarded: Cluster, tmp_path: Path) -> None:
    secret = password_file(guarded).read_text().strip()
    send(guarded, "src", numbered(0, 300))
    process = keylane(tmp_path, guarded, KAFKA_PASSWORD=secret)
    arguments = Path(f"/proc/{process.pid}/cmdline").read_text()
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert json.loads(out)["out"] == 300
    assert faults(read_committed(guarded, "src"), read_committed(guarded, "dst"), contract("dst")) == []
    told = verified(tmp_path, guarded, KAFKA_PASSWORD=secret)
    assert (json.loads(told.stdout)["ok"], json.loads(told.stdout)["records"]) == (True, 300)
    assert traces(secret, tmp_path, told.stdout, told.stderr) == []
    assert "rejected the login" in verified(tmp_path, guarded, KAFKA_PASSWORD="wrong").stderr
    assert any((tmp_path / "events").rglob("*")), "Spark's own log of what it did was not looked at"
    assert traces(secret, tmp_path, out, err, arguments) == []
    assert [path.name for path in Path(gettempdir()).glob("keylane-login-*")] == []


def test_twin_a_secret_that_is_written_is_found(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\x00password=canary\x00")
    assert len(traces("canary", tmp_path, "no", "a canary")) == 2


@pytest.mark.faults
def test_a_wrong_password_is_said_and_not_shown(guarded: Cluster, tmp_path: Path) -> None:
    process = keylane(tmp_path, guarded, KAFKA_PASSWORD="canary-4711")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "rejected the login" in err
    assert traces("canary-4711", tmp_path, out, err) == []


@pytest.mark.faults
def test_a_wrong_authority_is_said(guarded: Cluster, tmp_path: Path) -> None:
    other = guarded.folder / "tls" / "other-ca.pem"
    process = keylane(tmp_path, guarded, "--kafka", f"ssl.ca.location={other}", KAFKA_PASSWORD="x")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "trust" in err

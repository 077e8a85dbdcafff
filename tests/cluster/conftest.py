"""A real Spark cluster on this machine, a master and two workers, and keylane installed from its wheel, as users do it.

Everything listens on the loopback address, on ports of its own, and ends with the tests.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]

ROOT = Path(__file__).parents[2]
SMALL = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the master is, the Python whose keylane came out of a wheel, and the local folder of each worker."""

    master: str
    python: Path
    folders: tuple[Path, ...]

    @property
    def keylane(self) -> str:
        """The installed command."""
        return str(self.python.with_name("keylane"))

    def conf(self, log: Path) -> list[str]:
        """Settings for small executors, with a log of who did what."""
        log.mkdir()
        settings = {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": log.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster starts while the wheel is built and installed."""
    base = tmp_path_factory.mktemp("cluster")
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    own = "org.apache.spark.deploy"
    here = ("--host", "127.0.0.1")
    started = [daemon(base, f"{own}.master.Master", *here, "--port", str(port), "--webui-port", str(page))]
    with stopped(started):
        wait_until(lambda: answers(port), started)
        folders = tuple(base / name / "local" for name in ("one", "two"))
        for folder in folders:
            folder.mkdir(parents=True)
            sizes = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder.parent))
            started.append(daemon(base, f"{own}.worker.Worker", *here, *sizes, master, SPARK_LOCAL_DIRS=str(folder)))
        python = installed(base)
        wait_until(lambda: workers(page) == 2, started)
        yield Cluster(master, python, folders)


@contextmanager
def stopped(started: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """End these processes with the block, and those that were added to them."""
    try:
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(30)


def daemon(base: Path, name: str, *arguments: str, classes: Sequence[str] = (), **more: str) -> subprocess.Popen[bytes]:
    """A process of Spark's own cluster, as its start scripts, which the wheel lacks, start it; or one of Hadoop's."""
    import pyspark

    from keylane.spark.jvm import find_java

    home = Path(pyspark.__file__).parent
    command = [str(find_java().home / "bin" / "java"), *SMALL, "-cp", ":".join([*classes, f"{home}/jars/*"])]
    command += [name, *arguments]
    # Without the version of Scala a worker looks for the folders of a build of Spark, and starts no executor.
    environment = {**plain_environment(), "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", **more}
    with (base / "daemons.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=base)


def installed(base: Path) -> Path:
    """A new environment with the wheel in it. What keylane needs is borrowed from the environment of the tests."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(base), str(ROOT)]
    subprocess.run([*pip, *build], check=True, env=plain_environment())
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(base / "venv")], check=True)
    import pyspark

    python = base / "venv" / "bin" / "python"
    (wheel,) = base.glob("keylane-*.whl")
    install = ["--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True, env=plain_environment())
    (own,) = (base / "venv" / "lib").glob("python*/site-packages")
    # A line adds the folder and none of its .pth files: keylane itself is not to be had from there.
    (own / "borrowed.pth").write_text(f"{Path(pyspark.__file__).parents[1]}\n")
    return python


def plain_environment() -> dict[str, str]:
    """The environment of somebody who has only installed keylane."""
    own = ("SPARK_", "PYSPARK_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "KEYLANE_CACHE": str(ROOT / "build" / "cache")}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def workers(page: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=30) as answer:
        return sum(one["state"] == "ALIVE" for one in json.load(answer)["workers"])


def wait_until(what: Any, processes: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + START_SECONDS
    while not what():
        assert all(process.poll() is None for process in processes), "a process of the cluster has ended"
        assert time.monotonic() < until, "the cluster does not start"
        time.sleep(0.2)

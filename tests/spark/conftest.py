"""One session for all tests of this folder, and one Spark Connect server with a client process for it.

Both run with Java's quick compiler alone and the start-up archive, kept in build/: starting is what costs here. The
cases for Connect are sent off at the start, and run beside the other tests.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.spark.cases import Case

if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]

ROOT = Path(__file__).parents[2]
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
#: Small frames would otherwise be computed by the optimizer itself, and the generated code never run.
COMPILED = {"spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"}


@pytest.fixture(scope="session")
def _cache() -> None:
    os.environ.setdefault("KEYLANE_CACHE", str(ROOT / "build" / "cache"))


@pytest.fixture(scope="session")
def spark(_cache: None) -> Iterator[SparkSession]:
    """Classic Spark on two cores."""
    from keylane.spark import local_session

    conf = {"spark.driver.extraJavaOptions": QUICK, "spark.driver.memory": "1g", **COMPILED}
    session = local_session("local[2]", conf, app="tests")
    yield session
    session.stop()


class Connect:
    """A Spark Connect server, and a client process that places cases through it, one after the other."""

    def __init__(self) -> None:
        self.parts = ExitStack()
        self.thread = ThreadPoolExecutor(1)
        self.client = self.thread.submit(self._start)
        self.sent: dict[int, Future[Any]] = {}

    def send(self, case: Case | str) -> Future[Any]:
        """Ask for a case now, and for its rows later."""
        if id(case) not in self.sent:
            self.sent[id(case)] = self.thread.submit(self._ask, case)
        return self.sent[id(case)]

    def __call__(self, case: Case | str) -> Any:
        return self.send(case).result()

    def close(self) -> None:
        self.thread.shutdown(cancel_futures=True)
        self.parts.close()

    def _ask(self, case: Case | str) -> Any:
        client = self.client.result()
        pickle.dump(case, client.stdin)
        client.stdin.flush()
        return pickle.load(client.stdout)

    def _start(self) -> Any:
        from benchmarks.spark_server import connect_server, own_environment

        url = self.parts.enter_context(connect_server("local[2]", _server_conf()))
        command = [sys.executable, "-m", "tests.spark.connect_client", url]
        client = subprocess.Popen(
            command, cwd=ROOT, env=own_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self.parts.enter_context(client)


def _server_conf() -> dict[str, str]:
    from keylane.spark.archive import archive_options
    from keylane.spark.java import find_java
    from keylane.spark.session import QUIET_LOG

    # Its class path is that of every session, so it can share the archive; making one would hold up its end.
    archive = [option for option in archive_options(find_java()) if "AtExit" not in option]
    options = [QUICK, f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()}", *archive]
    return {"spark.driver.extraJavaOptions": " ".join(options), "spark.driver.memory": "1g"}


@pytest.fixture(scope="session", autouse=True)
def _connect_early(request: pytest.FixtureRequest, _cache: None) -> Iterator[Connect | None]:
    """Start the server and send the cases while other tests run, if there is a test that will ask."""
    asking = [item for item in request.session.items if "connect" in getattr(item, "fixturenames", ())]
    running = Connect() if asking else None
    calls = [getattr(item, "callspec", None) for item in asking]
    for case in ["way", *(call.params["case"] for call in calls if call and "case" in call.params)]:
        if running:
            running.send(case)
    yield running
    if running:
        running.close()


@pytest.fixture(scope="session")
def connect(_connect_early: Connect) -> Connect:
    return _connect_early

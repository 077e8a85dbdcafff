"""Spark for the parity tests: each case once, many in one query, on the session of the run and over Spark Connect.

The cases that will be asked for are known when the tests are collected. They are sent off together, in groups, when
the first one is asked for. Connect is served by the same session, to a client in a process of its own. Where a group
fails, its cases are placed one by one, so that one is to blame.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.parity.cases import CASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession
    from tests.parity.backends import Outcome
    from tests.parity.cases.case import Case

    Placing = Callable[[Sequence[Case]], list[list[Outcome]]]

if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_spark*.py"]

ROOT = Path(__file__).parents[2]
GROUP = 12


class Grouped:
    """A way that places the named cases in groups, each once, and hands them out one by one."""

    def __init__(self, place: Placing, names: Sequence[str]) -> None:
        self.place = place
        self.groups = [names[start : start + GROUP] for start in range(0, len(names), GROUP)]
        self.thread = ThreadPoolExecutor(1)
        self.found: dict[str, Future[list[Outcome]]] = {}

    def send(self) -> None:
        """Ask for all of them now, and for their outcomes later."""
        for names in self.groups:
            group = self.thread.submit(self.place, [CASES[name] for name in names])
            for at, name in enumerate(names):
                self.found[name] = self.thread.submit(self._one, group, at, CASES[name])

    def _one(self, group: Future[list[list[Outcome]]], at: int, case: Case) -> list[Outcome]:
        return self.place([case])[0] if group.exception() else group.result()[at]

    def __call__(self, name: str) -> list[Outcome]:
        if not self.found:
            self.send()
        return self.found[name].result()

    def close(self) -> None:
        self.thread.shutdown(cancel_futures=True)


class Connect:
    """Spark Connect, served by the session of the run, and a client process that places cases through it."""

    def __init__(self, spark: SparkSession) -> None:
        from benchmarks.spark_server import own_environment

        java: Any = spark._jvm
        service = getattr(getattr(java.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
        service.start(spark._jsc.sc())
        command = [sys.executable, "-m", "tests.parity.connect_client", f"sc://127.0.0.1:{service.localPort()}"]
        self.client: Any = subprocess.Popen(
            command, cwd=ROOT, env=own_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __call__(self, asked: Sequence[Case] | str) -> Any:
        pickle.dump(asked, self.client.stdin)
        self.client.stdin.flush()
        answer = pickle.load(self.client.stdout)
        if isinstance(answer, str) and asked != "way":
            raise AssertionError(answer)
        return answer

    def close(self) -> None:
        with self.client:  # which closes its input, and waits for its end
            pass


def _asked_for(request: pytest.FixtureRequest, fixture: str) -> list[str]:
    """The names of the cases that tests of this run will ask of a fixture."""
    asking = [item for item in request.session.items if fixture in getattr(item, "fixturenames", ())]
    calls = [getattr(item, "callspec", None) for item in asking]
    return list(dict.fromkeys(call.params["name"] for call in calls if call and "name" in call.params))


@pytest.fixture(scope="session")
def on_spark(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Grouped]:
    from tests.parity.backends import by_spark

    way = Grouped(lambda cases: by_spark(spark, cases), _asked_for(request, "on_spark"))
    yield way
    way.close()


@pytest.fixture(scope="session")
def _connect(spark: SparkSession) -> Iterator[Connect]:
    connect = Connect(spark)
    yield connect
    connect.close()


@pytest.fixture(scope="session")
def on_connect(request: pytest.FixtureRequest, _connect: Connect) -> Iterator[Grouped]:
    way = Grouped(_connect, _asked_for(request, "on_connect"))
    yield way
    way.close()


@pytest.fixture(scope="session")
def way_over_connect(on_connect: Grouped, _connect: Connect) -> str:
    """How a session of Spark Connect calls Java."""
    return str(on_connect.thread.submit(_connect, "way").result())

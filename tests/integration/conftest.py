"""One plain broker and one secured cluster of three for all tests of this folder, each started when a test first asks.

The cluster is that of `keylane dev kafka up --brokers 3 --tls`. Its tests come before all others, for three brokers are
never idle: those of `brokers` first, while no other topic is there, and those of `dev kafka` last, for they end it. A
test that leaves a node in another state starts a cluster of its own, `keylane.systems.broker.running`, and is one of
`make test-faults`.
"""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.commands import dev_kafka
from tests.integration.topics import create_topic
from tests.route.killable_routes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.commands import Ended

    from keylane.systems.broker import Cluster

if find_spec("pyspark") is None or find_spec("confluent_kafka") is None:
    collect_ignore_glob = ["test_*.py"]

with warnings.catch_warnings():
    # kafka-python reads its schemas by a deprecated name of importlib's, which warns as importlib: once, here.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401  only whether it is installed


#: The modules that come before all others, in this order: those on the secured cluster.
FIRST = ("test_brokers.py", "test_route_kafka_secure.py", "test_dev_kafka.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give Spark its Kafka connector: jars are taken when Java starts, and the first test that starts it may be any."""
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))
    if any(item.path.is_relative_to(Path(__file__).parent) for item in items):
        from keylane.systems.jars import connector_settings

        os.environ.setdefault("KEYLANE_CACHE", str(ROOT / "build" / "cache"))
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {connector_settings()['spark.jars']} pyspark-shell"


@pytest.fixture(scope="session", autouse=True)
def _cache(start_up_archive: None) -> None:
    """Jars are kept beside the start-up archive, for commands in processes of their own too."""


@pytest.fixture(scope="session")
def broker(_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that answers. Its log is in pytest's own temporary folder, which outlives the run."""
    from keylane.systems.broker import running

    with running(tmp_path_factory.mktemp("broker")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the secured cluster is, or would be."""
    return tmp_path_factory.mktemp("dev") / "kafka"


@pytest.fixture(scope="session")
def begun(_cache: None, secured_folder: Path) -> Iterator[Ended]:
    """The command that starts the secured cluster."""
    yield dev_kafka("up", secured_folder, "--brokers", "3", "--tls", "-o", "json")
    dev_kafka("down", secured_folder)


@pytest.fixture(scope="session")
def secured(begun: Ended, secured_folder: Path) -> Cluster:
    """Three brokers with TLS that let nobody in without a password or a certificate."""
    from keylane.systems.broker import find

    assert begun.code == 0, begun.err
    assert not [line for line in begun.err.splitlines() if not line.startswith("fetching ")], begun.err
    there = find(secured_folder)
    assert there is not None
    return there


@pytest.fixture(scope="session")
def topic(broker: Cluster) -> Callable[..., str]:
    """Make a topic with so many lanes, and return its name, which no other test has."""
    numbers = count(1)

    def topic(lanes: int = 15, name: str = "t", **config: str) -> str:
        return create_topic(broker, f"{name}-{next(numbers)}", lanes, **config)

    return topic

"""One real broker for all tests of this folder: started when the first of them asks, and gone with the run.

A test that stops, kills or pauses a node starts a cluster of its own: `keylane.systems.broker.running`.
"""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.integration.topics import create_topic
from tests.route.worlds import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from keylane.systems.broker import Cluster

if find_spec("pyspark") is None or find_spec("confluent_kafka") is None:
    collect_ignore_glob = ["test_*.py"]

with warnings.catch_warnings():
    # kafka-python reads its schemas by a deprecated name of importlib's, which warns as importlib: once, here.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give Spark its Kafka connector: jars are taken when Java starts, and the first test that starts it may be any."""
    if any("kafka" in item.nodeid for item in items):
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
def topic(broker: Cluster) -> Callable[..., str]:
    """Make a topic with so many lanes, and return its name, which no other test has."""
    numbers = count(1)

    def topic(lanes: int = 15, name: str = "t", **config: str) -> str:
        return create_topic(broker, f"{name}-{next(numbers)}", lanes, **config)

    return topic

"""What every test may use: a contract from a few words, one Spark session, and how hard hypothesis tries.

pytest                                  the same few examples every time
pytest --hypothesis-profile=explore     new examples every time, and many
pytest --fast                           only tests without Java, broker and browser; to start one is an error

What a test needs is a marker (`jvm`, `broker`, `browser`), set here by its fixtures and its folder: `tests.needs`.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import settings
from tests.needs import NEEDS, needs, refuse_to_start

from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract

settings.register_profile("steady", deadline=None, max_examples=15, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("steady")

#: Java's quick compiler alone: a session of a test lives for minutes, and starting is what costs.
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
#: Small frames would otherwise be computed by the optimizer itself, and the generated code never run.
COMPILED = {"spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only tests that start no Java, no broker and no browser")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fast"):
        sys.addaudithook(refuse_to_start)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by what it needs; with `--fast` leave out what needs much."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        for marker in sorted(needs(getattr(item, "fixturenames", ()), folder)):
            item.add_marker(marker)
    if config.getoption("--fast"):
        heavy = [item for item in items if any(map(item.get_closest_marker, NEEDS))]
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if item not in set(heavy)]


@pytest.fixture(scope="session")
def contract() -> Callable[..., Contract]:
    """A contract from the fields of its `spec`; what is left out is one text key over 16 lanes, as Java does it."""
    parse = cache(parse_contract)

    def make(**spec: Any) -> Contract:
        usual = {"streams": ["t"], "lanes": 16, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
        document = {
            "apiVersion": "keylane/v1",
            "kind": "RoutingContract",
            "metadata": {"name": "test"},
            "spec": {**usual, **spec},
        }
        return parse(yaml.safe_dump(document, allow_unicode=True))

    return make


@pytest.fixture(scope="session")
def start_up_archive() -> None:
    """One for all sessions of all runs, kept in build/."""
    os.environ.setdefault("KEYLANE_CACHE", str(Path(__file__).parents[1] / "build" / "cache"))


@pytest.fixture(scope="session")
def spark(start_up_archive: None) -> Iterator[SparkSession]:
    """The one Spark session of the whole run, on two cores; started when the first test asks, and left as it was."""
    from keylane.spark import local_session
    from keylane.systems.jars import has_geo

    # Before any test, so that none is told of a fetch: what is told is a warning, and a warning fails a test.
    has_geo(print)
    conf = {"spark.driver.extraJavaOptions": QUICK, "spark.driver.memory": "1g", **COMPILED}
    session = local_session("local[2]", conf, app="tests")
    yield session
    session.stop()

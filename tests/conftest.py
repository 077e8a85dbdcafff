"""What every test may use: a contract from a few words, one Spark session, and how hard hypothesis tries.

pytest                                  the same few examples every time
pytest --hypothesis-profile=explore     new examples every time, and many
pytest --fast                           only tests without Java, servers and browser; to start one is an error
pytest --part=spark                     one of the parts that `make test` runs side by side

What a test needs is a marker (`jvm`, `broker`, `browser`, `node`), set here by its fixtures and its folder:
`tests.needs`.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import settings
from tests.kinesis.servers import ACCESS
from tests.needs import NEEDS, PARTS, may_have, needs, part_of, refuse_to_start

from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from tests.kinesis.servers import KinesisServer
    from tests.running import DemoRun

    from keylane.contract.model import Contract

settings.register_profile("steady", deadline=None, max_examples=15, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("steady")

#: Java's quick compiler alone: a session of a test lives for minutes, and starting is what costs. With it Java has room
#: for so little code that it would throw some away all the time, and compile it again; the same goes for classes.
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -Xms768m"
#: Small frames would otherwise be computed by the optimizer itself, and the generated code never run.
COMPILED = {"spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"}
#: Where Spark Connect listens once a test starts it; and plans described in short, since nobody looks at them.
CONNECT = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}
BRIEF = {"spark.sql.ui.explainMode": "simple"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only tests that start no Java, no server and no browser")
    parser.addoption("--part", choices=PARTS, help="only this part of the tests; together the parts are all of them")


def pytest_configure(config: pytest.Config) -> None:
    # What is imported and collected stays until the end: to look through it again and again for garbage is a third of
    # the time of collecting.
    gc.disable()
    if config.getoption("--fast"):
        sys.addaudithook(refuse_to_start)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--part`, leave out folders that have nothing of it: to import tests takes longer than many of them do."""
    part, here = config.getoption("--part"), Path(__file__).parent
    return True if part and collection_path.parent == here and not may_have(part, collection_path.name) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by what it needs; leave out what needs much with `--fast`, and what is not of the `--part`."""
    fast, part = config.getoption("--fast"), config.getoption("--part")
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        for marker in sorted(needs(getattr(item, "fixturenames", ()), folder)):
            item.add_marker(marker)
        markers = {marker.name for marker in item.iter_markers()}
        is_meant = not (fast and markers & NEEDS.keys()) and part in {None, part_of(folder, markers)}
        (kept if is_meant else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


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


@pytest.fixture
def bare() -> Iterator[str]:
    """An address of a system that has no ability at all."""
    from keylane.systems.endpoint import System, register, unregister

    register(System("bare", "bare://here/name", re.compile(r"(here)/([a-z-]+)"), "keylane.systems.endpoint:Endpoint"))
    yield "bare://here/stream"
    unregister("bare")


@pytest.fixture(scope="session", autouse=True)
def no_secret_at_home() -> None:
    """Nothing is kept in the home of whoever runs the tests; `test_masks` has secrets of its own."""
    os.environ.setdefault("KEYLANE_MASKS", "")


@pytest.fixture(scope="session", autouse=True)
def access_on_loopback() -> None:
    """Credentials that a Kinesis server on loopback takes, instead of those of whoever runs the tests.

    Before Java starts: the workers of a session have its environment.
    """
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    nowhere = dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull)
    os.environ.update({**ACCESS, **nowhere, "AWS_EC2_METADATA_DISABLED": "true"})


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
    conf = {"spark.driver.extraJavaOptions": QUICK, "spark.driver.memory": "1g", **COMPILED, **CONNECT, **BRIEF}
    session = local_session("local[2]", conf, app="tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def demo_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """`keylane demo -o json`, small, in the session of the run, which it would otherwise stop."""
    from tests.running import SCALE, DemoRun, keylane

    folder = tmp_path_factory.mktemp("small") / "demo"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("keylane.spark.local_session", lambda *_: spark)
        patched.setattr(spark, "stop", lambda: None)
        done = keylane("demo", "--to", folder, "--scale", SCALE, "-o", "json")
    assert done.code == 0, done.err
    return DemoRun(folder, done.out, done.err)


@pytest.fixture(scope="session")
def kinesalite(start_up_archive: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KinesisServer]:
    """A kinesalite on loopback: exact in routing, bounds and order."""
    from tests.kinesis.servers import kinesalite_running

    with kinesalite_running(Path(os.environ["KEYLANE_CACHE"]), tmp_path_factory.mktemp("kinesalite") / "log") as server:
        yield server


@pytest.fixture(scope="session")
def kinesis_local(start_up_archive: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KinesisServer]:
    """A kinesis-local on loopback: the life cycle of streams and shards, and limits."""
    from tests.kinesis.servers import kinesis_local_running

    with kinesis_local_running(Path(os.environ["KEYLANE_CACHE"]), tmp_path_factory.mktemp("kinesis") / "log") as server:
        yield server

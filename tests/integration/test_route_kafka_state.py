"""The state of a route into Kafka: older copies, clones and second states are refused, and nothing is lost or doubled.

What is damaged in one file: `test_route_kafka_damage`. Numbers and fences of one writer: `test_kafka_writer`.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.route_records import contract, numbered, read_committed, send
from tests.integration.topics import create_topic

from keylane.errors import BrokerError, KeylaneError, TargetError
from keylane.pipelines.route import KafkaOptions, Options, Routed
from keylane.pipelines.route import route as run
from keylane.pipelines.verify import verify
from keylane.systems.kafka.progress import TargetProgress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster


class Route:
    """A route between two new topics, with copies of its state."""

    def __init__(self, broker: Cluster, topic: Callable[..., str], spark: SparkSession, folder: Path) -> None:
        self.broker, self.spark, self.folder = broker, spark, folder
        self.source, self.target = topic(2, "src"), topic(4, "dst")
        create_topic(broker, f"{self.target}.dlq", 1)
        self.sent = 0
        self.said: dict[str, Any] = {}

    def send(self, count: int = 20) -> None:
        send(self.broker, self.source, numbered(self.sent, count))
        self.sent += count

    def route(self, state: str | None = "state", **said: Any) -> Routed:
        path = None if state is None else str(self.folder / state)
        options = Options(kafka=KafkaOptions(state=path, **self.said, **said))
        at = self.at(self.source), self.at(self.target)
        return run(contract(self.target), at[0], at[1], options=options, spark=self.spark)

    def at(self, name: str) -> str:
        return f"kafka://{self.broker.bootstrap}/{name}"

    def batches(self, count: int, state: str = "state") -> None:
        for _ in range(count):
            self.send()
            self.route(state)

    def copy(self, name: str, of: str = "state") -> None:
        shutil.copytree(self.folder / of, self.folder / name)

    def restore(self, name: str, part: str = "") -> None:
        shutil.rmtree(self.folder / "state" / part)
        shutil.copytree(self.folder / name / part, self.folder / "state" / part)

    def there(self) -> int:
        return len(read_committed(self.broker, self.target))

    def ok(self) -> bool:
        found = verify(self.at(self.source), self.at(self.target), contract(self.target))
        return not found.verdict.violations

    def refused(self, words: str = "older", **said: Any) -> None:
        """Refused, and nothing was written."""
        before = self.there()
        with pytest.raises(KeylaneError, match=words):
            self.route(**said)
        assert self.there() == before


@pytest.fixture
def route(broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path) -> Route:
    return Route(broker, topic, spark, tmp_path)


DELIVERIES = [
    pytest.param({}, id="by part"),
    pytest.param({"writers": 2}, id="by lane", marks=pytest.mark.faults),
    pytest.param({"delivery": "at-least-once"}, id="at least once", marks=pytest.mark.faults),
]


@pytest.mark.parametrize("said", DELIVERIES)
def test_a_whole_state_from_an_older_backup_is_refused(route: Route, said: dict[str, Any]) -> None:
    """Every writer found later numbers, sent nothing, and reported the new records as written before."""
    route.said = said
    route.batches(1)
    route.copy("backup")
    route.batches(2)
    route.copy("newest")
    route.restore("backup")
    route.send()
    route.refused(r"older than what it has written.*--start OFFSETS.*--second-route")
    route.restore("newest")
    assert route.route().counts.in_ == 20
    assert (route.there(), route.ok()) == (route.sent, True)


@pytest.mark.faults
@pytest.mark.parametrize("said", DELIVERIES)
@pytest.mark.parametrize("part", ["_keylane/checkpoint", "_keylane/done", "_keylane/plans"])
def test_a_part_of_a_state_from_an_older_backup_is_refused(route: Route, said: dict[str, Any], part: str) -> None:
    route.said = said
    route.batches(1)
    route.copy("backup")
    route.batches(2)
    route.copy("newest")
    route.restore("backup", part)
    route.send()
    route.refused("older|missing")
    route.restore("newest")
    route.route()
    assert (route.there(), route.ok()) == (route.sent, True)


@pytest.mark.faults
@pytest.mark.parametrize("said", DELIVERIES)
def test_two_copies_of_a_state_used_in_turn(route: Route, said: dict[str, Any]) -> None:
    """The one that is behind is refused, and the other goes on."""
    route.said = said
    route.batches(1)
    route.copy("clone")
    route.batches(1)
    route.send()
    route.refused("older than what it has written", state="clone")
    route.batches(1)
    assert (route.there(), route.ok()) == (route.sent, True)


@pytest.mark.faults
def test_an_older_state_whose_next_batch_fits_no_number(route: Route) -> None:
    """Later batches had records of one partition only: the other's number is as old as the state, and tells nothing."""
    route.batches(1)
    route.copy("backup")
    for n in range(2):
        send(route.broker, route.source, [(0, b"only", b"%d" % n)])
        route.route()
    route.restore("backup")
    send(route.broker, route.source, [(1, b"other", b"7")])
    route.refused("older than what it has written")


@pytest.mark.faults
@pytest.mark.parametrize("said", DELIVERIES[:2])
def test_twin_without_the_record_of_progress_the_writers_numbers_refuse(
    route: Route, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two defences holds without the other. By the digest one batch later, by the number two later."""
    route.said = said
    monkeypatch.setattr(TargetProgress, "begun", lambda _: None)
    route.batches(1)
    route.copy("backup")
    route.batches(1)
    route.copy("one")
    route.batches(1)
    for name, words in (("one", "was committed with other records"), ("backup", "older than what it has written")):
        route.restore(name)
        route.send()
        with pytest.raises((BrokerError, TargetError), match=words):
            route.route()
    assert route.there() == 60


# A second state for the same contract, source and target.


def test_a_second_state_is_refused_and_says_both_ways_on(route: Route) -> None:
    """The same command from another folder was a new route from the first record."""
    route.batches(1)
    route.refused(rf"another state has routed.*{route.folder}/state.*--second-route", state="elsewhere")
    assert not (route.folder / "elsewhere").exists()
    assert route.route("elsewhere", second_route=True).counts.in_ == 20
    assert route.there() == 40
    assert route.route().counts.in_ == 0


def test_the_default_state_is_the_same_in_every_folder(
    route: Route, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    route.send()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        route.route(state=None)
        assert list((tmp_path / name).iterdir()) == []
    assert route.there() == 20

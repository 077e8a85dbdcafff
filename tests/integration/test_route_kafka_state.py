"""The state of a route into Kafka: older copies, clones and second states are refused, and nothing is lost or doubled.

What is damaged in one file: `test_route_kafka_damage`. Numbers and fences of one writer: `test_kafka_writer`.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.route_records import contract, numbered, read_committed, send
from tests.integration.topics import create_topic

from keylane.errors import BrokerError, KeylaneError, TargetError
from keylane.pipelines.route import KafkaOptions, Options, Routed
from keylane.pipelines.route import route as run
from keylane.pipelines.verify import verify
from keylane.systems.broker import librdkafka_settings
from keylane.systems.journal import no_probe
from keylane.systems.kafka import progress
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import KafkaCluster, open_cluster
from keylane.systems.kafka.progress import Begun, TargetProgress, check_first, refuse_second
from keylane.systems.messages.state import RouteHead, read_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster
    from keylane.systems.journal import Probe
    from keylane.systems.kafka.progress import KnownRoute


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

    def route(self, state: str | None = "state", probe: Probe = no_probe, **said: Any) -> Routed:
        path = None if state is None else str(self.folder / state)
        options = Options(kafka=KafkaOptions(state=path, **self.said, **said))
        at = self.at(self.source), self.at(self.target)
        return run(contract(self.target), at[0], at[1], options=options, spark=self.spark, probe=probe)

    def fail_at(self, step: str) -> None:
        def probe(at: str, _batch: int) -> None:
            if at == step:
                raise InterruptedError(at)

        with pytest.raises(InterruptedError):
            self.route(probe=probe)

    def delete_groups(self) -> None:
        head = read_head(self.folder / "state")
        assert head is not None
        client = AdminClient({**librdkafka_settings(self.broker)})
        names = [one.group_id for one in client.list_consumer_groups().result(30).valid]
        mine = [name for name in names if name.startswith(f"keylane-{head.route}")]
        assert len(mine) > 1
        for done in client.delete_consumer_groups(mine).values():
            done.result(30)

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


def test_a_batch_whose_groups_were_deleted_is_not_written_again(route: Route) -> None:
    """Its numbers are gone, and with them which writers have committed."""
    route.send()
    route.fail_at("written")
    route.delete_groups()
    route.refused(r"forgotten how far batch 0 was written.*--start OFFSETS.*--second-route")
    assert route.there() == route.sent


@pytest.mark.faults
def test_twin_without_the_note_in_its_plan_the_batch_is_there_twice(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    route.send()
    route.fail_at("written")
    route.delete_groups()
    monkeypatch.setattr(TargetProgress, "check", lambda *_: None)
    route.route()
    assert route.there() == 2 * route.sent


@pytest.mark.faults
def test_a_route_between_two_batches_goes_on_without_its_groups(route: Route) -> None:
    route.batches(1)
    route.delete_groups()
    route.batches(1)
    assert (route.there(), route.ok()) == (route.sent, True)


@pytest.fixture
def rivals(broker: Cluster, topic: Callable[..., str]) -> Iterator[tuple[TargetProgress, TargetProgress]]:
    """Two states of one route that were both started when the cluster knew of none."""
    at = f"kafka://{broker.bootstrap}"
    target = topic(1, "rivals")
    with open_cluster(kafka_access(broker.bootstrap)) as cluster:
        first, second = (
            TargetProgress(
                cluster,
                RouteHead("c", 1, "f", f"{at}/src", f"{at}/{target}", {target: 1}, route=name),
                f"/state/{name}",
            )
            for name in ("first", "second")
        )
        check_first(cluster, first.head, first.state)
        check_first(cluster, second.head, second.state)
        yield first, second


def begin_within(rivals: tuple[TargetProgress, TargetProgress], monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins after the first has looked for others, and before it has noted itself."""
    first, second = rivals
    looked: list[str] = []

    def meanwhile(others: list[KnownRoute], state: str) -> None:
        refuse_second(others, state)
        if not looked:
            looked.append(state)
            second.begin(0, "other", first=True)

    monkeypatch.setattr(progress, "refuse_second", meanwhile)
    first.begin(0, "one", first=True)


def test_of_two_states_that_begin_at_once_one_is_refused(
    rivals: tuple[TargetProgress, TargetProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TargetError, match=r"another state has routed.*got '/state/first'; allowed: /state/second"):
        begin_within(rivals, monkeypatch)
    assert [one.begun() for one in rivals] == [None, Begun(0, "other")]
    # The one that has begun goes on.
    rivals[1].begin(1, "next", first=True)


def test_twin_without_the_transaction_both_begin(
    rivals: tuple[TargetProgress, TargetProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    def note_after(self: KafkaCluster, group: str, topic: str, change: Any, _seconds: float) -> None:
        self.note(group, topic, *change(self.noted(group, topic)[1]))

    monkeypatch.setattr(KafkaCluster, "note_after", note_after)
    begin_within(rivals, monkeypatch)
    assert [one.begun() for one in rivals] == [Begun(0, "one"), Begun(0, "other")]


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

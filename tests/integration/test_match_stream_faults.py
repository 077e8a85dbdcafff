"""`match --follow` over topics under faults: a broker that goes away, and batches that are made again later."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
from tests.integration.match_topics import produce, rows_of
from tests.integration.topics import create_topic, read_back
from tests.match.batch_traffic import geo_contract
from tests.match.damaged_states import DAMAGES, Damageable
from tests.match.killable_matches import run_and_die, run_to_the_end
from tests.match.stream_traffic import matches, world

from keylane.errors import KeylaneError
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.options import Columns, Options
from keylane.pipelines.route import KafkaOptions
from keylane.systems.broker import running
from keylane.systems.broker.faults import kill9, restart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

pytestmark = pytest.mark.faults

AHEAD = timedelta(seconds=60)


@pytest.fixture(scope="module")
def mortal(_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker of these tests' own, which they may kill."""
    with running(tmp_path_factory.mktemp("mortal")) as cluster:
        yield cluster


def options(most: int) -> Options:
    columns = Columns(time="ts:us")
    kafka = KafkaOptions(value="json", max_records=most)
    return Options(radius=3000.0, drivers=columns, riders=columns, kafka=kafka)


def filled(cluster: Cluster, made: Any, name: str) -> tuple[str, str]:
    """Two topics with a world in them."""
    sides = []
    for side, table in (("drivers", made.pings), ("riders", made.requests)):
        create_topic(cluster, f"{name}-{side}", 4)
        sides.append(produce(cluster, f"{name}-{side}", rows_of(table), lambda n: n % 4, plain=True))
    return sides[0], sides[1]


def test_a_broker_that_goes_away_and_comes_back_changes_no_pair(
    mortal: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    made = world(files=3)
    sides = filled(mortal, made, "away")
    asked, done, away = threading.Event(), list[Any](), list[threading.Thread]()

    def back() -> None:
        time.sleep(8)
        restart(mortal)

    def tell(figures: Any) -> None:
        done.append(figures)
        if len(done) == 2:
            kill9(mortal)
            away.append(threading.Thread(target=back))
            away[0].start()
        if figures.total["pings"] == made.pings.num_rows and not sum(one["records"] for one in figures.metrics["lag"]):
            asked.set()

    how = Following(every="100 milliseconds", tasks=2)
    try:
        follow(
            *sides,
            str(tmp_path / "out"),
            options(400),
            how,
            contract=geo_contract(4),
            spark=spark,
            stop_asked=asked,
            tell=tell,
        )
    finally:
        for thread in away:
            thread.join()
    assert away, "the broker was to go away within the run"
    assert matches(tmp_path / "out") == made.expected(3000.0, made.watermark)


def test_a_match_that_finds_no_broker_ends_with_an_error_and_goes_on_when_there_is_one(
    mortal: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    made = world(files=2)
    sides = filled(mortal, made, "none")
    how = Following(available_now=True, tasks=2)

    def once(stop_after: int | None = None) -> Any:
        def tell(_figures: Any) -> None:
            nonlocal stop_after
            if stop_after is not None:
                stop_after -= 1
                if stop_after == 0:
                    asked.set()

        asked = threading.Event()
        return follow(
            *sides,
            str(tmp_path / "out"),
            options(500),
            how,
            contract=geo_contract(4),
            spark=spark,
            stop_asked=asked,
            tell=tell,
        )

    once(stop_after=1)
    kill9(mortal)
    try:
        with pytest.raises(KeylaneError):
            once()
    finally:
        restart(mortal)
    document = once()
    assert document.pings == made.pings.num_rows
    assert matches(tmp_path / "out") == made.expected(3000.0, made.watermark)


@pytest.fixture(scope="module")
def of_topics(broker: Cluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Damageable:
    """The logs of a checkpoint over topics have what those over files do not: ends and clocks."""
    made, folder = world(files=3, drivers=20, riders=30), tmp_path_factory.mktemp("topics")
    sides = [(f"damaged-{side}", table) for side, table in (("drivers", made.pings), ("riders", made.requests))]
    drivers, riders = (f"kafka://{broker.bootstrap}/{name}" for name, _ in sides)
    for name, _ in sides:
        create_topic(broker, name, 4)

    def feed(batch: int) -> None:
        for name, table in sides:
            rows = rows_of(table.filter(pc.equal(table["file"], batch)))
            produce(broker, name, rows, lambda n: n % 4, plain=True)

    def run() -> Any:
        how, contract = Following(available_now=True, tasks=2), geo_contract(4)
        return follow(drivers, riders, str(folder / "out"), options(10_000), how, contract=contract, spark=spark)

    state = Damageable.of(folder, feed, run, ("lanes", "homes"))
    assert state.expected[0] == made.expected(3000.0, made.watermark)
    return state


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("log", ["batches", "offsets", "commits", "metadata"])
def test_every_damaged_log_of_a_match_over_topics_is_named_or_does_no_harm(
    of_topics: Damageable, damage: str, log: str
) -> None:
    files = {"metadata": "checkpoint/*metadata*", "batches": "batches/*"}
    assert of_topics.silent(damage, files.get(log, f"checkpoint/{log}/*")) == []


def changed_offsets(state: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The planted fault: what a batch was begun with is asked for again, as if it were not in Spark's log."""
    log = state / "checkpoint" / "offsets" / "0"
    head, settings, *sources = log.read_text().split("\n")
    changed = []
    for line in sources:
        found = json.loads(line)
        changed.append(json.dumps({**found, **change(found)}, separators=(",", ":")))
    log.write_text("\n".join((head, settings, *changed)))
    log.with_name(".0.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("planted", [False, pytest.param(True, id="twin: what was unread is forgotten")])
def test_a_batch_that_is_made_again_later_answers_the_same_into_a_topic(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path, planted: bool
) -> None:
    made = world(files=3)
    names = topic(4), topic(4)
    rows = rows_of(made.pings), rows_of(made.requests)
    # Nearly all pings in one lane: what is unread there holds time back, and with it answers.
    drivers = produce(broker, names[0], rows[0], lambda n: 0 if n % 10 else n // 10 % 4, plain=False)
    riders = produce(broker, names[1], rows[1], lambda n: n % 4, plain=False)
    answers = topic(2, "matches")
    create_topic(broker, f"{answers}.dlq", 1)
    given: dict[str, Any] = {"state": str(tmp_path / "state"), "max_records": 600}
    to = f"kafka://{broker.bootstrap}/{answers}"
    run_and_die(drivers, riders, to, point="forced", batch=0, **given)
    first = Counter(read.value for read in read_back(broker, answers))
    assert first, "a batch without an answer shows nothing"
    # Another time and other ends: more of the same records, which changes no answer.
    produce(broker, names[0], rows[0][:50], lambda n: n % 4, plain=False)
    if planted:
        changed_offsets(tmp_path / "state", lambda found: {"end": found["read"]})
    run_and_die(drivers, riders, to, point="forced", batch=0, **given)
    second = Counter(read.value for read in read_back(broker, answers)) - first
    assert (second == first) != planted
    if not planted:
        run_to_the_end(drivers, riders, to, **given)
        found = [json.loads(read.value or b"") for read in read_back(broker, answers)]
        pairs = {(one["rider_id"], one["driver_id"]) for one in found}
        assert pairs == {(rider, driver) for rider, _, driver, _ in made.expected(3000.0, made.watermark)}


@pytest.mark.parametrize("planted", [False, pytest.param(True, id="twin: the clock is asked again")])
def test_a_request_that_was_ahead_of_the_clock_is_so_too_when_its_batch_is_made_again(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path, planted: bool
) -> None:
    names, now = (topic(4), topic(4)), datetime.now(UTC)
    there = {"lat": 51.5, "lng": -0.12}
    pings = [{"id": "d", "ts": now - timedelta(seconds=at), **there} for at in (90, 1)]
    # The second is ahead by more than is allowed when the batch is first made, and not when it is made again.
    asked = [{"id": "r", "ts": now - timedelta(seconds=60), **there}, {"id": "s", "ts": now + AHEAD * 2, **there}]
    drivers = produce(broker, names[0], pings, lambda _: 0, plain=False)
    riders = produce(broker, names[1], asked, lambda _: 0, plain=False)
    given: dict[str, Any] = {"ahead": AHEAD.total_seconds()}
    run_and_die(drivers, riders, tmp_path / "out", point="forced", batch=0, **given)
    assert datetime.now(UTC) < now + AHEAD, "the first attempt was too slow to show anything"
    time.sleep((now + AHEAD - datetime.now(UTC)).total_seconds())
    if planted:
        later = round(time.time() * 1e6)
        changed_offsets(tmp_path / "out" / "_state", lambda _: {"clock": later})
    _, document = run_to_the_end(drivers, riders, tmp_path / "out", **given)
    assert (document["pairs"], document["dead"]["riders"]) == (1, {} if planted else {"time-ahead": 1})

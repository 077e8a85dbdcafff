"""Routes into Kafka with live producers while things break: 100,000 records or more, 20,000 keys, 32 lanes.

Each fault comes alone, and each of a scorecard's rows prints its seed, size, faults and verdict as a line of JSON.

Afterwards every record is in its lane once and in its key's order: by what is in the records themselves, the headers
that the route wrote not asked, and by `keylane verify`, which goes by them. The same kills with Spark's own sink are
the twin: there duplicates must be found.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.integration.cut_path import HOST, far_path
from tests.integration.killable_routes import Routes, SparkRoutes, kill_group, wait_until, workers_of
from tests.integration.route_records import contract, read_committed
from tests.integration.topics import create_topic

from keylane import Router
from keylane.pipelines.verify import Verified, verify
from keylane.systems.broker import librdkafka_settings, running
from keylane.systems.broker.faults import kill9, paused, restart
from keylane.systems.kafka.producers import KeyedProducer
from keylane.testing.history import Verdict, check, rows

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.integration.cut_path import CutPath

    from keylane.systems.broker import Cluster

pytestmark = pytest.mark.faults

SEED, RECORDS, KEYS, PARTITIONS, LANES = 7, 200_000, 20_000, 8, 32
POINTS = ["planned", "fenced p1", "sent p0", "sent p2", "committed p1", "written", "done"]


class Live:
    """A producer that goes on while things break. Its own sends are idempotent and retried: the source is right."""

    def __init__(self, broker: Cluster, topic: str, seconds: float, records: int = RECORDS) -> None:
        self.sent, self._broker, self._topic = 0, broker, topic
        self._records, self._pause = records, seconds / (records / 500)
        #: The second half of the records comes when this is set.
        self.rest = threading.Event()
        self.rest.set()
        self.thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 300_000}
        producer = Producer({**librdkafka_settings(self._broker), **settings, "log_level": 0})
        rng = random.Random(SEED)
        for number in range(self._records):
            key = rng.randrange(KEYS)
            if number == self._records // 2:
                self.rest.wait(600)
            while True:
                try:
                    producer.produce(self._topic, b"%d" % number, b"key-%d" % key, key % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
            if number % 500 == 499:
                time.sleep(self._pause)
        assert producer.flush(300) == 0
        self.sent = self._records


@contextmanager
def world(
    broker: Cluster,
    folder: Path,
    name: str,
    seconds: float,
    kind: type[Routes] = Routes,
    records: int = RECORDS,
    port: int | None = None,
    halved: bool = False,
    **asked: Any,
) -> Iterator[tuple[Live, Routes]]:
    """Topics, a live producer and routes; at the end the routes have taken everything, whatever it takes."""
    source, target = create_topic(broker, f"{name}-src", PARTITIONS), create_topic(broker, f"{name}-dst", LANES)
    create_topic(broker, f"{target}.dlq", 1)
    said = {"max_records": 20_000, **asked.pop("kafka", {})}
    routes = kind(broker, source, target, folder / name, lanes=LANES, follow=True, kafka=said, **asked)
    if port is not None:
        routes.asked |= {"source": f"kafka://{HOST}:{port}/{source}", "target": f"kafka://{HOST}:{port}/{target}"}
    live = Live(broker, source, seconds, records)
    if halved:
        live.rest.clear()
    live.thread.start()
    try:
        yield live, routes
    finally:
        live.rest.set()
    live.thread.join(600)
    assert live.sent == records
    routes.to_the_end(follow=False)
    assert routes.taken() in {records, 0 if kind is SparkRoutes else records}


def verdict(broker: Cluster, name: str, **changes: str) -> Verdict:
    """What the checker says: values are numbers that count up in each partition, and name each record."""
    source, target = read_committed(broker, f"{name}-src"), read_committed(broker, f"{name}-dst")
    router = Router(contract(f"{name}-dst", LANES, **changes))
    sends = rows(
        "send",
        writer=[str(one.lane) for one in source],
        seq=[int(one.value or b"") for one in source],
        outcome=["ok"] * len(source),
        key=[one.key for one in source],
    )
    reads = rows(
        "read",
        writer=[str(int((one.key or b"").rpartition(b"-")[2]) % PARTITIONS) for one in target],
        seq=[int(one.value or b"") for one in target],
        key=[one.key for one in target],
        lane=[one.lane for one in target],
        offset=[one.offset for one in target],
        expected_lane=[router.lane({"key": one.key}) for one in target],
    )
    return check([sends, reads])


def is_clean(broker: Cluster, name: str, records: int = RECORDS, **changes: str) -> Verdict:
    found = verdict(broker, name, **changes)
    assert found.ok, found
    certificate = verified(broker, name, **changes)
    assert certificate.ok, certificate
    assert (certificate.verdict.facts["ok"], certificate.verdict.records) == (records, records)
    return found


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Print a row of the scorecard, past what pytest keeps to itself."""

    def report(row: int, records: int, found: Verdict, faults: Sequence[Any] = (), **more: Any) -> None:
        size = {"records": records, "keys": KEYS, "lanes": LANES, "source_partitions": PARTITIONS}
        line = {"row": row, "seed": SEED, "size": size, "faults": list(faults), **more}
        with capsys.disabled():
            print("\n" + json.dumps({**line, "verdict": {"ok": found.ok, **found.counts}}))

    return report


def verified(broker: Cluster, name: str, **changes: str) -> Verified:
    """What `keylane verify` says of the two topics."""
    source, target = (f"kafka://{broker.bootstrap}/{name}-{side}" for side in ("src", "dst"))
    return verify(source, target, contract(f"{name}-dst", LANES, **changes))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that these tests may break."""
    with running(tmp_path_factory.mktemp("faults"), heap="512m") as found:
        yield found


def end(process: subprocess.Popen[str]) -> None:
    """Ask for an end between two batches."""
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)


@contextmanager
def started(routes: Routes) -> Iterator[subprocess.Popen[str]]:
    """A route that does not outlive a test that fails."""
    process = routes.start()
    try:
        yield process
    finally:
        kill_group(process)


def test_no_fault_at_all(cluster: Cluster, tmp_path: Path, report: Callable[..., None]) -> None:
    records = 1_000_000
    with world(cluster, tmp_path, "none", 20, records=records, kafka={"max_records": 100_000}) as (live, routes):
        process = routes.start()
        live.thread.join()
        wait_until(lambda: routes.taken() == records, 900)
        end(process)
    found = is_clean(cluster, "none", records)
    report(3, records, found)
    counts = found.counts
    assert (counts["lost"], counts["duplicated"], counts["reordered"], counts["misrouted"]) == (0, 0, 0, 0)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, CutPath]]:
    """A broker, and a second way to it that can be cut."""
    with running(tmp_path_factory.mktemp("far"), heap="512m") as found, far_path(found) as path:
        yield found, path


@pytest.mark.parametrize("how", ["both ways", "to the broker", "from the broker", "paused"])
def test_a_route_whose_network_is_cut_goes_on_by_itself_when_it_is_healed(
    how: Any, path: tuple[Cluster, CutPath], tmp_path: Path, report: Callable[..., None]
) -> None:
    """The route alone comes over the path; who writes into its source, and who reads, does not."""
    broker, way = path
    records, name, seconds = 100_000, how.replace(" ", "-"), 20 if how == "paused" else 30
    way.log.clear()
    with (
        world(broker, tmp_path, name, 30, records=records, port=way.port, halved=True) as (live, routes),
        started(routes) as process,
    ):
        wait_until(lambda: routes.taken() > 0)
        live.rest.set()
        with paused(broker) if how == "paused" else way.cut(how):
            time.sleep(2)
            before = routes.taken()
            time.sleep(seconds - 2)
            assert routes.taken() == before < records, "nothing gets through"
            assert process.poll() is None, "the route has ended"
        healed = time.monotonic()
        wait_until(lambda: routes.taken() > before, 60)
        resumed = round(time.monotonic() - healed, 1)
        live.thread.join()
        wait_until(lambda: routes.taken() == records, 300)
        end(process)
        assert process.returncode == 0
    faults = way.log if how != "paused" else [f"SIGSTOP for {seconds} s"]
    report(7, records, is_clean(broker, name, records), faults, resumed_after_seconds=resumed)


@pytest.mark.parametrize("how", ["both ways", "to the broker", "from the broker"])
def test_a_producer_whose_network_is_cut_delivers_everything_once_when_it_is_healed(
    how: Any, path: tuple[Cluster, CutPath]
) -> None:
    broker, way = path
    topic = create_topic(broker, f"producer-{how.replace(' ', '-')}", LANES)
    router = Router(contract(topic, LANES))
    with KeyedProducer(router, f"{HOST}:{way.port}", check_seconds=1.0, socket_timeout_ms=5_000, log_level=0) as sender:
        for number in range(3_000):
            sender.send({"key": f"key-{number % 97}"}, b"%d" % number)
            if number == 1_000:
                with way.cut(how):
                    for more in range(3_000, 3_400):
                        sender.send({"key": f"key-{more % 97}"}, b"%d" % more)
                    time.sleep(10)
    there = read_committed(broker, topic)
    assert sorted(int(one.value or b"") for one in there) == list(range(3_400))


def test_the_driver_is_killed_twenty_times(cluster: Cluster, tmp_path: Path) -> None:
    """By turns at a step, by its own hand, and at any time once a batch has begun or ended in this process."""
    rng, at_a_step = random.Random(20), 0
    with world(cluster, tmp_path, "driver", 330) as (live, routes):
        for number in range(20):
            before = routes.spark_logs()
            process = routes.start(**({"point": rng.choice(POINTS)} if number % 2 else {}))
            if number % 2:
                wait_until(lambda: process.poll() is not None or not live.thread.is_alive())  # noqa: B023  ends in this round
                at_a_step += process.poll() == -signal.SIGKILL
            else:
                wait_until(lambda: routes.spark_logs() != before or not live.thread.is_alive())  # noqa: B023  ends in this round
                time.sleep(rng.uniform(0, 2))
            kill_group(process)
    assert at_a_step > 7, "most of them have to meet records on their way"
    is_clean(cluster, "driver")


def _is_working(routes: Routes) -> bool:
    offsets, commits = routes.spark_logs()
    return bool(offsets - commits)


#: So many rules for keys that nobody has that the decision is made in Python: a native route has no such workers.
MANY_RULES = ", ".join(f"{{keys: [x-{n}], spread: {{over: 2, by: timestamp}}}}" for n in range(40))


def test_python_workers_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    killed: list[int] = []
    changes = {"partitioner: kafka-java": f"partitioner: kafka-java\n  hot_keys: [{MANY_RULES}]"}
    with world(cluster, tmp_path, "worker", 60, changes=changes) as (live, routes):
        process = routes.start()
        while live.thread.is_alive():
            assert process.poll() is None, "the route has ended"
            for pid in workers_of(process)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(3)
        wait_until(lambda: routes.taken() == RECORDS, 300)
        end(process)
    assert len(killed) > 2
    is_clean(cluster, "worker", RECORDS, **changes)


def test_the_broker_is_killed_and_started_again(cluster: Cluster, tmp_path: Path) -> None:
    with world(cluster, tmp_path, "broker", 60) as (live, routes):
        process = routes.start()
        wait_until(lambda: routes.taken() > 0)
        kill9(cluster)
        time.sleep(5)
        restart(cluster)
        live.thread.join()
        wait_until(lambda: routes.taken() == RECORDS, 300)
        end(process)
    is_clean(cluster, "broker")


def test_the_broker_is_paused(cluster: Cluster, tmp_path: Path) -> None:
    with world(cluster, tmp_path, "pause", 60) as (live, routes):
        process = routes.start()
        wait_until(lambda: routes.taken() > 0)
        with paused(cluster):
            time.sleep(20)
        live.thread.join()
        wait_until(lambda: routes.taken() == RECORDS, 300)
        end(process)
    is_clean(cluster, "pause")


def test_the_topic_grows_while_a_batch_is_open(cluster: Cluster, tmp_path: Path) -> None:
    with world(cluster, tmp_path, "grown", 40, kafka={"on_growth": "keep"}) as (live, routes):
        process = routes.start()
        wait_until(lambda: routes.taken() > 0)
        wait_until(lambda: _is_working(routes))
        client = AdminClient({**librdkafka_settings(cluster)})
        client.create_partitions([NewPartitions("grown-dst", LANES + 8)])["grown-dst"].result(60)
        live.thread.join()
        wait_until(lambda: routes.taken() == RECORDS, 300)
        end(process)
    is_clean(cluster, "grown")


def test_thirty_stops_and_starts(cluster: Cluster, tmp_path: Path) -> None:
    moving = 0
    with world(cluster, tmp_path, "stops", 450) as (live, routes):
        rng = random.Random(30)
        for _ in range(30):
            process = routes.start()
            taken = routes.taken()
            wait_until(lambda: routes.taken() > taken or not live.thread.is_alive(), 120)  # noqa: B023  so here
            moving += live.thread.is_alive()
            time.sleep(rng.uniform(0, 1))
            end(process)
            assert process.returncode == 0
    assert moving > 20, "most of them have to meet records on their way"
    is_clean(cluster, "stops")


def test_twin_spark_s_own_sink_repeats_what_it_has_written(cluster: Cluster, tmp_path: Path) -> None:
    with world(cluster, tmp_path, "twin", 100, SparkRoutes) as (_, routes):
        rng = random.Random(20)
        for _ in range(6):
            before = routes.spark_logs()[1]
            process = routes.start()
            # A batch of this process has ended, and another has begun.
            wait_until(lambda: routes.spark_logs()[1] != before and _is_working(routes))  # noqa: B023  ends in this round
            time.sleep(rng.uniform(0, 0.4))
            kill_group(process)
    found = verdict(cluster, "twin")
    assert found.counts["lost"] == 0, "at least once"
    assert found.counts["duplicated"] > 0


def test_twin_at_least_once_repeats_and_marks_what_it_has_written(cluster: Cluster, tmp_path: Path) -> None:
    with world(cluster, tmp_path, "plain", 30, kafka={"delivery": "at-least-once"}) as (_, routes):
        for batch in (0, 1):
            routes.die_at("written", batch)
    found = verdict(cluster, "plain")
    assert not found.ok
    assert found.counts["duplicated"] > 0
    assert verified(cluster, "plain").verdict.counts["duplicated"] == found.counts["duplicated"]

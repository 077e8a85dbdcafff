"""Keyed producers against a real broker whose topics are not as the contract says, change under way, or go away.

Every record that a producer took is in the topic afterwards, or was named in an error: none is lost in silence. The
twin sends the same records with the client alone.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.integration.route_records import CONTRACT, contract
from tests.integration.topics import Read, create_topic, read_back

from keylane import Router
from keylane.errors import BrokerError, DeliveryError, KeylaneError, LaneCountError
from keylane.systems.broker import librdkafka_settings, running
from keylane.systems.broker.faults import kill9, paused, restart
from keylane.systems.kafka.producers import KafkaPythonProducer, KeyedProducer, producer_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from keylane.records import Undelivered
    from keylane.systems.broker import Cluster

    AnyProducer = KeyedProducer | KafkaPythonProducer
    Kind = type[KeyedProducer | KafkaPythonProducer]

LANES, RECORDS = 12, 1_000
BOTH = pytest.mark.parametrize("kind", [KeyedProducer, KafkaPythonProducer])


def record(number: int) -> dict[str, Any]:
    return {"key": f"m-{number % 97}"}


def producer(kind: Kind, cluster: Cluster, topic: str, lanes: int = LANES, **given: Any) -> AnyProducer:
    if kind is KeyedProducer:
        given.setdefault("log_level", 0)
    return kind(Router(contract(topic, lanes)), cluster.bootstrap, **given)


def impatient(kind: Kind, milliseconds: int) -> dict[str, Any]:
    """Settings under which a record has failed soon."""
    if kind is KeyedProducer:
        return {"delivery_timeout_ms": milliseconds, "socket_timeout_ms": milliseconds}
    return {
        "delivery_timeout_ms": milliseconds,
        "request_timeout_ms": milliseconds // 2,
        "max_block_ms": milliseconds,
    }


@BOTH
@pytest.mark.parametrize("there", [6, 24], ids=["smaller", "larger"])
def test_a_topic_of_another_size_is_refused_at_the_first_record(
    kind: Kind, there: int, broker: Cluster, topic: Callable[..., str]
) -> None:
    name = topic(there)
    with producer(kind, broker, name) as sender:
        for number in range(2):
            with pytest.raises(LaneCountError, match=f"^{name} .*got {there}; allowed: {LANES}; hint: "):
                sender.send(record(number), b"")
    assert read_settled(broker, name) == []


def read_settled(cluster: Cluster, name: str) -> list[Read]:
    """A topic that was made a moment ago may have no leader yet."""
    until = time.monotonic() + 120
    while True:
        try:
            return read_back(cluster, name)
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def test_twin_the_client_alone_loses_half_of_the_records_in_silence(broker: Cluster, topic: Callable[..., str]) -> None:
    name = topic(6)
    router = Router(contract(name, LANES))
    alone = Producer(producer_settings(router, bootstrap_servers=broker.bootstrap, log_level=0))
    taken = 0
    # It knows the topic's partitions only when the first answer is there; from then on it refuses.
    with suppress(KafkaException):
        for number in range(RECORDS):
            lane = router.placed(record(number)).lane
            assert lane is not None
            alone.produce(name, b"%d" % number, record(number)["key"].encode(), lane)
            taken += 1
    assert alone.flush(60) == 0
    assert 0 < len(read_back(broker, name)) < taken


@BOTH
def test_every_record_is_there_in_its_lane_after_the_block(
    kind: Kind, broker: Cluster, topic: Callable[..., str]
) -> None:
    name = topic(LANES)
    router = Router(contract(name, LANES))
    with producer(kind, broker, name) as sender:
        for number in range(RECORDS):
            sender.send(record(number), b"%d" % number)
    there = {int(one.value or b""): one for one in read_back(broker, name)}
    assert sorted(there) == list(range(RECORDS))
    assert all(there[number].lane == router.lane(record(number)) for number in there)
    for key in range(97):
        offsets = [there[number].offset for number in range(key, RECORDS, 97)]
        assert offsets == sorted(offsets)


@BOTH
def test_a_topic_that_is_not_there_is_not_made_by_sending_to_it(
    kind: Kind, broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keylane.systems.kafka.producers.APPEAR_SECONDS", 0.5)
    given = {} if kind is KeyedProducer else {"max_block_ms": 1_500}
    with producer(kind, broker, "never-made", **given) as sender, pytest.raises(BrokerError, match="never-made"):
        sender.send(record(0), b"")
    assert "never-made" not in AdminClient({**librdkafka_settings(broker)}).list_topics(timeout=30).topics


@BOTH
def test_a_topic_that_grows_under_way_is_refused_and_nothing_is_lost(
    kind: Kind, broker: Cluster, topic: Callable[..., str]
) -> None:
    name = topic(LANES)
    sender = producer(kind, broker, name, check_seconds=0.2)

    def grow(number: int) -> None:
        if number == 50:
            client = AdminClient({**librdkafka_settings(broker)})
            client.create_partitions([NewPartitions(name, 16)])[name].result(60)

    taken, error = sent_until_refused(sender, grow)
    assert isinstance(error, LaneCountError)
    assert f"{name} has another lane count now: got 16; allowed: 12" in str(error)
    sender.close()
    there = read_back(broker, name)
    assert sorted(int(one.value or b"") for one in there) == list(range(taken))
    assert {one.lane for one in there} <= set(range(LANES))


def sent_until_refused(
    sender: AnyProducer, meanwhile: Callable[[int], None], **options: Any
) -> tuple[int, KeylaneError | None]:
    """Send until the producer takes no more: how many it took, and the error. Two minutes at most."""
    taken, until = 0, time.monotonic() + 120
    while time.monotonic() < until:
        meanwhile(taken)
        try:
            sender.send(record(taken), b"%d" % taken, **options)
        except DeliveryError:
            raise
        except KeylaneError as error:
            return taken, error
        taken += 1
        time.sleep(0.005)
    return taken, None


@BOTH
def test_a_topic_that_is_deleted_under_way_is_an_error_and_every_record_is_delivered_or_named(
    kind: Kind, broker: Cluster, topic: Callable[..., str]
) -> None:
    name = topic(LANES)
    failed: list[Undelivered] = []
    acknowledged: list[bytes | None] = []
    sender = producer(kind, broker, name, check_seconds=0.5, on_failure=failed.append, **impatient(kind, 4_000))

    def delete(number: int) -> None:
        if number == 200:
            sender.flush(30)
            assert len(read_back(broker, name)) == 200
            admin = AdminClient({**librdkafka_settings(broker)})
            admin.delete_topics([name])[name].result(60)

    def answered(error: Any, message: Any) -> None:
        if error is None:
            acknowledged.append(message.value())

    options = {"on_delivery": answered} if kind is KeyedProducer else {}
    taken, error = sent_until_refused(sender, delete, **options)
    assert isinstance(error, BrokerError), "sending goes on without an error"
    assert name in str(error)
    sender.close(6)
    assert all(one.stream == name and one.key and one.error for one in failed)
    if kind is KeyedProducer:
        assert len(acknowledged) + len(failed) == taken


@pytest.fixture
def _sockets_left_open() -> Iterator[None]:
    """kafka-python leaves sockets open that it tried while no broker answered."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


#: Ends without flush or close; before that, a child takes records of its own.
PROGRAM = """
import multiprocessing, sys
from keylane import Router, load_contract
from keylane.systems.kafka import producers

def child():
    for number in range(5):
        sender.send({"key": f"k-{number}"}, b"child")
    sys.stderr.write("the child sent all of them")

contract, brokers, kind, twin = sys.argv[1:]
if twin:
    producers._Keyed._check_process = lambda self: None
sender = getattr(producers, kind)(Router(load_contract(contract)), brokers)
sender.send({"key": "first"}, b"parent")
sender.flush()
forked = multiprocessing.get_context("fork").Process(target=child)
forked.start()
forked.join(60)
sender.send({"key": "last"}, b"parent")
sys.exit(forked.exitcode)
"""


@BOTH
@pytest.mark.parametrize("twin", ["", "twin"], ids=["", "twin"])
def test_a_program_that_forks_and_ends_without_close_loses_nothing_in_silence(
    kind: Kind, twin: str, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, file = topic(4), tmp_path / "contract.yaml"
    file.write_text(CONTRACT.replace("STREAM", name).replace("LANES", "4"), "utf-8")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, str(file), broker.bootstrap]
    done = subprocess.run([*command, kind.__name__, twin], capture_output=True, text=True, check=False, timeout=120)
    # Without the look at the process, the records of the child are taken, and are nowhere.
    assert [one.value for one in read_back(broker, name)] == [b"parent"] * 2, done.stderr
    said = "the child sent all" if twin else "made in another process"
    assert (done.returncode, said in done.stderr) == (0 if twin else 1, True), done.stderr


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that these tests may break."""
    with running(tmp_path_factory.mktemp("away")) as found:
        yield found


@pytest.mark.faults
@pytest.mark.usefixtures("_sockets_left_open")
@BOTH
def test_a_broker_that_is_paused_for_longer_than_records_wait_is_an_error_that_names_them(
    kind: Kind, own: Cluster
) -> None:
    name = create_topic(own, f"paused-{kind.__name__}", LANES)
    sender = producer(kind, own, name, **impatient(kind, 4_000))
    for number in range(100):
        sender.send(record(number), b"%d" % number)
    sender.flush(30)
    with paused(own):
        for number in range(100, 200):
            sender.send(record(number), b"%d" % number)
        with pytest.raises(DeliveryError, match="not delivered") as caught:
            sender.flush(20)
        named = list(caught.value.records)
        assert len(named) + caught.value.waiting == 100
    for number in range(200, 300):
        sender.send(record(number), b"%d" % number)
    # kafka-python does not go on after records have timed out: then those are named as well.
    with suppress_delivery_error(named):
        sender.close(15)
    there = {int(one.value or b"") for one in read_back(own, name)}
    assert set(range(100)) <= there
    assert 300 - len(there) <= len(named), "what is not there was named"
    assert kind is KafkaPythonProducer or len(named) == 100


@contextmanager
def suppress_delivery_error(named: list[Undelivered]) -> Iterator[None]:
    try:
        yield
    except DeliveryError as error:
        named += error.records


@pytest.mark.faults
@pytest.mark.usefixtures("_sockets_left_open")
@BOTH
def test_a_broker_that_is_killed_and_comes_back_costs_no_record(kind: Kind, own: Cluster) -> None:
    name = create_topic(own, f"killed-{kind.__name__}", LANES)
    with producer(kind, own, name, check_seconds=1.0) as sender:
        for number in range(600):
            if number == 200:
                kill9(own)
            if number == 400:
                restart(own)
            sender.send(record(number), b"%d" % number)
    there = [int(one.value or b"") for one in read_back(own, name)]
    assert sorted(there) == list(range(600))

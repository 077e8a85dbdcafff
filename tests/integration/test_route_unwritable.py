"""Records that a topic does not take: dead letters with a reason, also where the letter itself would not be taken."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from tests.integration.route_records import BASE, SECONDS, contract, numbered, read_committed, send
from tests.integration.topics import create_topic

from keylane.errors import BrokerError, DataError, TargetError
from keylane.pipelines.route import KafkaOptions, Options, Routed
from keylane.pipelines.route import route as run
from keylane.pipelines.verify import verify
from keylane.systems.broker import librdkafka_settings
from keylane.systems.endpoint import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane import Contract
    from keylane.systems.broker import Cluster

#: What a topic of these tests takes at most. Small, so that records beyond it are quick to write.
LARGEST = 20_000
FOREVER = str(2**63 - 1)
DAY = 86_400_000


class Limited:
    """A source that takes anything, a target and dead letters that do not, and routes between them."""

    def __init__(
        self, broker: Cluster, topic: Callable[..., str], spark: SparkSession, folder: Path, **config: str
    ) -> None:
        self.broker, self.spark, self.folder = broker, spark, folder
        any_time = {"message_timestamp_after_max_ms": FOREVER, "retention_ms": "-1"}
        small = {"max_message_bytes": str(LARGEST)}
        self.source, self.target = topic(2, "src", **any_time), topic(4, "dst", **small, **config)
        self.dead = create_topic(broker, f"{self.target}.dlq", 1, **small, retention_ms="-1")

    def address(self, name: str) -> str:
        return f"kafka://{self.broker.bootstrap}/{name}"

    def route(self, given: Contract | None = None, **said: Any) -> Routed:
        more = {"probe": said.pop("probe")} if "probe" in said else {}
        kafka = KafkaOptions(state=str(self.folder / "state"), **said)
        source, target = self.address(self.source), self.address(self.target)
        return run(
            given or contract(self.target), source, target, options=Options(kafka=kafka), spark=self.spark, **more
        )

    def produce(self, partition: int, key: bytes | None, value: bytes | None, at: int, **more: Any) -> None:
        producer = Producer({**librdkafka_settings(self.broker), "message.max.bytes": 2_000_000})
        producer.produce(self.source, value, key, partition, timestamp=at, **more)
        assert producer.flush(SECONDS) == 0

    def set_largest(self, topic: str, size: int) -> None:
        client = AdminClient({**librdkafka_settings(self.broker)})
        entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        client.incremental_alter_configs([resource])[resource].result(SECONDS)

    def wait_until_refused(self, topic: str, value: bytes) -> None:
        """Return when the topic does not take the value any more; what it still took is never committed."""
        own = {"transactional.id": f"{topic}-probe", "message.max.bytes": 2_000_000}
        producer = Producer({**librdkafka_settings(self.broker), **own})
        producer.init_transactions(SECONDS)
        refused, until = [False], time.monotonic() + SECONDS

        def taken(error: Any, _: Any) -> None:
            refused[0] = error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE

        while not refused[0]:
            assert time.monotonic() < until
            producer.begin_transaction()
            producer.produce(topic, value, partition=0, on_delivery=taken)
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)

    def check_verified(self, given: Contract | None = None) -> None:
        topics = StreamOptions(state=str(self.folder / "state"))
        ends = self.address(self.source), self.address(self.target)
        found = verify(*ends, given or contract(self.target), topics=topics)
        assert not found.broken, (found.verdict.violations, found.miscounted)
        # What a topic takes is not in the contract, and of a letter that was cut the rest cannot be compared.
        assert {one.rule for one in found.unproven} <= {"misrouted", "changed"}


@pytest.fixture
def limited(broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path) -> Limited:
    return Limited(broker, topic, spark, tmp_path)


def sent_hostile(world: Limited) -> dict[str, int]:
    """Send good records with each kind of unwritable one among them; how many of each reason there are."""
    send(world.broker, world.source, numbered(0, 10))
    large, now = b"v" * LARGEST, int(time.time() * 1000)
    world.produce(0, b"old", b"before 1970", -DAY)
    world.produce(0, b"new", b"in a year", now + 365 * DAY)
    world.produce(1, b"large", large, now)
    world.produce(1, b"k" * LARGEST, large, now)
    world.produce(1, b"many", b"headers", now, headers=[(f"h{n}", b"x" * 50) for n in range(1000)])
    world.produce(1, b"name", b"of a header", now, headers=[("\ufffd", b"x")])
    world.produce(1, b"fits", b"v" * (LARGEST - 500), now)
    world.produce(0, b"no time", b"at all", -1)
    send(world.broker, world.source, numbered(10, 10))
    return {"unwritable-time": 2, "too-large": 3, "malformed-header": 1}


@pytest.mark.parametrize("writers", [None, pytest.param(2, marks=pytest.mark.faults)])
def test_the_route_goes_on_and_every_record_is_somewhere(limited: Limited, writers: int | None) -> None:
    expected = sent_hostile(limited)
    found = limited.route(writers=writers)
    assert found.counts.as_json() == {"in": 28, "out": 22, "dead": 6, "filtered": 0}
    letters = read_committed(limited.broker, limited.dead)
    assert Counter(one.header("__keylane.errors.reason") for one in letters) == expected
    by_key = {one.key: one for one in letters}
    old = by_key[b"old"]
    assert (old.value, old.header("__keylane.errors.timestamp")) == (b"before 1970", str(-DAY))
    assert abs(old.time - time.time() * 1000) < DAY
    assert all(one.header("__keylane.errors.topic") == limited.source for one in letters)
    assert sorted({one.header("__keylane.errors.offset") for one in letters}) == sorted(
        {one.header("keylane.source").rpartition("/")[2] for one in letters}
    )
    limited.check_verified()


def test_a_time_that_spark_cannot_read_ends_the_route_and_is_named(limited: Limited) -> None:
    """Nanoseconds, as some producers give them: the connector reads no such record, so it cannot be set aside."""
    send(limited.broker, limited.source, numbered(0, 10))
    limited.produce(0, b"nanos", b"", time.time_ns())
    with pytest.raises(DataError, match=rf"record {limited.source}/0/\d+ is none that Spark can read.*hint: .*--start"):
        limited.route()


def test_a_letter_that_is_too_large_goes_without_what_does_not_fit(limited: Limited) -> None:
    sent_hostile(limited)
    limited.route()
    letters = {one.key: one for one in read_committed(limited.broker, limited.dead)}
    large = b"v" * LARGEST
    for key in (b"large", None):
        assert letters[key].value is None
        assert letters[key].header("__keylane.errors.value.bytes") == str(LARGEST)
        assert letters[key].header("__keylane.errors.value.sha256") == hashlib.sha256(large).hexdigest()
    assert letters[None].header("__keylane.errors.key.bytes") == str(LARGEST)
    assert letters[None].header("__keylane.errors.key.sha256") == hashlib.sha256(b"k" * LARGEST).hexdigest()
    many = letters[b"many"]
    assert many.header("__keylane.errors.headers.count") == "1000"
    assert "h0" not in dict(many.headers)
    assert letters[b"name"].headers[0] == ("\ufffd", b"x")


def test_without_the_limits_the_route_would_stop(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: what is not decided beforehand ends the route, at once and with the record's position."""
    send(limited.broker, limited.source, numbered(0, 4))
    limited.produce(0, b"old", b"before 1970", -DAY)
    monkeypatch.setattr("keylane.spark.writable.unwritable", lambda frame, *_: frame)
    with pytest.raises(BrokerError, match=rf"the record {limited.source}/0/\d cannot be written .*timestamp") as error:
        limited.route()
    assert "retrying" not in str(error.value)


def test_a_limit_that_is_lowered_under_way_is_named_with_the_record(limited: Limited) -> None:
    limited.produce(1, b"large", b"v" * 10_000, BASE)

    def lower(step: str, _batch: int) -> None:
        if step == "planned":
            limited.set_largest(limited.target, 5_000)
            limited.wait_until_refused(limited.target, b"v" * 6_000)

    with pytest.raises(BrokerError, match="RecordTooLarge") as error:
        limited.route(probe=lower)
    assert f"the largest record is {limited.source}/1/" in str(error.value)
    assert "raise max.message.bytes" in str(error.value)
    # By its plan the record is one that the topic takes, and a batch keeps its plan.
    limited.set_largest(limited.target, LARGEST)
    assert limited.route().counts.as_json() == {"in": 1, "out": 1, "dead": 0, "filtered": 0}
    limited.check_verified()


@pytest.mark.faults
def test_a_limit_that_is_raised_between_two_tries_changes_nothing(limited: Limited) -> None:
    sent_hostile(limited)

    class Stopped(Exception):  # noqa: N818  an end, no error
        pass

    def stop(step: str, _batch: int) -> None:
        if step == "written":
            limited.set_largest(limited.target, 10 * LARGEST)
            raise Stopped

    with pytest.raises(Stopped):
        limited.route(probe=stop)
    found = limited.route()
    assert found.counts.as_json() == {"in": 28, "out": 22, "dead": 6, "filtered": 0}
    assert found.repeated == 28
    limited.check_verified()


def test_such_a_record_stops_a_route_that_is_to_stop(limited: Limited) -> None:
    sent_hostile(limited)
    with pytest.raises(DataError, match=rf"{limited.source}/0/\d+: unwritable-time"):
        limited.route(on_poison="stop")
    assert read_committed(limited.broker, limited.target) == []


@pytest.mark.faults
def test_a_compacted_target_takes_no_record_without_a_key(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    world = Limited(broker, topic, spark, tmp_path, cleanup_policy="compact")
    given = contract(world.target, **{"on_null: reject": "on_null: round_robin"})
    send(broker, world.source, [(0, b"k", b"1"), (0, None, b"2"), (1, b"k", b"3")])
    found = world.route(given)
    assert found.counts.as_json() == {"in": 3, "out": 2, "dead": 1, "filtered": 0}
    (letter,) = read_committed(broker, world.dead)
    assert (letter.value, letter.header("__keylane.errors.reason")) == (b"2", "unwritable-key")
    world.check_verified(given)


@pytest.mark.parametrize(
    ("config", "words"),
    [({"cleanup_policy": "compact"}, "compacted"), ({"max_message_bytes": "5000"}, "only small records")],
)
def test_a_topic_that_would_lose_dead_letters_is_refused(
    limited: Limited, topic: Callable[..., str], config: dict[str, str], words: str
) -> None:
    send(limited.broker, limited.source, numbered(0, 4))
    with pytest.raises(TargetError, match=words):
        limited.route(dead_letters=topic(1, "letters", **config))
    assert not (limited.folder / "state").exists()
    assert read_committed(limited.broker, limited.target) == []

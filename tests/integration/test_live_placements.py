"""Where real clients put the golden keys on a real broker, read back, against keylane's router for the named client."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer
from tests.integration.topics import read_back

from keylane.contract.partitioners import FACTS
from keylane.router import Router
from keylane.systems.broker import librdkafka_settings
from keylane.systems.jars import fetched
from keylane.testing.golden import client_placements, lane_vectors

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.systems.broker import Cluster

    Send = Callable[[str], None]

LANES = 15
GOLDEN = {row.key for row in client_placements()} | {row.key for row in lane_vectors()}
#: Bytes that no text has, a hash of 0x80000000, a long key, the empty key and none.
ODD = [b"\x80", b"\xff" * 7, bytes(range(256)), "😀".encode(), b"1468509572224", b"x" * 4097, b"", None]
KEYS: list[bytes | None] = [*sorted({key for key in GOLDEN if key} - {key for key in ODD if key}), *ODD]
SETTINGS = {
    facts.setting.removeprefix("partitioner="): facts.name for facts in FACTS.values() if facts.client == "librdkafka"
}


def by_librdkafka(broker: Cluster, topic: str, setting: str) -> None:
    producer = Producer({**librdkafka_settings(broker), "partitioner": setting, "linger.ms": 5})
    for i, key in enumerate(KEYS):
        producer.produce(topic, str(i).encode(), key=key)
    assert producer.flush(60) == 0


def by_kafka_python(broker: Cluster, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=5)
    for i, key in enumerate(KEYS):
        producer.send(topic, str(i).encode(), key=key)
    producer.flush(60)
    producer.close(10)


class Java:
    """Kafka's own Java client in Spark's Java. Its classes are loaded from the pinned jar, whatever Spark was given."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self.gateway = gateway
        self.jvm = gateway.jvm
        jar = next(path for path in fetched("connector") if path.name.startswith("kafka-clients-"))
        urls = self.array(self.jvm.java.net.URL, self.jvm.java.io.File(str(jar)).toURI().toURL())
        self.thread = self.jvm.java.lang.Thread.currentThread()
        self.before = self.thread.getContextClassLoader()
        self.loader = self.jvm.java.net.URLClassLoader(urls, self.before)

    def array(self, kind: Any, *values: Any) -> Any:
        made = self.gateway.new_array(kind, len(values))
        for i, value in enumerate(values):
            made[i] = value
        return made

    def new(self, name: str, *arguments: Any) -> Any:
        """An instance, by the first public constructor that takes these arguments."""
        made = self.array(self.jvm.java.lang.Object, *arguments)
        for one in self.loader.loadClass(f"org.apache.kafka.{name}").getConstructors():
            kinds = list(one.getParameterTypes())
            if len(kinds) == len(arguments) and all(self.takes(*pair) for pair in zip(kinds, arguments, strict=True)):
                return one.newInstance(made)
        raise AssertionError(name)

    def takes(self, kind: Any, value: Any) -> bool:
        wrapped = self.array(self.jvm.java.lang.Object, value)
        return value is None or bool(kind.isInstance(self.jvm.java.lang.reflect.Array.get(wrapped, 0)))

    def send(self, bootstrap: str, topic: str) -> None:
        # Kafka finds classes that its settings name by the loader of the thread.
        self.thread.setContextClassLoader(self.loader)
        settings = self.jvm.java.util.Properties()
        settings.put("bootstrap.servers", bootstrap)
        # On a topic made just now, a batch that overtakes one that is tried again is refused until time is up.
        settings.put("max.in.flight.requests.per.connection", "1")
        kinds = [self.new("common.serialization.ByteArraySerializer") for _ in range(2)]
        producer = self.new("clients.producer.KafkaProducer", settings, *kinds)
        try:
            record = self.record_of(topic)
            sent = [producer.send(record(key, str(i).encode())) for i, key in enumerate(KEYS)]
            for one in sent:
                one.get()
        finally:
            producer.close()
            self.thread.setContextClassLoader(self.before)

    def record_of(self, topic: str) -> Callable[[bytes | None, bytes], Any]:
        loaded = self.loader.loadClass("org.apache.kafka.clients.producer.ProducerRecord")
        made = next(one for one in loaded.getConstructors() if one.getParameterCount() == 3)
        return lambda key, value: made.newInstance(self.array(self.jvm.java.lang.Object, topic, key, value))


@pytest.fixture(scope="module")
def router(contract: Callable[..., Contract]) -> Callable[[str], Router]:
    return lambda name: Router(contract(lanes=LANES, partitioner=name, key={"fields": ["k"], "encoding": "raw"}))


@pytest.fixture(scope="module")
def arrived(broker: Cluster, topic: Callable[..., str]) -> Callable[[Send], dict[bytes | None, int]]:
    """Let a client send every key to a new topic, and return the lane that each was read from."""

    def arrived(send: Send) -> dict[bytes | None, int]:
        name = topic(LANES)
        send(name)
        found = {KEYS[int(read.value or b"")]: read for read in read_back(broker, name)}
        # An empty key is no key to some clients, and null where they have sent it so.
        assert all((read.key or None) == (key or None) for key, read in found.items())
        assert set(found) == set(KEYS)
        return {key: read.lane for key, read in found.items()}

    return arrived


def differences(found: dict[bytes | None, int], router: Router) -> list[tuple[bytes | None, int, int]]:
    """Keys that decide their lane, and are in another."""
    ours = {key: router.lane_of_key(key) for key in KEYS}
    return [(key, found[key], lane) for key, lane in ours.items() if lane is not None and lane != found[key]]


def decided(router: Router) -> set[bytes | None]:
    return {key for key in KEYS if router.lane_of_key(key) is not None}


def test_every_setting_of_librdkafka_is_asked_and_there_is_enough_to_ask() -> None:
    assert sorted(SETTINGS) == [
        "consistent",
        "consistent_random",
        "fnv1a",
        "fnv1a_random",
        "murmur2",
        "murmur2_random",
        "random",
    ]
    assert len(KEYS) == len(set(KEYS)) > 200


@pytest.mark.parametrize("setting", SETTINGS)
def test_librdkafka_puts_every_key_where_the_router_says(
    setting: str, broker: Cluster, arrived: Callable[..., Any], router: Callable[[str], Router]
) -> None:
    found, ours = arrived(lambda name: by_librdkafka(broker, name, setting)), router(SETTINGS[setting])
    assert differences(found, ours) == []
    assert decided(ours) >= ({key for key in KEYS if key} if setting != "random" else set())


def test_the_java_client_puts_every_key_where_the_router_says(
    spark: SparkSession, broker: Cluster, arrived: Callable[..., Any], router: Callable[[str], Router]
) -> None:
    found, ours = arrived(lambda name: Java(spark).send(broker.bootstrap, name)), router("kafka-java")
    assert differences(found, ours) == []
    assert decided(ours) == {key for key in KEYS if key is not None}
    assert disagreeing(found, "kafka-clients") == []


def test_kafka_python_puts_every_key_where_the_router_says(
    broker: Cluster, arrived: Callable[..., Any], router: Callable[[str], Router]
) -> None:
    found, ours = arrived(lambda name: by_kafka_python(broker, name)), router("kafka-java")
    assert differences(found, ours) == []
    assert disagreeing(found, "kafka-python") == []


def disagreeing(found: dict[bytes | None, int], client: str) -> list[bytes | None]:
    """Golden placements of a client, read back once from another broker, that are not so here."""
    rows = [row for row in client_placements() if client in row.column.client and row.decided and row.lanes == LANES]
    assert len(rows) > 100
    return [row.key for row in rows if found[row.key] != row.lane]


def test_another_partitioner_would_be_caught(
    broker: Cluster, arrived: Callable[..., Any], router: Callable[[str], Router]
) -> None:
    """The twin: what a client of one family sent, held against every other family."""
    found = arrived(lambda name: by_librdkafka(broker, name, "murmur2"))
    by_family: dict[str, list[int]] = defaultdict(list)
    for name in SETTINGS.values():
        by_family[FACTS[name].family].append(len(differences(found, router(name))))
    own = by_family.pop(FACTS["librdkafka-murmur2"].family)
    del by_family[FACTS["librdkafka-random"].family]
    assert own == [0, 0]
    assert len(by_family) == 2
    assert all(count > 150 for counts in by_family.values() for count in counts)

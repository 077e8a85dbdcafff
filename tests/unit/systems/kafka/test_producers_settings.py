from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from keylane.contract.partitioners import FACTS
from keylane.router import Router
from keylane.systems.kafka.producers import PRODUCER_SETTINGS, kafka_python_settings, producer_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]


def router(make: Make, name: str) -> Router:
    encoding = FACTS[name].encodings[0]
    return Router(make(lanes=4, partitioner=name, key={"fields": ["k"], "encoding": encoding}))


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("kafka-java", "murmur2_random"),
        ("librdkafka-consistent", "consistent"),
        ("librdkafka-consistent-random", "consistent_random"),
        ("librdkafka-murmur2", "murmur2"),
        ("librdkafka-murmur2-random", "murmur2_random"),
        ("librdkafka-fnv1a", "fnv1a"),
        ("librdkafka-fnv1a-random", "fnv1a_random"),
        ("librdkafka-random", "random"),
        ("sarama-hash", "fnv1a_random"),
        ("sarama-crc", "consistent_random"),
        ("kafkajs-2", "murmur2_random"),
        ("kafka-go-hash", "fnv1a_random"),
        ("kafka-go-crc32", "consistent_random"),
        ("kafka-go-murmur2", "murmur2_random"),
        ("sarama-reference", None),
        ("kafka-go-reference", None),
        ("kafkajs-1", None),
        ("pulsar-java-string", None),
        ("pulsar-murmur3", None),
        ("spark-hash", None),
        ("kinesis-md5", None),
        ("abs-long-hashcode", None),
        ("murmur2-big-endian", None),
    ],
)
def test_the_partitioner_setting_is_the_contracts_where_librdkafka_has_it(
    name: str, setting: str | None, contract: Make
) -> None:
    assert producer_settings(router(contract, name)).get("partitioner") == setting


def test_every_partitioner_is_spoken_of_above(contract: Make) -> None:
    for name in FACTS:
        producer_settings(router(contract, name))


def test_the_settings_are_for_keyed_streams(contract: Make) -> None:
    settings = producer_settings(router(contract, "kafka-java"))
    assert {name: settings[name] for name in PRODUCER_SETTINGS} == PRODUCER_SETTINGS
    assert (settings["enable.idempotence"], settings["acks"]) == (True, "all")


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        pytest.param({"linger_ms": 50}, "linger.ms", 50, id="underscores for dots"),
        pytest.param({"linger.ms": 50}, "linger.ms", 50, id="dots"),
        pytest.param({"partitioner": "random"}, "partitioner", "random", id="the partitioner itself"),
        pytest.param({"acks": 1, "enable_idempotence": False}, "acks", 1, id="acks"),
        pytest.param({"client_id": "me"}, "client.id", "me", id="one we say nothing of"),
    ],
)
def test_what_is_given_wins(given: dict[str, Any], name: str, value: Any, contract: Make) -> None:
    assert producer_settings(router(contract, "kafka-java"), **given)[name] == value


@pytest.mark.parametrize("name", ["log_level", "error_cb", "stats_cb", "throttle_cb", "oauth_cb", "on_delivery"])
def test_a_name_that_has_an_underscore_of_its_own_keeps_it(name: str, contract: Make) -> None:
    """confluent-kafka's callbacks, and librdkafka's log_level, are written with one."""
    assert name in producer_settings(router(contract, "kafka-java"), **{name: print})


def test_the_module_is_left_as_it_was(contract: Make) -> None:
    producer_settings(router(contract, "kafka-java"), linger_ms=50)["acks"] = 0
    assert (PRODUCER_SETTINGS["linger.ms"], PRODUCER_SETTINGS["acks"]) == (5, "all")


def test_kafka_python_gets_the_same_settings_in_its_own_words(contract: Make) -> None:
    settings = kafka_python_settings(router(contract, "kafka-java"), linger_ms=50, client_id="me")
    assert (settings["linger_ms"], settings["acks"], settings["enable_idempotence"]) == (50, "all", True)
    assert (settings["client_id"], settings["batch_size"]) == ("me", 65_536)


WITHOUT = """
import sys
sys.modules["confluent_kafka"] = None
from keylane import KeylaneError, Router, parse_contract
from keylane.systems.kafka.producers import KeyedProducer, kafka_python_partitioner, producer_settings
router = Router(parse_contract('''
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: test}
spec: {streams: [t], lanes: 4, key: {fields: [k]}, partitioner: kafka-java}
'''))
producer_settings(router)
kafka_python_partitioner(router)
try:
    KeyedProducer(router, "localhost:9092")
except ImportError as error:
    assert isinstance(error, KeylaneError)
    print(error)
"""


def test_without_confluent_kafka_the_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=120)
    assert "[kafka]" in done.stdout.strip()

"""A contract in kafka-python: its real producer, against librdkafka's mock cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer
from kafka.partitioner import Partitioner

from keylane.errors import LaneCountError, UnplacedError, UsageError
from keylane.router import Router
from keylane.systems.kafka.producers import kafka_python_partitioner, kafka_python_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]

KEYS = [f"m-{i}" for i in range(40)]
NAMES = ["kafka-java", "librdkafka-consistent", "sarama-hash", "kafkajs-1", "spark-hash", "kinesis-md5"]


def producer(broker: str, settings: dict[str, Any]) -> Any:
    """The mock cluster speaks the protocol of Kafka 2.1, and no producer ids; compression needs a library more."""
    quiet = {"api_version": (2, 1), "enable_idempotence": False, "compression_type": None, "max_block_ms": 5_000}
    return KafkaProducer(bootstrap_servers=broker, **{**settings, **quiet})


@pytest.mark.parametrize("name", NAMES)
def test_kafka_pythons_producer_puts_every_record_on_the_lane_of_its_contract(
    name: str, broker: str, contract: Make, recwarn: pytest.WarningsRecorder
) -> None:
    router = Router(contract(lanes=4, partitioner=name))
    client = producer(broker, kafka_python_settings(router))
    try:
        sent = {key: client.send("t", key=key.encode(), value=b"v") for key in KEYS}
        went = {key: future.get(10).partition for key, future in sent.items()}
    finally:
        client.close(timeout=120)
    assert went == {key: router.lane({"k": key}) for key in KEYS}
    assert not [warning for warning in recwarn if "does not implement" in str(warning.message)]


def test_kafka_pythons_producer_spreads_null_keys(broker: str, contract: Make) -> None:
    turns = iter(range(1_000))
    router = Router(contract(lanes=4))
    settings = kafka_python_settings(router, choose=lambda lanes: sorted(lanes)[next(turns) % len(lanes)])
    client = producer(broker, settings)
    try:
        lanes = {client.send("t", value=b"v").get(10).partition for _ in range(12)}
    finally:
        client.close(timeout=120)
    assert lanes <= {0, 1, 2, 3}
    assert len(lanes) > 1


def test_a_topic_with_another_lane_count_is_refused(broker: str, contract: Make) -> None:
    client = producer(broker, kafka_python_settings(Router(contract(lanes=8))))
    try:
        with pytest.raises(LaneCountError, match="got 4; allowed: 8"):
            client.send("t", key=b"a", value=b"v")
    finally:
        client.close(timeout=120)


def test_the_settings_ask_for_a_compression_that_kafka_python_has(contract: Make) -> None:
    """Its producer refuses to start without the library; confluent-kafka brings its own, kafka-python does not."""
    settings = kafka_python_settings(Router(contract(lanes=4)))
    installed, _ = KafkaProducer._COMPRESSORS[settings["compression_type"]]
    assert installed(), f"KafkaProducer(**settings) would fail: no library for {settings['compression_type']}"


def test_version_3_is_handed_a_partitioner_of_its_own_kind(contract: Make) -> None:
    assert isinstance(kafka_python_partitioner(Router(contract(lanes=4))), Partitioner)


def test_version_2_is_handed_a_callable(contract: Make) -> None:
    """Version 2 calls it with the key's bytes, all partitions in order, and those available."""
    router = Router(contract(lanes=4))
    partitioner = kafka_python_partitioner(router)
    assert [partitioner(key.encode(), [0, 1, 2, 3], [2]) for key in KEYS] == [router.lane({"k": key}) for key in KEYS]


def test_lanes_are_counted_over_sorted_partition_ids(contract: Make) -> None:
    router = Router(contract(lanes=4))
    partitioner = kafka_python_partitioner(router)
    lane = router.lane({"k": "a"})
    assert lane is not None
    assert partitioner(b"a", [30, 10, 20, 0], []) == lane * 10


@pytest.mark.parametrize(
    ("available", "among"),
    [pytest.param([2], [2], id="those available"), pytest.param([], [0, 1, 2, 3], id="all, when none is")],
)
def test_a_key_that_decides_nothing_is_chosen_among(available: list[int], among: list[int], contract: Make) -> None:
    asked: list[list[int]] = []

    def choose(lanes: Any) -> int:
        asked.append(list(lanes))
        return int(lanes[0])

    assert kafka_python_partitioner(Router(contract(lanes=4)), choose)(None, [0, 1, 2, 3], available) == among[0]
    assert asked == [among]


def test_a_pinned_key_goes_to_its_pin(contract: Make) -> None:
    pinned = contract(lanes=4, hot_keys=[{"keys": ["a"], "pin": {"lanes": [3]}}])
    assert kafka_python_partitioner(Router(pinned))(b"a", [0, 1, 2, 3], []) == 3


def test_a_rejected_key_is_refused(contract: Make) -> None:
    strict = contract(lanes=4, key={"fields": ["k"], "on_null": "reject"})
    with pytest.raises(UnplacedError):
        kafka_python_partitioner(Router(strict))(None, [0, 1, 2, 3], [])


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"key": {"fields": ["k"], "window": {"field": "ts", "size": "1h"}}}, id="a window"),
        pytest.param({"hot_keys": [{"keys": ["a"], "spread": {"over": 2, "by": "o"}}]}, id="a sub-key"),
        pytest.param({"hot_keys": [{"keys": ["a"], "tier": {"stream": "v", "lanes": 2}}]}, id="a tier"),
        pytest.param({"table": {"values": {"a": [0, 1]}, "by": "o"}}, id="a table with a sub-key"),
    ],
)
def test_a_contract_that_needs_more_than_the_key_is_refused(spec: dict[str, Any], contract: Make) -> None:
    with pytest.raises(UsageError, match=r"key's bytes.*partition=router.lane\(record\)"):
        kafka_python_partitioner(Router(contract(lanes=4, **spec)))


def test_a_key_spread_by_position_is_refused_or_stays_on_its_lanes(contract: Make) -> None:
    """The key's bytes do not say its position, so any lane at all would be a guess."""
    spread = contract(lanes=4, hot_keys=[{"keys": ["hot"], "spread": {"lanes": [1, 2], "by_position": True}}])
    try:
        partitioner = kafka_python_partitioner(Router(spread))
    except UsageError:
        return
    assert {partitioner(b"hot", [0, 1, 2, 3], [0, 1, 2, 3]) for _ in range(60)} <= {1, 2}


def test_a_registry_header_is_stripped_before_hashing_here_too(contract: Make) -> None:
    stripped = contract(lanes=4, key={"fields": ["k"], "encoding": "raw", "registry_header": "strip"})
    router = Router(stripped)
    partitioner = kafka_python_partitioner(router)
    keys = [b"\0\0\0\0\x07m-%d" % i for i in range(20)]
    assert [partitioner(key, [0, 1, 2, 3], []) for key in keys] == [router.lane({"k": key}) for key in keys]

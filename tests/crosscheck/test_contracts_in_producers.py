"""A contract inside real producers: each record must go where the router says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from keylane.errors import UsageError
from keylane.hashing.md5 import md5_128
from keylane.placement.ranges import range_lane
from keylane.router import Router
from keylane.systems.kafka.producers import KeyedProducer, kafka_python_partitioner
from keylane.systems.kinesis.put import put_arguments
from keylane.testing.golden import client_placements

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]

KEYS = sorted({row.key.decode() for row in client_placements() if row.key is not None})
HEADERS = [b"\0\0\0\0\x07", b"\0\0\0\0\x08"]


def test_librdkafka_delivers_every_record_where_the_contract_says(contract: Make) -> None:
    """The mock cluster gives each topic four partitions."""
    hot = [
        {"keys": ["merchant_000001"], "pin": {"lanes": [3]}},
        {"keys": ["merchant_000003"], "tier": {"stream": "vip", "lanes": 4}},
        {"keys": ["merchant_000005"], "spread": {"over": 2, "by": "order"}},
    ]
    router = Router(contract(lanes=4, hot_keys=hot))
    producer = KeyedProducer(router, "mock", test_mock_num_brokers=1, allow_auto_create_topics=True)
    records = [{"k": key, "order": order} for key in KEYS for order in ("o-1", "o-2")]
    arrived: dict[int, tuple[str, int]] = {}

    def note(i: int, error: Any, message: Any) -> None:
        assert error is None
        arrived[i] = message.topic(), message.partition()

    sent = [producer.send(record, b"", on_delivery=partial(note, i)) for i, record in enumerate(records)]
    assert producer.producer.flush(10) == 0
    assert {placement.stream for placement in sent} == {"t", "vip"}
    assert [arrived[i] for i in range(len(records))] == [(placement.stream, placement.lane) for placement in sent]


def test_kafka_python_asks_the_contract(contract: Make) -> None:
    router = Router(contract(hot_keys=[{"keys": ["merchant_000001"], "pin": {"lanes": [3]}}]))
    ask = kafka_python_partitioner(router)
    there = list(range(16))
    assert [ask(key.encode(), there, there) for key in KEYS] == [router.lane({"k": key}) for key in KEYS]


def test_a_registry_header_is_no_part_of_the_key_in_kafka_python_either(contract: Make) -> None:
    router = Router(contract(lanes=64, key={"fields": ["k"], "encoding": "raw", "registry_header": "strip"}))
    ask = kafka_python_partitioner(router)
    lanes = [ask(header + b"key", list(range(64)), []) for header in HEADERS]
    assert lanes == [router.lane({"k": header + b"key"}) for header in HEADERS]


def test_a_spread_by_position_needs_more_than_the_key_and_is_refused(contract: Make) -> None:
    router = Router(contract(hot_keys=[{"keys": ["a"], "spread": {"over": 2, "by_position": True}}]))
    with pytest.raises(UsageError, match="key's bytes"):
        kafka_python_partitioner(router)


@pytest.mark.parametrize("tier_lanes", [4, 16, 64])
def test_kinesis_is_told_the_shard_of_a_tier_by_the_tiers_own_count(contract: Make, tier_lanes: int) -> None:
    hot = [{"keys": KEYS[1:20], "tier": {"stream": "vip", "lanes": tier_lanes}}]
    router = Router(contract(partitioner="kinesis-md5", hot_keys=hot))
    for key in KEYS[1:20]:
        arguments = put_arguments(router, {"k": key}, b"")
        explicit = int(arguments.get("ExplicitHashKey", md5_128(key.encode())))
        assert range_lane(explicit, tier_lanes) == router.place({"k": key}).lane

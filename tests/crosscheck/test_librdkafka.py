"""The real librdkafka, producing to its own in-process mock cluster: where did each key arrive?"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from keylane.contract.partitioners import FACTS
from keylane.placement.partitioners import partitioner
from keylane.testing.golden import client_placements, lane_vectors

SETTINGS = {
    facts.setting.removeprefix("partitioner="): facts.name
    for facts in FACTS.values()
    if facts.client == "librdkafka" and facts.hash
}
#: librdkafka reads the hash 0x80000000 of this key as a negative number; its lane is the same.
MIN_INT = b"1468509572224"
GOLDEN = {row.key for row in client_placements()} | {row.key for row in lane_vectors()}
KEYS: list[bytes | None] = [
    *sorted(key for key in GOLDEN if key is not None),
    *(MIN_INT, b"\x80", b"\xff" * 7, bytes(range(256)), "😀".encode(), b"x" * 4097, None),
]


def delivered(setting: str) -> tuple[dict[bytes | None, int], int]:
    """The partition of every key as its delivery report has it, and how many partitions there were."""
    producer = Producer(
        {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "partitioner": setting, "linger.ms": 0}
    )
    arrived: dict[bytes | None, int] = {}

    def note(key: bytes | None, error: Any, message: Any) -> None:
        assert error is None
        arrived[key] = message.partition()

    lanes = len(producer.list_topics("t", timeout=10).topics["t"].partitions)
    for key in KEYS:
        producer.produce("t", b"", key=key, on_delivery=partial(note, key))
    assert producer.flush(10) == 0
    return arrived, lanes


def test_every_setting_that_hashes_is_asked() -> None:
    assert sorted(SETTINGS) == [
        "consistent",
        "consistent_random",
        "fnv1a",
        "fnv1a_random",
        "murmur2",
        "murmur2_random",
    ]


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_key_arrives_in_its_lane(setting: str) -> None:
    arrived, lanes = delivered(setting)
    assert lanes > 1
    assert set(arrived) == set(KEYS)
    ours = {key: partitioner(SETTINGS[setting]).lane(key, lanes) for key in KEYS}
    decided = {key: lane for key, lane in ours.items() if lane is not None}
    assert {key: arrived[key] for key in decided} == decided
    assert set(KEYS) - set(decided) <= {None, b""}


def test_another_partitioner_would_be_caught() -> None:
    arrived, lanes = delivered("consistent_random")
    wrong = partitioner("librdkafka-murmur2-random")
    assert [arrived[key] for key in KEYS if key] != [wrong.lane(key, lanes) for key in KEYS if key]

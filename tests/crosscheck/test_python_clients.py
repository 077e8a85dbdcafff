"""kafka-python and aiokafka themselves, asked in this process where they would put a key."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
from aiokafka.partitioner import DefaultPartitioner as AioKafka
from aiokafka.partitioner import murmur2 as aiokafka_murmur2

from keylane.hashing.murmur2 import murmur2
from keylane.placement.partitioners import partitioner
from keylane.testing.golden import client_placements, lane_vectors

with warnings.catch_warnings():
    # kafka-python reads its protocol by a function that the standard library has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import DefaultPartitioner as KafkaPython
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = {row.key for row in client_placements()} | {row.key for row in lane_vectors()}
KEYS = sorted(key for key in GOLDEN if key is not None)
BINARY = [b"\x80", b"\xff" * 7, bytes(range(256)), "😀".encode(), b"x" * 4097]


class Cluster:
    """As much of a cluster as kafka-python looks at."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes

    def topics(self) -> set[str]:
        return {"t"}

    def partitions_for_topic(self, _topic: str) -> set[int]:
        return set(range(self.lanes))

    available_partitions_for_topic = partitions_for_topic


def by_kafka_python(key: bytes, lanes: int) -> int:
    lane: int = KafkaPython().partition("t", key, key, None, None, Cluster(lanes))
    return lane


def by_aiokafka(key: bytes, lanes: int) -> int:
    lane: int = AioKafka()(key, list(range(lanes)), list(range(lanes)))
    return lane


@pytest.mark.parametrize("theirs", [kafka_python_murmur2, aiokafka_murmur2], ids=["kafka-python", "aiokafka"])
def test_murmur2_is_theirs(theirs: Callable[[bytes], int]) -> None:
    assert len(KEYS) > 200
    assert [theirs(key) % 2**32 for key in (*KEYS, *BINARY)] == [murmur2(key) for key in (*KEYS, *BINARY)]


@pytest.mark.parametrize("theirs", [by_kafka_python, by_aiokafka], ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("lanes", [1, 2, 15, 64, 1000])
def test_every_key_is_where_they_put_it(theirs: Callable[[bytes, int], int], lanes: int) -> None:
    ours = partitioner("kafka-java")
    assert [theirs(key, lanes) for key in (*KEYS, *BINARY)] == [ours.lane(key, lanes) for key in (*KEYS, *BINARY)]


def test_another_partitioner_would_be_caught() -> None:
    wrong = partitioner("murmur2-big-endian")
    assert [by_kafka_python(key, 15) for key in KEYS] != [wrong.lane(key, 15) for key in KEYS]

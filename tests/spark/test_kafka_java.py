"""The lanes on Spark against Kafka's own Java code, running in Spark's own Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from tests.parity.cases.case import Case, key, of
from tests.parity.cases.partitioners import TEXTS

from keylane.spark import with_placements as route
from keylane.spark.hashes import murmur2
from keylane.spark.keys import Bytes
from keylane.systems.jars import fetched
from keylane.testing.golden import client_placements, hash_vectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LANES = [1, 15, 64]


@pytest.fixture(scope="module")
def kafka(spark: SparkSession) -> Any:
    """A function from the name of a class of kafka-clients to that class."""
    jar = next(path for path in fetched("connector") if path.name.startswith("kafka-clients-"))
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(jar)).toURI().toURL()
    return jvm.java.net.URLClassLoader(urls, jvm.java.lang.Thread.currentThread().getContextClassLoader()).loadClass


def called(spark: SparkSession, method: Any, *arguments: Any) -> Any:
    gateway: Any = spark.sparkContext._gateway
    given = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
    for i, argument in enumerate(arguments):
        given[i] = argument
    return method.invoke(None, given)


def method_of(loaded: Any, name: str, count: int) -> Any:
    found = [method for method in loaded.getDeclaredMethods() if method.getName() == name]
    return next(method for method in found if method.getParameterCount() == count)


@pytest.fixture(scope="module")
def keys() -> list[bytes]:
    golden = [vector.key for vector in hash_vectors() if isinstance(vector.key, bytes)]
    placed = [placement.key for placement in client_placements() if placement.key is not None]
    made = [text.encode() for text in TEXTS if text]
    made += [bytes([byte]) * length for byte in (0, 127, 128, 255) for length in range(9)]
    return list(dict.fromkeys([*golden, *placed, *made]))


def lanes_on_spark(spark: SparkSession, keys: list[bytes], lanes: int, partitioner: str = "kafka-java") -> list[int]:
    case = Case({**key("raw"), "lanes": lanes, "partitioner": partitioner}, of(keys))
    return [row["lane"] for row in route(spark.createDataFrame(case.frame), case.contract).collect()]


@pytest.fixture(scope="module")
def kafkas_lanes(spark: SparkSession, kafka: Any, keys: list[bytes]) -> dict[int, list[int]]:
    """What Kafka's producer does with each key."""
    partition = method_of(kafka("org.apache.kafka.clients.producer.internals.BuiltInPartitioner"), "partitionForKey", 2)
    return {lanes: [called(spark, partition, key, lanes) for key in keys] for lanes in LANES}


@pytest.mark.parametrize("lanes", LANES)
def test_every_lane_is_that_of_kafkas_own_partitioner(
    spark: SparkSession, kafkas_lanes: dict[int, list[int]], keys: list[bytes], lanes: int
) -> None:
    assert len(keys) > 200
    assert lanes_on_spark(spark, keys, lanes) == kafkas_lanes[lanes]


def test_the_hash_is_that_of_kafkas_own_utils(spark: SparkSession, kafka: Any, keys: list[bytes]) -> None:
    utils = method_of(kafka("org.apache.kafka.common.utils.Utils"), "murmur2", 1)
    frame = spark.createDataFrame(Case({}, of(keys)).frame)
    found = [row[0] for row in frame.select(murmur2(Bytes(F.col("k")), "static")).collect()]
    assert found == [called(spark, utils, key) for key in keys]


def test_another_partitioner_would_be_caught(
    spark: SparkSession, kafkas_lanes: dict[int, list[int]], keys: list[bytes]
) -> None:
    for wrong in ("librdkafka-consistent", "murmur2-big-endian", "spark-hash"):
        assert lanes_on_spark(spark, keys, 64, wrong) != kafkas_lanes[64]

"""`route` and `lane` on Spark against the router: every case, classic and over Spark Connect, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.cases import CASES, Case
from tests.spark.ways import by_router, by_spark

from keylane.spark import calls, frames, hashes, lanes
from keylane.spark.keys import read_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from tests.spark.conftest import Connect

    from keylane.spark.calls import JavaWay
    from keylane.spark.keys import Bytes

#: One case for each thing that differs between the ways to call Java.
DIFFER = [
    "kafka-java",
    "pulsar-murmur3",
    "kinesis-md5",
    "utf8 of binary",
    "int32be",
    "int64be",
    "raw",
    "two fields, mixed",
    "fixed widths",
    "null random, empty round_robin",
    "tier with a spread by sub-key",
    "sub-keys of bytes",
]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_classic_places_as_the_router_does(spark: SparkSession, case: Case) -> None:
    assert by_spark(spark, case) == by_router(case)


@pytest.mark.parametrize("name", DIFFER)
@pytest.mark.parametrize("way", ["reflect", "arrow"])
def test_a_session_without_private_calls_places_equally(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str, way: JavaWay
) -> None:
    monkeypatch.setattr(frames, "java_way", lambda _: way)
    assert by_spark(spark, CASES[name]) == by_router(CASES[name])


def test_another_hash_would_be_caught(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(key: Bytes, _way: JavaWay) -> Column:
        return calls.static_call(hashes.MURMUR3, "hash32x86", "integer", key.binary)

    monkeypatch.setitem(hashes._NATIVE, "murmur2", wrong)
    assert by_spark(spark, CASES["kafka-java"]) != by_router(CASES["kafka-java"])


def test_another_fold_would_be_caught(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lanes._FOLDS, "masked", lanes._absolute)
    assert by_spark(spark, CASES["kafka-java"]) != by_router(CASES["kafka-java"])


def test_a_lane_that_differs_from_route_would_be_caught(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_another_field(key: Any, schema: Any, way: JavaWay, *, checked: bool = False) -> Any:
        read = key.model_copy(update={"fields": ("at",)}) if schema is None else key
        return read_keys(read, schema, way, checked=checked)

    monkeypatch.setattr(frames, "read_keys", of_another_field)
    with pytest.raises(AssertionError, match="lane and route differ"):
        by_spark(spark, CASES["kafka-java"])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_connect_places_as_the_router_does(connect: Connect, case: Case) -> None:
    assert connect(case) == by_router(case)


def test_a_wrong_answer_over_connect_would_be_caught(connect: Connect) -> None:
    assert connect(CASES["kafka-java"]) != by_router(CASES["murmur2-big-endian"])
    assert connect(CASES["null sticky, empty random"]) != by_router(CASES["null random, empty round_robin"])

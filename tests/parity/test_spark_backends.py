"""Every case on Spark and over Spark Connect, as records are placed alone, to the last bit; and with bugs planted in.

The other ways that a session may have to call Java take one case of each kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.parity.backends import by_record, by_spark, expected
from tests.parity.cases import CASES
from tests.parity.conftest import Grouped
from tests.parity.planted import PLANTED

from keylane.placement.spread import STEP
from keylane.spark import frames, hashes, java_calls, lanes
from keylane.spark import lanes as spread
from keylane.spark.keys import read_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from keylane.spark.java_calls import JavaBackend
    from keylane.spark.keys import Bytes

#: One case for each thing that differs between the ways to call Java.
DIFFER = [
    "kafka-java",
    "pulsar-murmur3",
    "kinesis-md5",
    "601 uneven shards",
    "a layout of the contract",
    "few hash keys of the contract",
    "many hash keys of the contract",
    "hash keys of both twins",
    "tier beside uneven shards",
    "utf8 of binary",
    "int32be",
    "int64be",
    "raw",
    "two fields, mixed",
    "a window after a fixed width",
    "null random, empty round_robin",
    "spread over many lanes",
    "tier with a spread by sub-key",
    "spread, sub-keys of bytes",
    "few-lane accounts",
    "places with leaves",
    "places in ten millionths",
    "places in semicircles",
    "cells under geo, with leaves",
    "bytes under geo, with leaves",
]
#: Of these, the ones that `make test` asks of Spark Connect.
CONNECT = ["kafka-java", "601 uneven shards", "many hash keys of the contract", "places with leaves"]
JAVA = CASES["kafka-java"]
FIT = [name for name, case in CASES.items() if case.fits_spark]


def shortened(names: list[str]) -> list[Any]:
    """All of the cases, of which `make test` asks for these and `make test-faults` for the others."""
    return [pytest.param(name, marks=() if name in names else pytest.mark.faults) for name in FIT]


@pytest.mark.parametrize("name", shortened([*DIFFER, *FIT[::60]]))
def test_spark_places_as_records_are_placed_alone(on_spark: Grouped, name: str) -> None:
    assert on_spark(name) == expected(CASES[name])


@pytest.mark.parametrize("name", shortened(CONNECT))
def test_connect_places_as_records_are_placed_alone(on_connect: Grouped, name: str) -> None:
    assert on_connect(name) == expected(CASES[name])


def test_what_does_not_fit_spark_really_does_not(spark: SparkSession) -> None:
    assert len(FIT) > 200
    for name in CASES.keys() - set(FIT):
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_TYPE"):
            spark.createDataFrame(CASES[name].frame)


@pytest.mark.jvm
@pytest.mark.parametrize("way", ["on_spark", pytest.param("on_connect", marks=pytest.mark.faults)])
def test_a_frame_that_is_placed_otherwise_would_be_caught(request: pytest.FixtureRequest, way: str) -> None:
    grouped: Grouped = request.getfixturevalue(way)
    wrong, right = zip(*PLANTED.values(), strict=True)
    placed = grouped.thread.submit(grouped.place, wrong).result()
    assert [found == by_record(case) for found, case in zip(placed, right, strict=True)] == [False] * len(PLANTED)


def test_a_group_that_fails_does_not_take_the_others_along(on_spark: Grouped) -> None:
    def fails_in_company(cases: Any) -> Any:
        assert len(cases) == 1
        return on_spark.place(cases)

    lonely = Grouped(fails_in_company, ["kafka-java", "table"])
    assert lonely("table") == expected(CASES["table"])
    lonely.close()


def test_connect_hashes_over_arrow(way_over_connect: str) -> None:
    assert way_over_connect == "arrow"


@pytest.mark.parametrize(
    "names", [pytest.param(DIFFER[::3], id="few"), pytest.param(DIFFER, id="every case", marks=pytest.mark.faults)]
)
def test_a_session_without_private_calls_places_equally(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    monkeypatch.setattr(frames, "java_backend", lambda _: "arrow")
    placed = by_spark(spark, [CASES[name] for name in names])
    assert dict(zip(names, placed, strict=True)) == {name: expected(CASES[name]) for name in names}


def test_another_hash_would_be_caught(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(key: Bytes, _way: JavaBackend) -> Column:
        return java_calls.static_call(hashes.MURMUR3, "hash32x86", "integer", key.binary)

    monkeypatch.setitem(hashes._NATIVE, "murmur2", wrong)
    assert by_spark(spark, [JAVA]) != [expected(JAVA)]


def test_another_fold_would_be_caught(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lanes._FOLDS, "masked", lanes._absolute)
    assert by_spark(spark, [JAVA]) != [expected(JAVA)]


@pytest.mark.parametrize("name", ["spread by sub-key", "spread over many lanes"])
def test_another_score_would_be_caught(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(spread, "STEP", STEP + 2)
    assert by_spark(spark, [CASES[name]]) != [expected(CASES[name])]


def test_a_lane_that_differs_from_route_would_be_caught(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_another_field(key: Any, schema: Any, way: JavaBackend) -> Any:
        read = key.model_copy(update={"fields": ("at",)}) if schema is None else key
        return read_keys(read, schema, way)

    monkeypatch.setattr(frames, "read_keys", of_another_field)
    with pytest.raises(AssertionError, match="lane and route differ"):
        by_spark(spark, [JAVA])

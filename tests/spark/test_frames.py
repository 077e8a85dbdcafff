"""What `route` does to a frame besides placing: columns, order, plans, streams, and errors before anything runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from tests.parity.cases import CASES
from tests.parity.cases.case import Case, hot, key, many, of, window

from keylane.errors import DataError, LaneCountError
from keylane.router import Router
from keylane.spark import lane
from keylane.spark import with_placements as route

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NATIVE = [
    "kafka-java",
    "librdkafka-consistent-random",
    "spark-hash",
    "kinesis-md5",
    "abs-long-hashcode",
    "pulsar-murmur3",
    "librdkafka-random",
    "uuid text",
    "h3 text",
    "two fields, mixed",
    "timestamps",
    "every kind at once",
    "a large table",
    "many ranges",
    "many hot keys",
]
OVER_ARROW = ["sarama-hash", "kafkajs-1", "pulsar-java-string", "murmur2-big-endian", "many behaviours"]


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def routed(spark: SparkSession, case: Case) -> DataFrame:
    return route(spark.createDataFrame(case.frame), case.contract, position="at" if case.positions else None)


@pytest.mark.parametrize("name", NATIVE)
def test_what_has_a_native_form_runs_without_python(spark: SparkSession, name: str) -> None:
    assert "Python" not in plan_of(routed(spark, CASES[name]))


@pytest.mark.parametrize("name", OVER_ARROW)
def test_what_has_none_runs_over_arrow_and_once(spark: SparkSession, name: str) -> None:
    plan = plan_of(routed(spark, CASES[name]))
    assert plan.count("ArrowEvalPython") == 1
    assert "BatchEvalPython" not in plan


def test_large_tables_are_broadcast(spark: SparkSession) -> None:
    plan = plan_of(routed(spark, CASES["a large table"]))
    assert plan.count("BroadcastHashJoin") == 1
    assert "SortMergeJoin" not in plan


def test_the_frame_keeps_its_columns_rows_and_order(spark: SparkSession) -> None:
    contract = Case({"table": {"values": {name: i % 16 for i, name in enumerate(many(500))}}}, of(["a"])).contract
    text = F.format_string("key-%04d", (F.col("id") * 7) % 600)
    rows = route(spark.range(1000, numPartitions=3).select(text.alias("k"), "id"), contract).collect()
    router = Router(contract)
    assert [row["id"] for row in rows] == list(range(1000))
    assert rows[0].asDict().keys() == {"k", "id", "stream", "lane", "routing_key", "reason"}
    assert [row["lane"] for row in rows] == [router.lane({"k": row["k"]}) for row in rows]


def test_the_columns_have_their_types(spark: SparkSession) -> None:
    types = dict(routed(spark, CASES["every kind at once"]).dtypes)
    assert [types[name] for name in ("stream", "lane", "routing_key", "reason")] == [
        "string",
        "int",
        "binary",
        "string",
    ]


def test_a_stream_of_the_contract_can_be_chosen(spark: SparkSession) -> None:
    case = Case({"streams": ["one", "two"]}, of(["a"]))
    rows = route(spark.createDataFrame(case.frame), case.contract, stream="two").collect()
    assert [row["stream"] for row in rows] == ["two"]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_no_value_stops_the_rest(spark: SparkSession, ansi: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        rows = routed(spark, CASES["windows of 5m as index, of whole s"]).collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert {row["reason"] for row in rows} == {None, "malformed-key"}
    assert len(rows) == len(CASES["windows of 5m as index, of whole s"].table)


def test_text_that_is_no_utf8_is_placed_by_its_bytes(spark: SparkSession) -> None:
    contract = Case({}, of(["a"])).contract
    frame = spark.createDataFrame([(b"\xff",), (b"\xc3\xab",)], "b binary").select(F.col("b").cast("string").alias("k"))
    right = [Router(contract).lane_of_key(value) for value in (b"\xff", b"\xc3\xab")]
    assert [row["lane"] for row in route(frame, contract).collect()] == right
    assert [row["lane"] for row in frame.select(lane(contract)).collect()] == right


@pytest.mark.parametrize("name", ["kafka-java", "sarama-hash", "a large table", "many behaviours"])
def test_a_streaming_frame_is_routed_as_a_batch_is(spark: SparkSession, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    spark.createDataFrame(case.frame).coalesce(1).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(spark.createDataFrame(case.frame).schema).parquet(str(tmp_path / "in"))
    stream = route(source, case.contract, position="at")
    assert stream.isStreaming
    sink = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "state"))
    sink.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    columns = ["at", "lane", "reason"]
    written = spark.read.parquet(str(tmp_path / "out")).select(*columns).collect()
    assert sorted(map(str, written)) == sorted(map(str, routed(spark, case).select(*columns).collect()))


@pytest.mark.parametrize("name", ["stream", "lane", "routing_key", "reason", "Lane", "__keylane_base"])
def test_a_frame_that_has_such_a_column_is_refused(spark: SparkSession, name: str) -> None:
    frame = spark.createDataFrame([("a", 1)], f"k string, `{name}` int")
    with pytest.raises(DataError, match=f"routing adds: got '{name}'; hint: rename"):
        route(frame, Case({}, of(["a"])).contract)


@pytest.mark.parametrize(
    ("spec", "options", "lacks"),
    [
        (key(fields=("K",)), {}, "got 'K'; allowed: k, s"),
        (key(fields=("k", "m")), {}, "a column: got 'm'; allowed: k, s"),
        (key(fields=("m", "merchant")), {"position": "offset"}, "columns: got 'm, merchant, offset'; allowed: k, s"),
        (key(**window("1h")), {}, "a column: got 't'"),
        ({}, {"position": "offset"}, "a column: got 'offset'"),
        (key(fields=("s.iner",)), {}, "got 's.iner'; allowed: k, s.inner; hint: did you mean 's.inner'"),
    ],
    ids=["another case", "second field", "several", "time", "position", "inside a struct"],
)
def test_a_frame_that_lacks_a_column_is_refused(
    spark: SparkSession, spec: dict[str, Any], options: dict[str, Any], lacks: str
) -> None:
    with pytest.raises(DataError, match=lacks):
        route(spark.createDataFrame([], "k string, s struct<inner: string>"), Case(spec, of(["a"])).contract, **options)


@pytest.mark.parametrize("columns", [["k", "k"], ["k", "K"]], ids=["the same", "by case alone"])
def test_a_key_that_is_there_twice_is_refused(spark: SparkSession, columns: list[str]) -> None:
    frame = spark.createDataFrame([("a", "b")], "x string, y string").toDF(*columns)
    with pytest.raises(DataError, match=f"more than once: got '{', '.join(dict.fromkeys(columns))}'; hint: r"):
        route(frame, Case({}, of(["a"])).contract)


def test_columns_that_no_placement_looks_at_may_be_there_twice(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1, 2)], "k string, x int, y int").toDF("k", "n", "n")
    assert route(frame, Case({}, of(["a"])).contract).collect()[0][:3] == ("a", 1, 2)


def test_names_that_differ_by_case_are_distinguished_where_spark_does(spark: SparkSession) -> None:
    contract = Case({}, of(["a"])).contract
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        frame = spark.createDataFrame([("b", "a")], "x string, y string").toDF("K", "k")
        assert route(frame, contract).collect()[0]["lane"] == Router(contract).lane({"k": "a"})
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize(
    ("encoding", "allowed", "kinds"),
    [
        (
            "utf8",
            "string, integer, binary",
            ["double", "boolean", "date", "timestamp", "array<string>"],
        ),
        ("int64be", "integer", ["string", "decimal(10,0)", "boolean", "binary"]),
        ("int32be", "integer", ["binary", "float", "struct<a:int>"]),
        ("uuid", "string, binary", ["bigint", "array<tinyint>"]),
        ("h3", "integer, string", ["binary", "decimal(20,0)"]),
        ("raw", "binary", ["string", "array<tinyint>"]),
    ],
)
def test_columns_that_hold_no_such_keys_are_refused(
    spark: SparkSession, encoding: str, allowed: str, kinds: list[str]
) -> None:
    contract = Case(key(encoding), of(["a"])).contract
    for kind in kinds:
        told = f"column 'k' holds no {encoding} keys: got {kind!r}; allowed: {allowed}"
        with pytest.raises(DataError, match=re.escape(told)):
            route(spark.createDataFrame([], f"k {kind}"), contract)
    some = spark.range(1).select(F.lit(None).cast(kinds[0]).alias("k"))
    with pytest.raises(PySparkException, match=f"holds no {encoding} keys|cannot cast"):
        some.select(lane(contract)).collect()


def test_times_and_positions_of_a_wrong_type_are_refused(spark: SparkSession) -> None:
    windowed = Case(key(**window("1h")), of(["a"])).contract
    with pytest.raises(DataError, match=r"column 't' .*got 'string'; allowed: integer, timestamp"):
        route(spark.createDataFrame([], "k string, t string"), windowed)
    with pytest.raises(DataError, match=r"column 'p' .*got 'string'"):
        route(spark.createDataFrame([], "k string, p string"), Case({}, of(["a"])).contract, position="p")


def test_a_live_lane_count_must_be_given(spark: SparkSession) -> None:
    contract = Case({"lanes": "live"}, of(["a"])).contract
    with pytest.raises(LaneCountError, match="lanes: live"):
        lane(contract)
    frame = spark.createDataFrame([("a",)], "k string")
    assert frame.select(lane(contract, lanes=16)).collect()[0]["lane"] == Router(contract, lanes=16).lane({"k": "a"})


def test_a_lane_can_be_filtered_and_grouped_by(spark: SparkSession) -> None:
    contract = Case({}, of(["a"])).contract
    frame = spark.createDataFrame([(text,) for text in "abcabc"], "k string")
    counted = frame.where(lane(contract).isNotNull()).groupBy(lane(contract)).count()
    assert sum(row["count"] for row in counted.collect()) == 6


def test_a_spread_key_goes_to_several_lanes(spark: SparkSession) -> None:
    contract = Case(hot(spread={"over": 4, "by": "order"}), of(["a"])).contract
    frame = spark.range(200).select(F.lit("a").alias("k"), F.col("id").alias("order"))
    assert len({row["lane"] for row in route(frame, contract).collect()}) == 4

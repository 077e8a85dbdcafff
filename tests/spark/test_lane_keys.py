"""Lane keys against Spark's own hash, for every lane count from 1 to 256; and lanes that are told to Spark as such."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from keylane.placement.lane_keys import lane_keys
from keylane.spark.prepartitioned import claimed

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

COUNTS = range(1, 257)


def test_spark_puts_each_lane_key_in_its_lane(spark: SparkSession) -> None:
    rows = [(lanes, lane, key) for lanes in COUNTS for lane, key in enumerate(lane_keys(lanes))]
    frame = spark.createDataFrame(rows, "lanes int, lane int, key int")
    lands = F.pmod(F.hash("key"), F.col("lanes"))
    assert frame.where(lands != F.col("lane")).count() == 0
    assert frame.count() == sum(COUNTS)


def test_spark_puts_lane_ids_and_keys_of_another_type_elsewhere(spark: SparkSession) -> None:
    ids = spark.range(60).select(F.col("id").cast("int").alias("key"))
    assert ids.select(F.pmod(F.hash("key"), F.lit(60))).distinct().count() == 38
    keys = spark.createDataFrame([(lane, key) for lane, key in enumerate(lane_keys(60))], "lane int, key bigint")
    assert keys.where(F.pmod(F.hash("key"), F.lit(60)) != F.col("lane")).count() > 30


def test_a_shuffle_by_lane_keys_has_one_lane_in_each_task(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(lane, key) for lane, key in enumerate(lane_keys(60))], "lane int, key int")
    placed = frame.repartition(60, "key").select("lane", F.spark_partition_id().alias("task")).collect()
    assert sorted(map(tuple, placed)) == [(lane, lane) for lane in range(60)]


def test_lanes_that_are_told_to_spark_are_grouped_where_they_lie(spark: SparkSession) -> None:
    lanes = [spark.range(n * 10, n * 10 + n).select("id") for n in range(4)]
    frame = claimed(spark, lanes, "lane_key")
    rows = frame.select("id", "lane_key", F.spark_partition_id().alias("task")).collect()
    keys = lane_keys(4)
    assert sorted((row.id, row.task) for row in rows) == [(n * 10 + m, n) for n in range(4) for m in range(n)]
    assert all(row.lane_key == keys[row.task] for row in rows)
    counted = frame.groupBy("lane_key").count()
    assert "Exchange" not in counted._jdf.queryExecution().executedPlan().toString()
    assert {row.lane_key: row["count"] for row in counted.collect()} == {keys[n]: n for n in range(1, 4)}
    assert "Exchange" in frame.groupBy("id").count()._jdf.queryExecution().executedPlan().toString()


def test_without_a_spark_that_can_be_told_the_rows_are_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keylane.spark.prepartitioned.can_claim", lambda: False)
    frame = claimed(spark, [spark.range(2), spark.range(5, 6)], "lane_key")
    assert sorted((row.id, row.lane_key) for row in frame.collect()) == sorted(
        [(0, lane_keys(2)[0]), (1, lane_keys(2)[0]), (5, lane_keys(2)[1])]
    )

"""The lane as a function of Spark SQL, and columns of placements under other names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import keylane.spark
from keylane import Router, parse_contract
from keylane.errors import DataError, UsageError
from keylane.spark import lane, register, with_placements

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ONE = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec: {streams: [tx], lanes: 15, key: {fields: [merchant]}, partitioner: kafka-java}
"""
TWO = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: pairs}
spec:
  streams: [tx]
  lanes: 12
  key: {fields: [merchant, at], encoding: [utf8, int64be]}
  partitioner: librdkafka-consistent-random
"""
SPREAD = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: spread}
spec:
  streams: [tx]
  lanes: 12
  key: {fields: [merchant]}
  partitioner: kafka-java
  hot_keys: [{keys: [m3], spread: {over: 4, by: order}}]
"""
ROWS = [(f"m{number % 11}" if number % 7 else None, number, f"o{number}") for number in range(120)]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> Any:
    made = spark.createDataFrame(ROWS, "merchant string, at bigint, order string")
    made.createOrReplaceTempView("sql_payments")
    return made


def test_the_function_gives_the_lanes_of_the_column(spark: SparkSession, frame: Any, tmp_path: Path) -> None:
    path = tmp_path / "pairs.yaml"
    path.write_text(TWO)
    register(spark, {"payments": ONE, "pairs": path, "spread": Router(SPREAD)})
    asked = (
        "keylane_lane('payments', merchant) as one, keylane_lane('pairs', merchant, at) as two, "
        "keylane_lane('spread', merchant, order) as three, keylane_lane('payments', order) as other"
    )
    by_sql = spark.sql(f"select at, {asked} from sql_payments").collect()
    columns = lane(ONE).alias("one"), lane(path).alias("two"), lane(parse_contract(SPREAD)).alias("three")
    by_column = frame.select("at", *columns).collect()
    assert [row[:4] for row in by_sql] == [tuple(row) for row in by_column]
    # The twin: another column gives other lanes, so the comparison can fail.
    assert [row.one for row in by_sql] != [row.other for row in by_sql]


def test_what_the_function_is_not_asked_for_is_refused(spark: SparkSession, frame: Any) -> None:
    assert frame.columns
    register(spark, [ONE], name="lane_of")
    with pytest.raises(Exception, match=r"no such contract is registered: got 'payment'.*did you mean 'payments'"):
        spark.sql("select lane_of('payment', merchant) from sql_payments").collect()
    with pytest.raises(Exception, match="takes a contract and its fields: got '2 for payments'; allowed: merchant"):
        spark.sql("select lane_of('payments', merchant, at) from sql_payments").collect()
    with pytest.raises(UsageError, match="two contracts have one name"):
        register(spark, [ONE, ONE])


def test_a_prefix_lets_a_frame_keep_columns_of_its_own(frame: Any) -> None:
    own = frame.withColumnRenamed("order", "lane")
    plain = with_placements(frame, ONE).select("stream", "lane", "routing_key", "reason").collect()
    placed = with_placements(own, ONE, prefix="to_")
    assert placed.columns == ["merchant", "at", "lane", "to_stream", "to_lane", "to_routing_key", "to_reason"]
    assert [tuple(row)[3:] for row in placed.collect()] == [tuple(row) for row in plain]
    assert [row.lane for row in placed.collect()] == [order for _, _, order in ROWS]
    with pytest.raises(DataError, match="rename or drop them first, or give a prefix"):
        with_placements(own, ONE)
    with pytest.raises(UsageError, match="another prefix"):
        with_placements(placed, ONE, prefix="to_")


def test_the_former_name_warns_and_is_the_same() -> None:
    with pytest.warns(DeprecationWarning, match=r"keylane\.spark\.route is called keylane\.spark\.with_placements"):
        former = keylane.spark.route
    assert former is with_placements

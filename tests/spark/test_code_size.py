"""The code that Spark makes for every record of a route is short enough for Java to compile, and stays the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane import Router, parse_contract
from keylane.records import RecordLimits
from keylane.spark import writable
from keylane.spark.messages import (
    WRITER_COLUMNS,
    about_dead_letters,
    decided,
    from_kafka,
    slotted,
    to_writers,
    topic_position,
    unspelled,
)

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import Column, DataFrame, SparkSession

#: Java leaves methods of more bytes to its interpreter.
LONGEST: Final = 8_000
CONNECTOR: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int,"
    " headers array<struct<key:string,value:binary>>"
)
CONTRACT: Final = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: sized}
spec: {streams: [sized], lanes: 32, key: {fields: [key]}, partitioner: kafka-java}
"""


def to_topic(spark: SparkSession, latest: int) -> DataFrame:
    """The rows of a writer, as a route from topic to topic makes them."""
    router, limits = Router(parse_contract(CONTRACT)), RecordLimits(1 << 20, 0, latest, keyed=False)
    # Not a local relation: Spark would compute that while it plans.
    read = spark.createDataFrame(spark.sparkContext.emptyRDD(), CONNECTOR)
    routed = decided(from_kafka(read, {"key": F.col("key")}), router)
    routed = writable.unwritable(routed, {"sized": limits}, "source")
    about = about_dead_letters(router.contract, topic_position("source"), routed)
    slots = unspelled(slotted(routed, [("sized", 32)], 1))
    return to_writers(writable.with_letters(slots, WRITER_COLUMNS, about, limits, "source"), 0)


def generated(frame: DataFrame) -> list[tuple[int, str]]:
    """The bytes of the longest method of each stage, -1 where Java holds none so long; and the code of the stage."""
    java: Any = frame.sparkSession.sparkContext._jvm
    debug = getattr(getattr(java.org.apache.spark.sql.execution.debug, "package$"), "MODULE$")
    stages = debug.codegenStringSeq(frame._jdf.queryExecution().executedPlan())
    return [(one._3().maxMethodCodeSize(), one._2()) for one in (stages.apply(n) for n in range(stages.size()))]


def test_the_code_for_every_record_is_compiled(spark: SparkSession) -> None:
    assert all(0 < size < LONGEST for size, _ in generated(to_topic(spark, 10**13)))


def test_batches_have_the_same_code(spark: SparkSession) -> None:
    """Their times differ, and nothing else does."""
    first, second = (generated(to_topic(spark, latest)) for latest in (10**13, 10**13 + 1))
    assert first == second


def test_twin_a_letter_in_the_code_of_every_record(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def inlined(values: Column, function: Any) -> Column:
        return F.array(function(values[0]))

    monkeypatch.setattr(F, "transform", inlined)
    assert not all(0 < size < LONGEST for size, _ in generated(to_topic(spark, 10**13)))


def test_twin_a_time_in_the_code(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(F, "get", lambda values, _: values[0])
    first, second = (generated(to_topic(spark, latest)) for latest in (10**13, 10**13 + 1))
    assert first != second

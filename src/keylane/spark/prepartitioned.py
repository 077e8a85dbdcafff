"""A frame of records that lie in lanes already, declared to Spark as such: a join by lane then moves none of them.

Rule: lane i is read by one task, and all its rows carry the lane key of i, whose hash is i (`placement.lane_keys`). So
the frame is what an exchange by lane key would give, and it is declared as such: its partitioning is
`hashpartitioning(lane_key, n)`. The claim is true by construction, for a key that the rows themselves do not decide.

Only the tried versions of Spark, in the driver's own process, can be given this. Elsewhere `claimed` gives the same
rows without the claim: the same results, after an exchange.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from keylane.errors import SparkError
from keylane.placement.lane_keys import lane_keys
from keylane.spark.java_calls import TRIED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def can_claim() -> bool:
    """Whether this Spark accepts the claim."""
    return not is_remote() and pyspark.__version__.startswith(TRIED)


def claimed(spark: SparkSession, lanes: Sequence[DataFrame], key: str) -> DataFrame:
    """The frames of lanes 0 to n-1, all of one schema, as one; `key` names the column that gets the lane key."""
    keys = lane_keys(len(lanes))
    keyed = [lane.withColumn(key, F.lit(number).cast("int")) for lane, number in zip(lanes, keys, strict=True)]
    if not can_claim():
        return reduce(lambda left, right: left.unionAll(right), keyed)
    return _partitioned_by(spark, [lane.coalesce(1) for lane in keyed], key)


def _partitioned_by(spark: SparkSession, parts: Sequence[DataFrame], key: str) -> DataFrame:
    from pyspark.sql.classic.column import _to_seq
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    context: Any = spark.sparkContext
    java, session = context._jvm, spark._jsparkSession
    rows = [part._jdf.queryExecution().toRdd() for part in parts]
    if any(rdd.getNumPartitions() != 1 for rdd in rows):
        raise SparkError.of("a lane is not read by one task", hint="a bug in keylane; please report it")
    # Within a lane the key is one value, so the rows are in its order too: no sort is needed either.
    plan = parts[0].sort(key)._jdf.queryExecution().analyzed()
    attributes = plan.output()
    by_key = next(attributes.apply(n) for n in range(attributes.size()) if attributes.apply(n).name() == key)
    physical, none = java.org.apache.spark.sql.catalyst.plans.physical, java.scala.Option.empty()
    row = java.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")
    union = java.org.apache.spark.rdd.UnionRDD(
        context._jsc.sc(), _to_seq(context, rows), java.scala.reflect.ClassTag.apply(row)
    )
    relation = java.org.apache.spark.sql.execution.LogicalRDD(
        attributes,
        union,
        physical.HashPartitioning(_to_seq(context, [by_key]), len(parts)),
        plan.order(),
        False,
        none,
        session,
        none,
        none,
    )
    try:
        return ClassicFrame(java.org.apache.spark.sql.classic.Dataset.ofRows(session, relation), spark)
    except PySparkException as error:
        raise SparkError.of("Spark does not accept the partitioning of the lanes", got=str(error)) from error

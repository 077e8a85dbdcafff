"""Java methods as columns: what Spark's JVM has and PySpark has no name for. All private names of Spark are here.

There are two backends, and `java_backend` tells which one a session has:

static    an expression of Spark's own that calls the method inside generated code: as fast as a builtin. Private, so
          only for the versions it was tried on, and only where the driver shares a process with the JVM (classic).
arrow     no call: the key goes to a Python worker, and `hashes` hashes it there a batch at a time. For Spark Connect.

What is called: Apache Commons Codec and Guava, which are jars of Spark itself. No jar of keylane's own exists.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from pyspark.sql import Column

JavaBackend: TypeAlias = Literal["static", "arrow"]

#: The versions whose StaticInvoke was tried; any other one uses Arrow until it has been tried.
TRIED: Final = ("4.2.",)
MURMUR2: Final = "org.apache.commons.codec.digest.MurmurHash2"
#: A known hash: what the class must return before it is trusted with lanes.
PROBE: Final = ("21", -973932308)


@lru_cache(maxsize=8)
def java_backend(spark: SparkSession) -> JavaBackend:
    """The fastest backend this session has, tried on one known key. Asked once for each session."""
    if is_remote() or not pyspark.__version__.startswith(TRIED):
        return "arrow"
    key, known = PROBE
    try:
        hash32 = _jvm(spark).org.apache.commons.codec.digest.MurmurHash2.hash32
        return "static" if hash32(key.encode(), len(key)) == known else "arrow"
    except (Py4JError, AttributeError, TypeError):
        return "arrow"


def static_call(class_name: str, method: str, result: str, *arguments: Column) -> Column:
    """A call inside Spark's generated code; null when an argument is. `result` is the name of a Spark type."""
    from pyspark.sql.classic.column import Column as ClassicColumn
    from pyspark.sql.classic.column import _to_seq

    spark = SparkSession.active()
    context, jvm = spark.sparkContext, _jvm(spark)
    column = jvm.org.apache.spark.sql.classic.ExpressionUtils
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions.objects
    inputs = _to_seq(context, [column.expression(argument._jc) for argument in arguments])
    # In order: the types to check inputs against (none), null in gives null out, may be null, deterministic.
    call = catalyst.StaticInvoke(
        jvm.java.lang.Class.forName(class_name),
        jvm.org.apache.spark.sql.types.DataType.fromJson(f'"{result}"'),
        method,
        inputs,
        _to_seq(context, []),
        True,
        True,
        True,
        jvm.scala.Option.empty(),
    )
    return ClassicColumn(column.column(call))


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm

"""Java methods as columns: what Spark's JVM has and PySpark has no name for. All private names of Spark are here.

Three ways to ask, and `java_way` says which one a session has:

static    an expression of Spark's own that calls the method inside generated code: as fast as a builtin. Private, so
          only for the versions it was tried on, and only where the driver shares a process with the JVM (classic).
reflect   the SQL function `java_method`: text in, text out. Also over Spark Connect; about a third of the speed.
arrow     neither: the key goes to a Python worker, and `hashes` hashes it there a batch at a time.

What is called: Apache Commons Codec and Guava, which are jars of Spark itself. No jar of keylane's own exists.
"""

# ruff: noqa: SLF001 - private members of Spark are this module's business, and no other's
from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = ["JavaWay", "java_way", "reflected", "static_call"]

JavaWay: TypeAlias = Literal["static", "reflect", "arrow"]

#: The versions whose StaticInvoke was tried; another one gets the public way until somebody has looked.
TRIED: Final = ("4.2.",)
MURMUR2: Final = "org.apache.commons.codec.digest.MurmurHash2"
#: A known hash: what a class of that name must give before it is trusted with lanes.
PROBE: Final = ("21", -973932308)


@lru_cache(maxsize=8)
def java_way(spark: SparkSession) -> JavaWay:
    """The fastest way this session has, tried on one known key. Asked once for each session."""
    if not is_remote() and pyspark.__version__.startswith(TRIED) and _static_works(spark):
        return "static"
    return "reflect" if _reflect_works(spark) else "arrow"


def _static_works(spark: SparkSession) -> bool:
    key, known = PROBE
    try:
        hash32 = _jvm(spark).org.apache.commons.codec.digest.MurmurHash2.hash32
        return bool(hash32(key.encode(), len(key)) == known)
    except (Py4JError, AttributeError, TypeError):
        return False


def _reflect_works(spark: SparkSession) -> bool:
    """Some platforms forbid reflection; asking is the only way to know."""
    key, known = PROBE
    try:
        row = spark.range(1).select(reflected(MURMUR2, "hash32", F.lit(key)).alias("h")).first()
    except PySparkException:
        return False
    return row is not None and row["h"] == str(known)


def reflected(class_name: str, method: str, text: Column) -> Column:
    """What a static method of one text argument returns, as text; null where it fails, for null text too."""
    return F.try_reflect(F.lit(class_name), F.lit(method), text)


def static_call(class_name: str, method: str, result: str, *arguments: Column) -> Column:
    """A call inside Spark's generated code; null when an argument is. `result` is the name of a Spark type."""
    from pyspark.sql.classic.column import Column as ClassicColumn
    from pyspark.sql.classic.column import _to_seq

    spark = _active()
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


def _active() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.active()


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm

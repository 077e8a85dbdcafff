"""Java methods as columns: what Spark's JVM has and PySpark has no name for. All private names of Spark are here.

There are two backends, and `java_backend` tells which one a session has:

static    an expression of Spark's own that calls the method inside generated code: as fast as a builtin. Private, so
          only for the versions it was tried on, and only where the driver shares a process with the JVM (classic).
arrow     no call: the key goes to a Python worker, and `hashes` hashes it there a batch at a time. For Spark Connect.

What is called: Apache Commons Codec, Guava and Hadoop's client, which are jars of Spark itself. No jar of keylane's own
exists.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import pyspark
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

JavaBackend: TypeAlias = Literal["static", "arrow"]

#: The versions whose StaticInvoke was tried; any other one uses Arrow until it has been tried.
TRIED: Final = ("4.2.",)
MURMUR2: Final = "org.apache.commons.codec.digest.MurmurHash2"
#: Reads numbers inside of bytes, without a copy of them.
NUMBERS: Final = "org.apache.hadoop.io.WritableComparator"
DIGESTERS: Final = "org.apache.hadoop.io.MD5Hash"
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
        hadoop = _jvm(spark).org.apache.hadoop.io
        right = (hash32(key.encode(), len(key)), hadoop.WritableComparator.readInt(b"\0\0\0\0\x07", 1)) == (known, 7)
        hadoop.MD5Hash.getDigester()
    except (Py4JError, AttributeError, TypeError):
        return "arrow"
    return "static" if right else "arrow"


def static_call(class_name: str, method: str, result: str, *arguments: Column) -> Column:
    """A call inside Spark's generated code; null when an argument is. `result` is the name of a Spark type."""
    spark = SparkSession.active()
    kind = _jvm(spark).org.apache.spark.sql.types.DataType.fromJson(f'"{result}"')
    return _column(spark, _static(spark, class_name, method, kind, arguments))


def md5(data: Column) -> Column:
    """The MD5 of bytes, as 16 bytes; null when they are. A digester for each thread, which Hadoop keeps."""
    spark = SparkSession.active()
    types = _jvm(spark).org.apache.spark.sql.types
    digester = types.ObjectType(_class(spark, "java.security.MessageDigest"))
    target, none = _static(spark, DIGESTERS, "getDigester", digester, ()), _expressions(spark, ())
    invoke = _jvm(spark).org.apache.spark.sql.catalyst.expressions.objects.Invoke
    given, binary = _expressions(spark, (data,)), types.DataType.fromJson('"binary"')
    # In order, as below: the types to check inputs against, null in gives null out, may be null, deterministic.
    return _column(spark, invoke(target, "digest", binary, given, none, True, True, True))


def _static(spark: SparkSession, class_name: str, method: str, result: Any, arguments: Sequence[Column]) -> Any:
    jvm, none = _jvm(spark), _expressions(spark, ())
    # In order: the types to check inputs against (none), null in gives null out, may be null, deterministic.
    flags = (True, True, True, jvm.scala.Option.empty())
    invoke = jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
    return invoke(_class(spark, class_name), result, method, _expressions(spark, arguments), none, *flags)


def _expressions(spark: SparkSession, columns: Sequence[Column]) -> Any:
    from pyspark.sql.classic.column import _to_seq

    of = _jvm(spark).org.apache.spark.sql.classic.ExpressionUtils.expression
    return _to_seq(spark.sparkContext, [of(one._jc) for one in columns])


def _column(spark: SparkSession, expression: Any) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(_jvm(spark).org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def _class(spark: SparkSession, name: str) -> Any:
    return _jvm(spark).java.lang.Class.forName(name)


def integer_at(data: Column, at: Column) -> Column:
    """The four big-endian bytes from a place on, as a signed number."""
    return static_call(NUMBERS, "readInt", "integer", data, at)


def long_at(data: Column, at: Column) -> Column:
    """The eight big-endian bytes from a place on, as a signed number."""
    return static_call(NUMBERS, "readLong", "long", data, at)


def java_column(function: Any, *arguments: Column) -> Column:
    """The column that a function of keylane's own Java makes of others."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(function.column(*(cast("ClassicColumn", one)._jc for one in arguments)))


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm

"""Parquet times in nanoseconds, as pandas writes them: read as microseconds, which is what Spark has, and none cut.

Spark reads such a column as whole numbers with a setting (`NANOS_AS_LONG`). Here they become times again, at the
top of a record or inside it. A record with a time that is not a whole number of microseconds is marked, so that it
becomes a dead letter, and its dead letter has the times to their last digit. Who reads files: `read_parquet`, `scan`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keylane.spark.keys import floor_divided

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    #: What becomes of one time: the column of its nanoseconds, and whether it has a zone.
    Leaf = Callable[[Column, bool], Column]

#: Without it Spark refuses a file that has such a column, also where nobody asks for it.
NANOS_AS_LONG: Final = "spark.sql.legacy.parquet.nanosAsLong"


def has_nanoseconds(read: DataType, kind: pa.DataType) -> bool:
    """Whether Spark reads times in nanoseconds as numbers here; `kind` is the type that the footer says.

    Old times of 96 bits are nanoseconds to Arrow too, and Spark reads those as times.
    """
    if isinstance(read, LongType):
        return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")
    return any(has_nanoseconds(part, held) for part, held in _inside(read, kind))


def with_times(read: DataType, kind: pa.DataType) -> DataType:
    """The type that a column has once its numbers are times."""
    if not has_nanoseconds(read, kind):
        return read
    if isinstance(read, StructType):
        parts = zip(read.fields, _inside(read, kind), strict=True)
        return StructType([StructField(field.name, with_times(*both)) for field, both in parts])
    if isinstance(read, ArrayType):
        return ArrayType(with_times(read.elementType, kind.value_type))
    if isinstance(read, MapType):
        return MapType(with_times(read.keyType, kind.key_type), with_times(read.valueType, kind.item_type))
    return TimestampType() if kind.tz else TimestampNTZType()


def as_times(column: Column, read: DataType, kind: pa.DataType) -> Column:
    """The column with times in microseconds; what is below one is left out, and found by `is_finer`."""
    return _mapped(column, read, kind, _time)


def as_text(column: Column, read: DataType, kind: pa.DataType) -> Column:
    """The column with its times as text of nine digits: what a dead letter shows."""
    return _mapped(column, read, kind, _written)


def is_finer(column: Column, read: DataType, kind: pa.DataType) -> Column:
    """Whether a time of the column is not a whole number of microseconds; never null."""
    if isinstance(read, LongType):
        return F.coalesce(column % 1000 != 0, F.lit(False))
    if isinstance(read, StructType):
        parts = zip(read.names, _inside(read, kind), strict=True)
        found = [is_finer(column[name], *both) for name, both in parts if has_nanoseconds(*both)]
        return reduce(or_, found)
    lists = [column] if isinstance(read, ArrayType) else [F.map_keys(column), F.map_values(column)]
    pairs = zip(lists, _inside(read, kind), strict=True)
    return reduce(or_, [_one_is_finer(items, *both) for items, both in pairs if has_nanoseconds(*both)])


def _one_is_finer(items: Column, read: DataType, kind: pa.DataType) -> Column:
    return F.coalesce(F.exists(items, lambda item: is_finer(item, read, kind)), F.lit(False))


def _time(nanos: Column, zoned: bool) -> Column:
    at = F.timestamp_micros(floor_divided(nanos, 1000))
    # The session of a pipeline is in UTC, so nothing is moved.
    return at if zoned else at.cast("timestamp_ntz")


def _written(nanos: Column, zoned: bool) -> Column:
    micros = F.date_format(_time(nanos, zoned=True), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    below = F.lpad(F.pmod(nanos, F.lit(1000)).cast("string"), 3, "0")
    return F.concat(micros, below, F.lit("Z" if zoned else ""))


def _mapped(column: Column, read: DataType, kind: pa.DataType, leaf: Leaf) -> Column:
    if not has_nanoseconds(read, kind):
        return column
    if isinstance(read, StructType):
        parts = zip(read.names, _inside(read, kind), strict=True)
        made = F.struct(*(_mapped(column[name], *both, leaf).alias(name) for name, both in parts))
        return F.when(column.isNotNull(), made)
    if isinstance(read, ArrayType):
        return F.transform(column, lambda item: _mapped(item, read.elementType, kind.value_type, leaf))
    if isinstance(read, MapType):
        keys = F.transform_keys(column, lambda key, _: _mapped(key, read.keyType, kind.key_type, leaf))
        return F.transform_values(keys, lambda _, value: _mapped(value, read.valueType, kind.item_type, leaf))
    return leaf(column, kind.tz is not None)


def _inside(read: DataType, kind: pa.DataType) -> list[tuple[DataType, pa.DataType]]:
    """The types inside a type, as Spark reads them and as the footer says."""
    if isinstance(read, StructType) and pa.types.is_struct(kind):
        return [(field.dataType, kind.field(field.name).type) for field in read.fields]
    if isinstance(read, MapType) and pa.types.is_map(kind):
        return [(read.keyType, kind.key_type), (read.valueType, kind.item_type)]
    if isinstance(read, ArrayType) and hasattr(kind, "value_type"):
        return [(read.elementType, kind.value_type)]
    return []

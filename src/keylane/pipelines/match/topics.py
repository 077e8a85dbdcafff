"""Topics as sources of a match: up to where they end when it begins, as committed. Following them: `stream`.

The fields are looked for in the value, whose form the user says; JSON when nothing is said. `key` is the record's key
and `timestamp` its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, StringType

from keylane.pipelines.kafka.profile import ranges_of, read_between, reading_of
from keylane.pipelines.kafka.values import fields_of
from keylane.pipelines.match.reading import ORIGINAL, SOURCE
from keylane.pipelines.match.sources import Found, lane_place
from keylane.spark.decoding import from_key, from_value
from keylane.spark.files import MALFORMED, PLACE
from keylane.systems.kafka_access import kafka_access

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from keylane.pipelines.match.options import Columns, Options
    from keylane.systems.address import Address

__all__ = ["find_topic", "raw_messages", "read_topic"]

_TYPED: Final = ("json", None)


def find_topic(side: str, address: Address, columns: Columns, given: Options) -> Found:
    """A topic that is there: its lanes, and what there is of each now."""
    ranges = ranges_of(kafka_access(address.place, given.kafka.properties), address.name, None, lambda _: None)
    return Found(side, address, columns, len(ranges), ranges=tuple(ranges))


def read_topic(spark: SparkSession, found: Found, given: Options) -> DataFrame:
    """The raw frame of a topic, between the offsets that were found."""
    access = kafka_access(found.address.place, given.kafka.properties)
    frame = read_between(spark, access, found.address.name, found.ranges)
    return raw_messages(frame, found.columns, given)


def raw_messages(frame: DataFrame, columns: Columns, given: Options) -> DataFrame:
    """What the connector reads, of a batch or of a stream, as a raw frame. The partition stays as `keylane_part`."""
    fields, unread = _fields(columns, given)
    text = F.col("value").cast("string")
    original = F.when(F.is_valid_utf8(text), text).otherwise(F.base64("value"))
    source = F.concat_ws("/", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))
    return frame.select(
        *(_text_of_key(column, name).alias(name) for name, column in fields.items()),
        lane_place(F.col("offset"), F.col("partition")).alias(PLACE),
        source.alias(SOURCE),
        original.alias(ORIGINAL),
        F.col("partition").alias("keylane_part"),
        F.coalesce(unread, F.lit(False)).alias(MALFORMED) if unread is not None else F.lit(False).alias(MALFORMED),
    )


def _text_of_key(column: Column, name: str) -> Column:
    """A key is bytes, and an id is text: bytes that are none are no id."""
    if name != "key":
        return column
    text = column.cast("string")
    return F.when(F.is_valid_utf8(text), text)


def _fields(columns: Columns, given: Options) -> tuple[dict[str, Column], Column | None]:
    names = list(dict.fromkeys([*columns.needed, columns.available or "available"]))
    types: dict[str, DataType] = dict.fromkeys(names, StringType())
    types |= {columns.lat: DoubleType(), columns.lng: DoubleType(), columns.available or "available": BooleanType()}
    reading = reading_of(dict.fromkeys(names, "utf8"))
    if given.kafka.value in _TYPED:
        found, unread = from_value(reading, "json", types)
        return {**from_key(reading), **found}, unread
    found, unread = fields_of(reading, given.kafka)
    return {name: _cast(column, types[name]) for name, column in found.items()}, unread


def _cast(column: Column, kind: DataType) -> Column:
    return column if isinstance(kind, StringType) else column.try_cast(kind)

"""A batch of a source as a frame of events: in the columns that `MatchRules.java` names, then those that queries read.

    partition int | offset bigint | a line that could not be read string | a time for each time field bigint | columns

Only columns that a query reads are read. Columns of JSON and CSV get their types from the first batch that has
them and keep them, but for whole numbers, which become doubles when one with a point comes: what does not fit is a dead
letter. A column that no event has is null. Values in Avro and Protobuf have the types of their schema
(`systems.messages.records`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keylane.errors import DataError
from keylane.pipelines.aggregate.options import UNITS
from keylane.spark.messages import decoded, json_text
from keylane.spark.read_parquet import address, read_parquet
from keylane.systems.messages.records import read_records, record_form
from keylane.systems.messages.values import UNREAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.aggregation.query import Query
    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.spark.read_parquet import SourceFile
    from keylane.systems.messages.records import RecordKind

MALFORMED: Final = "keylane_malformed"
#: The place of a message, and its value on the way.
_PLACE: Final = ("keylane_in", "keylane_at")
_TEXT, _READ = "keylane_text", "keylane_read"
#: What Spark gets of a field that is no whole number.
_DECODED: Final = {"degrees": "double", "text": "string", "flag": "string"}
#: The first columns of a frame of events.
_OWN: Final = ("keylane_partition", "keylane_offset", MALFORMED)


@dataclass(frozen=True, slots=True)
class Events:
    """Events of a batch, the time fields that they have, and the types of columns that are known by now.

    `refused` are columns that queries read and events cannot have, with the reason.
    """

    frame: DataFrame
    times: tuple[str, ...]
    known: StructType
    #: Columns that queries read and no event has.
    absent: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class EventReader:
    """Reads the columns that queries need. `known` are the columns of JSON and CSV with their types, so far."""

    spark: SparkSession
    options: AggregateOptions
    known: StructType = field(default_factory=StructType)

    def of_files(self, files: Sequence[SourceFile], kind: str, folder: Path, queries: Sequence[Query]) -> Events:
        """The events of files."""
        names = needed(queries)
        if kind == "parquet":
            raw = self._parquet(files, folder)
        elif kind == "json":
            self._learn(names, self.spark.read.json([address(file) for file in files]).schema)
            raw = self._typed(names).json([address(file) for file in files])
        else:
            raw = self._csv(files, names)
        malformed = F.lit(None).cast("string") if kind == "parquet" else F.col(MALFORMED)
        return self._events(raw, queries, malformed)

    def of_messages(self, frame: DataFrame, queries: Sequence[Query]) -> Events:
        """The events that are the values of messages: one JSON object each, or one record by the schema."""
        names, text = needed(queries), json_text()
        if self.options.stream.value in {"avro", "protobuf"}:
            return self._of_records(frame, queries)
        self._learn(names, self._json_schema(frame.select(text)))
        read = F.from_json(text, self._shape(names), {"columnNameOfCorruptRecord": MALFORMED})
        at = (F.col("partition").alias(_PLACE[0]), F.col("offset").alias(_PLACE[1]))
        raw = frame.select(*at, text.alias(_TEXT), read.alias(_READ)).select(*_PLACE, _TEXT, f"{_READ}.*")
        # A value that is null, or blank, is no object, and Spark calls it neither good nor bad.
        blank = F.when(F.col(_TEXT).isNull() | (F.trim(_TEXT) == ""), F.coalesce(F.col(_TEXT), F.lit("")))
        return self._events(raw, queries, F.coalesce(F.col(MALFORMED), blank), (F.col(_PLACE[0]), F.col(_PLACE[1])))

    def _of_records(self, frame: DataFrame, queries: Sequence[Query]) -> Events:
        """Values in Avro or Protobuf. One that cannot be read is a dead letter in base64."""
        form = record_form(self.options.stream, needed(queries))

        def decode(values: pa.Array) -> pa.Array:
            return read_records(form, values)

        kinds = {path: _DECODED.get(kind, "bigint") for path, kind in form.kinds}
        at = (F.col("partition").alias(_PLACE[0]), F.col("offset").alias(_PLACE[1]))
        read = frame.select(*at, F.col("value").alias(_TEXT), decoded(kinds, decode, UNREAD).alias(_READ))
        cells = {path: _as_kind(F.col(_READ).getField(path), kind) for path, kind in form.kinds}
        raw = read.select(*_PLACE, _TEXT, F.col(_READ).getField(UNREAD).alias(UNREAD), *_nested(cells))
        text = F.coalesce(F.base64(F.col(_TEXT)), F.lit(""))
        unread = F.when(F.col(_TEXT).isNull() | F.col(UNREAD), text)
        found = self._events(raw, queries, unread, (F.col(_PLACE[0]), F.col(_PLACE[1])))
        return replace(found, refused=form.refused)

    def _json_schema(self, texts: DataFrame) -> StructType:
        """The columns of JSON texts with their types, as Spark infers them of files."""
        java: Any = self.spark.sparkContext._jvm  # noqa: SLF001  Java's
        frame: Any = texts
        lines = getattr(frame._jdf, "as")(java.org.apache.spark.sql.Encoders.STRING())  # noqa: SLF001  Java's
        found = frame.sparkSession._jsparkSession.read().json(lines)  # noqa: SLF001  Java's
        return StructType.fromJson(json.loads(found.schema().json()))

    def _events(
        self,
        raw: DataFrame,
        queries: Sequence[Query],
        malformed: Column,
        place: tuple[Column, Column] | None = None,
    ) -> Events:
        there = raw.schema
        times = [name for name in dict.fromkeys(query.time for query in queries) if _type_of(there, name) is not None]
        names = [name for name in needed(queries) if name not in _OWN]
        absent = tuple(name for name in names if name not in there.names)
        columns = [_column(name) if name in there.names else F.lit(None).cast("string").alias(name) for name in names]
        partition, offset = place or (F.lit(0), F.lit(None).cast("bigint"))
        frame = raw.select(
            partition.alias(_OWN[0]),
            offset.alias(_OWN[1]),
            malformed.alias(_OWN[2]),
            *(self._time(there, name).alias(f"keylane_time_{number}") for number, name in enumerate(times)),
            *columns,
        )
        return Events(frame, tuple(times), self.known, absent)

    def _time(self, there: StructType, name: str) -> Column:
        """A time field in microseconds; null where it is none."""
        kind, column, tick = _type_of(there, name), _path(name), UNITS[self.options.unit]
        if isinstance(kind, TimestampType | TimestampNTZType | DateType):
            return F.unix_micros(column.cast("timestamp"))
        if isinstance(kind, IntegralType):
            return F.try_multiply(column.cast("bigint"), F.lit(tick).cast("bigint"))
        if isinstance(kind, DoubleType | FloatType | DecimalType):
            return (column.cast("double") * F.lit(float(tick))).try_cast("bigint")
        if isinstance(kind, StringType):
            number = F.try_multiply(column.try_cast("bigint"), F.lit(tick).cast("bigint"))
            return F.coalesce(number, F.unix_micros(column.try_cast("timestamp")))
        raise DataError.of(f"the time field {name} is of a type that is no time", got=kind and kind.simpleString())

    # Columns of files.

    def _parquet(self, files: Sequence[SourceFile], folder: Path) -> DataFrame:
        footers = [pq.read_metadata(file.path).schema for file in files]
        if any(_has_nanoseconds(footer) for footer in footers):
            return read_parquet(self.spark, files, None, 0, {}).frame
        alike = all(footer.equals(footers[0]) for footer in footers)
        base = folder if folder.is_dir() else folder.parent
        reader = self.spark.read.option("mergeSchema", value=not alike).option("basePath", f"file://{base}")
        return reader.parquet(*(address(file) for file in files))

    def _shape(self, names: Sequence[str]) -> StructType:
        found = [one for one in self.known.fields if one.name in names]
        # Spark reads no lines for the sake of those alone that it cannot read.
        own = found or [StructField(names[0], StringType())]
        return StructType([*own, StructField(MALFORMED, StringType())])

    def _typed(self, names: Sequence[str]) -> Any:
        return self.spark.read.schema(self._shape(names)).option("columnNameOfCorruptRecord", MALFORMED)

    def _csv(self, files: Sequence[SourceFile], names: Sequence[str]) -> DataFrame:
        """Files whose header lines are alike are read together: Spark gives names to cells by their number."""
        sign, nulls = self.options.stream.delimiter, self.options.stream.csv_null
        how = {"header": "true", "sep": sign, "nullValue": nulls[0] if nulls else ""}
        paths = [address(file) for file in files]
        self._learn(names, self.spark.read.options(**how, inferSchema="true").csv(paths).schema)
        by_header: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            header = tuple(self.spark.read.options(**how).csv(path).columns)
            by_header.setdefault(header, []).append(path)
        frames = []
        for header, alike in by_header.items():
            kinds = {one.name: one.dataType for one in self.known.fields}
            shape = StructType([StructField(name, kinds.get(name, StringType())) for name in header])
            shape = StructType([*shape.fields, StructField(MALFORMED, StringType())])
            reader = self.spark.read.schema(shape).options(**how, columnNameOfCorruptRecord=MALFORMED)
            frames.append(reader.csv(alike))
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionByName(frame, allowMissingColumns=True)
        return whole

    def _learn(self, names: Sequence[str], found: StructType) -> None:
        """Give types to columns that have none yet, by the events of this batch; whole numbers may become doubles."""
        new = {one.name: one.dataType for one in found.fields if one.name in names}
        known = {one.name: one.dataType for one in self.known.fields}
        for name, kind in new.items():
            is_wider = isinstance(known.get(name), IntegralType) and isinstance(kind, DoubleType)
            if name not in known or is_wider:
                known[name] = kind
        self.known = StructType([StructField(name, kind) for name, kind in known.items()])


def _as_kind(column: Column, kind: RecordKind) -> Column:
    """A field of a record as queries see it: what its schema calls a time is one."""
    match kind:
        case "flag":
            return column == "true"
        case "millis":
            return F.timestamp_millis(column)
        case "micros":
            return F.timestamp_micros(column)
        case "nanos":
            return F.timestamp_micros(F.floor(column / 1000))
        case "days":
            return F.date_from_unix_date(column.cast("int"))
    return column


def _nested(cells: Mapping[str, Column]) -> list[Column]:
    """Fields by their paths as columns, those within others in structs; one is null where all that is in it is."""
    tops: dict[str, dict[str, Column]] = {}
    for path, column in cells.items():
        top, _, rest = path.partition(".")
        tops.setdefault(top, {})[rest] = column
    return [inner[""].alias(top) if "" in inner else _struct(inner).alias(top) for top, inner in tops.items()]


def _struct(cells: Mapping[str, Column]) -> Column:
    is_there = reduce(or_, (column.isNotNull() for column in cells.values()))
    return F.when(is_there, F.struct(*_nested(cells)))


def needed(queries: Sequence[Query]) -> list[str]:
    """The columns that queries read."""
    return list(dict.fromkeys(name for query in queries for name in query.columns))


def _has_nanoseconds(schema: pq.ParquetSchema) -> bool:
    """Times that Spark cannot read by itself; those of 96 bits, which Arrow calls nanoseconds too, it can."""
    columns = [schema.column(number) for number in range(len(schema))]
    return any(one.physical_type == "INT64" and "nanoseconds" in str(one.logical_type) for one in columns)


def _type_of(schema: StructType, path: str) -> DataType | None:
    held: DataType = schema
    for name in path.split("."):
        if not isinstance(held, StructType) or name not in held.names:
            return None
        held = held[name].dataType
    return held


def _column(name: str) -> Column:
    return F.col(f"`{name}`")


def _path(name: str) -> Column:
    return F.col(".".join(f"`{part}`" for part in name.split(".")))

"""A source that is ready to be counted, and what it is made of: `profile` and `geo table`.

    Scan           the answer to a `profile.scan.ScanRequest`: a frame of keys with times or positions, and windows
    scan_rows      rows of columns -> Scan
    scan_messages  messages of a lane each -> Scan
    read_columns, read_line_columns   some columns of many files as rows, each with its position among all

Only the requested columns are read. Positions run over the files in the order of their names. What the records
of a route need beyond that, whole and marked: `read_parquet`, `read_lines`. Who scans: `systems.endpoint.Endpoint`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ByteType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keylane.contract.fields import TIME, paths_in, steps_of
from keylane.errors import DataError, UnknownNameError
from keylane.keys.read import names_in_json
from keylane.keys.times import TimeEnds
from keylane.profile.model import position_windows, time_windows, windows_for
from keylane.profile.scan import MOST_LANES, NO_LANE, time_facts
from keylane.spark.count_keys import AT, SIZE
from keylane.spark.keys import TYPES, column_named, field_of, floor_divided, has_field, schema_tree
from keylane.spark.nanoseconds import NANOS_AS_LONG
from keylane.spark.read_lines import read_csv, read_json
from keylane.spark.read_parquet import LANE, LINE, MALFORMED, PLACE, POSITION, address, file_of, local, picked
from keylane.spark.times import micros_of, range_in, tick_of, unit_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from keylane.contract.fields import FieldSpec
    from keylane.placement.ranges import KeySpace
    from keylane.profile.model import Windows
    from keylane.profile.scan import ScanRequest
    from keylane.spark.keys import Field
    from keylane.spark.read_parquet import SourceFile

_PLAIN: Final = re.compile(r"[A-Za-z0-9/._=-]+")
_FILE: Final = "keylane_file"
#: Records whose names an error lists.
_SAMPLE: Final = 100
_STAMP: Final = "keylane_stamp"
#: The time of a message is in milliseconds.
_MILLISECOND: Final = 1000
_WIDTHS: Final[dict[type[DataType], int]] = {ByteType: 1, ShortType: 2, IntegerType: 4, LongType: 8}


@dataclass(frozen=True, slots=True)
class Scan:
    """A source that is ready to be counted.

    `frame` is as `spark.count_keys.counted` wants it. `records` is how many there are, or at most, where that is known;
    `exact` says that it is no bound. `size` is the bytes of the whole source, where records do not tell theirs.
    `untimed` is whether a record may have no time, `typed` whether columns have types of their own, and are not text.
    `names` looks up the fields that some records have, where they have no schema. `key_space` are the lanes as ranges.
    """

    frame: DataFrame
    windows: Windows
    records: int | None
    exact: bool
    lanes: int | None = None
    size: int | None = None
    untimed: bool = False
    typed: bool = True
    facts: dict[str, Any] = field(default_factory=dict)
    names: Callable[[], list[str]] = list
    key_space: KeySpace | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """The frame; how many positions there are, and how many records, where that is known without running a job.

    The frame has the requested columns, `keylane_position` where requested, `keylane_lane` where files lie in
    lanes, and `keylane_malformed` where a record may be unreadable.
    """

    frame: DataFrame
    positions: int
    records: int | None
    names: Callable[[], list[str]] = list


def named_in(frame: DataFrame, text: Column) -> Callable[[], list[str]]:
    """The names in the first records that are JSON objects, looked up when they are asked for."""
    sample = frame.where(text.isNotNull()).select(text).limit(_SAMPLE)
    return lambda: names_in_json(row[0] for row in sample.collect())


def scan_rows(
    rows: Rows,
    wanted: ScanRequest,
    *,
    lanes: int | None = None,
    size: int | None = None,
    typed: bool = True,
    facts: Mapping[str, Any] | None = None,
) -> Scan:
    """Rows of columns."""
    count = windows_for(wanted.windows, rows.records)
    about = {**(facts or {}), "time": wanted.time, "bytes": wanted.size}
    unread = F.col(MALFORMED) if MALFORMED in rows.frame.columns else None
    if wanted.time is None:
        windows, at, untimed = position_windows(rows.positions, count), F.col(POSITION), False
    else:
        time = field_of(wanted.time, rows.frame.schema)
        windows, at, untimed, found = _timed(rows.frame, time, wanted, count, unread)
        about |= found
    columns = [*map(column_named, wanted.key.fields), at.alias(AT)]
    if wanted.size is not None:
        size_of = _size(field_of(wanted.size, rows.frame.schema))
        columns.append(F.coalesce(_read(size_of, unread), F.lit(0)).alias(SIZE))
    if wanted.lane is not None:
        given = field_of(wanted.lane, rows.frame.schema)
        none = F.lit(False) if wanted.all_laned else _without_lane(given)
        columns.append(F.coalesce(_read(_lane(given, none), unread), F.lit(NO_LANE)).cast("int").alias(LANE))
        columns.append((none if unread is None else unread | none).alias(MALFORMED))
    else:
        columns += [F.col(name) for name in (LANE, MALFORMED) if name in rows.frame.columns]
    frame = rows.frame.select(*columns)
    exact = rows.records is not None
    return Scan(frame, windows, rows.records, exact, lanes, size, untimed, typed, about, rows.names)


def _read(column: Column, unread: Column | None) -> Column:
    """A column of the records that can be read; null for the others, which have no time, no size and no lane."""
    return column if unread is None else F.when(~unread, column)


def _without_lane(lane: Field) -> Column:
    """Whether a record has no lane: its cell is null, or empty."""
    return F.coalesce(lane.column == F.lit(""), F.lit(True)) if lane.kind == "string" else lane.column.isNull()


def _lane(lane: Field, none: Column) -> Column:
    """A column of lanes; null where a record has none, which then counts as unread."""
    if lane.kind not in ("integer", "string", "void"):
        raise DataError.of(f"column {lane.name!r} holds no lanes", got=lane.written, allowed="integers from 0")
    number = lane.column.try_cast("bigint")
    quote = F.lit("'" if lane.kind == "string" else "")
    got = F.coalesce(F.concat(quote, F.left(lane.column.cast("string"), F.lit(120)), quote), F.lit("'null'"))
    # `context.translated` finds it by its first word.
    allowed = f"; allowed: 0 to {MOST_LANES - 1}"
    error = F.concat(F.lit(f"column {lane.name!r} holds no lane: got "), got, F.lit(allowed))
    sound = F.when(number.between(0, MOST_LANES - 1), number).otherwise(F.raise_error(error))
    return F.when(~none, sound)


def _size(size: Field) -> Column:
    """A column of whole numbers is the length; one of bytes is as long as it is; text may be a number."""
    if size.kind == "integer":
        return F.coalesce(size.column.cast("bigint"), F.lit(0))
    if size.kind == "binary":
        return F.coalesce(F.octet_length(size.column).cast("bigint"), F.lit(0))
    if size.kind == "string":
        return F.coalesce(size.column.try_cast("bigint"), F.octet_length(size.column).cast("bigint"), F.lit(0))
    raise DataError.of(f"column {size.name!r} holds no lengths", got=size.written, allowed="whole numbers, bytes, text")


def _timed(
    frame: DataFrame, time: Field, wanted: ScanRequest, count: int, unread: Column | None = None
) -> tuple[Windows, Column, bool, dict[str, Any]]:
    """Windows between the first and the last time, the time of each record, whether some have none, and what is known.

    A time that is far from all others is null.
    """
    unit, sizes = unit_in(frame, time, unread) if wanted.form is None else (None, [])
    at = _read(micros_of(time, wanted.form), unread)
    found, without = range_in(frame, at, time, wanted.form)
    windows = time_windows(found.first, found.last, count, tick_of(time))
    near = F.when(at.between(found.first, found.last), at) if found.strays else at
    return windows, near, without + found.strays > 0, time_facts(wanted.form, unit, sizes, found)


def scan_messages(
    frame: DataFrame,
    sample: DataFrame,
    wanted: ScanRequest,
    fields: Mapping[str, Column],
    unread: Sequence[Column],
    ranges: Sequence[tuple[int, int]],
) -> Scan:
    """Messages with key, value, timestamp and partition: those of these offsets of each lane.

    `fields` are those of the key and the time, by their names; `unread` marks messages that cannot be read. `sample`
    has messages of both ends of each lane, by which windows are cut: the whole stream would be a second pass. Times
    need not rise along a lane, so some may lie outside: those are counted in the first or last window.
    """
    length = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    misread = [F.coalesce(F.greatest(*unread, F.lit(False)), F.lit(False)).alias(MALFORMED)] if unread else []
    read = frame.select(
        *(column.alias(name) for name, column in fields.items()),
        F.col(TIME).alias(_STAMP),
        length.cast("bigint").alias(SIZE),
        F.col("partition").alias(LANE),
        *misread,
    )
    records = sum(end - start for start, end in ranges)
    count = windows_for(wanted.windows, records)
    if wanted.time not in {None, TIME}:
        misread_value = F.col(MALFORMED) if unread else None
        windows, at, untimed, about = _timed(
            read, field_of(str(wanted.time), read.schema), wanted, count, misread_value
        )
    else:
        # A record without a time of its own has one less than zero.
        stamp, looked = F.unix_micros(TIME), TimeEnds()
        looked.add(np.array([row[0] for row in sample.where(stamp >= 0).select(stamp).collect()], np.int64))
        at = F.unix_micros(_STAMP)
        own = field_of(_STAMP, read.schema)
        ends = looked.range() or range_in(read, F.when(at >= 0, at), own, None)[0]
        windows, untimed = time_windows(ends.first, ends.last, count, _MILLISECOND), False
        about = time_facts(None, None, [], ends)
    facts: dict[str, Any] = {"time": wanted.time or TIME, "bytes": "key and value", "seconds": wanted.seconds, **about}
    facts["offsets"] = [list(one) for one in ranges]
    kept = [*wanted.key.fields, SIZE, LANE, *([MALFORMED] if unread else [])]
    counted = read.select(*map(column_named, kept), at.alias(AT))
    names = named_in(frame, F.col("value").cast("string"))
    return Scan(counted, windows, records, False, len(ranges), None, untimed, typed=False, facts=facts, names=names)


def url_of(spark: SparkSession, path: str) -> str:
    """A path as Spark's metadata spells it."""
    if _PLAIN.fullmatch(path):
        return f"file:{path}"
    java: Any = spark.sparkContext._jvm
    return str(java.org.apache.hadoop.fs.Path("file", None, path).toUri().toString())


def read_columns(
    spark: SparkSession,
    files: Sequence[SourceFile],
    rows: Sequence[int],
    shapes: Sequence[str],
    wanted: Sequence[str],
    lanes: Sequence[int] | None,
    *,
    positions: bool,
) -> Rows:
    """These columns of Parquet files; `rows` and `shapes` are what their footers hold."""
    spark.conf.set(NANOS_AS_LONG, "true")
    schema = _common(spark, files, shapes, wanted)
    read = spark.read.schema(schema).parquet(*map(address, files))
    inside = [name for name in wanted if has_field(name, schema)]
    in_paths = [name for name in wanted if name not in inside]
    # Times of 96 bits are nanoseconds in a footer as well, and Spark reads these as times.
    whole = [name for name in inside if field_of(name, schema).kind == "integer"]
    nanos = {name for name in whole if any(_is_of_nanoseconds(name, shape) for shape in shapes)}
    found = {name: field_of(name, schema).column for name in inside}
    # Spark has microseconds: it reads these as whole numbers, with a setting.
    found |= {name: F.timestamp_micros(floor_divided(found[name], 1000)) for name in nanos}
    columns = [column.alias(name) for name, column in found.items()]
    if not (positions or in_paths or lanes):
        return Rows(read.select(*columns), sum(rows), sum(rows))
    meta = F.col("_metadata")
    row = [meta["row_index"].alias("keylane_row")] if positions else []
    numbered = _numbered(spark, read.select(*columns, meta["file_path"].alias("keylane_url"), *row), files)
    file = F.col(_FILE).cast("int")
    from_paths = {name: [source.values.get(name) for source in files] for name in in_paths}
    extra = [picked(values, "string", file).alias(name) for name, values in from_paths.items()] + _lanes(lanes, file)
    if positions:
        starts = list(accumulate(rows, initial=0))
        extra.append((picked(starts, "bigint", file) + F.col("keylane_row")).alias(POSITION))
    return Rows(numbered.select(*map(column_named, inside), *extra), sum(rows), sum(rows))


def read_line_columns(
    spark: SparkSession,
    kind: str,
    files: Sequence[SourceFile],
    fields: FieldSpec,
    lanes: Sequence[int] | None,
    csv_null: Sequence[str] = (),
    delimiter: str = ",",
) -> Rows:
    """These columns of JSON lines or CSV. A column of JSON that no record has is a column of nulls."""
    wanted = {name: TYPES[fields.kind(name)] for name in fields.names}
    in_paths = [name for name in wanted if any(name in file.values for file in files)]
    inside = {name: held for name, held in wanted.items() if name not in in_paths}
    if kind == "json":
        read = read_json(spark, files, None, 0, inside, only=True, texts=fields.text)
    else:
        read = read_csv(spark, files, None, 0, inside, only=True, nulls=csv_null, delimiter=delimiter)
    for name in wanted:
        if name not in read.columns:
            raise UnknownNameError.among(f"column of {files[0].path}", name, read.columns)
    columns = [column_named(name) for name in wanted]
    kept = read.frame.select(*columns, MALFORMED, POSITION, *_lanes(lanes, file_of(F.col(PLACE))))
    names = named_in(read.frame, F.col(LINE)) if kind == "json" else list
    return Rows(kept, sum(read.rows), sum(read.records) - read.filtered, names)


def _is_of_nanoseconds(name: str, shape: str) -> bool:
    """Whether a footer's columns have this one as times in nanoseconds, as pandas writes them."""
    return re.search(rf"^{re.escape(name)}: timestamp\[ns", shape, re.MULTILINE) is not None


def _numbered(spark: SparkSession, read: DataFrame, files: Sequence[SourceFile]) -> DataFrame:
    """Each record with the number of its file. One file needs no looking up."""
    if len(files) == 1:
        return read.withColumn(_FILE, F.lit(0))
    numbers = local(spark, keylane_url=[file.url for file in files], keylane_file=list(range(len(files))))
    return read.join(F.broadcast(numbers), "keylane_url")


def _lanes(lanes: Sequence[int] | None, file: Column) -> list[Column]:
    return [] if lanes is None else [picked(lanes, "int", file).alias(LANE)]


def _common(
    spark: SparkSession, files: Sequence[SourceFile], shapes: Sequence[str], wanted: Sequence[str]
) -> StructType:
    """The wanted columns as all files have them: of one type, or of the widest integer type among them.

    Of a nested field it is the whole column that it lies in.
    """
    found: dict[str, DataType] = {}
    seen: dict[str, Any] = {}
    for shape, file in dict(zip(shapes, files, strict=True)).items():
        for name in wanted:
            odd = re.search(rf"^{re.escape(name)}: (uint64|time(?:32|64)\[\w+\])", shape, re.MULTILINE)
            if odd is not None:
                raise _not_on_spark(file, name, odd[1])
        schema = _schema_of(spark, file, wanted)
        seen |= schema_tree(schema)
        tops = {name if name in schema.names else steps_of(name)[0] for name in wanted}
        for one in schema.fields:
            if one.name in tops:
                kind = _read_as(one.dataType)
                found[one.name] = _wider(found.get(one.name, kind), StructField(one.name, kind), file.name)
    in_paths = {name for file in files for name in file.values}
    common = StructType([StructField(name, kind) for name, kind in found.items()])
    for name in wanted:
        if not has_field(name, common) and name not in in_paths:
            raise UnknownNameError.among("column of the source", name, [*paths_in(seen), *sorted(in_paths)])
    return common


def _schema_of(spark: SparkSession, file: SourceFile, wanted: Sequence[str]) -> StructType:
    """The columns of a file. One that Spark has no type for matters only where it is wanted."""
    try:
        return spark.read.parquet(address(file)).schema
    except PySparkException:
        known, held = [], pq.read_metadata(file.path).schema
        whole = {held.column(n).path for n in range(len(held)) if held.column(n).physical_type == "INT64"}
        tops = {part for name in wanted for part in (name, steps_of(name)[0])}
        for one in held.to_arrow_schema():
            finer = pa.types.is_timestamp(one.type) and one.type.unit == "ns" and one.name in whole
            kind = LongType() if finer else _spark_type(one.type)
            if kind is not None:
                known.append(StructField(one.name, kind))
            elif one.name in tops:
                raise _not_on_spark(file, one.name, str(one.type)) from None
        return StructType(known)


def _spark_type(kind: pa.DataType) -> DataType | None:
    """The type that Spark has for one of Arrow's; None where it has none, as for numbers of more than 38 digits."""
    try:
        return None if pa.types.is_decimal256(kind) else from_arrow_type(kind)
    except PySparkException:
        return None


def _not_on_spark(file: SourceFile, name: str, kind: str) -> DataError:
    # Of the types that Spark has none for, those are read in process that can be a key or a time.
    hint = "--engine local reads it" if kind == "uint64" else "choose another column, or write it as text or numbers"
    return DataError.of(f"{file.name}: Spark cannot read column {name!r}", got=kind, hint=hint)


def _read_as(kind: DataType) -> DataType:
    """A time without a zone is one in UTC, and its bytes are the same: a cast would look up the zone of each record."""
    return TimestampType() if isinstance(kind, TimestampNTZType) else kind


def _wider(known: DataType, field: StructField, where: str) -> DataType:
    widths = _WIDTHS.get(type(known)), _WIDTHS.get(type(field.dataType))
    if known == field.dataType:
        return known
    if widths[0] and widths[1]:
        return known if widths[0] > widths[1] else field.dataType
    got, allowed = field.dataType.simpleString(), known.simpleString()
    raise DataError.of(f"{where}: column {field.name!r} is of another type", got=got, allowed=allowed)

"""Parquet files of one batch as a frame of records, each with its position: which file of the batch, which row of it.

The position is one integer, `file << 40 | row`: it sorts as the source does, and survives a shuffle in eight bytes.
Parquet is read here; JSON lines and CSV, which are lines before they are records, in `read_lines`. Which files make a
batch is decided by Spark's file source (`pipelines.route`); where the records go is `frames.with_placements`'s.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from keylane.contract.fields import absent_name
from keylane.errors import DataError, UsageError, first_line
from keylane.spark.json_fields import json_of
from keylane.spark.keys import column_named, has_field, schema_tree
from keylane.spark.nanoseconds import NANOS_AS_LONG, as_text, as_times, has_nanoseconds, is_finer, with_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession


# How the columns of a stream may change from batch to batch: columns may be added, and none changes its type.

#: Columns that keylane adds to a record. A source that keylane wrote already has them: they are replaced.
GIVEN: Final = ("keylane_offset", "keylane_source")
#: Columns that are folders in the target, so a record may not have them.
FOLDERS: Final = ("stream", "lane")

_WIDTHS: Final[dict[type[DataType], int]] = {ByteType: 1, ShortType: 2, IntegerType: 4, LongType: 8}


def checked_columns(schema: StructType, where: str) -> StructType:
    """The columns of a source as a stream takes them: keylane's own left out, reserved names refused."""
    fields = [field for field in schema.fields if field.name.lower() not in GIVEN]
    taken = [f.name for f in fields if f.name.lower() in FOLDERS or f.name.lower().lstrip("_").startswith("keylane_")]
    if taken:
        hint = "rename them: stream and lane are folders of the target, and keylane_ begins keylane's own columns"
        raise DataError.of(f"{where} has columns of reserved names", got=", ".join(taken), hint=hint)
    return StructType([StructField(field.name, _known_type(field.dataType)) for field in fields])


def merged(known: StructType, new: StructType, where: str) -> StructType:
    """The known columns and the new ones; a known column of another type is an error that names the file."""
    checked = checked_columns(new, where)
    for column in checked.fields:
        before = _field(known, column.name)
        if before is not None and not _reads_as(column.dataType, before.dataType):
            got, allowed = column.dataType.simpleString(), before.dataType.simpleString()
            raise DataError.of(f"{where}: column {column.name!r} has changed its type", got=got, allowed=allowed)
    return StructType(known.fields + [field for field in checked.fields if _field(known, field.name) is None])


def widened(known: DataType, new: DataType) -> DataType:
    """As `merged`, all the way down, and known types win: records that do not fit them become dead letters."""
    if isinstance(known, StructType) and isinstance(new, StructType):
        types = {f.name: f.dataType for f in reversed(new.fields)}
        fields = [StructField(f.name, widened(f.dataType, types.get(f.name, f.dataType))) for f in known.fields]
        return StructType(fields + [f for f in new.fields if _field(known, f.name) is None])
    if isinstance(known, ArrayType) and isinstance(new, ArrayType):
        return ArrayType(widened(known.elementType, new.elementType))
    return known


def _field(schema: StructType, name: str) -> StructField | None:
    return next((field for field in schema.fields if field.name == name), None)


def _reads_as(new: DataType, known: DataType) -> bool:
    """Whether Parquet of the new type can be read as the known one without a change of value."""
    narrow, wide = _WIDTHS.get(type(new)), _WIDTHS.get(type(known))
    if narrow and wide:
        return narrow <= wide
    return _bare(new) == _bare(known)


def _bare(kind: DataType) -> DataType:
    """The type without nullability."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _bare(f.dataType)) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_bare(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_bare(kind.keyType), _bare(kind.valueType))
    return kind


def _known_type(kind: DataType) -> DataType:
    """A column of nulls only has no type, and becomes text: the type that can hold anything."""
    return StringType() if isinstance(kind, NullType) else _bare(kind)


#: Temporary columns of a frame of records. A column of the source may not have such a name.
PLACE: Final = "keylane_place"
POSITION: Final = "keylane_position"
LINE: Final = "keylane_line"
MALFORMED: Final = "keylane_malformed"
#: Records with a number that its column cannot hold.
INEXACT: Final = "keylane_inexact"
#: Of those that are no lines: the whole record as JSON, with what its columns cannot hold.
EXACT: Final = "keylane_exact"
#: The lane that a record was read from.
LANE: Final = "keylane_lane"

#: Of a position: the rest is the file.
ROW_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a batch: its path, that path as Spark's metadata spells it, and its name in the source.

    `values` are the columns in its path, as in `day=2026-11-15/`: text, because a path has no types.
    """

    path: str
    url: str
    name: str
    size: int
    modified: int
    values: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """The records of a batch as a frame, and how many there are in each file, counted without the frame.

    `found` are the fields that its records have, as `contract.fields.paths_in` takes them; None where no record was
    found to have one, or it is not known. `lacking` are fields that the lane depends on and none of its records has.
    `varied` are columns of numbers that hardly ever repeat, as far as the source shows it. `beside` are columns that
    the original of a dead letter does not have, and that are kept next to it.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    schema: StructType
    rows: tuple[int, ...]
    records: tuple[int, ...]
    filtered: int = 0
    found: dict[str, Any] | None = None
    lacking: tuple[str, ...] = ()
    varied: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def file_of(place: Column) -> Column:
    """The number of the file in its batch."""
    return F.shiftrightunsigned(place, ROW_BITS).cast("int")


def row_of(place: Column) -> Column:
    """The number of the row in its file."""
    return place.bitwiseAND(F.lit((1 << ROW_BITS) - 1))


def place_of(file: Column, row: Column) -> Column:
    """One number that sorts by file, then by row."""
    return F.shiftleft(file.cast("bigint"), ROW_BITS).bitwiseOR(row)


def picked(values: Sequence[Any], kind: str, index: Column) -> Column:
    """The value of a Python list at an index. One constant, without a join or a chain of cases."""
    return F.get(F.from_json(F.lit(json.dumps(list(values))), f"array<{kind}>"), index)


def local(spark: SparkSession, **columns: list[Any]) -> DataFrame:
    """A small frame of local values, for a broadcast; passed as Arrow, which runs no job."""
    return spark.createDataFrame(pa.table({name: _typed(values) for name, values in columns.items()}))


def _typed(values: list[Any]) -> pa.Array:
    """With a type also when there is no value to tell it."""
    return pa.array(values, pa.string() if values and isinstance(values[0], str) else pa.int64())


def address(file: SourceFile) -> str:
    """A path for Spark's readers: on the local file system, with the characters of patterns escaped."""
    return "file://" + re.sub(r"([\\{}\[\]*?])", r"\\\1", file.path)


def read_parquet(
    spark: SparkSession,
    files: Sequence[SourceFile],
    known: StructType | None,
    before: int,
    memo: dict[str, StructType],
    needed: Sequence[str] = (),
) -> Batch:
    """Records of Parquet files. Their rows are counted from the footers, not from the frame.

    Records of a file without a `needed` field are marked as such. `memo` has the columns of files as Spark reads them.
    """
    with ThreadPoolExecutor(16) as pool:
        footers = list(pool.map(_footer, files))
    spark.conf.set(NANOS_AS_LONG, "true")
    schema, shapes = known or StructType(), []
    for footer, file in zip(footers, files, strict=True):
        if footer.shape not in memo:
            memo[footer.shape] = _columns(spark, file)
        shapes.append(_timed(memo[footer.shape], footer.types))
        schema = merged(schema, shapes[-1], file.name)
    rows = tuple(footer.rows for footer in footers)
    meta = F.col("_metadata")
    numbers, key = _numbered(spark, files, meta)
    added = [key.alias("keylane_key"), meta["row_index"].alias("keylane_row")]
    read = _read_alike(spark, files, [memo[footer.shape] for footer in footers], footers, schema, added)
    frame = (
        read.join(F.broadcast(numbers), "keylane_key")
        .withColumn(PLACE, place_of(F.col("keylane_file"), F.col("keylane_row")))
        .drop("keylane_key", "keylane_file", "keylane_row")
    )
    frame = with_absent(frame, files, {name: [has_field(name, shape) for shape in shapes] for name in needed})
    in_paths = {name for file in files for name in file.values}
    own = {
        name: own_values(files, [name in shape.names for shape in shapes], name)
        for name in in_paths
        if name in schema.names
    }
    batch = _with_paths(finished(frame, files, schema, rows, rows, before, own=own), schema)
    found: dict[str, Any] = {}
    for columns in shapes:
        found |= schema_tree(columns)
    varied = frozenset.intersection(*(footer.varied for footer in footers))
    return replace(batch, found=found, varied=tuple(sorted(varied)))


def _timed(columns: StructType, types: pa.Schema) -> StructType:
    """The columns of a file, with times where Spark reads nanoseconds as numbers."""
    kinds = {field.name: field.type for field in types}
    return StructType([StructField(f.name, with_times(f.dataType, kinds[f.name])) for f in columns.fields])


def _read_alike(
    spark: SparkSession,
    files: Sequence[SourceFile],
    columns: Sequence[StructType],
    footers: Sequence[_Footer],
    schema: StructType,
    added: Sequence[Column],
) -> DataFrame:
    """The records of all files: those with the same columns of nanoseconds are read together, and their times made."""
    groups: dict[str, tuple[dict[str, tuple[DataType, pa.DataType]], list[SourceFile]]] = {}
    for file, own, footer in zip(files, columns, footers, strict=True):
        nanos = {
            field.name: (field.dataType, footer.types.field(field.name).type)
            for field in own.fields
            if has_nanoseconds(field.dataType, footer.types.field(field.name).type)
        }
        groups.setdefault(str(nanos), (nanos, []))[1].append(file)
    marked = any(nanos for nanos, _ in groups.values())
    frames = [_read(spark, own, nanos, schema, added, marked=marked) for nanos, own in groups.values()]
    return reduce(lambda one, other: one.union(other), frames)


def _read(
    spark: SparkSession,
    files: Sequence[SourceFile],
    nanos: Mapping[str, tuple[DataType, pa.DataType]],
    schema: StructType,
    added: Sequence[Column],
    *,
    marked: bool,
) -> DataFrame:
    """Files that are alike: their columns; and, where `marked`, whether a record has finer times than Spark."""
    raw = StructType([StructField(f.name, nanos[f.name][0]) if f.name in nanos else f for f in schema.fields])
    read = spark.read.schema(raw).parquet(*(address(file) for file in files))
    if not marked:
        return read.select("*", *added)
    columns = {name: column_named(name) for name in schema.names}
    times = {name: as_times(column, *nanos[name]) if name in nanos else column for name, column in columns.items()}
    finer = [is_finer(columns[name], *both) for name, both in nanos.items()]
    lost = reduce(or_, finer, F.lit(False))
    texts = {name: as_text(column, *nanos[name]) if name in nanos else column for name, column in columns.items()}
    whole = F.when(lost, json_of([column.alias(name) for name, column in texts.items()]))
    return read.select(
        *(column.alias(name) for name, column in times.items()),
        *added,
        lost.alias(INEXACT),
        whole.alias(EXACT),
    )


def _with_paths(batch: Batch, inside: StructType) -> Batch:
    """The columns of paths are those of a record too: they stand at the end of what it was."""
    names = [name for name in batch.columns if name not in inside.names]
    if EXACT not in batch.frame.columns or not names:
        return batch
    paths = json_of([column_named(name) for name in names])
    both = F.concat(F.regexp_replace(EXACT, r"\}$", ","), F.substr(paths, F.lit(2)))
    return replace(batch, frame=batch.frame.withColumn(EXACT, both))


def _numbered(spark: SparkSession, files: Sequence[SourceFile], meta: Column) -> tuple[DataFrame, Column]:
    """The files' numbers, and what a row is looked up by: time and size of its file; the path where two share them.

    Those are numbers, and a hash of the path for every row was a tenth of what a route costs. Rows of a file that
    changes meanwhile find no number, and the batch does not add up.
    """
    numbers = list(range(len(files)))
    found = [Path(file.path).stat() for file in files]
    known = local(
        spark,
        keylane_time=[one.st_mtime_ns // 1_000_000 for one in found],
        keylane_size=[one.st_size for one in found],
        keylane_file=numbers,
    ).select(F.xxhash64("keylane_time", "keylane_size").alias("keylane_key"), "keylane_file")
    if len({row["keylane_key"] for row in known.collect()}) == len(files):
        return known, F.xxhash64(F.unix_millis(meta["file_modification_time"]), meta["file_size"])
    return local(spark, keylane_key=[file.url for file in files], keylane_file=numbers), meta["file_path"]


def own_values(files: Sequence[SourceFile], has: Sequence[bool], name: str) -> Column | None:
    """The records whose file has a column; None where each file with it in its path has it inside too."""
    if all(inside for inside, file in zip(has, files, strict=True) if name in file.values):
        return None
    return _in_files(has)


def _in_files(has: Sequence[bool]) -> Column:
    return picked(has, "boolean", file_of(F.col(PLACE)))


def with_absent(frame: DataFrame, files: Sequence[SourceFile], has: Mapping[str, Sequence[bool]]) -> DataFrame:
    """Mark the records of files that lack a field, in their columns and in their paths, where any does."""
    marks = {}
    for name, inside in has.items():
        there = [one or name in file.values for one, file in zip(inside, files, strict=True)]
        if not all(there):
            marks[name] = (~_in_files(there)).alias(absent_name(name))
    return frame.select("*", *marks.values()) if marks else frame


def _columns(spark: SparkSession, file: SourceFile) -> StructType:
    try:
        return spark.read.parquet(address(file)).schema
    except AnalysisException as error:
        what = f"Spark cannot read the columns of {file.path}"
        raise DataError.of(what, got=first_line(str(error))) from error


def finished(
    frame: DataFrame,
    files: Sequence[SourceFile],
    schema: StructType,
    rows: tuple[int, ...],
    records: tuple[int, ...],
    before: int,
    *,
    own: Mapping[str, Column | None],
    filtered: int = 0,
) -> Batch:
    """What all readers end with: the columns that are written in paths, and the running position.

    `own` are columns of the schema that are in paths too, with the records that have a value of their own; None: all.
    """
    where = file_of(F.col(PLACE))
    names = dict.fromkeys(name for file in files for name in file.values)
    paths = {name: picked([file.values.get(name) for file in files], "string", where) for name in names}
    columns = {name: column_named(name) for name in frame.columns}
    for name, has in own.items():
        if has is not None:
            _check_text(schema, name, files)
            columns[name] = F.when(has, columns[name]).otherwise(paths[name])
    columns |= {name: path for name, path in paths.items() if name not in own}
    full = frame.select(
        *(column.alias(name) for name, column in columns.items()), _positions(rows, before).alias(POSITION)
    )
    held = StructType([*schema.fields, *(StructField(n, StringType()) for n in paths if n not in schema.names)])
    return Batch(full, tuple(held.names), held, rows, records, filtered)


def _check_text(schema: StructType, name: str, files: Sequence[SourceFile]) -> None:
    """A path has no types: what it holds cannot go into a column of another type than text."""
    if not isinstance(schema[name].dataType, StringType):
        file = next(file for file in files if name in file.values)
        got, allowed = "text, in the path of the file", schema[name].dataType.simpleString()
        raise DataError.of(f"{file.name}: column {name!r} has changed its type", got=got, allowed=allowed)


def _positions(rows: Sequence[int], before: int) -> Column:
    """A number for each record that goes on from batch to batch: what keyless rules read."""
    starts = list(accumulate(rows, initial=before))
    return picked(starts, "bigint", file_of(F.col(PLACE))) + row_of(F.col(PLACE))


class _Footer(NamedTuple):
    """How many rows a Parquet file has, the shape of its columns as one text, and which numbers hardly ever repeat."""

    rows: int
    shape: str
    types: pa.Schema
    varied: frozenset[str]


def _footer(file: SourceFile) -> _Footer:
    try:
        footer = pq.read_metadata(file.path)
        types = footer.schema.to_arrow_schema().remove_metadata()
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError.of(
            f"{file.path} cannot be read as Parquet",
            got=str(error).splitlines()[0],
            hint="replace it with a readable file of the same name: it continues from there",
        ) from error
    return _Footer(footer.num_rows, str(types), types, _varied(footer))


def _varied(footer: pq.FileMetaData) -> frozenset[str]:
    """Columns of numbers that take at least their own width: whoever wrote them gave up a dictionary, or had none."""
    found: set[str] = set()
    repeated: set[str] = set()
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            width = _NUMBER_BYTES.get(column.physical_type)
            large = width is not None and column.total_uncompressed_size >= width * column.num_values
            (found if large else repeated).add(column.path_in_schema)
    return frozenset(found - repeated)


_NUMBER_BYTES: Final = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}


def schema_of(text: str | None) -> StructType | None:
    """Columns and types of a DDL text. Spark parses it, so it has to be up."""
    try:
        schema = None if text is None else DataType.fromDDL(text)
    except PySparkException:
        schema = NullType()
    if schema is None or isinstance(schema, StructType):
        return schema
    raise UsageError.of("not a list of columns and types", got=text, allowed="'id bigint, at timestamp'")


def schema_from_json(text: str) -> StructType | None:
    """Columns as a target recorded them; None before its first batch."""
    return StructType.fromJson(json.loads(text)) if text else None

"""Some columns of many files as a frame, each record with its position among all: what `profile` reads.

Only the columns that are asked for are read. Positions run over the files in the order of their names. What the records
of a route need beyond that, whole and marked: `read_parquet`, `read_lines`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
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

from keylane.errors import DataError, UnknownNameError
from keylane.spark.keys import column_named
from keylane.spark.read_lines import read_csv, read_json
from keylane.spark.read_parquet import MALFORMED, PLACE, POSITION, address, file_of, local, picked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from keylane.spark.read_parquet import SourceFile

__all__ = ["LANE", "Scan", "scan_lines", "scan_parquet", "url_of"]

LANE: Final = "keylane_lane"
_PLAIN: Final = re.compile(r"[A-Za-z0-9/._=-]+")
_FILE: Final = "keylane_file"
_WIDTHS: Final[dict[type[DataType], int]] = {ByteType: 1, ShortType: 2, IntegerType: 4, LongType: 8}


@dataclass(frozen=True, slots=True)
class Scan:
    """The frame; how many positions there are, and how many records, where that is known without the frame.

    The frame has the columns that were asked for, `keylane_position` where it was, `keylane_lane` where files lie in
    lanes, and `keylane_malformed` where a record may be unreadable.
    """

    frame: DataFrame
    positions: int
    records: int | None


def url_of(spark: SparkSession, path: str) -> str:
    """A path as Spark's metadata spells it."""
    if _PLAIN.fullmatch(path):
        return f"file:{path}"
    java: Any = spark.sparkContext._jvm  # noqa: SLF001
    return str(java.org.apache.hadoop.fs.Path("file", None, path).toUri().toString())


def scan_parquet(
    spark: SparkSession,
    files: Sequence[SourceFile],
    rows: Sequence[int],
    shapes: Sequence[str],
    wanted: Sequence[str],
    lanes: Sequence[int] | None,
    *,
    positions: bool,
) -> Scan:
    """These columns of Parquet files; `rows` and `shapes` are what their footers say."""
    schema = _common(spark, files, shapes, wanted)
    read = spark.read.schema(schema).parquet(*map(address, files))
    in_paths = [name for name in wanted if name not in schema.names]
    columns = [column_named(name) for name in schema.names]
    if not (positions or in_paths or lanes):
        return Scan(read.select(*columns), sum(rows), sum(rows))
    meta = F.col("_metadata")
    row = [meta["row_index"].alias("keylane_row")] if positions else []
    numbered = _numbered(spark, read.select(*columns, meta["file_path"].alias("keylane_url"), *row), files)
    file = F.col(_FILE).cast("int")
    extra = [*_from_paths(files, in_paths, file), *_lanes(lanes, file)]
    if positions:
        starts = list(accumulate(rows, initial=0))
        extra.append((picked(starts, "bigint", file) + F.col("keylane_row")).alias(POSITION))
    return Scan(numbered.select(*columns, *extra), sum(rows), sum(rows))


def scan_lines(
    spark: SparkSession,
    kind: str,
    files: Sequence[SourceFile],
    wanted: Mapping[str, DataType],
    lanes: Sequence[int] | None,
) -> Scan:
    """These columns of JSON lines or CSV. A column of JSON that no record has is a column of nulls."""
    in_paths = [name for name in wanted if any(name in file.values for file in files)]
    inside = {name: held for name, held in wanted.items() if name not in in_paths}
    read = (read_json if kind == "json" else read_csv)(spark, files, None, 0, inside, only=True)
    for name in wanted:
        if name not in read.columns:
            raise UnknownNameError.among(f"column of {files[0].path}", name, read.columns)
    columns = [column_named(name) for name in wanted]
    kept = read.frame.select(*columns, MALFORMED, POSITION, *_lanes(lanes, file_of(F.col(PLACE))))
    return Scan(kept, sum(read.rows), sum(read.records) - read.filtered)


def _numbered(spark: SparkSession, read: DataFrame, files: Sequence[SourceFile]) -> DataFrame:
    """Each record with the number of its file. One file needs no looking up."""
    if len(files) == 1:
        return read.withColumn(_FILE, F.lit(0))
    numbers = local(spark, keylane_url=[file.url for file in files], keylane_file=list(range(len(files))))
    return read.join(F.broadcast(numbers), "keylane_url")


def _from_paths(files: Sequence[SourceFile], names: Sequence[str], file: Column) -> list[Column]:
    return [picked([one.values.get(name) for one in files], "string", file).alias(name) for name in names]


def _lanes(lanes: Sequence[int] | None, file: Column) -> list[Column]:
    return [] if lanes is None else [picked(lanes, "int", file).alias(LANE)]


def _common(
    spark: SparkSession, files: Sequence[SourceFile], shapes: Sequence[str], wanted: Sequence[str]
) -> StructType:
    """The wanted columns as all files have them: of one type, or of the widest whole number among them."""
    found: dict[str, DataType] = {}
    seen: dict[str, None] = {}
    for shape, file in dict(zip(shapes, files, strict=True)).items():
        del shape
        schema = spark.read.parquet(address(file)).schema
        seen |= dict.fromkeys(schema.names)
        for field in schema.fields:
            if field.name in wanted:
                kind = _read_as(field.dataType)
                found[field.name] = _wider(found.get(field.name, kind), StructField(field.name, kind), file.name)
    in_paths = {name for file in files for name in file.values}
    for name in wanted:
        if name not in found and name not in in_paths:
            raise UnknownNameError.among("column of the source", name, [*seen, *sorted(in_paths)])
    return StructType([StructField(name, found[name]) for name in wanted if name in found])


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

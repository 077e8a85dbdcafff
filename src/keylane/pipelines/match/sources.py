"""The two sources of a match: the metadata of each before Spark reads it, and its records as a raw frame.

A source is a file or folder of Parquet, JSON lines or CSV; a folder that `route` made, or one stream of it; or a topic.
Order among records of one time: of files, by name and row; of lanes, by offset, then by lane, because two lanes have
no order between them. What the columns of a raw frame are: `records`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

from keylane.contract.fields import FieldSpec
from keylane.errors import DataError, UsageError
from keylane.pipelines.match.records import LANE_KEY, ORIGINAL, SOURCE, check_columns
from keylane.spark.json_fields import json_of
from keylane.spark.keys import TYPES, column_named
from keylane.spark.prepartitioned import claimed
from keylane.spark.read_lines import read_csv, read_json
from keylane.spark.read_parquet import (
    EXACT,
    INEXACT,
    LANE,
    LINE,
    MALFORMED,
    PLACE,
    SourceFile,
    file_of,
    picked,
    read_parquet,
    row_of,
)
from keylane.spark.read_parquet import address as as_spark
from keylane.systems.endpoint import open_endpoint, path_of
from keylane.systems.files.frames import spark_files
from keylane.systems.files.listing import kind_of
from keylane.systems.files.stream import target_stream
from keylane.systems.folders.folder import read_head, read_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from keylane.contract.fields import FieldKind
    from keylane.pipelines.match.options import Columns, Options
    from keylane.spark.messages import Fields
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.streams import Stream


#: An offset in a lane and the lane itself, as one number: enough bits for every lane count.
LANE_BITS: Final = 17
_OFFSET: Final = "keylane_offset"
_POSITION: Final = StructType([StructField("file", StringType()), StructField("row", LongType())])


@dataclass(frozen=True, slots=True)
class MatchSource:
    """A source: drivers or riders, its lanes and its contract's fingerprint, where they are recorded.

    `files` are the files of each lane of a routed folder, `schema` its columns; `ranges` what is read of a topic.
    `records` is how many there are, where that is known without reading; `sampled` says what is read of a topic that is
    not read as a whole.
    """

    side: str
    address: Address
    columns: Columns
    lanes: int | None = None
    fingerprint: str | None = None
    contract: str | None = None
    files: tuple[tuple[str, ...], ...] = ()
    schema: str = ""
    ranges: tuple[tuple[int, int], ...] = ()
    records: int | None = None
    sampled: str = ""

    def __str__(self) -> str:
        return str(self.address)

    @property
    def messages(self) -> bool:
        """Whether its records are messages."""
        return open_endpoint(self.address).messages

    @property
    def flags(self) -> tuple[str, ...]:
        """Columns that are true or false. Of riders there is none: what they have of that name means nothing here."""
        return (self.columns.available or "available",) if self.side == "drivers" else ()


def find(side: str, source: str, columns: Columns, given: Options) -> MatchSource:
    """Open a source, without Spark. A topic is read up to its present end, or in the window that was asked for."""
    endpoint = open_endpoint(source, given.kafka)
    address = endpoint.address
    if endpoint.messages:
        ranges, sampled = endpoint.ranges()
        return MatchSource(side, address, columns, len(ranges), ranges=tuple(ranges), sampled=sampled)
    path = path_of(address, f"the {side}")
    if not path.exists():
        raise DataError.of(
            f"no such source of the {side}", got=str(path), allowed="a file or folder of Parquet, JSON lines or CSV"
        )
    head_at = next((at for at in (path, path.parent) if at.is_dir() and read_head(at) is not None), None)
    if head_at is None or (head_at != path and not path.name.startswith("stream=")):
        return MatchSource(side, address, columns)
    return _routed(side, address, columns, path, head_at)


def _routed(side: str, address: Address, columns: Columns, path: Path, target: Path) -> MatchSource:
    found = target_stream(target)
    name = _stream_name(path, target, found)
    manifests = read_manifests(target)
    if not manifests or not manifests[-1].schema:
        raise DataError.of(f"the {side} were routed, but hold no records yet", got=str(path))
    lanes = found.lanes[name]
    parts = [part for part in found.parts if part.stream == name and not part.dead]
    files = tuple(tuple(part.name for part in parts if part.lane == lane) for lane in range(lanes))
    records = sum(part.end or 0 for part in parts)
    schema = manifests[-1].schema
    return MatchSource(side, address, columns, lanes, found.fingerprint, found.contract, files, schema, (), records)


def _stream_name(path: Path, target: Path, found: Stream) -> str:
    if path != target:
        name = path.name.partition("=")[2]
        if name not in found.lanes:
            raise DataError.of("no such stream in the folder", got=name, allowed=", ".join(found.lanes))
        return name
    held = sorted({str(part.stream) for part in found.parts if not part.dead}) or sorted(found.lanes)
    if len(held) > 1:
        hint = f"{path}/stream={held[0]}"
        raise UsageError.of("the folder holds several streams", got=str(path), allowed=", ".join(held), hint=hint)
    return held[0]


def opened(spark: SparkSession, found: MatchSource, given: Options) -> tuple[DataFrame, MatchSource]:
    """The raw frame of a source, and the source with the number of its records, where that is known now."""
    if found.ranges:
        return read_topic(spark, found, given), found
    frame, records = _lanes(spark, found) if found.schema else _files(spark, found, given)
    check_columns(frame, found.columns, found.side, str(found))
    return frame, replace(found, records=records)


def _lanes(spark: SparkSession, found: MatchSource) -> tuple[DataFrame, int | None]:
    """A routed folder: one task for each lane, declared to Spark as such."""
    own = StructType.fromJson(json.loads(found.schema))
    given = [StructField(_OFFSET, LongType()), StructField("keylane_source", _POSITION)]
    full = StructType([*own.fields, *given])
    lanes = [_lane(spark, full, own, files, lane) for lane, files in enumerate(found.files)]
    return claimed(spark, lanes, LANE_KEY), found.records


def _lane(spark: SparkSession, full: StructType, own: StructType, files: Sequence[str], lane: int) -> DataFrame:
    if files:
        read = spark.read.schema(full).parquet(*(as_spark(_plain(path)) for path in files))
    else:
        nothing = spark.range(0, 1, 1, 1).where(F.col("id") < 0)
        read = nothing.select(*(F.lit(None).cast(one.dataType).alias(one.name) for one in full.fields))
    return read.select(
        *map(column_named, own.names),
        lane_place(F.col(_OFFSET), F.lit(lane)).alias(PLACE),
        F.concat_ws("/", "keylane_source.file", F.col("keylane_source.row").cast("string")).alias(SOURCE),
        _as_json(own.names).alias(ORIGINAL),
        F.lit(lane).cast("int").alias(LANE),
    )


def lane_place(offset: Column, lane: Column) -> Column:
    """The order of records of one time that lie in lanes: by offset, then by lane."""
    return F.shiftleft(offset, LANE_BITS).bitwiseOR(lane.cast("bigint"))


def _plain(path: str) -> SourceFile:
    return SourceFile(path, "", path, 0, 0)


def _files(spark: SparkSession, found: MatchSource, given: Options) -> tuple[DataFrame, int | None]:
    path = path_of(found.address, f"the {found.side}")
    kind = kind_of(path, given.kind)
    files = spark_files(spark, path, None if given.kind else kind)
    if not files:
        raise DataError.of(f"the {found.side} have no files", got=str(path))
    return raw_files(spark, files, kind, found, given.kafka)


def raw_files(
    spark: SparkSession, files: Sequence[SourceFile], kind: str, found: MatchSource, options: StreamOptions
) -> tuple[DataFrame, int]:
    """The raw frame of these files of a source, in their order, and how many records there are."""
    if kind == "parquet":
        read = read_parquet(spark, files, None, 0, {})
        original = _as_json(read.columns)
        if INEXACT in read.frame.columns:
            original = F.coalesce(EXACT, original)
    else:
        wanted = _line_types(found)
        if kind == "json":
            read = read_json(spark, files, None, 0, wanted, only=True)
        else:
            read = read_csv(
                spark, files, None, 0, wanted, only=True, nulls=options.csv_null, delimiter=options.delimiter
            )
        original = F.col(LINE)
    file, row = file_of(F.col(PLACE)), row_of(F.col(PLACE)).cast("string")
    where = F.concat_ws("/", picked([one.name for one in files], "string", file), row)
    # A file out of a routed folder has columns of these names, which have no meaning in this match.
    made = {SOURCE, ORIGINAL, LANE, LANE_KEY, INEXACT, EXACT, *([MALFORMED] if kind == "parquet" else [])}
    own = [column_named(name) for name in read.frame.columns if name not in made]
    if kind == "parquet" and INEXACT in read.frame.columns:
        own.append(F.col(INEXACT).alias(MALFORMED))
    return read.frame.select(*own, where.alias(SOURCE), original.alias(ORIGINAL)), sum(read.records) - read.filtered


def _as_json(names: Sequence[str]) -> Column:
    return json_of([column_named(name) for name in names])


def _line_types(found: MatchSource) -> Mapping[str, DataType]:
    """Lines have no types of their own."""
    columns = found.columns
    kinds: dict[str, DataType] = {name: BooleanType() for name in found.flags}
    kinds |= {
        columns.id: StringType(),
        columns.moment.name: StringType(),
        columns.lat: DoubleType(),
        columns.lng: DoubleType(),
    }
    return kinds


# Topics as sources of a match: up to where they end when it begins, as committed. Following them: `follow_sources`.

_TYPED: Final = ("json", None)


def read_topic(spark: SparkSession, found: MatchSource, given: Options) -> DataFrame:
    """The raw frame of a topic, between its offsets."""
    frame = open_endpoint(found.address, given.kafka).between(spark, found.ranges)
    return raw_messages(frame, found, given)


def raw_messages(frame: DataFrame, found: MatchSource, given: Options, *more: str) -> DataFrame:
    """Messages of a batch or of a stream as a raw frame; `more` columns stay, and the partition as `keylane_part`."""
    fields, unread = _fields(found, given)
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
        *more,
    )


def _text_of_key(column: Column, name: str) -> Column:
    """A key is bytes, and an id is text: bytes that are not text are not an id."""
    if name != "key":
        return column
    text = column.cast("string")
    return F.when(F.is_valid_utf8(text), text)


def _fields(found: MatchSource, given: Options) -> Fields:
    columns = found.columns
    kinds: dict[str, FieldKind] = {columns.lat: "degrees", columns.lng: "degrees"}
    kinds |= dict.fromkeys(found.flags, "flag")
    names = tuple(dict.fromkeys([*columns.needed, *found.flags]))
    if given.kafka.value in _TYPED:
        as_json = replace(given.kafka, value="json")
        return open_endpoint(found.address, as_json).message_columns(FieldSpec(names, kinds))
    # Other forms are read as text, and text is cast.
    fields, unread = open_endpoint(found.address, given.kafka).message_columns(FieldSpec(names))
    return {name: one.try_cast(TYPES[kinds[name]]) if name in kinds else one for name, one in fields.items()}, unread

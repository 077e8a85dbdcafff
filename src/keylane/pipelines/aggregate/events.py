"""A batch of a source as a frame of events: in the columns that `MatchRules.java` names, then those that queries read.

    partition int | offset bigint | a line that could not be read string | a time for each time field bigint | columns

Only columns that a query reads are read. Columns of JSON and CSV get their types from the first batch that has
them, as more than a null, and keep them, but for whole numbers, which become doubles when one with a point comes: what
does not fit is a dead letter. Fields of structs are learned one by one as columns are. A column or a field of a struct
that no event has is null, of no type, so that it fits whatever a query does with it: what a query comes to does not
depend on which batch first has a field. Values in Avro and Protobuf have the types of their schema
(`systems.messages.records`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keylane.errors import DataError
from keylane.spark.keys import field_of
from keylane.spark.messages import decoded, json_text
from keylane.spark.read_parquet import address, read_parquet
from keylane.spark.times import micros_of, unit_in
from keylane.systems.messages.records import read_records, record_form
from keylane.systems.messages.values import UNREAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.aggregation.query import Query
    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.spark.keys import Field
    from keylane.spark.read_parquet import SourceFile
    from keylane.systems.messages.records import RecordKind

MALFORMED: Final = "keylane_malformed"
#: The place of a message, and its value on the way.
_PLACE: Final = ("keylane_in", "keylane_at")
_TEXT, _READ = "keylane_text", "keylane_read"
#: What Spark gets of a field that is no whole number.
_DECODED: Final = {"degrees": "double", "text": "string", "flag": "string"}
#: Two fields of one object have one name.
_TWICE: Final = "COLUMN_ALREADY_EXISTS"
#: Two files have types of one column that Spark does not take for one.
_DIFFERENT: Final = "CANNOT_MERGE"
#: What may be a time.
_TIMES: Final = (
    *(TimestampType, TimestampNTZType, DateType, IntegralType),
    *(DoubleType, FloatType, DecimalType, StringType),
)
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
    #: Time fields that are there and no times: their types.
    timeless: Mapping[str, str] = field(default_factory=dict)
    #: What tells the unit of each time field, for as long as the batch can be read.
    units: Callable[[], dict[str, str]] = dict


def noted_units(raw: DataFrame, times: Sequence[Field], given: AggregateOptions) -> dict[str, str]:
    """The unit of each time field's numbers, where none is given; refused where they are of several."""
    found: dict[str, str] = {}
    for one in times:
        unit = unit_in(raw, one)[0] if given.form_of(one.name) is None else None
        found |= {one.name: unit} if unit is not None else {}
    return found


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
            raw = self._parquet(files, folder, names)
        elif kind == "json":
            paths = [address(file) for file in files]
            found = self._json_files(paths)
            self._learn(names, self._with_values(names, found, lambda kind: self.spark.read.schema(kind).json(paths)))
            raw = self._typed(names).json(paths)
        else:
            raw = self._csv(files, names)
        malformed = F.lit(None).cast("string") if kind == "parquet" else F.col(MALFORMED)
        return self._events(raw, queries, malformed)

    def of_messages(self, frame: DataFrame, queries: Sequence[Query]) -> Events:
        """The events that are the values of messages: one JSON object each, or one record by the schema."""
        names, text = needed(queries), json_text()
        if self.options.stream.value in {"avro", "protobuf"}:
            return self._of_records(frame, queries)
        found = self._json_schema(frame.select(text))
        values = self._with_values(
            names, found, lambda kind: frame.select(F.from_json(text, kind).alias(_READ)).select(f"{_READ}.*")
        )
        self._learn(names, values)
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
        found = self._inferred(texts)
        return (
            self._inferred(texts.select(F.udf(each_once, "string", useArrow=False)(texts.columns[0])))
            if _is_twice(found)
            else found
        )

    def _inferred(self, texts: DataFrame) -> StructType:
        java: Any = self.spark.sparkContext._jvm  # noqa: SLF001  Java's
        frame: Any = texts
        lines = getattr(frame._jdf, "as")(java.org.apache.spark.sql.Encoders.STRING())  # noqa: SLF001  Java's
        found = frame.sparkSession._jsparkSession.read().json(lines)  # noqa: SLF001  Java's
        return StructType.fromJson(json.loads(found.schema().json()))

    def _json_files(self, paths: list[str]) -> StructType:
        try:
            return self.spark.read.json(paths).schema
        except AnalysisException as error:
            if error.getCondition() != _TWICE:
                raise
            return self._json_schema(self.spark.read.text(paths))

    def _events(
        self,
        raw: DataFrame,
        queries: Sequence[Query],
        malformed: Column,
        place: tuple[Column, Column] | None = None,
    ) -> Events:
        there = raw.schema
        kinds = {name: _type_of(there, name) for name in dict.fromkeys(query.time for query in queries)}
        times = [name for name, kind in kinds.items() if isinstance(kind, _TIMES)]
        timeless = {name: kind.simpleString() for name, kind in kinds.items() if kind and name not in times}
        names = needed(queries)
        absent = tuple(name for name in names if name not in there.names)
        read = _tree(path for query in queries for path in query.paths)
        columns = [_whole(there, name, read[name]).alias(name) for name in names]
        partition, offset = place or (F.lit(0), F.lit(None).cast("bigint"))
        frame = raw.select(
            partition.alias(_OWN[0]),
            offset.alias(_OWN[1]),
            malformed.alias(_OWN[2]),
            *(self._time(there, name).alias(f"keylane_time_{number}") for number, name in enumerate(times)),
            # Events that have no time at all are dead letters, as where another event of their batch has one.
            *([] if times else [F.lit(None).cast("bigint").alias("keylane_time_0")]),
            *columns,
        )
        fields = [self._time_field(there, name) for name in times]
        return Events(
            frame,
            tuple(times),
            self.known,
            absent,
            timeless=timeless,
            units=lambda: noted_units(raw, fields, self.options),
        )

    def _time(self, there: StructType, name: str) -> Column:
        """A time field in microseconds; null where it is none."""
        return micros_of(self._time_field(there, name), self.options.form_of(name))

    @staticmethod
    def _time_field(there: StructType, name: str) -> Field:
        return replace(field_of(name, there), column=_path(name))

    # Columns of files.

    def _parquet(self, files: Sequence[SourceFile], folder: Path, names: Sequence[str]) -> DataFrame:
        footers = [pq.read_metadata(file.path).schema for file in files]
        if any(_has_nanoseconds(footer) for footer in footers):
            return read_parquet(self.spark, files, None, 0, {}).frame
        alike = all(footer.equals(footers[0]) for footer in footers)
        base = folder if folder.is_dir() else folder.parent
        reader = self.spark.read.option("mergeSchema", value=not alike).option("basePath", f"file://{base}")
        try:
            return reader.parquet(*(address(file) for file in files))
        except (PySparkException, Py4JError) as error:
            if alike or _DIFFERENT not in str(error):
                raise
        by_schema: dict[str, list[str]] = {}
        for file, footer in zip(files, footers, strict=True):
            by_schema.setdefault(str(footer), []).append(address(file))
        return _together([reader.parquet(*paths) for paths in by_schema.values()], names)

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
        by_header: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            header = tuple(self.spark.read.options(**how).csv(path).columns)
            by_header.setdefault(header, []).append(path)
        for alike in by_header.values():
            found = self.spark.read.options(**how, inferSchema="true").csv(alike)
            self._learn(names, self._with_values(names, found.schema, _always(found)))
        frames = []
        for header, alike in by_header.items():
            kinds = {one.name: one.dataType for one in self.known.fields}
            shape = StructType([StructField(name, kinds.get(name, StringType())) for name in header])
            shape = StructType([*shape.fields, StructField(MALFORMED, StringType())])
            reader = self.spark.read.schema(shape).options(**how, columnNameOfCorruptRecord=MALFORMED)
            # What had no value yet has no type, and is null as a column that is not there.
            typed = [one for one in header if one in kinds] or header[:1]
            frames.append(reader.csv(alike).select(*map(_column, typed), MALFORMED))
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionByName(frame, allowMissingColumns=True)
        return whole

    def _with_values(
        self, names: Sequence[str], found: StructType, read: Callable[[StructType], DataFrame]
    ) -> StructType:
        """The columns that queries read, without those that have no value yet: Spark calls them text."""
        kind = StructType([one for one in found.fields if one.name in names])
        asked = list(_new_texts(kind, self.known))
        if not asked:
            return kind
        columns = [
            F.count(F.col(".".join(f"`{part}`" for part in path))).alias(str(at)) for at, path in enumerate(asked)
        ]
        counts = read(kind).agg(*columns).first()
        return _without(kind, {path for at, path in enumerate(asked) if counts is not None and not counts[at]})

    def _learn(self, names: Sequence[str], found: StructType) -> None:
        """Give types to columns that have none yet, by the events of this batch; whole numbers may become doubles."""
        new = {one.name: one.dataType for one in found.fields if one.name in names}
        known = {one.name: one.dataType for one in self.known.fields}
        for name, kind in new.items():
            known[name] = _wider(known[name], kind) if name in known else kind
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


def _together(frames: Sequence[DataFrame], names: Sequence[str]) -> DataFrame:
    """Frames whose columns have different types: of numbers the wider one."""
    kinds: dict[str, set[str]] = {}
    for one in chain.from_iterable(frame.schema.fields for frame in frames):
        if one.name not in names:
            continue
        is_number = isinstance(one.dataType, IntegralType | DoubleType | FloatType | DecimalType)
        kinds.setdefault(one.name, set()).add("a number" if is_number else one.dataType.typeName())
    for name, found in kinds.items():
        if len(found) > 1:
            what = f"files of one batch have different types in the field {name}"
            hint = "write it with one type, or aggregate the files apart: --max-files 1"
            raise DataError.of(what, got=", ".join(sorted(found)), allowed="one type, or types of numbers", hint=hint)
    whole, *others = [
        frame.select(*(_column(name) for name in names if name in frame.columns), F.lit(None).alias(MALFORMED))
        for frame in frames
    ]
    for frame in others:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    return whole


def each_once(text: str | None) -> str | None:
    """A JSON text whose objects have each name once: of several the last counts, as it does where events are read.

    >>> each_once('{"a": 1, "a": 2.0}')
    '{"a": 2.0}'
    """
    try:
        return None if text is None else json.dumps(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _always(frame: DataFrame) -> Callable[[StructType], DataFrame]:
    """Of CSV, which comes with its types."""
    return lambda _: frame


def _is_twice(kind: DataType) -> bool:
    """Whether two fields of one struct have one name."""
    if isinstance(kind, ArrayType):
        return _is_twice(kind.elementType)
    if not isinstance(kind, StructType):
        return False
    return len(set(kind.names)) < len(kind.names) or any(_is_twice(one.dataType) for one in kind.fields)


def _new_texts(found: StructType, known: StructType) -> Iterator[tuple[str, ...]]:
    """Columns of text, and fields of structs, that are not known by now."""
    for one in found.fields:
        before = known[one.name].dataType if one.name in known.names else None
        if isinstance(one.dataType, StructType) and isinstance(before, StructType | None):
            yield from ((one.name, *path) for path in _new_texts(one.dataType, before or StructType()))
        elif isinstance(one.dataType, StringType) and before is None and "`" not in one.name:
            yield (one.name,)


def _without(found: StructType, empty: set[tuple[str, ...]]) -> StructType:
    kept = []
    for one in found.fields:
        inner = {path[1:] for path in empty if path[0] == one.name}
        if isinstance(one.dataType, StructType) and inner:
            left = _without(one.dataType, inner)
            kept += [StructField(one.name, left)] if left.fields else []
        elif () not in inner:
            kept.append(one)
    return StructType(kept)


def _wider(known: DataType, new: DataType) -> DataType:
    """A type that is known, with what a batch adds to it."""
    if isinstance(known, StructType) and isinstance(new, StructType):
        types = {one.name: one.dataType for one in known.fields}
        for one in new.fields:
            types[one.name] = _wider(types[one.name], one.dataType) if one.name in types else one.dataType
        return StructType([StructField(name, kind) for name, kind in types.items()])
    if isinstance(known, ArrayType) and isinstance(new, ArrayType):
        return ArrayType(_wider(known.elementType, new.elementType))
    return new if isinstance(known, IntegralType) and isinstance(new, DoubleType) else known


_Tree: TypeAlias = "dict[str, _Tree]"


def _tree(paths: Iterable[tuple[str, ...]]) -> _Tree:
    """The columns and fields that are read, each with those in it."""
    found: _Tree = {}
    for path in paths:
        at = found
        for name in path:
            at = at.setdefault(name, {})
    return found


def _nothing(read: _Tree) -> Column:
    """Null, for a column with these fields."""
    return F.lit(None).cast(_null_type(read))


def _null_type(read: _Tree) -> DataType:
    return StructType([StructField(name, _null_type(inner)) for name, inner in read.items()]) if read else NullType()


def _whole(there: StructType, name: str, read: _Tree) -> Column:
    """A column with all the fields that are read of it."""
    if name not in there.names:
        return _nothing(read)
    found = _column(name)
    for path, inner in _missing(there[name].dataType, read):
        found = found.withField(".".join(f"`{part}`" for part in path), _nothing(inner))
    return found


def _missing(kind: DataType, read: _Tree) -> Iterator[tuple[tuple[str, ...], _Tree]]:
    if isinstance(kind, StructType):
        for name, inner in read.items():
            if name not in kind.names:
                yield (name,), inner
            else:
                yield from (((name, *path), left) for path, left in _missing(kind[name].dataType, inner))


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

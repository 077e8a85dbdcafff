"""JSON lines and CSV as frames of records. A line keeps its bytes until it is known to be a record.

Spark's own readers of these formats give a record neither a row number nor its bytes, drop what they cannot use, and
take a line with two objects for one. So lines are read as text, numbered, and parsed by expressions that have to
account for the whole line; what they cannot account for is marked, and becomes a dead letter. A record that runs over
several lines is not one. Parquet: `read_parquet`.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from keylane.contract.fields import absent_name, in_tree, resolved_name, steps_of
from keylane.errors import DataError
from keylane.keys.json_object import HALF_CHARACTER, MOST_DIGITS, MOST_LEVELS, NAMELESS, STRING, STRING_BUT_EMPTY
from keylane.spark.json_fields import absent_in, both_ways, inexact, unlike_text, value_in, with_fields
from keylane.spark.keys import schema_tree
from keylane.spark.read_parquet import (
    INEXACT,
    LINE,
    MALFORMED,
    PLACE,
    POSITION,
    Batch,
    address,
    checked_columns,
    file_of,
    finished,
    local,
    own_values,
    picked,
    place_of,
    widened,
    with_absent,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from keylane.spark.read_parquet import SourceFile

#: Strict JSON, within the bounds of `keys.json_object`; one more level for what is put around it.
_JSON: Final = {
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "maxNestingDepth": str(MOST_LEVELS + 1),
    "maxNumLen": str(MOST_DIGITS),
    "maxStringLen": str(2**31 - 1),
}
#: What a line may have where its fields become columns: Parquet's readers know no more levels, and Spark hardly more
#: columns. A line beyond is no record; for all lines together there is an error.
_COLUMN_LEVELS: Final = 30
_MOST_NAMES: Final = 1000
_MOST_COLUMNS: Final = 4000
_IN_COLUMNS: Final = {**_JSON, "maxNestingDepth": str(_COLUMN_LEVELS + 1)}
_CORRUPT: Final = "keylane_corrupt"
_CSV: Final = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "escape": '"'}
_ARROW: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_HEADER_BYTES: Final = 1 << 20
#: Stand for a cell that is null, and for one with quotes and nothing in them, while a line is parsed.
_NULL, _QUOTED = "\0keylane null\0", "\0keylane empty\0"
_WHOLE: Final = "^[+-]?[0-9]+$"
#: Of one line of CSV, in Spark's parser.
_MOST_CELLS: Final = 20_480


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines with their positions; how many each file has, and how many are blank in all."""

    frame: DataFrame
    rows: tuple[int, ...]
    blank: int


def read_json(
    spark: SparkSession,
    files: Sequence[SourceFile],
    known: StructType | None,
    before: int,
    needed: Mapping[str, DataType],
    *,
    only: bool = False,
    texts: Sequence[str] | None = None,
) -> Batch:
    """Records of JSON lines: one object a line. Columns that are not known yet are found by reading.

    `only` the needed columns: then nothing has to be found. `texts` are those of text that have to be written as text
    or as a whole number, all of text where they are not given.
    """
    in_paths = {name for file in files for name in file.values}
    inside = {name: kind for name, kind in needed.items() if name not in in_paths}
    found = StructType() if only else _found(spark, files)
    schema = both_ways(inside) if only else _json_schema(found, files, known, inside)
    lines = _numbered(spark, files, header=False)
    line = F.col(LINE)
    parsed, sound = one_object(line, schema, _JSON if only else _IN_COLUMNS)
    sound = sound if only else sound & _has_few_names(line) & ~_has_empty_name(line)
    read = lines.frame.select("*", parsed.alias("keylane_record"), sound.alias("keylane_sound"))
    record = F.col("keylane_record")
    values = {name: value_in(record, line, name, schema) for name in inside}
    columns = {name: values[name] if only and name in values else record[name] for name in schema.names}
    columns = {name: column for name, column in columns.items() if not only or name in inside}
    strict = [n for n, kind in inside.items() if isinstance(kind, StringType) and (texts is None or n in texts)]
    # Of a nested field that is a column too, each record's own way to it.
    twice = [name for name in inside if not only and len(steps_of(name)) > 1 and name in schema.names]
    added = {resolved_name(name): values[name] for name in twice}
    added |= {absent_name(name): absent_in(value, line, name) for name, value in values.items()}
    lost = None if only else inexact(line, schema)
    added |= {} if lost is None else {INEXACT: lost}
    frame = read.select(
        LINE,
        PLACE,
        (~F.col("keylane_sound") | _any([unlike_text(values[name], line, name) for name in strict])).alias(MALFORMED),
        *(column.alias(name) for name, column in {**columns, **added}.items()),
    )
    held = StructType([schema[name] for name in columns])
    own: dict[str, Column | None] = {
        name: ~absent_in(F.col(name), line, name) for name in in_paths if name in held.names
    }
    batch = finished(frame, files, held, lines.rows, lines.rows, before, own=own, filtered=lines.blank)
    return replace(batch, found=_tree_of(found, needed) if found.fields else None)


def _has_few_names(text: Column) -> Column:
    """Whether a line has no more names than can be columns. Only a long one is looked at."""
    bare = F.regexp_replace(text, STRING, "")
    names = F.length(bare) - F.length(F.replace(bare, F.lit(":"), F.lit("")))
    return (F.octet_length(text) <= 5 * _MOST_NAMES) | (names <= _MOST_NAMES)


def _has_empty_name(text: Column) -> Column:
    """As `keys.json_object.has_empty_name`: Spark finds no column for such a field, and would drop it."""
    bare = F.regexp_replace(text, STRING_BUT_EMPTY, "$1")
    return F.contains(text, F.lit('""')) & text.rlike(f'"{NAMELESS}') & bare.rlike(NAMELESS)


def one_object(text: Column, shape: StructType, how: Mapping[str, str] = _JSON) -> tuple[Column, Column]:
    """The record that a text has, and whether the text is one JSON object with nothing behind it.

    Spark's parser ends where the object does. In brackets it meets a second object; in an object it meets a closing
    bracket: only what has nothing behind it passes both. Half a character would become a question mark.
    """
    several = F.from_json(F.concat(F.lit("["), text, F.lit("]")), ArrayType(shape), how)
    inside = F.from_json(F.concat(F.lit('{"v":'), text, F.lit("}")), StructType([StructField("v", StructType())]), how)
    record = F.get(several, F.lit(0))
    sound = (
        F.is_valid_utf8(text)
        & F.ltrim(text, F.lit(" \t\r\n")).startswith("{")
        & (F.size(several) == 1)
        & record.isNotNull()
        & (~F.contains(text, F.lit("]")) | inside["v"].isNotNull())
        & ~(F.contains(text, F.lit("\\u")) & text.rlike(HALF_CHARACTER))
    )
    return record, F.coalesce(sound, F.lit(False))


def read_csv(
    spark: SparkSession,
    files: Sequence[SourceFile],
    known: StructType | None,
    before: int,
    needed: Mapping[str, DataType],
    *,
    only: bool = False,
    nulls: Sequence[str] = (),
    delimiter: str = ",",
) -> Batch:
    """Records of CSV files, each with its header line. Columns are text, but for numbers that a key is made of.

    `only` the needed columns, of those that there are. `nulls` are the texts of a cell without quotes that stand for
    null, `delimiter` is between cells.
    """
    headers = [_header(file, delimiter) for file in files]
    in_paths = {name for file in files for name in file.values}
    schema: DataType = known or StructType()
    for names, file in zip(headers, files, strict=True):
        wanted = [name for name in names if name in needed or not only]
        fields = StructType([StructField(name, needed.get(name, StringType())) for name in wanted])
        schema = widened(schema, fields if only else checked_columns(fields, file.name))
    assert isinstance(schema, StructType)
    if not any(headers):
        absent = [field for field in _fields(needed).fields if field.name not in {*schema.names, *in_paths}]
        schema = StructType(schema.fields + absent)
    lines = _numbered(spark, files, header=True)
    frame = _csv_records(lines.frame, schema, headers, nulls, delimiter)
    has = {name: [name in header for header in headers] for name in {*needed, *in_paths}}
    frame = with_absent(frame, files, {name: has[name] for name in needed})
    records = tuple(max(0, rows - 1) for rows in lines.rows)
    # A file of blank lines has one where others have their header, which is no record.
    filtered = lines.blank - sum(not names and rows > 0 for names, rows in zip(headers, lines.rows, strict=True))
    own = {name: own_values(files, has[name], name) for name in in_paths if name in schema.names}
    batch = finished(frame, files, schema, lines.rows, records, before, own=own, filtered=filtered)
    named = dict.fromkeys(name for header in headers for name in header)
    return replace(batch, found={name: {} for name in named} if named else None)


def no_records(spark: SparkSession, known: StructType | None, needed: Mapping[str, DataType], files: int) -> Batch:
    """The records of files without a byte: none, with the columns that are known and those that the lane needs."""
    schema = known or StructType()
    columns = with_fields(schema, needed, typed=False)
    own = [StructField(name, LongType()) for name in (PLACE, POSITION)]
    frame = spark.createDataFrame([], StructType([*columns.fields, *own]))
    return Batch(frame, tuple(columns.names), schema, (0,) * files, (0,) * files)


def _fields(kinds: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def _found(spark: SparkSession, files: Sequence[SourceFile]) -> StructType:
    """The columns that the lines have; none where no line is a record with a field."""
    inferred = _inferred(spark, [address(file) for file in files])
    if len(inferred.fields) > _MOST_COLUMNS:
        raise DataError.of(
            f"the lines of {files[0].name} and the files with it have too many columns",
            got=len(inferred.fields),
            allowed=f"at most {_MOST_COLUMNS}",
            hint="names that are values belong into an array of pairs",
        )
    return checked_columns(inferred, files[0].name)


def _tree_of(found: StructType, needed: Mapping[str, DataType]) -> dict[str, Any]:
    """The fields that were found. What is null, or of several types, was inferred as text, and may hold any other."""
    tree = schema_tree(found)
    for name in (name for name in needed if not in_tree(tree, name)):
        held: DataType = found
        for step in steps_of(name):
            held = held[step].dataType if isinstance(held, StructType) and step in held.names else held
        if isinstance(held, StringType):
            tree[name] = {}
    return tree


def _json_schema(
    found: StructType, files: Sequence[SourceFile], known: StructType | None, needed: Mapping[str, DataType]
) -> StructType:
    """The known columns and those found. What is in paths too is text, as a path has it."""
    in_paths = {name for file in files for name in file.values}
    new = StructType([StructField(f.name, StringType()) if f.name in in_paths else f for f in found.fields])
    new = with_fields(new, needed)
    schema = widened(known or new, new)
    assert isinstance(schema, StructType)
    return with_fields(schema, needed, typed=False)


def _inferred(spark: SparkSession, addresses: list[str]) -> StructType:
    """The columns that Spark finds in JSON lines. Given lines, not files, it does not mind a name that is there twice.

    One such record would otherwise stop all others. Of two values of one name the last counts, as in most parsers. For
    lines that are no records Spark would add a column, which may have the name of one in the records.
    """
    reader: Any = spark.read.options(mode="DROPMALFORMED", **_IN_COLUMNS)
    value = F.col("value")
    lines: Any = spark.read.text(addresses).where(_has_few_names(value) & ~_has_empty_name(value))
    java: Any = spark._jvm
    strings = getattr(lines._jdf, "as")(java.org.apache.spark.sql.Encoders.STRING())
    inferred = json.loads(reader._jreader.json(strings).schema().json())
    single = _single_names(StructType.fromJson(inferred))
    assert isinstance(single, StructType)
    return single


def _single_names(kind: DataType) -> DataType:
    """Each name once, as text where its values are of several types."""
    if isinstance(kind, ArrayType):
        return ArrayType(_single_names(kind.elementType))
    if not isinstance(kind, StructType):
        return kind
    kinds: dict[str, DataType] = {}
    for field in kind.fields:
        mine = _single_names(field.dataType)
        kinds[field.name] = mine if kinds.get(field.name, mine) == mine else StringType()
    return StructType([StructField(name, mine) for name, mine in kinds.items()])


def _numbered(spark: SparkSession, files: Sequence[SourceFile], *, header: bool) -> _Lines:
    """Every line with its position. Two passes: a line's number is known only when those before it are counted.

    Spark reads a file in splits, and reports for each line in which split it is. The first pass counts the lines of
    the splits; the second numbers them. Both see the same splits: the session fixes what they depend on.
    """
    meta = F.col("_metadata")
    text = spark.read.text([address(file) for file in files]).select(
        F.col("value").alias(LINE),
        meta["file_path"].alias("keylane_url"),
        meta["file_block_start"].alias("keylane_start"),
        F.monotonically_increasing_id().alias("keylane_at"),
    )
    blank = F.trim(LINE) == ""
    splits = (
        text.groupBy("keylane_url", "keylane_start")
        .agg(F.min("keylane_at"), F.count(F.lit(1)), F.count_if(blank))
        .sort("keylane_url", "keylane_start")
        .collect()
    )
    table, rows = _split_table([tuple(split) for split in splits], files)
    if not table:  # files without a line: there is nothing to join the frame with
        return _Lines(text.select(LINE, F.lit(0).cast("bigint").alias(PLACE)), rows, 0)
    numbers = local(spark, **{name: [row[n] for row in table] for n, name in enumerate(_SPLIT_COLUMNS)})
    nth = F.col("keylane_at") - F.col("keylane_first_at")
    row = F.col("keylane_first_row") + nth
    frame = (
        text.join(F.broadcast(numbers), ["keylane_url", "keylane_start"])
        # A split with other bounds in the second pass loses its lines here, and the records do not add up.
        .where((nth >= 0) & (nth < F.col("keylane_lines")))
        .where(~blank & (row >= int(header)))
        .select(LINE, place_of(F.col("keylane_file"), row).alias(PLACE))
    )
    return _Lines(frame, rows, sum(split[4] for split in splits))


_SPLIT_COLUMNS: Final = (
    "keylane_url",
    "keylane_start",
    "keylane_file",
    "keylane_first_at",
    "keylane_first_row",
    "keylane_lines",
)


def _split_table(
    splits: Sequence[tuple[str, int, int, int, int]], files: Sequence[SourceFile]
) -> tuple[list[tuple[str, int, int, int, int, int]], tuple[int, ...]]:
    """For each split the number of its first line in its file; and the lines of each file. Splits come in order."""
    number = {file.url: n for n, file in enumerate(files)}
    rows = [0] * len(files)
    table = []
    for url, start, first_at, lines, _ in splits:
        file = number[url]
        table.append((url, start, file, first_at, rows[file], lines))
        rows[file] += lines
    return table, tuple(rows)


def _header(file: SourceFile, delimiter: str) -> tuple[str, ...]:
    """The names in a CSV file's first line; none when the file is empty or blank."""
    try:
        # Arrow knows endings in small letters only, and Spark both.
        packed = _ARROW.get(file.path.rpartition(".")[2].lower())
        with pa.input_stream(file.path, compression=packed) as stream:
            head = stream.read(_HEADER_BYTES).decode("utf-8-sig", "replace")
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError.of(f"{file.path} cannot be read as CSV", got=str(error).splitlines()[0]) from error
    # The line ends that Spark knows: `splitlines` would cut a name at other characters.
    line = re.split(r"\r\n|\r|\n", head, maxsplit=1)[0]
    names = tuple(next(csv.reader([line], delimiter=delimiter), []))
    if head.strip() and (not names or len(set(names)) < len(names) or not all(names) or line.count('"') % 2):
        raise DataError.of(f"{file.path} has no usable header line", got=names, allowed="one name for each column")
    return names


def _csv_records(
    lines: DataFrame, schema: StructType, headers: Sequence[tuple[str, ...]], nulls: Sequence[str], delimiter: str
) -> DataFrame:
    """Lines parsed by the header of their own file, into the columns of all."""
    shapes = [shape for shape in dict.fromkeys(headers) if shape]
    number = picked([shapes.index(h) if h else -1 for h in headers], "int", file_of(F.col(PLACE)))
    # Which cell has quotes is known to the parser alone, so with nulls everything is text first.
    kinds = {} if nulls else {field.name: field.dataType.simpleString() for field in schema.fields}
    line = _with_marks(F.col(LINE), nulls, delimiter)
    parsed = lines.select(
        "*", *(_parsed(line, kinds, shape, number == n, n, delimiter) for n, shape in enumerate(shapes))
    )
    records = [F.col(f"keylane_shape_{n}") for n in range(len(shapes))]
    whole = [record.isNotNull() & record[_CORRUPT].isNull() for record in records]
    quotes = F.length(LINE) - F.length(F.replace(F.col(LINE), F.lit('"'), F.lit("")))
    cells = {field.name: _csv_cell(field, records, shapes, nulls) for field in schema.fields}
    values = {field.name: _csv_value(field, cells[field.name], nulls) for field in schema.fields}
    typed = [f.name for f in schema.fields if nulls and not isinstance(f.dataType, StringType)]
    fit = [cells[name].isNull() | values[name].isNotNull() for name in typed]
    sound = F.is_valid_utf8(LINE) & (quotes % 2 == 0) & _any(whole) & reduce(lambda a, b: a & b, fit, F.lit(True))
    columns = [value.alias(name) for name, value in values.items()]
    return parsed.select(LINE, PLACE, (~F.coalesce(sound, F.lit(False))).alias(MALFORMED), *columns)


def _with_marks(line: Column, nulls: Sequence[str], delimiter: str) -> Column:
    """The line with a mark for each cell that stands for null and is not empty; empty cells the parser knows."""
    texts = [f"\\Q{text}\\E" for text in nulls if text]
    if not texts:
        return line
    # From one such cell to the next over whole cells, with all that is in their quotes: no part is looked at twice.
    sign = rf"\Q{delimiter}\E"
    nothing = rf"(?:{'|'.join(texts)})(?={sign}|$)"
    others = rf'(?:(?!{nothing})[^"{sign}]*+(?:"[^"]*+"[^"{sign}]*+)*+{sign})*+'
    return F.regexp_replace(line, F.lit(rf"\G({others}){nothing}"), F.lit(f"$1{_NULL}"))


def _parsed(line: Column, kinds: Mapping[str, str], shape: Sequence[str], mine: Column, n: int, sign: str) -> Column:
    fields = [f"`{name.replace('`', '``')}` {kinds.get(name, 'string')}" for name in shape]
    options = {**_CSV, "sep": sign, **({} if kinds else {"emptyValue": _QUOTED})}
    record = F.from_csv(line, ", ".join([*fields, f"{_CORRUPT} string"]), options)
    return F.when(mine & _has_few_cells(F.col(LINE), sign), record).alias(f"keylane_shape_{n}")


def _has_few_cells(text: Column, sign: str) -> Column:
    """Whether Spark's parser takes a line at all: one of more cells it does not call malformed, it fails by it."""
    bare = F.regexp_replace(text, '"[^"]*+"', "")
    commas = F.length(bare) - F.length(F.replace(bare, F.lit(sign), F.lit("")))
    return (F.octet_length(text) < _MOST_CELLS) | (commas < _MOST_CELLS)


def _csv_cell(
    field: StructField, records: Sequence[Column], shapes: Sequence[Sequence[str]], nulls: Sequence[str]
) -> Column:
    """A cell from whichever shape has it: null where it stands for null, or there is none.

    A text cell without text is the empty text, unless that stands for null too; one with quotes always is.
    """
    own = [record for record, shape in zip(records, shapes, strict=True) if field.name in shape]
    if not own:
        return F.lit(None).cast("string" if nulls else field.dataType)
    cell, there = F.coalesce(*(record[field.name] for record in own)), _any([record.isNotNull() for record in own])
    if nulls:
        known = F.when(cell == _QUOTED, "").otherwise(F.when(cell != _NULL, cell))
        text = known if "" in nulls else F.when(cell.isNull(), "").otherwise(known)
        return F.when(there, text if isinstance(field.dataType, StringType) else F.nullif(text, F.lit("")))
    return F.when(there, F.coalesce(cell, F.lit(""))) if isinstance(field.dataType, StringType) else cell


def _csv_value(field: StructField, cell: Column, nulls: Sequence[str]) -> Column:
    """The cell as its column holds it; null where it does not fit. Without nulls the parser has typed it."""
    if not nulls or isinstance(field.dataType, StringType):
        return cell
    # As the parser reads numbers: a cast would take spaces around them, and half a number.
    fits = cell.rlike(_WHOLE) if isinstance(field.dataType, LongType) else F.trim(cell) == cell
    return F.when(fits, cell.try_cast(field.dataType))


def _any(conditions: Sequence[Column]) -> Column:
    return reduce(lambda a, b: a | b, conditions, F.lit(False))

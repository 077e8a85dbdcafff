"""The key fields of a contract as columns: base key and routing key, value for value those of `keylane.keys`.

No value can stop a query: one that does not fit its encoding gives null bytes, and a column that marks it. A column
whose type cannot hold such a key at all is a wrong contract or a wrong frame, and raises. Windows are here, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DoubleType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from keylane.contract.fields import (
    FieldSpec,
    absent_name,
    fields_of,
    no_such_field,
    paths_in,
    resolved_name,
    steps_of,
)
from keylane.contract.names import FIXED_WIDTH
from keylane.errors import DataError, did_you_mean
from keylane.keys.encode import REGISTRY_HEADER
from keylane.keys.read import FURTHEST, TICKS
from keylane.spark.java_calls import static_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from keylane.contract.fields import FieldKind
    from keylane.contract.model import Contract, Key, Window
    from keylane.contract.names import Encoding
    from keylane.spark.java_calls import JavaBackend


# What kind of values a column holds, as far as a key cares; and expressions that differ by it.

Kind: TypeAlias = Literal["string", "binary", "integer", "timestamp", "timestamp_ntz", "void", "other"]

_TYPES: Final[dict[Kind, tuple[type[DataType], ...]]] = {
    "string": (StringType, CharType, VarcharType),
    "binary": (BinaryType,),
    "integer": (ByteType, ShortType, IntegerType, LongType),
    "timestamp": (TimestampType,),
    "timestamp_ntz": (TimestampNTZType,),
    "void": (NullType,),
}
#: The same as Spark writes them; a collation stands after the word `string`.
_WRITTEN: Final[dict[Kind, str]] = {
    "string": "string( collate .*)?|char.*|varchar.*",
    "binary": "binary",
    "integer": "tinyint|smallint|int|bigint",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "void": "void",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field that a contract names: its values, their kind (None while only Spark knows it) and their type.

    `absent` marks records that do not have the field at all; None where every record has it.
    """

    name: str
    column: Column
    kind: Kind | None
    held: DataType | None = None
    absent: Column | None = None

    @property
    def written(self) -> str:
        """The type as Spark writes it."""
        return "" if self.held is None else self.held.simpleString()


def column_named(name: str) -> Column:
    """The top-level column of exactly this name; dots and spaces in it mean nothing."""
    return F.col(f"`{name.replace('`', '``')}`")


def field_of(name: str, schema: StructType | None) -> Field:
    """A field of a frame, or of a frame to come: there a name with dots is the name of a column."""
    if schema is None:
        return Field(name, column_named(name), None)
    column, held = _found(name, schema) or (None, None)
    if column is None or held is None:
        raise no_such_field("the frame lacks a column", name, paths_in(schema_tree(schema)))
    absent = column_named(absent_name(name)) if absent_name(name) in schema.names else None
    return Field(name, column, _kind(held), held, absent)


def has_field(name: str, schema: StructType) -> bool:
    """Whether a frame has a field: a column of this very name, or what is at this path."""
    return _found(name, schema) is not None


def _found(name: str, schema: StructType) -> tuple[Column, DataType] | None:
    """By the rule of `contract.fields`; a reader's own column for the field comes before all."""
    for known in (resolved_name(name), name):
        if known in schema.names:
            return column_named(known), schema[known].dataType
    first, *rest = steps_of(name)
    if first not in schema.names:
        return None
    column, held = column_named(first), schema[first].dataType
    for step in rest:
        if not isinstance(held, StructType) or step not in held.names:
            return None
        column, held = column.getField(step), held[step].dataType
    return column, held


def schema_tree(schema: StructType) -> dict[str, Any]:
    """The names in a schema, as `contract.fields.paths_in` takes them; keylane's own columns left out."""
    fields = [field for field in schema.fields if not field.name.startswith(_OWN)]
    return {f.name: schema_tree(f.dataType) if isinstance(f.dataType, StructType) else {} for f in fields}


def _kind(data_type: DataType) -> Kind:
    return next((kind for kind, types in _TYPES.items() if isinstance(data_type, types)), "other")


def choose(field: Field, wanted: str, choices: Mapping[Kind, Column]) -> Column:
    """The choice for the field's kind. `wanted` is for the error: what the column does not hold.

    A column of nulls only fits every choice.
    """
    if field.kind is None:
        return _chosen_by_spark(field, wanted, choices)
    if field.kind == "void":
        return next(iter(choices.values()))
    if field.kind not in choices:
        raise DataError.of(f"column {field.name!r} holds no {wanted}", got=field.written, allowed=", ".join(choices))
    return choices[field.kind]


def _chosen_by_spark(field: Field, wanted: str, choices: Mapping[Kind, Column]) -> Column:
    kind = F.typeof(field.column)
    out = F.raise_error(F.lit(f"column {field.name!r} holds no {wanted}: allowed: {', '.join(choices)}"))
    for name, choice in {**choices, "void": next(iter(choices.values()))}.items():
        out = F.when(kind.rlike(f"^({_WRITTEN[name]})$"), choice).otherwise(out)
    return out


#: How the columns begin that readers add for routing.
_OWN: Final = ("keylane_", "__keylane_")


# A time column -> the number of its window: the rule of `keylane.keys.read`.


SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND


def window_number(time: Field, window: Window) -> tuple[Column, Column]:
    """The number of the window in the key, and which rows hold something that is not a time."""
    micros, size = _micros(time, window), window.micros // 1000
    index = floor_divided(floor_divided(micros, 1000), size)
    number = {"index": index, "start_ms": index * size, "start_s": floor_divided(index * size, 1000)}[window.as_]
    return number, time.column.isNotNull() & micros.isNull()


def floor_divided(number: Column, by: int) -> Column:
    """Rounded down; Spark's `div` rounds towards zero, and its `/` goes through doubles."""
    quotient = F.call_function("div", number, F.lit(by).cast("bigint"))
    return quotient - F.when(number % by < 0, 1).otherwise(0)


def _micros(time: Field, window: Window) -> Column:
    """Microseconds since 1970-01-01 UTC; null where there is no time, or one out of range."""
    ticks = TICKS[window.unit]
    choices: dict[Kind, Column] = {
        "integer": _within(time.column.cast("bigint"), FURTHEST // ticks) * ticks,
        "timestamp": _within(F.unix_micros(time.column.cast("timestamp")), FURTHEST),
    }
    if time.kind is not None:
        # Left out while the kind is unknown: Spark refuses the other choices for this type before it can choose.
        choices["timestamp_ntz"] = _within(_wall_clock(time.column), FURTHEST)
    return choose(time, "times", choices)


def _within(number: Column, most: int) -> Column:
    return F.when(number.between(-most, most), number)


def _wall_clock(time: Column) -> Column:
    """Take a naive time as UTC, part by part: every cast to a timestamp would read it in the session's zone."""
    seconds = (F.date_part(F.lit("SECOND"), time) * SECOND).cast("bigint")
    minutes = F.hour(time).cast("bigint") * 60 + F.minute(time)
    days = F.try_multiply(F.unix_date(time.cast("date")).cast("bigint"), F.lit(DAY))
    return F.try_add(days, minutes * (60 * SECOND) + seconds)


UUID: Final = r"\A[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z"
#: The text of a cell: its number has bit 59 set and no higher one, so that its first digit is 8 or more.
CELL: Final = r"\A0?[89a-fA-F][0-9a-fA-F]{14}\z"
#: Encodings and kinds whose every value fits.
ALWAYS_FIT: Final = {("utf8", "string"), ("utf8", "integer"), ("int64be", "integer"), ("raw", "binary")}
GUAVA: Final = {4: "com.google.common.primitives.Ints", 8: "com.google.common.primitives.Longs"}


@dataclass(frozen=True, slots=True)
class Bytes:
    """The bytes of each row, and where there is one, the number (bigint, `width` bytes wide) that they spell.

    Some hashes are much quicker on a number; see `hashes`.
    """

    binary: Column
    number: Column | None = None
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a frame. `malformed` is None when no value can be; `routing` is null where it holds or a field is.

    `missing` marks records without a field of the key or of the window; None where all have them.
    """

    base: Bytes
    routing: Bytes
    malformed: Column | None
    missing: Column | None = None


def read_keys(key: Key, schema: StructType | None, backend: JavaBackend) -> Keys:
    """Base and routing key of every row."""
    fields = [field_of(name, schema) for name in key.fields]
    parts = [_encoded(field, encoding, backend) for field, encoding in zip(fields, key.encodings, strict=True)]
    misfits = [_misfit(*each) for each in zip(fields, key.encodings, parts, strict=True)]
    base = _joined(parts, key.joined_by)
    if key.registry_header == "strip":
        full = base.binary
        headed = (F.octet_length(full) >= REGISTRY_HEADER) & (F.substring(full, 1, 1) == F.lit(b"\x00"))
        base = Bytes(F.when(headed, F.substring(full, REGISTRY_HEADER + 1, 2**31 - 1)))
        misfits.append(full.isNotNull() & base.binary.isNull())
    if key.window is None:
        return Keys(base, base, _any(misfits), _any([field.absent for field in fields]))
    time = field_of(key.window.field, schema)
    number, misfit = window_number(time, key.window)
    # A record whose key is null has a null key, whatever its time holds: the order of checks in the router.
    misfits.append(misfit & base.binary.isNotNull())
    part = _window_part(number, key, backend)
    missing = _any([field.absent for field in (*fields, time)])
    return Keys(base, _joined([base, part], key.joined_by), _any(misfits), missing)


def read_sub_key(name: str, schema: StructType | None) -> tuple[Bytes, Column | None, Column | None]:
    """A sub-key's text, null as the empty text; which rows hold bytes that are not text, and which have no such field.

    None where no row can be such.
    """
    field = field_of(name, schema)
    part = _utf8(field)
    return Bytes(F.coalesce(part.binary, F.lit(b""))), _misfit(field, "utf8", part), field.absent


def _encoded(field: Field, encoding: Encoding, backend: JavaBackend) -> Bytes:
    if encoding == "utf8":
        return _utf8(field)
    if encoding in ("int32be", "int64be", "h3"):
        number, width = _NUMBERS[encoding](field), FIXED_WIDTH[encoding]
        return Bytes(big_endian(number, width, backend), number=number, width=width)
    if encoding == "uuid":
        return _uuid(field)
    return Bytes(choose(field, "raw keys", {"binary": field.column.cast("string").cast("binary")}))


def _misfit(field: Field, encoding: Encoding, part: Bytes) -> Column | None:
    """Where there is a value but no bytes."""
    if (encoding, field.kind) in ALWAYS_FIT:
        return None
    return field.column.isNotNull() & part.binary.isNull()


def _any(conditions: Sequence[Column | None]) -> Column | None:
    known = [condition for condition in conditions if condition is not None]
    return reduce(lambda a, b: a | b, known) if known else None


def _utf8(field: Field) -> Bytes:
    """Binary is validated, because Spark casts it to text without a check. Text is not, as in Arrow."""
    text = field.column.cast("string")
    choices: dict[Kind, Column] = {"string": text, "integer": text, "binary": F.when(F.is_valid_utf8(text), text)}
    return Bytes(choose(field, "utf8 keys", choices).cast("binary"))


def _uuid(field: Field) -> Bytes:
    text = field.column.cast("string")
    binary = F.when(F.octet_length(text) == 16, text.cast("binary"))
    digits = F.when(text.rlike(UUID), F.unhex(F.replace(text, F.lit("-"), F.lit(""))))
    return Bytes(choose(field, "uuid keys", {"string": digits, "binary": binary}))


def _int32(field: Field) -> Column:
    number = field.column.try_cast("bigint")
    return choose(field, "int32be keys", {"integer": F.when(number.between(-(2**31), 2**31 - 1), number)})


def _int64(field: Field) -> Column:
    return choose(field, "int64be keys", {"integer": field.column.try_cast("bigint")})


def _h3(field: Field) -> Column:
    number, text = field.column.try_cast("bigint"), field.column.cast("string")
    cell = F.when(F.shiftright(number, 59) == 1, number)
    read = F.when(text.rlike(CELL), F.conv(text, 16, 10).try_cast("bigint"))
    return choose(field, "h3 keys", {"integer": cell, "string": read})


_NUMBERS: Final[dict[Encoding, Callable[[Field], Column]]] = {"int32be": _int32, "int64be": _int64, "h3": _h3}


def big_endian(number: Column, width: int, backend: JavaBackend) -> Column:
    """A number's bytes. ANSI mode has no cast for it; hex digits are the public alternative."""
    if backend == "static":
        return static_call(GUAVA[width], "toByteArray", "binary", number.cast("int") if width == 4 else number)
    digits = F.hex(number if width == 8 else number.bitwiseAND(F.lit(0xFFFFFFFF)))
    return F.unhex(F.lpad(digits, 2 * width, "0"))


def _joined(parts: Sequence[Bytes], between: bytes) -> Bytes:
    """Parts end to end, null if one is."""
    if len(parts) == 1:
        return parts[0]
    return Bytes(F.concat(*[column for part in parts for column in (F.lit(between), part.binary)][1:]))


def _window_part(number: Column, key: Key, backend: JavaBackend) -> Bytes:
    """The window's number in the manner of the other parts: digits after text, 8 bytes after fixed widths."""
    if key.fixed_width:
        return Bytes(big_endian(number, 8, backend))
    return Bytes(number.cast("string").cast("binary"))


# What a frame must have before it can be routed, reported before anything runs. The routing is in `frames`.

#: The columns that `route` adds, in this order.
ADDED: Final = ("stream", "lane", "routing_key", "reason")
#: How the columns begin that routing needs on its backend, and drops.
PREFIX: Final = "__keylane_"
_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)


def check_frame(df: DataFrame, contract: Contract, position: str | None) -> None:
    """Raise DataError for a frame that lacks a field, has one twice, or has one that routing adds."""
    positions = [position] if position else []
    _all_there(df, [*fields_of(contract), *positions])
    _each_once(df, [*fields_of(contract), *positions])
    # Column names are case-insensitive in Spark by default.
    taken = [name for name in df.columns if name.lower() in ADDED or name.startswith(PREFIX)]
    if taken:
        hint = "rename or drop them first, or give a prefix"
        raise DataError.of("the frame has columns that routing adds", got=", ".join(taken), hint=hint)
    if position and not isinstance(df.schema[position].dataType, _INTEGERS):
        kind = df.schema[position].dataType.simpleString()
        raise DataError.of(f"column {position!r} holds no positions", got=kind, allowed="integers")


def _all_there(df: DataFrame, names: Sequence[str]) -> None:
    schema = df.schema
    missing = [name for name in names if not has_field(name, schema)]
    if missing:
        known = paths_in(schema_tree(schema))
        hints = dict.fromkeys(_hint(name, known) for name in missing)
        what = "the frame lacks a column" if len(missing) == 1 else "the frame lacks columns"
        raise no_such_field(what, ", ".join(missing), known, ", ".join(hint for hint in hints if hint))


def _hint(name: str, known: Sequence[str]) -> str:
    same_letters = [column for column in known if column.lower() == name.lower()]
    return f"did you mean {same_letters[0]!r}?" if same_letters else did_you_mean(name, known)


def _each_once(df: DataFrame, names: Sequence[str]) -> None:
    tops = dict.fromkeys(name if name in df.columns else steps_of(name)[0] for name in names)
    twins = {name: [column for column in df.columns if column.lower() == name.lower()] for name in tops}
    twice = {name: columns for name, columns in twins.items() if len(columns) > 1}
    case_sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    if any(columns.count(name) > 1 for name, columns in twice.items()) or (twice and not case_sensitive):
        got = ", ".join(dict.fromkeys(column for columns in twice.values() for column in columns))
        raise DataError.of("the frame has a column more than once", got=got, hint="rename or drop the others first")


#: What a field holds, where its source has no types of its own.
TYPES: Final[dict[FieldKind, DataType]] = {
    "text": StringType(),
    "written": StringType(),
    "integer": LongType(),
    "degrees": DoubleType(),
    "flag": BooleanType(),
}


def needed_types(contract: Contract) -> dict[str, DataType]:
    """The types of the fields that a contract looks at, for sources that have none of their own."""
    spec = FieldSpec.of(contract)
    return {name: TYPES[spec.kind(name)] for name in spec.names}

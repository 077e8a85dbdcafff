"""What kind of values a column holds, as far as a key cares; and expressions that differ by it.

The kind is known when there is a frame to ask (`route`). A column alone (`lane`) has none until Spark analyses it:
then all choices are given to Spark behind `typeof`, which is a constant by the time the query runs and costs nothing.
Which kinds an encoding takes: `keys`. Which kinds a window takes: `windows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    CharType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from keylane.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

__all__ = ["Field", "Kind", "choose", "column_named", "field_of"]

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
    """A column that a contract names, its kind (None while only Spark can tell), and its type as Spark writes it."""

    name: str
    column: Column
    kind: Kind | None
    written: str = ""


def column_named(name: str) -> Column:
    """The top-level column of exactly this name; dots and spaces in it mean nothing."""
    return F.col(f"`{name.replace('`', '``')}`")


def field_of(name: str, schema: StructType | None) -> Field:
    """A field of a frame, or of a frame to come."""
    if schema is None:
        return Field(name, column_named(name), None)
    held = schema[name].dataType
    return Field(name, column_named(name), _kind(held), held.simpleString())


def _kind(data_type: DataType) -> Kind:
    return next((kind for kind, types in _TYPES.items() if isinstance(data_type, types)), "other")


def choose(field: Field, wanted: str, choices: Mapping[Kind, Column]) -> Column:
    """The choice for the field's kind. `wanted` is what an error says it does not hold.

    A column of nothing but nulls fits every choice: each of its values is null.
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

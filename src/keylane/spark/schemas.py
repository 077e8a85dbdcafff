"""How the columns of a stream may change from batch to batch: they may become more, and none ever changes its type.

A column that is new is added; files from before have nulls in it. Readers can rely on the type a column once had.
Pure functions over Spark's types; who calls them is `files` (Parquet) and `lines` (JSON lines, CSV).
"""

from __future__ import annotations

from typing import Final

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

from keylane.errors import DataError

__all__ = ["checked_columns", "merged", "widened"]

#: Columns that keylane gives a record. A source that keylane wrote has them from its last hop: they are made anew.
GIVEN: Final = ("keylane_offset", "keylane_source")
#: Columns that are folders in the target, so no record may have them inside.
FOLDERS: Final = ("stream", "lane")

_WIDTHS: Final[dict[type[DataType], int]] = {ByteType: 1, ShortType: 2, IntegerType: 4, LongType: 8}


def checked_columns(schema: StructType, where: str) -> StructType:
    """The columns of a source as a stream takes them: keylane's own left out, reserved names refused."""
    fields = [field for field in schema.fields if field.name.lower() not in GIVEN]
    taken = [f.name for f in fields if f.name.lower() in FOLDERS or f.name.lower().lstrip("_").startswith("keylane_")]
    if taken:
        hint = "rename them in the source: they are folders of the target"
        raise DataError.of(f"{where} has columns of reserved names", got=", ".join(taken), hint=hint)
    return StructType([StructField(field.name, _known_type(field.dataType)) for field in fields])


def merged(known: StructType, new: StructType, where: str) -> StructType:
    """The known columns and the new ones; a known column of another type is an error that names the file."""
    given = checked_columns(new, where)
    for field in given.fields:
        before = _field(known, field.name)
        if before is not None and not _reads_as(field.dataType, before.dataType):
            got, allowed = field.dataType.simpleString(), before.dataType.simpleString()
            raise DataError.of(f"{where}: column {field.name!r} has changed its type", got=got, allowed=allowed)
    return StructType(known.fields + [field for field in given.fields if _field(known, field.name) is None])


def widened(known: DataType, new: DataType) -> DataType:
    """As `merged`, all the way down, and known types win: records that do not fit them become dead letters."""
    if isinstance(known, StructType) and isinstance(new, StructType):
        fields = [StructField(f.name, widened(f.dataType, _type(new, f.name, f.dataType))) for f in known.fields]
        return StructType(fields + [f for f in new.fields if _field(known, f.name) is None])
    if isinstance(known, ArrayType) and isinstance(new, ArrayType):
        return ArrayType(widened(known.elementType, new.elementType))
    return known


def _field(schema: StructType, name: str) -> StructField | None:
    return next((field for field in schema.fields if field.name == name), None)


def _type(schema: StructType, name: str, otherwise: DataType) -> DataType:
    found = _field(schema, name)
    return otherwise if found is None else found.dataType


def _reads_as(new: DataType, known: DataType) -> bool:
    """Whether Parquet of the new type can be read as the known one without a change of value."""
    narrow, wide = _WIDTHS.get(type(new)), _WIDTHS.get(type(known))
    if narrow and wide:
        return narrow <= wide
    return _bare(new) == _bare(known)


def _bare(kind: DataType) -> DataType:
    """The type without its promises about nulls."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _bare(f.dataType)) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_bare(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_bare(kind.keyType), _bare(kind.valueType))
    return kind


def _known_type(kind: DataType) -> DataType:
    """A column without a type, because it holds nothing but nulls, is text: the type that can take whatever comes."""
    return StringType() if isinstance(kind, NullType) else _bare(kind)

"""Fields of JSON records as columns: by name or path, absent kept apart from null, and numbers with their value.

The rule for names with dots is that of `contract.fields`, for each record. Reading whole lines: `read_lines`. Values of
messages: `messages`. The same on Arrow: `systems.messages.values`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from keylane.contract.fields import steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column

#: Only a number of so many digits, or of such an exponent, can be one that a double, or a float, does not hold.
_SUSPECT: Final = {DoubleType: "[0-9]{16,}|[eE][+-]?[0-9]{3,}", FloatType: "[0-9]{8,}|[eE][+-]?[0-9]{2,}"}
_WHOLE: Final = "^-?[0-9]{1,38}$"
_DIGITS: Final = "^-?[0-9]+$"
#: How Spark writes a number that is beyond a double.
_BEYOND: Final = ('"Infinity"', '"-Infinity"')
_TINY: Final = "[eE]-[0-9]{3,}"
#: What an object, a list, a truth value, a fraction or a number of many digits looks like as text.
_NO_TEXT: Final = r"^([\[{].*|true|false|\"?-?Infinity\"?|-?[0-9]*([.eE][0-9.eE+-]*|[0-9]{19,}))$"
#: What a path can lead through, and null, where it ends.
_HAS_FIELDS: Final = "^(OBJECT.*|VOID)$"
_NUMBER: Final = DecimalType(38, 0)
#: Null as null, and times with all that Spark has of them: by default it writes milliseconds.
_EXACT: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def json_of(columns: Sequence[Column]) -> Column:
    """A record of these columns as one JSON object: all of them, and times to the microsecond."""
    return F.to_json(F.struct(*columns), _EXACT)


def with_fields(schema: StructType, needed: Mapping[str, DataType], *, typed: bool = True) -> StructType:
    """A schema of JSON records that has these fields too: at the top, or, for a name with dots, at its path.

    `typed`: those that it has get the type that a key needs; otherwise they are left as they are.
    """
    for name, kind in needed.items():
        steps = steps_of(name)
        if name in schema.names or len(steps) == 1:
            schema = _typed(schema, (name,), kind, typed=typed)
        if len(steps) > 1 and (name not in schema.names or steps[0] in schema.names):
            schema = _typed(schema, steps, kind, typed=typed)
    return schema


def both_ways(needed: Mapping[str, DataType]) -> StructType:
    """Only these fields, each by its name and by its path."""
    return with_fields(StructType([StructField(name, kind) for name, kind in needed.items()]), _nested(needed))


def _nested(needed: Mapping[str, DataType]) -> dict[str, DataType]:
    firsts = {steps_of(name)[0]: StructType() for name in needed if len(steps_of(name)) > 1}
    return {**{first: kind for first, kind in firsts.items() if first not in needed}, **needed}


def _typed(schema: StructType, steps: Sequence[str], kind: DataType, *, typed: bool) -> StructType:
    first, *rest = steps
    known = schema[first].dataType if first in schema.names else None
    if known is not None and not typed and not (rest and isinstance(known, StructType)):
        return schema
    if rest:
        inner = known if isinstance(known, StructType) else StructType()
        held: DataType = _typed(inner, rest, kind, typed=typed)
    else:
        held = kind if known is None else key_type(known, kind)
    field = StructField(first, held)
    if known is None:
        return StructType([*schema.fields, field])
    return StructType([field if one.name == first else one for one in schema.fields])


def key_type(inferred: DataType, needed: DataType) -> DataType:
    """The type of a field of the key: one odd record must not give all others a type that a key cannot have."""
    kept = isinstance(needed, StringType) and isinstance(inferred, StringType | LongType)
    return inferred if kept else needed


def value_in(record: Column, text: Column, name: str, schema: StructType) -> Column:
    """The value of a field of a record that was parsed by a schema out of this text."""
    exact = record.getField(name) if name in schema.names else None
    steps = steps_of(name)
    if len(steps) == 1 or steps[0] not in schema.names:
        assert exact is not None
        return exact
    nested = reduce(lambda column, step: column.getField(step), steps, record)
    if exact is None:
        return nested
    # Looked for in the text first: to list the names is to parse the record once more.
    named = (F.instr(text, f'"{name}"') > 0) | (F.instr(text, "\\u") > 0)
    return F.when(exact.isNotNull(), exact).when(named & _names(text, name), None).otherwise(nested)


def absent_in(value: Column, text: Column, name: str) -> Column:
    """Whether a record has no such field at all. Only where its value is null is the text looked at again."""
    missing = ~_names(text, name) & _path_breaks(text, steps_of(name))
    return F.when(value.isNull(), F.coalesce(missing, F.lit(False))).otherwise(F.lit(False))


def _names(text: Column, name: str) -> Column:
    return F.array_contains(F.json_object_keys(text), name)


def _path_breaks(text: Column, steps: Sequence[str]) -> Column:
    """Whether a name on the way is not there; a parent that is null ends the way, and breaks nothing."""
    first, *rest = steps
    if not rest:
        return ~_names(text, first)
    inner = F.from_json(text, StructType([StructField(first, StringType())]))[first]
    further = F.when(inner.isNull(), F.lit(False)).otherwise(_path_breaks(inner, rest))
    return F.when(~_names(text, first), F.lit(True)).otherwise(further)


def unlike_text(value: Column, text: Column, name: str) -> Column:
    """Whether a field of text is written as something that is neither text nor a whole number of 64 bits.

    Spark makes text of anything, and other text than was written. Only what looks like it is looked at again.
    """
    tops = dict.fromkeys((name, steps_of(name)[0]))
    found = F.from_json(text, StructType([StructField(top, VariantType()) for top in tops]))
    other = ~F.schema_of_variant(variant_at(found, name)[0]).rlike("^(STRING|BIGINT)$")
    text_of = value.cast("string")
    return F.when(text_of.rlike(_NO_TEXT), F.coalesce(other, F.lit(False))).otherwise(F.lit(False))


def variant_at(record: Column, name: str) -> tuple[Column, Column]:
    """A field of a record whose fields are variants, null where it is not there; and whether its path can be followed.

    A variant that holds null is not null: so both are distinguished without a second look at the text.
    """
    first, *rest = steps_of(name)
    value, fits = record.getField(first), F.lit(True)
    for step in rest:
        fits = fits & F.coalesce(F.schema_of_variant(value).rlike(_HAS_FIELDS), F.lit(True))
        inner = F.try_variant_get(value, f"$[{_quoted(step)}]", "variant")
        value = F.when(F.is_variant_null(value), value).otherwise(inner)
    if not rest:
        return value, fits
    exact = record.getField(name)
    return F.coalesce(exact, value), exact.isNotNull() | fits


def _quoted(step: str) -> str:
    return f'"{step}"' if "'" in step else f"'{step}'"


# Numbers. JSON has one kind of them, and a column another: what does not fit is found, not rounded.


def inexact(text: Column, schema: StructType) -> Column | None:
    """Which records have a number that its column cannot hold; None where every column holds what it is given.

    A double holds a whole number exactly or not at all, and none beyond its range; a fraction is the nearest double. A
    decimal holds the digits that its scale has. Other types refuse what they cannot hold by themselves.
    """
    twins = _twins(schema)
    if twins is None:
        return None
    values, written = F.from_json(text, schema), F.from_json(text, twins)
    checks = [lost for twin in twins.fields if (lost := _lost(values, written, schema, twin, text)) is not None]
    lost = F.coalesce(reduce(lambda a, b: a | b, checks), F.lit(False))
    kinds = {type(kind) for kind in _leaves(schema)}
    if DecimalType in kinds:
        return lost
    return F.when(text.rlike(_SUSPECT[FloatType if FloatType in kinds else DoubleType]), lost).otherwise(F.lit(False))


def _leaves(kind: DataType) -> list[DataType]:
    if isinstance(kind, StructType):
        return [leaf for field in kind.fields for leaf in _leaves(field.dataType)]
    if isinstance(kind, ArrayType):
        return _leaves(kind.elementType)
    return _leaves(kind.valueType) if isinstance(kind, MapType) else [kind]


def _twins(kind: StructType) -> StructType | None:
    """The fields that can lose a value, as types that cannot: text, or decimals with more digits."""
    found = {field.name: _twin(field.dataType) for field in kind.fields}
    fields = [StructField(name, twin) for name, twin in found.items() if twin is not None]
    return StructType(fields) if fields else None


def _twin(kind: DataType) -> DataType | None:
    if isinstance(kind, DoubleType | FloatType):
        return StringType()
    if isinstance(kind, DecimalType):
        return DecimalType(38, min(38 - (kind.precision - kind.scale), kind.scale + 18))
    if isinstance(kind, StructType):
        return _twins(kind)
    inner = kind.elementType if isinstance(kind, ArrayType) else kind.valueType if isinstance(kind, MapType) else None
    twin = None if inner is None else _twin(inner)
    if twin is None:
        return None
    return ArrayType(twin) if isinstance(kind, ArrayType) else MapType(StringType(), twin)


def _lost(values: Column, written: Column, schema: StructType, twin: StructField, text: Column) -> Column | None:
    return _differs(schema[twin.name].dataType, text)(values[twin.name], written[twin.name])


def _differs(kind: DataType, text: Column) -> Callable[[Column, Column], Column]:
    """Whether a value is another than what was written, for a type that can lose one."""
    if isinstance(kind, DoubleType | FloatType):
        return lambda value, written: _double_differs(value, written, text)
    if isinstance(kind, DecimalType):
        return lambda value, written: value != written
    if isinstance(kind, ArrayType):
        inner = _differs(kind.elementType, text)
        return lambda value, written: F.exists(F.zip_with(value, written, inner), lambda lost: lost)
    if isinstance(kind, MapType):
        of_value = _differs(kind.valueType, text)
        return lambda value, written: F.exists(
            F.map_values(F.map_zip_with(value, written, lambda _, a, b: of_value(a, b))), lambda lost: lost
        )
    assert isinstance(kind, StructType)
    parts = [(f.name, _differs(f.dataType, text)) for f in kind.fields if _twin(f.dataType) is not None]

    def any_part(value: Column, written: Column) -> Column:
        lost = [F.coalesce(differs(value[name], written[name]), F.lit(False)) for name, differs in parts]
        return reduce(lambda a, b: a | b, lost)

    return any_part


def _double_differs(value: Column, written: Column, text: Column) -> Column:
    other = value.try_cast(_NUMBER) != written.try_cast(_NUMBER)
    whole = F.when(written.rlike(_WHOLE), F.coalesce(other, F.lit(True))).otherwise(written.rlike(_DIGITS))
    vanished = (value == 0) & text.rlike(_TINY) & ~written.rlike(_DIGITS)
    return F.coalesce(whole | written.isin(*_BEYOND) | vanished, F.lit(False))

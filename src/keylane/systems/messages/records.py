"""Whole records out of messages in Avro and Protobuf: the fields that are asked for, with the types of their schema.

    {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}}   ->   ts: a time
    {"name": "header", "type": {"type": "record", ... "fields": [{"name": "id", ...}]}}   ->   header.id

Schemas are given as they are for the fields of a key (`values`), which also has the decoders. What differs: a key is
text or a number, and here a field is what its schema says. With a folder of schemas every value is read by its own; a
field that one of them lacks is null there. A field whose type no column can have here is named with the reason:
arrays, maps, bytes, decimals, a record within itself. As columns of a frame: `pipelines.aggregate.events`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa

from keylane.errors import UsageError
from keylane.systems.messages.values import (
    LOGICAL,
    UNREAD,
    UNREADABLE,
    ValueForm,
    avro_text,
    message_class,
    parsed_avro,
    reader_for,
    schemas_in,
    unwrapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.systems.endpoint import StreamOptions

#: What a field is; the times count milliseconds, microseconds, nanoseconds or days since 1970.
RecordKind: TypeAlias = Literal["text", "integer", "degrees", "flag", "millis", "micros", "nanos", "days"]
#: The forms of values that are records.
RECORDS: Final = ("json", "avro", "protobuf")
_WRITTEN: Final[Mapping[str, RecordKind]] = {
    **dict.fromkeys(("int", "long"), "integer"),
    **dict.fromkeys(("float", "double"), "degrees"),
    "boolean": "flag",
    "string": "text",
}
_TIMES: Final[Mapping[str, RecordKind]] = {
    "timestamp-millis": "millis",
    "timestamp-micros": "micros",
    "timestamp-nanos": "nanos",
    "date": "days",
}
_ARROW: Final[Mapping[RecordKind, pa.DataType]] = {"degrees": pa.float64(), "text": pa.string(), "flag": pa.string()}
#: Paths with what is there: a kind, or why there is no column of it.
_Found: TypeAlias = "dict[str, RecordKind | _No]"


@dataclass(frozen=True, slots=True)
class _No:
    because: str


@dataclass(frozen=True, slots=True)
class RecordForm:
    """How records are read: by schema number their bytes, and the paths of fields with their kinds."""

    form: str
    schemas: tuple[tuple[int, bytes], ...]
    message: str
    kinds: tuple[tuple[str, RecordKind], ...]
    #: Fields at the top that no column can be made of, and why.
    refused: tuple[tuple[str, str], ...] = ()

    def arrow_kind(self, kind: RecordKind) -> pa.DataType:
        """What a field is in Arrow; flags are `true` and `false`."""
        return _ARROW.get(kind, pa.int64())

    def of_schema(self, schema: bytes) -> ValueForm:
        """The fields that one schema has, for its reader."""
        there = _kinds_of(self.form, schema, self.message)
        own = [(path, kind) for path, kind in self.kinds if path in there and not isinstance(there[path], _No)]
        fields, numbers = tuple(path for path, _ in own), [path for path, kind in own if kind not in _ARROW]
        degrees = tuple(path for path, kind in own if kind == "degrees")
        return ValueForm(self.form, ((-1, schema),), self.message, fields, tuple(numbers), degrees)


def check_record_options(options: StreamOptions, *, messages: bool) -> None:
    """Refuse what says nothing about the values of a source, or what no record can be read of."""
    given = {"--value-schema": options.value_schema, "--message": options.message}
    if not messages and (options.value or any(given.values())):
        hint = "--format says what the files of a folder are"
        raise UsageError.of("the format of values is that of messages, and the source is files", hint=hint)
    if options.value not in {None, *RECORDS}:
        what = "values of an aggregation are records, with fields and a time"
        raise UsageError.of(what, got=f"--value {options.value}", allowed=", ".join(RECORDS))
    if options.value in {None, "json"}:
        for name, value in given.items():
            if value:
                allowed = "with --value avro or protobuf"
                raise UsageError.of("JSON values have no schema here", got=f"{name} {value}", allowed=allowed)
    else:
        record_form(options, ())


def record_form(options: StreamOptions, names: Sequence[str]) -> RecordForm:
    """How the fields of these names at the top, with all that is within them, are read; refused without a schema."""
    form = options.value or "json"
    if options.value_schema is None:
        raise UsageError.of(f"{form} values need their schema", allowed="--value-schema FILE, or a folder of them")
    schemas, found = schemas_in(Path(options.value_schema), form), dict[str, RecordKind | _No]()
    for _, schema in schemas:
        for path, kind in _kinds_of(form, schema, options.message or "").items():
            if path.partition(".")[0] in names:
                found[path] = _either(found[path], kind) if path in found else kind
    kinds = tuple((path, kind) for path, kind in found.items() if not isinstance(kind, _No))
    read = {path.partition(".")[0] for path, _ in kinds}
    refused = {
        path.partition(".")[0]: f"the field {path} of the schema is {kind.because}, which is not read"
        for path, kind in found.items()
        if isinstance(kind, _No)
    }
    left = tuple((top, why) for top, why in refused.items() if top not in read)
    return RecordForm(form, schemas, options.message or "", kinds, left)


def read_records(how: RecordForm, values: pa.Array) -> pa.StructArray:
    """The fields of every value, null where it has none; and which could not be read."""
    readers = {}
    for number, schema in how.schemas:
        one = how.of_schema(schema)
        readers[number] = one, reader_for(one, schema)
    rows = [_row(how, readers, value) for value in values.to_pylist()]
    columns = [pa.array([row[0].get(path) for row in rows], how.arrow_kind(kind)) for path, kind in how.kinds]
    unread = pa.array([row[1] for row in rows], pa.bool_())
    return pa.StructArray.from_arrays([*columns, unread], [*(path for path, _ in how.kinds), UNREAD])


def _row(how: RecordForm, readers: Mapping[int, Any], value: bytes | None) -> tuple[dict[str, Any], bool]:
    if value is None:
        return {}, False
    try:
        number, body = unwrapped(value, how.form)
        one, read = readers.get(number) or readers[-1]
        return {name: one.typed(name, cell) for name, cell in zip(one.fields, read(body), strict=True)}, False
    except UNREADABLE:
        return {}, True


@lru_cache(maxsize=256)
def _kinds_of(form: str, schema: bytes, message: str) -> _Found:
    """The fields of a schema by their paths."""
    if form == "avro":
        parsed, named = parsed_avro(avro_text(schema))
        return dict(_avro(parsed, named, "", ()))
    kind = message_class(ValueForm(form, ((-1, schema),), message, (), ()), schema)
    return dict(_protobuf(kind.DESCRIPTOR, "", ()))


def _either(one: RecordKind | _No, other: RecordKind | _No) -> RecordKind | _No:
    """What a column holds that has values of both."""
    if one == other or isinstance(one, _No):
        return one
    if isinstance(other, _No):
        return other
    return "degrees" if {one, other} == {"integer", "degrees"} else _No("of several types")


def _avro(kind: Any, named: Mapping[str, Any], path: str, above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The fields of a type with their kinds; of the type itself where it has none."""
    while isinstance(kind, str) and kind in named:
        kind = named[kind]
    if isinstance(kind, list):
        yield from _avro_union([branch for branch in kind if branch != "null"], named, path, above)
    elif isinstance(kind, str):
        yield path, _WRITTEN.get(kind, _No(kind))
    elif kind["type"] == "record":
        if kind["name"] in above:
            yield path, _No("a record within itself")
            return
        for part in kind["fields"]:
            inner = f"{path}.{part['name']}" if path else part["name"]
            yield from _avro(part["type"], named, inner, (*above, kind["name"]))
    elif kind["type"] == "enum":
        yield path, "text"
    elif kind["type"] in {"array", "map", "fixed", "bytes"}:
        logical = kind.get(LOGICAL)
        yield path, _No(f"{kind['type']} ({logical})" if logical else kind["type"])
    elif kind.get(LOGICAL) in _TIMES and kind["type"] in {"int", "long"}:
        yield path, _TIMES[kind[LOGICAL]]
    else:
        yield from _avro(kind["type"], named, path, above)


def _avro_union(
    branches: Sequence[Any], named: Mapping[str, Any], path: str, above: tuple[str, ...]
) -> Iterator[tuple[str, Any]]:
    found: _Found = {}
    for branch in branches:
        for name, kind in _avro(branch, named, path, above):
            found[name] = _either(found[name], kind) if name in found else kind
    if path in found and len(found) > 1:
        yield path, _No("a union of a record with something else")
    else:
        yield from found.items()


def _protobuf(message: Any, path: str, above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for field in message.fields:
        inner = f"{path}.{field.name}" if path else field.name
        if field.is_repeated:
            yield inner, _No("repeated")
        elif field.message_type is None:
            yield inner, _SCALARS.get(field.cpp_type, "integer") if field.type != field.TYPE_BYTES else _No("bytes")
        elif field.message_type.full_name in (*above, message.full_name):
            yield inner, _No("a message within itself")
        else:
            yield from _protobuf(field.message_type, inner, (*above, message.full_name))


#: By the numbers of Protobuf's `FieldDescriptor`: double, float, bool, text; all others are whole numbers.
_SCALARS: Final[Mapping[int, RecordKind]] = {5: "degrees", 6: "degrees", 7: "flag", 9: "text"}

"""Fields of messages as Arrow columns: of the key, of the time, and of values in JSON, text, Avro and Protobuf.

A value may begin with the header that a schema registry's serializers write: a zero byte, the schema's number in four,
and for Protobuf the index of the message. The header is passed over; with a folder of schemas, named by their numbers
(`7.avsc`), it says which one. No registry is contacted: the schemas are files that the user provides.

A null value is a tombstone: it has no fields, and is not an error. Fields within others are named by their paths.
Values that cannot be read are distinguished from null. JSON and text need no schema: `keylane.spark.messages`. All
fields of a value, with the types of its schema: `records`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.fields import TIME, absent_name, in_tree, paths_in, steps_of
from keylane.errors import DataError, MissingExtraError, UnknownNameError, UsageError
from keylane.keys.arrow_bytes import nulls_of
from keylane.keys.json_columns import json_columns, whole
from keylane.systems.texts import object_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from keylane.contract.fields import FieldSpec
    from keylane.systems.endpoint import StreamOptions

    Read = Callable[[bytes], tuple[Any, ...]]

# A few fields out of Avro values, by the schema they were written with.

#: The fewest bytes that a value of a type has.
_LEAST: Final = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


def reader(schema: str, names: Sequence[str]) -> Read:
    """A function that reads these fields of a record; what it cannot read, it raises for, and in finite time."""
    parsed, named = parsed_avro(schema)
    tree = _avro_tree(parsed, named)
    for name in names:
        if not in_tree(tree, name):
            raise UnknownNameError.among("field of the Avro schema", name, paths_in(tree))
    decode = _decoder(parsed, named)

    def read(value: bytes) -> tuple[Any, ...]:
        source = BytesIO(value)
        record = decode(source)
        if source.tell() != len(value):
            raise ValueError("bytes are left over")
        return tuple(_in_record(record, name) for name in names)

    return read


def _avro_tree(kind: Any, named: dict[str, Any], above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a record, of all records of a union, and of those within; not of one that contains itself."""
    if isinstance(kind, list):
        branches = [_avro_tree(branch, named, above) for branch in kind]
        return {name: inner for tree in branches for name, inner in tree.items()}
    if isinstance(kind, str):
        return _avro_tree(named[kind], named, above) if kind in named else {}
    if not isinstance(kind, dict) or kind.get("type") != "record" or kind["name"] in above:
        return {}
    return {part["name"]: _avro_tree(part["type"], named, (*above, kind["name"])) for part in kind["fields"]}


def _in_record(record: dict[str, Any], name: str) -> Any:
    """The field of this name, or at this path; null where a record on the way is, or another one of its union."""
    if name in record:
        return record[name]
    value: Any = record
    for step in steps_of(name):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise TypeError(name)
        value = value.get(step)
    return value


def _decoder(parsed: dict[str, Any], named: dict[str, Any]) -> Callable[[BytesIO], Any]:
    """The reader that fastavro has in Python, with a decoder that refuses what cannot have been written.

    The compiled reader takes the branch of a union or the symbol of an enum from the end of the list where its index is
    negative, lets a number of more than 64 bits wrap, and has no limit of depth: a corrupt value would be read as
    another one, or end the process. Here each of them is an error.
    """
    read_data: Any = import_module("fastavro._read_py").read_data
    decoder: Any = type("Strict", (import_module("fastavro.io.binary_decoder").BinaryDecoder,), _STRICT)
    flags = ("return_record_name", "return_record_name_override", "return_named_type", "return_named_type_override")
    options = {**dict.fromkeys(flags, False), "handle_unicode_errors": "strict"}
    schemas = {"writer": named, "reader": {}}
    return lambda source: read_data(decoder(source), parsed, schemas, None, options)


def _read_long(self: Any) -> int:
    number = shift = 0
    while shift <= 63:
        byte = self.fo.read(1)
        if not byte:
            raise EOFError
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80 and number < 1 << 64:
            return (number >> 1) ^ -(number & 1)
        shift += 7
    raise ValueError("a number has more than 64 bits")


def _read_index(self: Any) -> int:
    index = _read_long(self)
    if index < 0:
        raise ValueError("an index is negative")
    return index


#: What the decoder of fastavro does otherwise: numbers, branches of unions, symbols of enums.
_STRICT: Final = {"read_long": _read_long, "read_int": _read_long, "read_index": _read_index, "read_enum": _read_index}


def fastavro() -> Any:
    """The library, or which extra brings it."""
    try:
        import fastavro
    except ImportError:
        raise MissingExtraError.named("avro", "fastavro") from None
    return fastavro


def parsed_avro(schema: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of a record as fastavro reads it, and its types by name."""
    library = fastavro()
    try:
        tree = _plain(json.loads(schema))
    except (ValueError, RecursionError) as error:
        raise DataError.of("not an Avro schema", got=str(error)) from None
    if not isinstance(tree, dict) or tree.get("type") != "record" or "fields" not in tree:
        raise DataError.of("not the Avro schema of a record", allowed='{"type": "record", "fields": [...]}')
    named: dict[str, Any] = {}
    try:
        parsed = library.parse_schema({"name": "value", **tree}, named)
        _check_finite(parsed, named)
    except library.schema.UnknownType as error:
        raise DataError.of("the Avro schema uses a type that it does not define", got=error.name) from None
    except (library.schema.SchemaParseException, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError.of("not an Avro schema", got=str(error)) from None
    return parsed, named


def _plain(tree: Any) -> Any:
    """Without logical types: a key is the number or the text that was written, not a date or a decimal made of it.

    And without defaults, which are for fields that a reader has and a writer does not. What a logical type was is kept
    under another name, which the decoder does not look at: `records` gives fields their types by it.
    """
    if isinstance(tree, list):
        return [_plain(branch) for branch in tree]
    if isinstance(tree, dict):
        named = {LOGICAL if name == "logicalType" else name: value for name, value in tree.items() if name != "default"}
        return {name: _plain(value) for name, value in named.items()}
    return tree


#: What a schema's `logicalType` is called once it is parsed.
LOGICAL: Final = "keylane.logical"


#: More fields than any record has: a schema of 30 types, each with two of the last, has 2**30 and no bytes to read.
_MOST_FIELDS: Final = 100_000


def _check_finite(parsed: dict[str, Any], named: dict[str, Any]) -> None:  # noqa: C901  one rule a form of type
    """Refuse schemas by which a few bytes keep a reader busy without end.

    Those are arrays of items that may have no bytes, of which a value of six bytes holds 2**40, and records of records
    that have more fields than can be read. What a type costs is worked out once for each name.
    """
    known: dict[str, tuple[int, int]] = {}

    def cost(kind: Any, above: dict[str, int]) -> tuple[int, int]:  # noqa: PLR0911  one form of type after the other
        """The fewest bytes that a value of a type has inside of these records, and the fields that are read for it."""
        if isinstance(kind, list):
            return 1, 1 + max((cost(branch, dict.fromkeys(above, 1))[1] for branch in kind), default=0)
        if isinstance(kind, str):
            if kind in _LEAST or kind in above:
                return {**above, **_LEAST}[kind], 1
            return known[kind] if kind in known else cost(named[kind], above)
        form = kind["type"]
        if form == "record":
            inside = {**above, kind["name"]: 0}
            parts = [cost(part["type"], inside) for part in kind["fields"]]
            known[kind["name"]] = sum(least for least, _ in parts), 1 + sum(fields for _, fields in parts)
            if known[kind["name"]][1] > _MOST_FIELDS:
                raise DataError.of("the Avro schema has too many nested fields", allowed=f"at most {_MOST_FIELDS}")
            return known[kind["name"]]
        if form == "fixed" and not isinstance(kind["size"], int):
            raise DataError.of("the size of a fixed Avro type is not a whole number", got=kind["size"])
        if form in {"enum", "fixed"}:
            return kind.get("size", 1), 1
        if form not in {"array", "map"}:
            return cost(form, above)
        least, fields = cost(kind["items" if form == "array" else "values"], dict.fromkeys(above, 1))
        if form == "array" and least <= 0:
            raise DataError.of("array items in the Avro schema may have no bytes", got=kind["items"])
        return 1, fields

    cost(parsed, {})


def varint(value: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, seven bits to a byte, and the position after it: Avro's long, and a registry's index."""
    number = shift = 0
    while True:
        if at >= len(value) or shift > 63:
            raise ValueError("a number does not end")
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


#: The column that marks values that could not be read.
UNREAD: Final = "keylane_unread"
#: What the serializers of a schema registry put before a value.
_HEADER: Final = 5
#: What google.protobuf and fastavro raise for bytes that do not fit.
UNREADABLE: Final = (ValueError, LookupError, OverflowError, EOFError, RecursionError, TypeError)


@dataclass(frozen=True, slots=True)
class ValueForm:
    """How values are read: the form, schemas by their numbers (-1: for every value), and a message's name."""

    form: str
    schemas: tuple[tuple[int, bytes], ...]
    message: str
    fields: tuple[str, ...]
    numbers: tuple[str, ...]
    degrees: tuple[str, ...] = ()

    def arrow(self) -> pa.DataType:
        """What `read_fields` gives."""
        kinds = [pa.field(name, self._kind(name)) for name in self.fields]
        return pa.struct([*kinds, pa.field(UNREAD, pa.bool_())])

    def _kind(self, name: str) -> pa.DataType:
        return pa.int64() if name in self.numbers else pa.float64() if name in self.degrees else pa.string()

    def typed(self, name: str, value: Any) -> Any:
        """A value as its column holds it; a ValueError where it cannot."""
        if value is None or name in self.numbers:
            return whole(value)
        if name in self.degrees:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(value)
            return float(value)
        if isinstance(value, bytes):
            return value.decode("utf-8")
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise ValueError(value)


def value_form(
    form: str,
    path: str | None,
    message: str | None,
    fields: Sequence[str],
    numbers: Sequence[str],
    degrees: Sequence[str] = (),
) -> ValueForm:
    """Read the schemas, and check that they have the fields."""
    if path is None:
        raise UsageError.of(f"{form} values need their schema", allowed="--value-schema FILE, or a folder of them")
    found = ValueForm(form, schemas_in(Path(path), form), message or "", tuple(fields), tuple(numbers), tuple(degrees))
    for _, schema in found.schemas:
        reader_for(found, schema)
    return found


def schemas_in(path: Path, form: str) -> tuple[tuple[int, bytes], ...]:
    """The files of schemas by their numbers; -1 for a single one, which is for every value."""
    ending = ".avsc" if form == "avro" else ".desc"
    try:
        if not path.is_dir():
            return ((-1, path.read_bytes()),)
        named = [file for file in sorted(path.iterdir()) if file.suffix == ending and file.stem.isdigit()]
        if not named:
            raise DataError.of("no schemas in the folder", got=str(path), allowed=f"7{ending}, by the schema's number")
        return tuple((int(file.stem), file.read_bytes()) for file in named)
    except OSError as error:
        raise UsageError.of(
            "the schema of the values cannot be read", got=str(path), hint=str(error.strerror)
        ) from None


def read_fields(how: ValueForm, values: pa.Array) -> pa.StructArray:
    """The fields of every value, and which could not be read."""
    readers = {number: reader_for(how, schema) for number, schema in how.schemas}
    rows = [_row(how, readers, value) for value in values.to_pylist()]
    kinds = how.arrow()
    columns = [pa.array([row[n] for row in rows], kinds.field(n).type) for n in range(kinds.num_fields)]
    return pa.StructArray.from_arrays(columns, fields=list(kinds))


def _row(how: ValueForm, readers: dict[int, Read], value: bytes | None) -> tuple[Any, ...]:
    nothing = (None,) * len(how.fields)
    if value is None:
        return (*nothing, False)
    try:
        number, body = unwrapped(value, how.form)
        found = readers.get(number) or readers[-1]
        pairs = zip(how.fields, found(body), strict=True)
        return (*(how.typed(name, one) for name, one in pairs), False)
    except UNREADABLE:
        return (*nothing, True)


def unwrapped(value: bytes, form: str) -> tuple[int, bytes]:
    """The schema's number and the body; -1 and all of it where there is no header."""
    if len(value) < _HEADER or value[0] != 0:
        return -1, value
    body = value[_HEADER:]
    return int.from_bytes(value[1:_HEADER], "big"), _after_index(body) if form == "protobuf" else body


def _after_index(body: bytes) -> bytes:
    """Past the message's index: a count, and that many numbers; a single zero stands for the first message."""
    count, at = varint(body, 0)
    for _ in range(count):
        _, at = varint(body, at)
    return body[at:]


@lru_cache(maxsize=256)
def reader_for(how: ValueForm, schema: bytes) -> Read:
    """Kept as long as the process: a pool of Protobuf's descriptors that ends in another thread may end the process."""
    if how.form == "avro":
        return reader(avro_text(schema), how.fields)
    return _protobuf(how, schema)


def avro_text(schema: bytes) -> str:
    """The text of a schema's file."""
    try:
        return schema.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError.of("not an Avro schema", got="a file that is not UTF-8 text", allowed="JSON") from None


def _protobuf(how: ValueForm, schema: bytes) -> Read:
    """By a descriptor set, as `protoc --descriptor_set_out --include_imports` writes it."""
    kind = message_class(how, schema)
    tree = _message_tree(kind.DESCRIPTOR)
    for name in how.fields:
        if not in_tree(tree, name):
            raise UnknownNameError.among("field of the message", name, paths_in(tree))

    def read(body: bytes) -> tuple[Any, ...]:
        from google.protobuf.message import DecodeError

        found = kind()
        try:
            found.ParseFromString(body)
        except DecodeError as error:
            raise ValueError(str(error)) from None
        return tuple(_in_message(found, name) for name in how.fields)

    return read


def _message_tree(kind: Any, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a message and of those within; a repeated field, or a message that contains itself, has none."""
    inner = {
        field.name: field.message_type
        for field in kind.fields
        if field.message_type is not None and not field.is_repeated and field.message_type.full_name not in above
    }
    names = (*above, kind.full_name)
    return {field.name: _message_tree(inner[field.name], names) if field.name in inner else {} for field in kind.fields}


def _in_message(message: Any, name: str) -> Any:
    """The field at a path. One that knows whether it was set, and was not, is null; any other is its default then."""
    value = message
    for step in steps_of(name):
        field = value.DESCRIPTOR.fields_by_name[step]
        if field.has_presence and not value.HasField(step):
            return None
        value = getattr(value, step)
    return value


def message_class(how: ValueForm, schema: bytes) -> Any:
    """The class of the message in a descriptor set."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError:
        raise MissingExtraError.named("protobuf", "protobuf") from None
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(schema)
    except DecodeError:
        hint = "protoc --include_imports --descriptor_set_out=FILE"
        raise DataError.of("not a Protobuf descriptor set", hint=hint) from None
    pool = descriptor_pool.DescriptorPool()
    names = [f"{file.package}.{one.name}".lstrip(".") for file in files.file for one in file.message_type]
    for file in files.file:
        pool.Add(file)
    wanted = how.message or (names[-1] if len(names) == 1 else "")
    if wanted not in names:
        raise UnknownNameError.among("message of the descriptor set", wanted, names)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(wanted))


# The fields that a contract needs, out of a topic's records as Arrow columns: key, time, or a field of the value.

FORMS: Final = ("json", "utf8", "avro", "protobuf")


@dataclass(frozen=True, slots=True)
class TopicFields:
    """Reads the fields of a spec out of messages, as Arrow columns; values by their form, or by a schema."""

    spec: FieldSpec
    form: str | None = None
    schema: ValueForm | None = None

    def columns(self, keys: pa.Array, values: pa.Array | None, times: pa.Array | None) -> list[pa.Array]:
        """The fields in their order."""
        found = self.marked(keys, values, times)
        return [found[name] for name in self.spec.names]

    def marked(self, keys: pa.Array, values: pa.Array | None, times: pa.Array | None) -> dict[str, pa.Array]:
        """The fields by name, and behind them the marks of records that lack one (`contract.fields.absent_name`)."""
        return self.read(keys, values, times)[0]

    def read(
        self, keys: pa.Array, values: pa.Array | None, times: pa.Array | None
    ) -> tuple[dict[str, pa.Array], NDArray[np.bool_]]:
        """The same, and which values cannot be read: they have no fields, and null is not what they say."""
        spec, inside, marks, unread = self.spec, {}, {}, np.zeros(len(keys), bool)
        if spec.of_value and values is not None:
            fields, absent, unread = self._of(values)
            inside = dict(zip(spec.of_value, fields, strict=True))
            marks = {absent_name(name): mark for name, mark in zip(spec.of_value, absent, strict=False)}
        own = {spec.key: _number(keys, spec.key_width) if spec.key_width else keys, TIME: times, **inside}
        return {**{name: own[name] for name in spec.names}, **marks}, unread

    def _of(self, values: pa.Array) -> tuple[list[pa.Array], list[pa.Array], NDArray[np.bool_]]:
        """The fields of values, which values lack each, and which cannot be read; a null text has its one field."""
        if self.schema is not None:
            *fields, unread = read_fields(self.schema, values).flatten()
            return fields, [values.is_null()] * len(fields), unread.to_numpy(zero_copy_only=False)
        if self.form == "utf8":
            text = text_of(values)
            return [text], [], nulls_of(text) & ~nulls_of(values)
        return json_columns(values, self.spec.of_value, self.spec.kind)

    def unreadable(self, values: Sequence[bytes | None]) -> pa.Array | None:
        """Whether values that have to be JSON are surely not: true, or null."""
        if not self.spec.of_value or self.form != "json":
            return None
        bodies = [value[_HEADER:] if value and len(value) > _HEADER and value[0] == 0 else value for value in values]
        return pa.array([True if one is not None and object_of(one) is None else None for one in bodies], pa.bool_())


def fields_for(spec: FieldSpec, options: StreamOptions) -> TopicFields:
    """How these fields are read. Refused where a field is in the value and no option gives its format."""
    checked_form(spec, options.value)
    return TopicFields(spec, options.value, schema_for(spec, options))


def schema_for(spec: FieldSpec, options: StreamOptions) -> ValueForm | None:
    """The schema by which fields are read out of values, where their form has one and a field is asked for."""
    inside = spec.of_value
    if not inside or options.value not in {"avro", "protobuf"}:
        return None
    numbers, degrees = ([name for name in inside if spec.kind(name) == kind] for kind in ("integer", "degrees"))
    return value_form(options.value, options.value_schema, options.message, inside, numbers, degrees)


def checked_form(spec: FieldSpec, form: str | None) -> None:
    """Refuse fields that no form of value, or not this one, can have."""
    inside = spec.of_value
    if inside and form not in FORMS:
        raise UsageError.of(
            f"{', '.join(inside)} must come from the value, but the format of values is not given",
            got=form,
            allowed=", ".join(FORMS),
            hint="--value json; the record's key is the field `key`",
        )
    if inside and form == "utf8" and inside != ("value",):
        got = ", ".join(inside)
        raise UsageError.of("a text value has one field", got=got, allowed="value", hint="--value json")


def _number(keys: pa.Array, width: int) -> pa.Array:
    """The number that bytes spell, big-endian, two's complement; null where they are not as many."""
    fits = pc.equal(pc.binary_length(keys), width).fill_null(False)
    rows = pc.if_else(fits, keys, pa.scalar(bytes(width), pa.binary()))
    joined = b"".join(rows.to_pylist())
    return pa.array(np.frombuffer(joined, f">i{width}").astype(np.int64), mask=~fits.to_numpy(zero_copy_only=False))


def text_of(values: pa.Array) -> pa.Array:
    """Bytes as text; null where they are not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(value) for value in values.to_pylist()], pa.string())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None

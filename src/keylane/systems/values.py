"""Fields of Kafka values that need a schema to be read: Avro and Protobuf, a batch at a time, in Spark's workers.

A value may begin with the header that a schema registry's serializers write: a zero byte, the schema's number in four,
and for Protobuf the index of the message. The header is passed over; with a folder of schemas, named by their numbers
(`7.avsc`), it says which one. No registry is asked: what a value means is in the files that the user gave.

A null value is a tombstone: it has no fields, and is no error. Values that cannot be read are told apart from those
that hold null. JSON and text need no schema: `keylane.spark.decoding`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from keylane.errors import DataError, MissingExtraError, UnknownNameError, UsageError
from keylane.systems.avro import reader, varint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Read = Callable[[bytes], tuple[Any, ...]]

__all__ = ["UNREAD", "ValueForm", "read_fields", "value_form"]

#: The column that says which values could not be read.
UNREAD: Final = "keylane_unread"
_HEADER: Final = 5
#: What google.protobuf and the Avro reader raise for bytes that do not fit.
_ERRORS: Final = (ValueError, LookupError, OverflowError)


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
            return value
        if name in self.degrees:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(value)
            return float(value)
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)


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
    found = ValueForm(form, _schemas(Path(path), form), message or "", tuple(fields), tuple(numbers), tuple(degrees))
    for _, schema in found.schemas:
        _reader(found, schema)
    return found


def _schemas(path: Path, form: str) -> tuple[tuple[int, bytes], ...]:
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
    readers = {number: _reader(how, schema) for number, schema in how.schemas}
    rows = [_row(how, readers, value) for value in values.to_pylist()]
    kinds = how.arrow()
    columns = [pa.array([row[n] for row in rows], kinds.field(n).type) for n in range(kinds.num_fields)]
    return pa.StructArray.from_arrays(columns, fields=list(kinds))


def _row(how: ValueForm, readers: dict[int, Read], value: bytes | None) -> tuple[Any, ...]:
    nothing = (None,) * len(how.fields)
    if value is None:
        return (*nothing, False)
    try:
        number, body = _unwrapped(value, how.form)
        found = readers.get(number) or readers[-1]
        pairs = zip(how.fields, found(body), strict=True)
        return (*(how.typed(name, one) for name, one in pairs), False)
    except _ERRORS:
        return (*nothing, True)


def _unwrapped(value: bytes, form: str) -> tuple[int, bytes]:
    """The schema's number and the body; -1 and all of it where there is no header."""
    if len(value) < _HEADER or value[0] != 0:
        return -1, value
    body = value[_HEADER:]
    return int.from_bytes(value[1:_HEADER], "big"), _after_index(body) if form == "protobuf" else body


def _after_index(body: bytes) -> bytes:
    """Past the message's index: a count, and so many numbers; a single zero stands for the first message."""
    count, at = varint(body, 0)
    for _ in range(count):
        _, at = varint(body, at)
    return body[at:]


def _reader(how: ValueForm, schema: bytes) -> Read:
    if how.form == "avro":
        return reader(schema.decode("utf-8"), how.fields)
    return _protobuf(how, schema)


def _protobuf(how: ValueForm, schema: bytes) -> Read:
    """By a descriptor set, as `protoc --descriptor_set_out --include_imports` writes it."""
    kind = _message(how, schema)
    for name in how.fields:
        if name not in kind.DESCRIPTOR.fields_by_name:
            raise UnknownNameError.among("field of the message", name, list(kind.DESCRIPTOR.fields_by_name))

    def read(body: bytes) -> tuple[Any, ...]:
        from google.protobuf.message import DecodeError

        found = kind()
        try:
            found.ParseFromString(body)
        except DecodeError as error:
            raise ValueError(str(error)) from None
        presence = kind.DESCRIPTOR.fields_by_name
        return tuple(
            None if presence[name].has_presence and not found.HasField(name) else getattr(found, name)
            for name in how.fields
        )

    return read


def _message(how: ValueForm, schema: bytes) -> Any:
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

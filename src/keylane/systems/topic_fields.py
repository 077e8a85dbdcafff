"""The fields that a contract needs, out of a topic's records as Arrow columns: key, time, or a field of the value.

The same rules as `keylane.spark.decoding`, for those who read a topic without Spark: a field `key` is the record's key,
`timestamp` its time, and every other is looked for in the value, whose form the user says. What cannot be read is null
here. Forms that need a schema: `values`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from keylane.errors import UsageError
from keylane.systems.values import ValueForm, read_fields, value_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.contract.model import Contract

__all__ = ["TopicFields", "ValueOptions", "fields_for"]

FORMS: Final = ("json", "utf8", "avro", "protobuf")
_WIDTHS: Final = {"int32be": 4, "int64be": 8, "h3": 8}
_HEADER_BYTES: Final = 5
_LONGS: Final = range(-(2**63), 2**63)


class _Written(str):
    """A number with a fraction, as it is written: text where text is wanted, and still a number."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(parse_float=_Written)


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values are written: the form, the file of its schema, and the name of the message in it."""

    form: str | None = None
    schema: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class TopicFields:
    """Which fields to read, which of them are whole numbers, and how.

    `width` is that of a key that spells a number; `key` the name under which the record's key is asked for.
    """

    names: tuple[str, ...] = ()
    numbers: frozenset[str] = frozenset()
    form: str | None = None
    width: int | None = None
    schema: ValueForm | None = None
    key: str = "key"
    #: Which of them are latitudes and longitudes.
    degrees: frozenset[str] = frozenset()

    def kind(self, name: str) -> pa.DataType:
        """The type of a field of a JSON value."""
        return pa.int64() if name in self.numbers else pa.float64() if name in self.degrees else pa.string()

    def typed(self, name: str, value: Any) -> Any:
        """A value of JSON as its column holds it; a ValueError where it cannot."""
        return _whole(value) if name in self.numbers else _float(value) if name in self.degrees else _as_text(value)

    @property
    def of_value(self) -> tuple[str, ...]:
        """The fields that are in the value."""
        return tuple(name for name in self.names if name not in {self.key, "timestamp"})

    @property
    def of_time(self) -> bool:
        """Whether the record's time is asked for."""
        return "timestamp" in self.names

    def columns(self, keys: pa.Array, values: pa.Array | None, times: pa.Array | None) -> list[pa.Array]:
        """The fields in their order."""
        found = {self.key: _number(keys, self.width) if self.width else keys, "timestamp": times}
        if self.of_value and values is not None:
            found |= dict(zip(self.of_value, self._of(values), strict=True))
        return [found[name] for name in self.names]

    def _of(self, values: pa.Array) -> list[pa.Array]:
        if self.schema is not None:
            return list(read_fields(self.schema, values).flatten())[: len(self.of_value)]
        if self.form == "utf8":
            return [_text(values)]
        return _json(values, self)


def fields_for(names: Sequence[str], contract: Contract | None, said: ValueOptions, key: str = "key") -> TopicFields:
    """How these fields are read; the contract says which are numbers. Refused when nobody says how values are."""
    encodings = dict(zip(contract.spec.key.fields, contract.spec.key.encodings, strict=True)) if contract else {}
    window = contract.spec.key.window if contract else None
    numbers = {name for name, how in encodings.items() if how.startswith("int")} | ({window.field} if window else set())
    width = _WIDTHS.get(encodings.get(key, "")) if key in names else None
    degrees = {name for name, how in encodings.items() if how == "place"}
    found = TopicFields(tuple(names), frozenset(numbers), said.form, width, key=key, degrees=frozenset(degrees))
    inside = found.of_value
    if not inside:
        return found
    if said.form in {"avro", "protobuf"}:
        kinds = ([n for n in inside if n in numbers], [n for n in inside if n in degrees])
        schema = value_form(said.form, said.schema, said.message, inside, *kinds)
        return replace(found, schema=schema)
    if said.form not in FORMS or (said.form == "utf8" and inside != ("value",)):
        raise _unsaid(inside, said.form)
    return found


def _unsaid(names: Sequence[str], form: str | None) -> UsageError:
    if form == "utf8":
        got = ", ".join(names)
        return UsageError.of("a value that is text has one field", got=got, allowed="value", hint="--value json")
    return UsageError.of(
        f"{', '.join(names)} has to come from the value, and nothing says how values are written",
        got=form,
        allowed=", ".join(FORMS),
        hint="--value json; the record's key is the field `key`",
    )


def _number(keys: pa.Array, width: int) -> pa.Array:
    """The number that bytes spell, big-endian, two's complement; null where they are not as many."""
    fits = pc.equal(pc.binary_length(keys), width).fill_null(False)
    rows = pc.if_else(fits, keys, pa.scalar(bytes(width), pa.binary()))
    joined = b"".join(rows.to_pylist())
    return pa.array(np.frombuffer(joined, f">i{width}").astype(np.int64), mask=~fits.to_numpy(zero_copy_only=False))


def _text(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(value) for value in values.to_pylist()], pa.string())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _json(values: pa.Array, fields: TopicFields) -> list[pa.Array]:
    quick = _json_at_once(values, fields)
    if quick is not None:
        return quick
    rows = [_json_row(value, fields) for value in values.to_pylist()]
    return [pa.array([row[n] for row in rows], fields.kind(name)) for n, name in enumerate(fields.of_value)]


def _json_at_once(values: pa.Array, fields: TopicFields) -> list[pa.Array] | None:
    """All values as lines of one text, which Arrow parses; None unless each is an object on one line, as most are."""
    plain = values.null_count == 0 and len(values) > 0
    if not plain or not pc.all(pc.equal(pc.binary_slice(values, 0, 1), b"{")).as_py():
        return None
    lines = values.to_pylist()
    if any(b"\n" in line for line in lines):
        return None
    names = fields.of_value
    schema = pa.schema([(name, fields.kind(name)) for name in names])
    how = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    text = pa.py_buffer(b"\n".join(lines))
    try:
        options = arrow_json.ReadOptions(use_threads=False, block_size=max(1 << 20, len(text) + 1))
        found = arrow_json.read_json(pa.BufferReader(text), options, how)
    except pa.ArrowInvalid:
        return None
    return [found[name].combine_chunks() for name in names] if len(found) == len(values) else None


def _json_row(value: bytes | None, fields: TopicFields) -> list[Any]:
    nothing: list[Any] = [None] * len(fields.of_value)
    if value is None:
        return nothing
    body = value[_HEADER_BYTES:] if len(value) > _HEADER_BYTES and value[0] == 0 else value
    try:
        found, _ = _DECODER.raw_decode(body.decode().lstrip(" \t\r\n"))
    except ValueError:
        return nothing
    if not isinstance(found, dict):
        return nothing
    try:
        return [fields.typed(name, found.get(name)) for name in fields.of_value]
    except ValueError:
        return nothing


def _whole(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value in _LONGS):
        return value
    raise ValueError(value)


def _float(value: Any) -> float | None:
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int | _Written) and not isinstance(value, bool):
        return float(value)
    raise ValueError(value)


def _as_text(value: Any) -> str | None:
    """As Spark has it: text as it is, anything else as it is written in JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))

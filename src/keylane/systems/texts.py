"""Records that are written as text, as the typed columns that they stand for: what `verify` compares lines and JSON by.

    typed             JSON objects -> columns of given types
    typed_cells       cells of CSV -> the same
    rendered_digest   the digest of rows that were written as JSON
    ..._digest        the digest of messages, and of rows that become messages

A value that its type surely does not have, or whose form here is not sure to be what Spark makes of it, leaves its
record unsure: it is not compared, and `verify` says so. What is compared is never guessed. Fields of messages that a
contract needs: `kafka.values`.
"""

from __future__ import annotations

import base64
import csv
import json
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.history.digests import joined, of_bytes, of_columns
from keylane.keys.arrow_bytes import plain
from keylane.keys.csv_line import odd_cells
from keylane.keys.json_object import FractionText, has_empty_name, read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    #: Columns by name, and which rows are unsure.
    Typed = tuple[dict[str, pa.Array], NDArray[np.bool_]]
    #: The headers of a message, in their order.
    Headers = Sequence[tuple[str, bytes | None]] | None

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
#: What is below a second.
_FRACTION: Final = re.compile(r":[0-9]{2}[.,]([0-9]+)")
#: What JSON holds as it is: a column of nothing else is made at once.
_PLAIN: Final = {pa.string(): str, pa.int64(): int, pa.bool_(): bool}
_NUMBERS: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf", "INF": "inf", "+INF": "inf", "-INF": "-inf"}


@dataclass
class Spent:
    """Seconds of this thread that went into digests, and into what is parsed for them."""

    seconds: float = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Add what happens inside."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.seconds += time.thread_time() - began


#: Of this process: `verify` reports what was added while it ran.
SPENT: Final = Spent()


class _Unsure(Exception):  # noqa: N818  no error: it never leaves this module
    """What a value is in its column cannot be said."""


class _Unfit(_Unsure):
    """A value is surely none of its column's type."""


def object_of(text: bytes | None) -> dict[str, Any] | None:
    """The JSON object that a text is; None where it is not one."""
    try:
        return read_object(text or b"")
    except ValueError:
        return None


def typed(objects: Sequence[Mapping[str, Any] | None], schema: pa.Schema) -> Typed:
    """The columns of a schema out of objects, and what these have beside it; a row without an object is unsure."""
    unsure = np.array([one is None for one in objects], bool)
    given = [{} if one is None else one for one in objects]
    columns = {field.name: _column([one.get(field.name) for one in given], field.type, unsure) for field in schema}
    for name in dict.fromkeys(name for one in given for name in one if name not in columns):
        others = [one.get(name) for one in given]
        columns[name] = pa.array([None if _is_nothing(one) else json.dumps(one) for one in others], pa.string())
    return columns, unsure


def is_finer(value: Any, kind: pa.DataType) -> bool:
    """Whether a value of JSON has a time, of a column of nanoseconds, that microseconds cannot hold."""
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return any(is_finer(value.get(field.name), field.type) for field in kind)
    if pa.types.is_map(kind) and isinstance(value, dict):
        pairs = [(name, kind.key_type) for name in value] + [(one, kind.item_type) for one in value.values()]
        return any(is_finer(*pair) for pair in pairs)
    if isinstance(value, list) and hasattr(kind, "value_type"):
        return any(is_finer(one, kind.value_type) for one in value)
    if not (pa.types.is_timestamp(kind) and kind.unit == "ns" and isinstance(value, str)):
        return False
    digits = _FRACTION.search(value)
    return digits is not None and bool(digits[1][6:].strip("0"))


def rendered_digest(texts: pa.Array, schema: pa.Schema) -> pa.Array:
    """The digest of rows that were written as JSON; what is no object is surely none of them."""
    objects = [object_of(one) for one in texts.to_pylist()]
    columns, unsure = typed(objects, schema)
    lost = np.array([one is None for one in objects], bool)
    digests = masked(of_columns(columns), unsure) if columns else pa.nulls(len(objects), pa.int64())
    return pc.if_else(pa.array(lost), of_bytes(texts).fill_null(0), digests) if lost.any() else digests


def is_no_record(text: bytes | None, schema: pa.Schema) -> bool:
    """Whether a line is surely no JSON object of these columns."""
    found = object_of(text)
    if found is None or has_empty_name(text or b""):
        return True
    for field in schema:
        try:
            _of_json(found.get(field.name), field.type)
        except _Unfit:
            return True
        except (_Unsure, ValueError, TypeError, OverflowError, ArithmeticError):
            continue
    return False


def cells_of(line: bytes, delimiter: str = ",") -> list[str] | None:
    """The cells of a line of CSV; None where it is not sure what they are."""
    try:
        text = line.decode()
        return text.split(delimiter) if '"' not in text else next(csv.reader([text], strict=True, delimiter=delimiter))
    except (UnicodeDecodeError, StopIteration):
        return None
    except csv.Error:
        # A quote that is not closed has no end that is sure; others are where Spark's parser leaves them.
        return None if text.count('"') % 2 else [cell for cell, _ in odd_cells(text, delimiter)]


def typed_cells(
    lines: Sequence[bytes | None],
    header: Sequence[str],
    schema: pa.Schema,
    nulls: Sequence[str] = (),
    delimiter: str = ",",
) -> Typed:
    """The columns of a schema out of lines of CSV; `nulls` are the texts of a cell without quotes that are null."""
    cells = [None if line is None else cells_of(line, delimiter) for line in lines]
    unsure = np.array([one is None or len(one) != len(header) for one in cells], bool)
    for row, line in enumerate(lines):
        # Which of its cells had quotes is not known any more.
        unsure[row] |= bool(nulls and line and b'"' in line and not set(nulls).isdisjoint(cells[row] or ()))
    columns = {}
    for at, name in enumerate(header):
        place = schema.get_field_index(name)
        kind = schema.field(place).type if place >= 0 else pa.string()
        nothing = {*nulls, *(() if pa.types.is_string(kind) else ("",))}
        own = [None if bad or not one else one[at] for one, bad in zip(cells, unsure, strict=True)]
        columns[name] = _slow([None if text in nothing else text for text in own], kind, unsure, _of_cell)
    return columns, unsure


def masked(digests: pa.Array, unsure: NDArray[np.bool_]) -> pa.Array:
    """Digests, null where their rows are unsure."""
    return pc.if_else(pa.array(unsure), pa.scalar(None, pa.int64()), digests) if unsure.any() else digests


def message_digest(keys: pa.Array, values: pa.Array, headers: Sequence[Headers]) -> pa.Array:
    """The digest of messages as they are: key, value, and headers in their order."""
    return joined(of_bytes(keys), of_bytes(values), of_headers(headers))


def of_headers(headers: Sequence[Headers]) -> pa.Array:
    """The digest of each record's headers; null where it has none."""
    if not any(headers):
        return pa.nulls(len(headers), pa.int64())
    return of_bytes(pa.array([_packed(one) if one else None for one in headers], pa.binary()))


def _packed(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The form of a list of pairs of text and bytes, which is what clients give; of other forms the same."""
    text = repr(headers)
    if not text.startswith("[(") or "bytearray(" in text:
        text = repr([(name, None if value is None else bytes(value)) for name, value in headers])
    return text.encode("utf-8", "replace")


def row_message_digest(columns: Mapping[str, pa.Array]) -> pa.Array:
    """The digest of rows that become messages: a column `key` and a column `value` as bytes, or all columns as JSON."""
    own = [columns[name] for name in ("key", "value") if name in columns]
    if not all(map(_is_bytes, own)):
        return pa.nulls(len(own[0]), pa.int64())
    parts = [of_bytes(plain(column)) for column in own]
    if "value" not in columns:
        return joined(*parts, of_columns(columns))
    return joined(*parts)


def _is_bytes(column: pa.Array) -> bool:
    kind = plain(column).type
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))


def _is_nothing(value: Any) -> bool:
    """What has no type of its own, so that no column is made for it."""
    if isinstance(value, dict):
        return all(map(_is_nothing, value.values()))
    return value is None


def _column(values: list[Any], kind: pa.DataType, unsure: NDArray[np.bool_]) -> pa.Array:
    if kind in _PLAIN and set(map(type, values)) <= {_PLAIN[kind], type(None)}:
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass
    return _slow(values, kind, unsure, _of_json)


def _slow(
    values: list[Any], kind: pa.DataType, unsure: NDArray[np.bool_], convert: Callable[[Any, pa.DataType], Any]
) -> pa.Array:
    out = []
    for row, value in enumerate(values):
        try:
            out.append(None if value is None else _held(convert(value, kind), kind))
        except (_Unsure, ValueError, TypeError, OverflowError, ArithmeticError, UnicodeError, pa.ArrowException):
            unsure[row] = True
            out.append(None)
    return pa.array(out, kind)


def _held(value: Any, kind: pa.DataType) -> Any:
    """The value as a column of this type has it. Python has no times in nanoseconds: those stay numbers."""
    scalar = pa.scalar(value, kind)
    return value if _has_nanoseconds(kind) else scalar.as_py()


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return any(_has_nanoseconds(kind.field(n).type) for n in range(kind.num_fields))


def _of_json(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911  one kind of type after the other
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return _of_record(value, kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_of_json(one, kind.value_type) for one in _only(value, list)]
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise _Unsure
        return [(name, _of_json(one, kind.item_type)) for name, one in _only(value, dict).items()]
    if pa.types.is_boolean(kind):
        return _only(value, bool)
    if pa.types.is_integer(kind):
        return _only(value, int)
    if pa.types.is_floating(kind):
        return _fraction(value, kind)
    if pa.types.is_decimal(kind):
        return _decimal(value, kind)
    return _of_text(_text(value), kind)


def _of_record(value: Any, kind: pa.StructType) -> dict[str, Any]:
    fields = {field.name: field.type for field in kind}
    if any(not _is_nothing(one) for name, one in _only(value, dict).items() if name not in fields):
        raise _Unsure
    return {name: _of_json(value.get(name), of) for name, of in fields.items()}


def _only(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise _Unfit
    return value


def _fraction(value: Any, kind: pa.DataType) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _Unsure
    if isinstance(value, str) and not isinstance(value, FractionText):
        value = _NUMBERS[value] if value in _NUMBERS else _only(value, float)
    number = float(value)
    return float(np.float32(number)) if pa.types.is_float32(kind) else number


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if type(value) not in {int, FractionText}:
        raise _Unsure
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise _Unsure from None
    return number.quantize(Decimal(1).scaleb(-kind.scale))


def _text(value: Any) -> str:
    """Text, or a whole number or a truth value as text: what else Spark makes text of is not sure."""
    if type(value) is str:
        return value
    if type(value) in {int, bool}:
        return json.dumps(value)
    raise _Unsure


def _of_text(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return text
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return base64.b64decode(text, validate=True)
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        return _time(text, kind)
    raise _Unsure


def _time(text: str, kind: pa.TimestampType) -> datetime | int:
    """A time; of a column of nanoseconds as their number since 1970, with every digit."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None and kind.tz is not None:
        raise _Unsure
    if kind.unit == "ns":
        digits = _FRACTION.search(text)
        nanos = int(digits[1].ljust(9, "0")) if digits and len(digits[1]) <= 9 else None
        if digits and nanos is None:
            raise _Unsure
        whole = at.replace(microsecond=0, tzinfo=at.tzinfo or UTC)
        return int(whole.timestamp()) * 1_000_000_000 + (nanos or 0)
    return at if at.tzinfo is None or kind.tz is not None else at.astimezone(UTC).replace(tzinfo=None)


def _of_cell(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind):
        if _INTEGER.fullmatch(text) is None:
            raise _Unsure
        return int(text)
    if pa.types.is_string(kind):
        return text
    raise _Unsure

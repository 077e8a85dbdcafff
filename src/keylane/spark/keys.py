"""The key fields of a contract as columns: base key and routing key, value for value those of `keylane.keys`.

No value can stop a query: one that does not fit its encoding gives null bytes, and a column that says so. A column
whose type can hold no such key at all is a wrong contract or a wrong frame, and raises. Windows: `windows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.contract.names import FIXED_WIDTH
from keylane.keys.encode import REGISTRY_HEADER
from keylane.spark.calls import static_call
from keylane.spark.kinds import choose, field_of
from keylane.spark.windows import window_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from keylane.contract.model import Key
    from keylane.contract.names import Encoding
    from keylane.spark.calls import JavaWay
    from keylane.spark.kinds import Field, Kind

__all__ = ["Bytes", "Keys", "read_keys", "read_sub_key"]

UUID: Final = r"\A[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z"
#: The text of a cell: its number has bit 59 set and no higher one, so that its first digit is 8 or more.
CELL: Final = r"\A0?[89a-fA-F][0-9a-fA-F]{14}\z"
#: Encodings and kinds whose every value fits.
ALWAYS_FIT: Final = {("utf8", "string"), ("utf8", "integer"), ("int64be", "integer"), ("raw", "binary")}
GUAVA: Final = {4: "com.google.common.primitives.Ints", 8: "com.google.common.primitives.Longs"}


@dataclass(frozen=True, slots=True)
class Bytes:
    """The bytes of each row, and where there is one, the text or number (bigint, so many bytes wide) they spell.

    Some hashes are much quicker on a text or a number; see `hashes`. The text means nothing where there are no bytes.
    """

    binary: Column
    text: Column | None = None
    number: Column | None = None
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a frame. `malformed` is None when no value can be; `routing` is null where it holds or a field is."""

    base: Bytes
    routing: Bytes
    malformed: Column | None


def read_keys(key: Key, schema: StructType | None, way: JavaWay, *, checked: bool = False) -> Keys:
    """Base and routing key of every row. `checked`: text is looked at too; see `_utf8`."""
    fields = [field_of(name, schema) for name in key.fields]
    parts = [_encoded(field, encoding, way, checked) for field, encoding in zip(fields, key.encodings, strict=True)]
    misfits = [_misfit(*each, checked) for each in zip(fields, key.encodings, parts, strict=True)]
    base = _joined(parts, key.joined_by)
    if key.registry_header == "strip":
        headed = base.binary
        base = Bytes(_stripped(headed))
        misfits.append(headed.isNotNull() & base.binary.isNull())
    if key.window is None:
        return Keys(base, base, _any(misfits))
    time = field_of(key.window.field, schema)
    number, misfit = window_number(time, key.window)
    # A record whose key is null is a null key, whatever its time holds: the order the router asks in.
    misfits.append(misfit & base.binary.isNotNull())
    part = _window_part(number, key, way)
    return Keys(base, _joined([base, part], key.joined_by), _any(misfits))


def read_sub_key(name: str, schema: StructType | None, *, checked: bool = False) -> tuple[Bytes, Column | None]:
    """A sub-key's text, null as the empty text; and which rows hold bytes that are no text, if any can."""
    field = field_of(name, schema)
    part = _utf8(field, checked)
    text = F.coalesce(field.column.cast("string"), F.lit(""))
    return Bytes(F.coalesce(part.binary, F.lit(b"")), text), _misfit(field, "utf8", part, checked)


def _encoded(field: Field, encoding: Encoding, way: JavaWay, checked: bool) -> Bytes:
    if encoding == "utf8":
        return _utf8(field, checked)
    if encoding in ("int32be", "int64be", "h3"):
        number, width = _NUMBERS[encoding](field), FIXED_WIDTH[encoding]
        return Bytes(big_endian(number, width, way), number=number, width=width)
    return _BYTES[encoding](field)


def _misfit(field: Field, encoding: Encoding, part: Bytes, checked: bool) -> Column | None:
    """Where a value is there and its bytes are not."""
    if (encoding, field.kind) in ALWAYS_FIT and not (checked and field.kind == "string"):
        return None
    return field.column.isNotNull() & part.binary.isNull()


def _any(conditions: Sequence[Column | None]) -> Column | None:
    known = [condition for condition in conditions if condition is not None]
    return reduce(lambda a, b: a | b, known) if known else None


def _utf8(field: Field, checked: bool) -> Bytes:
    """Binary is looked at, because Spark reads it as text without looking. Text is taken at its word, as Arrow does.

    Except where Java must read it (`calls.reflected`): of text that is no UTF-8, which only a cast can make, Java would
    hash other bytes. There it is malformed, rather than in a wrong lane.
    """
    text = field.column.cast("string")
    valid = F.when(F.is_valid_utf8(text), text)
    choices: dict[Kind, Column] = {"string": valid if checked else text, "integer": text, "binary": valid}
    return Bytes(choose(field, "utf8 keys", choices).cast("binary"), text)


def _uuid(field: Field) -> Bytes:
    text = field.column.cast("string")
    binary = F.when(F.octet_length(text) == 16, text.cast("binary"))
    digits = F.when(text.rlike(UUID), F.unhex(F.replace(text, F.lit("-"), F.lit(""))))
    return Bytes(choose(field, "uuid keys", {"string": digits, "binary": binary}))


def _raw(field: Field) -> Bytes:
    return Bytes(choose(field, "raw keys", {"binary": field.column.cast("string").cast("binary")}))


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
_BYTES: Final[dict[Encoding, Callable[[Field], Bytes]]] = {"uuid": _uuid, "raw": _raw}


def big_endian(number: Column, width: int, way: JavaWay) -> Column:
    """A number's bytes. ANSI mode has no cast for it, and hex digits are the public way round that."""
    if way == "static":
        return static_call(GUAVA[width], "toByteArray", "binary", number.cast("int") if width == 4 else number)
    digits = F.hex(number if width == 8 else number.bitwiseAND(F.lit(0xFFFFFFFF)))
    return F.unhex(F.lpad(digits, 2 * width, "0"))


def _stripped(keys: Column) -> Column:
    headed = (F.octet_length(keys) >= REGISTRY_HEADER) & (F.substring(keys, 1, 1) == F.lit(b"\x00"))
    return F.when(headed, F.substring(keys, REGISTRY_HEADER + 1, 2**31 - 1))


def _joined(parts: Sequence[Bytes], between: bytes) -> Bytes:
    """Parts end to end, null if one is."""
    if len(parts) == 1:
        return parts[0]
    binary = F.concat(*_between([part.binary for part in parts], F.lit(between)))
    texts = [part.text for part in parts if part.text is not None]
    text = F.concat(*_between(texts, F.lit(between.decode()))) if len(texts) == len(parts) else None
    return Bytes(binary, text)


def _between(parts: Sequence[Column], joint: Column) -> list[Column]:
    return [column for part in parts for column in (joint, part)][1:]


def _window_part(number: Column, key: Key, way: JavaWay) -> Bytes:
    """The window's number in the manner of the other parts: digits after text, 8 bytes after fixed widths."""
    if key.fixed_width:
        return Bytes(big_endian(number, 8, way))
    digits = number.cast("string")
    return Bytes(digits.cast("binary"), digits)

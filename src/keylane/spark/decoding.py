"""The fields that a contract needs, out of Kafka records: the key's bytes, the time, or a field of the value.

Bytes stay bytes: a value is decoded only where the contract names a field of it, only for that field, and what is
written is the value as it came. `key` is the record's key and `timestamp` its time; every other name is looked for in
the value, whose form the user says. JSON and text are decoded by Spark itself; forms that need a schema by
`pipelines.kafka.values`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from keylane.errors import UsageError
from keylane.spark.checks import needed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    from keylane.contract.model import Contract
    from keylane.contract.names import Encoding

    #: Columns by name, and which records cannot be read; None when all can.
    Fields = tuple[dict[str, Column], Column | None]

__all__ = ["FORMS", "from_key", "from_value", "key_column", "value_fields"]

#: How a value may be written, beside the forms that need a schema.
FORMS: Final = ("json", "utf8", "avro", "protobuf")
#: The magic byte and the schema's number, which a registry's serializers put before a value.
_HEADER_BYTES: Final = 5
_CORRUPT: Final = "keylane_corrupt"
_WIDTHS: Final[dict[Encoding, int]] = {"int32be": 4, "int64be": 8, "h3": 8}


def value_fields(contract: Contract) -> list[str]:
    """The fields that have to come from the value."""
    return [name for name in needed(contract) if name not in {"key", "timestamp"}]


def from_key(contract: Contract) -> dict[str, Column]:
    """`key` and `timestamp`, where the contract names them. A key's bytes are what its encoding has made already."""
    names, key = needed(contract), contract.spec.key
    encodings = dict(zip(key.fields, key.encodings, strict=True))
    found = {"key": key_column(encodings.get("key", "raw")), "timestamp": F.col("timestamp")}
    return {name: found[name] for name in names if name in found}


def key_column(encoding: Encoding) -> Column:
    """A record's key; the number that its bytes spell, where one is wanted: big-endian, two's complement."""
    width = _WIDTHS.get(encoding)
    if width is None:
        return F.col("key")
    digits = F.when(F.octet_length("key") == width, F.hex("key"))
    halves = [F.conv(F.substr(digits, F.lit(n * 8 + 1), F.lit(8)), 16, 10).cast("bigint") for n in range(width // 4)]
    if width == 4:
        return F.when(halves[0] >= 2**31, halves[0] - F.lit(2**32)).otherwise(halves[0]).cast("int")
    return F.shiftleft(halves[0], 32).bitwiseOR(halves[1])


def from_value(contract: Contract, form: str | None, types: Mapping[str, DataType]) -> Fields:
    """The fields of the value, and which records cannot be read; none where nothing has to be read."""
    names = value_fields(contract)
    if not names:
        return {}, None
    if form == "utf8":
        return _text(names)
    if form == "json":
        return _json(names, {name: types.get(name, StringType()) for name in names})
    raise UsageError.of(
        f"the contract needs {', '.join(names)}, and nothing says how values are written",
        got=form,
        allowed=", ".join(FORMS),
        hint="--value json; or name the field `key` in the contract, for the record's key",
    )


def _text(names: list[str]) -> Fields:
    if names != ["value"]:
        got = ", ".join(names)
        raise UsageError.of("a value that is text has one field", got=got, allowed="value", hint="--value json")
    text = F.col("value").cast("string")
    return {"value": text}, F.col("value").isNotNull() & ~F.is_valid_utf8(text)


def _json(names: list[str], types: Mapping[str, DataType]) -> Fields:
    """Only the named fields are parsed. A null value is a tombstone: its fields are null, and it can be read."""
    shape = StructType([StructField(name, types[name]) for name in names])
    headed = (F.octet_length("value") > _HEADER_BYTES) & (F.substr("value", F.lit(1), F.lit(1)) == F.lit(b"\x00"))
    body = F.when(headed, F.substr("value", F.lit(_HEADER_BYTES + 1))).otherwise(F.col("value")).cast("string")
    # A record whose parse fails has its text in the extra column; a field that is absent is only null.
    full = StructType([*shape.fields, StructField(_CORRUPT, StringType())])
    found = F.from_json(body, full, {"columnNameOfCorruptRecord": _CORRUPT})
    unread = F.col("value").isNotNull() & (found.isNull() | found[_CORRUPT].isNotNull())
    return {name: found[name] for name in names}, unread

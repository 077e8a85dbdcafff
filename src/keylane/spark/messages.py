"""Kafka records as frames: what the connector reads, what a contract needs of it, and what a writer is given.

A frame of messages has the contract's fields under their own names, and beside them these columns:

    keylane_key, keylane_value     bytes as they are, null as null
    keylane_time                   milliseconds, or null
    keylane_headers                the headers that the record brought along
    keylane_source                 its position as people read it: `topic/partition/offset`, `file/row`
    keylane_part, keylane_place    the same as numbers: the order that is kept
    keylane_position               what keyless rules read
    keylane_malformed              whether it could not be read at all; only where that can be

The decision is `frames.route`'s. Writing to the lanes: `pipelines.route.kafka_writer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from keylane.contract.fields import TIME
from keylane.errors import UsageError
from keylane.records import Reason
from keylane.spark.frames import route
from keylane.spark.hashes import arrow_udf
from keylane.spark.keys import needed
from keylane.spark.read_parquet import MALFORMED, POSITION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from keylane.contract.fields import FieldKind, FieldSpec
    from keylane.contract.model import Contract
    from keylane.contract.names import Encoding
    from keylane.router import Router

    #: Columns by name, and which records cannot be read; None when all can.
    Fields = tuple[dict[str, Column], Column | None]

__all__ = [
    "DEAD_PREFIX",
    "FORMS",
    "HEADERS",
    "SLOT",
    "WRITER_COLUMNS",
    "dead_headers",
    "decided",
    "from_decoder",
    "from_json",
    "from_kafka",
    "from_key",
    "from_message",
    "from_text",
    "from_value",
    "key_column",
    "slotted",
    "to_writers",
    "value_fields",
]

DEAD_PREFIX: Final = "__keylane.errors."
HEADERS: Final = "array<struct<key:string,value:binary>>"
SLOT: Final = "keylane_slot"
#: What a writer gets, in this order.
WRITER_COLUMNS: Final = ("slot", "key", "value", "time", "source", "headers", "part", "place")


def from_kafka(frame: DataFrame, fields: Mapping[str, Column], malformed: Column | None = None) -> DataFrame:
    """A frame of the connector's as messages. `fields` are what the contract needs, by name."""
    source = F.concat_ws("/", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))
    return frame.select(
        *(column.alias(name) for name, column in fields.items()),
        F.col("key").alias("keylane_key"),
        F.col("value").alias("keylane_value"),
        F.unix_millis("timestamp").alias("keylane_time"),
        F.col("headers").alias("keylane_headers"),
        source.cast("binary").alias("keylane_source"),
        F.col("partition").alias("keylane_part"),
        F.col("offset").alias("keylane_place"),
        F.col("offset").alias(POSITION),
        *([] if malformed is None else [malformed.alias(MALFORMED)]),
    )


def decided(frame: DataFrame, router: Router) -> DataFrame:
    """Messages with their stream and lane, or the reason why they have none."""
    out = route(frame, router.contract, lanes=router.lane_count, stream=router.stream, position=POSITION)
    if MALFORMED not in frame.columns:
        return out
    unread = F.when(F.col(MALFORMED), F.lit(str(Reason.MALFORMED_RECORD)))
    return out.withColumn("reason", F.coalesce(unread, F.col("reason")))


def slotted(frame: DataFrame, streams: Sequence[tuple[str, int]], dead_lanes: int) -> DataFrame:
    """A slot for every message: the lanes of the streams in their order, then those of the dead letters.

    A dead letter goes to the lane that its source partition has there: what was in one order stays in one.
    """
    first, base = 0, F.lit(0)
    for stream, lanes in streams:
        base = F.when(F.col("stream") == stream, F.lit(first)).otherwise(base) if first else base
        first += lanes
    dead = F.lit(first) + F.pmod(F.col("keylane_part"), F.lit(dead_lanes))
    slot = F.when(F.col("reason").isNull(), base + F.col("lane")).otherwise(dead)
    return frame.withColumn(SLOT, slot.cast("int"))


def dead_headers(frame: DataFrame, about: Mapping[str, Column]) -> DataFrame:
    """Give each dead letter the headers that say why it is one, after those it brought along."""
    own = [
        F.struct(F.lit(f"{DEAD_PREFIX}{name}").alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in about.items()
    ]
    headers = F.concat(F.coalesce("keylane_headers", F.array().cast(HEADERS)), F.array(*own))
    kept = F.col("keylane_headers")
    return frame.withColumn("keylane_headers", F.when(F.col("reason").isNull(), kept).otherwise(headers))


def to_writers(frame: DataFrame, writers: int, *, spelled: bool = True) -> DataFrame:
    """What `pipelines.route.kafka_writer` is mapped over: by part (0 writers) as the source reads them, else by lane.

    By lane, every slot's messages are in one task, in the order of the source. A position that is not `spelled` is
    left to the writer, who has its numbers: spelling takes Spark several times as long.
    """
    columns = {name: F.col(f"keylane_{name}") for name in WRITER_COLUMNS}
    if not spelled:
        columns["source"] = F.lit(None).cast("binary")
    given = [column.alias(name) for name, column in columns.items()]
    if not writers:
        return frame.select(*given)
    return (
        frame.select(*given)
        .repartitionById(writers, F.pmod("slot", F.lit(writers)).cast("int"))
        .sortWithinPartitions("part", "place")
    )


# The fields that a contract needs, out of Kafka records: the key's bytes, the time, or a field of the value.

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
    return _key_of_width(_WIDTHS.get(encoding))


def _key_of_width(width: int | None) -> Column:
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


# The same by a spec of fields.

_TYPES: Final[dict[FieldKind, DataType]] = {
    "text": StringType(),
    "integer": LongType(),
    "degrees": DoubleType(),
    "flag": BooleanType(),
}


def from_message(fields: FieldSpec) -> dict[str, Column]:
    """The message's own key and time, where they are asked for. A key's bytes are what its encoding made."""
    found = {fields.key: _key_of_width(fields.key_width), TIME: F.col(TIME)}
    return {name: found[name] for name in fields.names if name in found}


def from_text(fields: FieldSpec) -> Fields:
    """The only field of a value that is text, and which values are not."""
    return _text(list(fields.of_value))


def from_json(fields: FieldSpec) -> Fields:
    """Only the named fields are parsed. A null value is a tombstone: its fields are null, and it can be read."""
    return _json(list(fields.of_value), {name: _TYPES[fields.kind(name)] for name in fields.of_value})


def from_decoder(fields: FieldSpec, decode: Callable[[pa.Array], pa.Array], unread: str) -> Fields:
    """Fields out of values that `decode` reads as a struct of them and of `unread`, in Spark's workers."""

    def read(values: pa.Array) -> pa.Array:
        return decode(values)

    kinds = ", ".join(f"`{name}`: {_TYPES[fields.kind(name)].simpleString()}" for name in fields.of_value)
    found = arrow_udf(read, f"struct<{kinds}, {unread}: boolean>")(F.col("value"))
    return {name: found[name] for name in fields.of_value}, found[unread]

"""Kafka records as frames: what the connector reads, what a contract needs of it, and what a writer is given.

A frame of messages has the contract's fields under their own names, and beside them these columns:

    keylane_key, keylane_value     bytes as they are, null as null
    keylane_time                   milliseconds, or null: no time
    keylane_headers                the headers that the record had
    keylane_source                 its position as people read it: `topic/partition/offset`, `file/row`
    keylane_part, keylane_place    the same as numbers: the order that is kept
    keylane_position               what keyless rules read
    keylane_malformed              whether it could not be read at all; only where that can be

The decision is `frames.with_placements`'s. Writing to the lanes: `spark.kafka_writer`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # noqa: TC002  Spark looks at the types of a decoder's arguments
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, VariantType

from keylane.contract.fields import TIME, absent_name, no_such_field, steps_of
from keylane.errors import UsageError
from keylane.keys.read import names_in_json
from keylane.records import Reason
from keylane.spark.frames import with_placements
from keylane.spark.hashes import arrow_udf
from keylane.spark.json_fields import json_of, variant_at
from keylane.spark.keys import TYPES, column_named
from keylane.spark.read_lines import one_object
from keylane.spark.read_parquet import (
    EXACT,
    LINE,
    MALFORMED,
    PLACE,
    POSITION,
    Batch,
    SourceFile,
    file_of,
    picked,
    place_of,
    row_of,
)
from keylane.spark.writable import HEADERS
from keylane.spark.write_lanes import MESSAGE_LENGTH, explained, key_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from keylane.contract.fields import FieldKind, FieldSpec
    from keylane.contract.model import Contract
    from keylane.router import Router

    #: Columns by name, with the marks of records that lack one; and which records cannot be read; None when all can.
    Fields = tuple[dict[str, Column], Column | None]

SLOT: Final = "keylane_slot"
#: What a writer gets, in this order, and the dead letter that is written instead: the same columns.
WRITER_COLUMNS: Final = ("slot", "key", "value", "time", "source", "headers", "part", "place")


def from_kafka(frame: DataFrame, fields: Mapping[str, Column], malformed: Column | None = None) -> DataFrame:
    """A frame of the connector's as messages. `fields` are what the contract needs, by name."""
    source = F.concat_ws("/", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))
    return frame.select(
        *(column.alias(name) for name, column in fields.items()),
        F.col("key").alias("keylane_key"),
        F.col("value").alias("keylane_value"),
        _time_of_message().alias("keylane_time"),
        F.col("headers").alias("keylane_headers"),
        source.cast("binary").alias("keylane_source"),
        F.col("partition").alias("keylane_part"),
        F.col("offset").alias("keylane_place"),
        F.col("offset").alias(POSITION),
        *([] if malformed is None else [malformed.alias(MALFORMED)]),
    )


def _time_of_message() -> Column:
    """Milliseconds. One less than zero is how a message without a time has it."""
    millis = F.unix_millis("timestamp")
    return F.when(millis != -1, millis)


def decided(frame: DataFrame, router: Router) -> DataFrame:
    """Messages with their stream and lane, or the reason why they have none."""
    out = with_placements(frame, router, position=POSITION)
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


def unspelled(frame: DataFrame) -> DataFrame:
    """Messages of a topic without their position as text: the writer has its numbers, and spells it much faster."""
    return frame.withColumn("keylane_source", F.lit(None).cast("binary"))


def to_writers(frame: DataFrame, writers: int, readers: int = 0) -> DataFrame:
    """What `spark.kafka_writer` is mapped over: by part (0 writers) as the source reads them, otherwise by lane.

    By lane, every slot's messages are in one task, in the order of the source. With `readers` no more tasks than
    these read them: what a task costs beside its records is most of a small batch.
    """
    rows = frame.select(*(F.col(f"keylane_{name}").alias(name) for name in (*WRITER_COLUMNS, "letter")))
    if not writers:
        return rows
    rows = rows.coalesce(max(writers, readers)) if readers else rows
    return rows.repartitionById(writers, F.pmod("slot", F.lit(writers)).cast("int")).sortWithinPartitions(
        "part", "place"
    )


# Fields out of messages: the key's bytes, the time, or a field of the value.

#: The magic byte and the schema's number, which a registry's serializers put before a value.
_HEADER_BYTES: Final = 5
#: Messages whose fields an error names.
_SAMPLE: Final = 100


def from_message(fields: FieldSpec) -> dict[str, Column]:
    """The message's own key and time, where they are asked for. A key's bytes are what its encoding made."""
    found = {fields.key: _key_of_width(fields.key_width), TIME: F.col(TIME)}
    return {name: found[name] for name in fields.names if name in found}


def key_as_text(fields: FieldSpec) -> tuple[Column, Column]:
    """The message's own key as a contract names it, text as text; and which keys are not of their encoding."""
    key = F.col("key").cast("string") if fields.key_encoding == "utf8" else _key_of_width(fields.key_width)
    fits = F.is_valid_utf8(key) if fields.key_encoding == "utf8" else key.isNotNull()
    return key, F.col("key").isNotNull() & ~fits


def _key_of_width(width: int | None) -> Column:
    """A message's key; where it has a width, the number that its bytes spell: big-endian, two's complement."""
    if width is None:
        return F.col("key")
    digits = F.when(F.octet_length("key") == width, F.hex("key"))
    halves = [F.conv(F.substr(digits, F.lit(n * 8 + 1), F.lit(8)), 16, 10).cast("bigint") for n in range(width // 4)]
    if width == 4:
        return F.when(halves[0] >= 2**31, halves[0] - F.lit(2**32)).otherwise(halves[0]).cast("int")
    return F.shiftleft(halves[0], 32).bitwiseOR(halves[1])


def from_text(fields: FieldSpec) -> Fields:
    """The only field of a value that is text, and which values are not."""
    text = F.col("value").cast("string")
    return dict.fromkeys(fields.of_value, text), F.col("value").isNotNull() & ~F.is_valid_utf8(text)


def from_json(fields: FieldSpec) -> Fields:
    """Only the named fields are parsed. A null value is a tombstone: it has no fields, and it can be read.

    A value is one JSON object and nothing behind it. `systems.messages.values` reads the same without Spark: what one
    of them takes, the other takes.
    """
    body = json_text()
    # A variant has the type that was written: as text, `1e400` and `"Infinity"` would be one key. And one that is null
    # is not one that is not there.
    names = dict.fromkeys(top for name in fields.of_value for top in (name, steps_of(name)[0]))
    record, sound = one_object(body, StructType([StructField(name, VariantType()) for name in names]))
    found, marks = {}, {}
    for name in fields.of_value:
        value, fits = variant_at(record, name)
        kind = F.schema_of_variant(value).rlike(_WRITTEN_AS[fields.kind(name)])
        sound = sound & F.coalesce(fits & kind, fits, F.lit(True))
        found[name] = F.try_variant_get(value, "$", _READ_AS[fields.kind(name)])
        marks[absent_name(name)] = value.isNull()
    return {**found, **marks}, F.col("value").isNotNull() & ~F.coalesce(sound, F.lit(False))


def json_text() -> Column:
    """A value as text, without the header that a schema registry's serializers put before it."""
    headed = (F.octet_length("value") > _HEADER_BYTES) & (F.substr("value", F.lit(1), F.lit(1)) == F.lit(b"\x00"))
    return F.when(headed, F.substr("value", F.lit(_HEADER_BYTES + 1))).otherwise(F.col("value")).cast("string")


_READ_AS: Final[dict[FieldKind, str]] = {
    "text": "string",
    "written": "string",
    "integer": "bigint",
    "degrees": "double",
    "flag": "boolean",
}
#: What each may be written as, and null: a text as a text, or as a whole number of 64 bits.
_WRITTEN_AS: Final[dict[FieldKind, str]] = {
    "text": "^(STRING|BIGINT|VOID)$",
    "written": "",
    "integer": "^(BIGINT|VOID)$",
    "degrees": r"^(DOUBLE|BIGINT|DECIMAL\(\d+,\d+\)|VOID)$",
    "flag": "^(BOOLEAN|VOID)$",
}


def from_decoder(fields: FieldSpec, decode: Callable[[pa.Array], pa.Array], unread: str) -> Fields:
    """Fields out of values that `decode` reads as a struct of them and of `unread`, in Spark's workers."""
    kinds = {name: TYPES[fields.kind(name)].simpleString() for name in fields.of_value}
    found = decoded(kinds, decode, unread)
    tombstones = {absent_name(name): F.col("value").isNull() for name in fields.of_value}
    return {**{name: found.getField(name) for name in fields.of_value}, **tombstones}, found[unread]


def decoded(kinds: Mapping[str, str], decode: Callable[[pa.Array], pa.Array], unread: str) -> Column:
    """What `decode` makes of values: a struct of fields of these types, and of whether a value was not read."""

    def read(values: pa.Array) -> pa.Array:
        return decode(values)

    shape = "".join(f"`{name}`: {kind}, " for name, kind in kinds.items())
    return arrow_udf(read, f"struct<{shape}{unread}: boolean>")(F.col("value"))


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a batch, and where the source stands after it.

    `records` is their number where it is known without the frame; `filtered` are lines that are no records. Messages
    that are not `keyed` have no key of their own, and get the routing key for one. `topic` is where they came from,
    `taken` are the files, where they came from files. `lacking` are fields that the lane depends on and none of them
    has.
    """

    frame: DataFrame
    records: int | None = None
    filtered: int = 0
    keyed: bool = True
    after: dict[str, Any] = field(default_factory=dict)
    topic: str = ""
    taken: tuple[SourceFile, ...] = ()
    lacking: tuple[str, ...] = ()


def refuse_lacking(routed: DataFrame, names: Sequence[str], value: str) -> None:
    """Refuse messages of which none has a field that the lane of some of them depends on; `value` is their column.

    One record that has it is enough, and ends the search. Tombstones have no fields, and say nothing.
    """
    reason, there = F.col("reason") == str(Reason.MISSING_FIELD), F.col(value).isNotNull()
    for name in (name for name in names if absent_name(name) in routed.columns):
        absent = column_named(absent_name(name))
        if (
            routed.where(there & ~absent).limit(1).collect()
            or not routed.where(there & reason & absent).limit(1).collect()
        ):
            continue
        sample = routed.where(there).select(value).limit(_SAMPLE).collect()
        known = names_in_json(bytes(row[0]) for row in sample)
        raise no_such_field("no record has a field that the lane depends on", name, known)


def messages_of_rows(batch: Batch, names: Sequence[str], before: int, after: Mapping[str, Any]) -> Messages:
    """Rows as messages; `before` is the position of the first, `after` what is known of the source after the batch."""
    place = F.col(PLACE)
    source = F.concat_ws("/", picked(names, "string", file_of(place)), row_of(place).cast("string"))
    line = F.col(LINE).cast("binary") if LINE in batch.frame.columns else None
    exact = [F.col(EXACT)] if EXACT in batch.frame.columns else []
    whole = F.coalesce(*exact, json_of([column_named(name) for name in batch.columns])).cast("binary")
    value = column_named("value").cast("binary") if "value" in batch.columns else whole if line is None else line
    key = column_named("key").cast("binary") if "key" in batch.columns else F.lit(None).cast("binary")
    frame = batch.frame.select(
        "*",
        key.alias("keylane_key"),
        value.alias("keylane_value"),
        F.lit(None).cast("bigint").alias("keylane_time"),
        F.lit(None).cast(HEADERS).alias("keylane_headers"),
        source.cast("binary").alias("keylane_source"),
        F.lit(0).alias("keylane_part"),
    )
    position = {"next_position": before + sum(batch.rows), "schema": batch.schema.json()}
    return Messages(
        frame, sum(batch.records), batch.filtered, "key" in batch.columns, {**after, **position}, lacking=batch.lacking
    )


def row_position() -> dict[str, Column]:
    """The position of a message that was a row: file and row."""
    file = F.regexp_replace(F.col("keylane_source").cast("string"), "/[0-9]+$", "")
    return {"file": file, "row": row_of(F.col("keylane_place"))}


def topic_position(topic: str) -> dict[str, Column]:
    """The position of a message of a topic: topic, partition and offset, named as Connect's headers name them."""
    at = {"partition": F.col("keylane_part"), "offset": F.col("keylane_place"), "timestamp": F.col("keylane_time")}
    return {"topic": F.lit(topic), **at}


# A topic's records as rows of a folder: key, value, timestamp and headers are columns of the lanes.

#: What a record of a topic is, as columns of a lane.
TOPIC_COLUMNS: Final = ("key", "value", "timestamp", "headers")


def offset_ranges(frame: DataFrame, topic: str) -> list[SourceFile]:
    """The offset range of each partition that a batch has, counted."""
    ends = [F.count(F.lit(1)).alias("n"), F.min("offset").alias("low"), F.max("offset").alias("high")]
    rows = sorted(frame.groupBy("partition").agg(*ends).collect())
    if any(row["high"] >= MOST_OFFSETS for row in rows):
        raise UsageError.of("a topic with offsets this high cannot be a folder's source", allowed=str(MOST_OFFSETS))
    return [
        SourceFile("", "", f"{topic}/{row['partition']}/{row['low']}-{row['high']}", row["n"], row["low"])
        for row in rows
    ]


#: Offsets must be lower than this, so that a position can hold them beside the partition.
MOST_OFFSETS: Final = 1 << 40


def rows_of_topic(
    frame: DataFrame, ranges: Sequence[SourceFile], fields: Mapping[str, Column], malformed: Column | None
) -> Batch:
    """The records of a topic as rows; what the contract needs of the value is decoded for the decision only."""
    partitions = [int(file.name.split("/")[-2]) for file in ranges]
    number = F.array_position(F.array(*map(F.lit, partitions)), F.col("partition")) - 1
    added: list[Column] = [column.alias(name) for name, column in fields.items() if name not in TOPIC_COLUMNS]
    added += [place_of(number, F.col("offset")).alias(PLACE), F.col("offset").alias(POSITION)]
    added += [F.col("value").cast("string").alias(LINE)]
    if malformed is not None:
        added.append(malformed.alias(MALFORMED))
    rows = frame.select(*TOPIC_COLUMNS, *added)
    records = tuple(file.size for file in ranges)
    beside = tuple(name for name in TOPIC_COLUMNS if name != "value")
    return Batch(rows, TOPIC_COLUMNS, rows.select(*TOPIC_COLUMNS).schema, records, records, beside=beside)


def keyed_by_routing_key(frame: DataFrame) -> DataFrame:
    """Messages without a key of their own get the routing key."""
    return frame.withColumn("keylane_key", F.col("routing_key"))


def about_dead_letters(contract: Contract, position: Mapping[str, Column], frame: DataFrame) -> dict[str, Column]:
    """The headers of a dead letter: the same columns for every frame of one shape, and slow to build in Python."""
    whole = F.left(F.make_valid_utf8(F.col("keylane_value").cast("string")), F.lit(MESSAGE_LENGTH))
    why = {"reason": F.col("reason"), "message": explained(key_columns(contract, frame), whole)}
    by = {"contract": contract.metadata.name, "fingerprint": contract.fingerprint}
    by["epoch"] = str(contract.metadata.epoch)
    return {**why, **position, **{name: F.lit(text) for name, text in by.items()}}

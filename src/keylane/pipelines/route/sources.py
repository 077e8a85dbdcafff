"""Where a route into Kafka takes its records from: a topic, through Spark's connector, or files.

A source gives the query its stream (`stream`), and turns what the query hands over as a batch into messages
(`messages`, `keylane.spark.messages`). Which records make a batch is Spark's to say and to remember.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StructType

from keylane.errors import UsageError
from keylane.pipelines.route.files import Reading, files_of, needed_types, read_files
from keylane.spark.hashes import arrow_udf
from keylane.spark.keys import column_named
from keylane.spark.messages import HEADERS, from_kafka, from_key, from_value, value_fields
from keylane.spark.read_parquet import LINE, PLACE, file_of, picked, row_of
from keylane.systems.kafka.values import UNREAD, read_fields, value_form

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.pipelines.route.options import KafkaOptions
    from keylane.spark.read_parquet import Batch
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.state import Done
    from keylane.systems.kafka.values import ValueForm

__all__ = ["FileSource", "KafkaSource", "Messages", "Source", "fields_of", "starting"]

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d.*")


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a batch, and where the source stands after it.

    `records` is their number where it is known without the frame; `filtered` are lines that are no records. Messages
    that are not `keyed` have no key of their own, and get the routing key for one. `topic` is where they came from.
    """

    frame: DataFrame
    records: int | None = None
    filtered: int = 0
    keyed: bool = True
    taken: dict[str, Any] = field(default_factory=dict)
    topic: str = ""


class Source(Protocol):
    """What a route into Kafka asks of a source."""

    def stream(self) -> DataFrame:
        """The stream of the query."""
        ...

    def messages(self, frame: DataFrame, last: Done) -> Messages:
        """A batch of that stream as messages; `last` is the batch before."""
        ...

    def where(self) -> dict[str, Column]:
        """A message's place, as the headers of a dead letter name it."""
        ...


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic. Its records are read as committed transactions left them, and are never skipped when they are gone."""

    spark: SparkSession
    access: KafkaAccess
    topic: str
    fields: dict[str, Column]
    malformed: Column | None = None
    start: str = "earliest"
    max_records: int = 1_000_000

    def stream(self) -> DataFrame:
        """The topic as the connector reads it: one task for each partition."""
        options = {
            "kafka.isolation.level": "read_committed",
            **self.access.java(),
            **starting(self.start, self.topic),
            "subscribe": self.topic,
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "maxOffsetsPerTrigger": str(self.max_records),
        }
        return self.spark.readStream.format("kafka").options(**options).load()

    def messages(self, frame: DataFrame, last: Done) -> Messages:  # noqa: ARG002  a topic counts for itself
        """The records of a batch; every offset of Kafka's is its own place."""
        return Messages(from_kafka(frame, self.fields, self.malformed), topic=self.topic)

    def where(self) -> dict[str, Column]:
        """Topic, partition and offset, as Connect's headers say them."""
        at = {"partition": F.col("keylane_part"), "offset": F.col("keylane_place"), "timestamp": F.col("keylane_time")}
        return {"topic": F.lit(self.topic), **at}


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files. A column `key` is the record's key and a column `value` its value, as bytes or text.

    Without them the key is the contract's routing key, and the value the record as JSON: the line itself where the
    source is JSON lines.
    """

    discovered: DataFrame
    folder: Path
    reading: Reading

    def stream(self) -> DataFrame:
        """Names of files as they appear."""
        return self.discovered

    def messages(self, frame: DataFrame, last: Done) -> Messages:
        """The records of a batch's files, in the order of the files and of their rows."""
        files = files_of(frame, self.folder)
        known = StructType.fromJson(json.loads(last.schema)) if last.schema else self.reading.known
        read = read_files(replace(self.reading, known=known), files, last.next_position)
        taken = {
            "next_position": last.next_position + sum(read.rows),
            "taken_files": last.taken_files + len(files),
            "taken_bytes": last.taken_bytes + sum(file.size for file in files),
            "schema": read.schema.json(),
        }
        frame, keyed = from_files(read, [file.name for file in files]), "key" in read.columns
        return Messages(frame, sum(read.records), read.filtered, keyed, taken)

    def where(self) -> dict[str, Column]:
        """File and row."""
        place = F.col("keylane_place")
        return {"file": F.regexp_replace(F.col("keylane_source").cast("string"), "/[0-9]+$", ""), "row": row_of(place)}


def from_files(read: Batch, names: Sequence[str]) -> DataFrame:
    """Records of files as messages."""
    place = F.col(PLACE)
    source = F.concat_ws("/", picked(names, "string", file_of(place)), row_of(place).cast("string"))
    line = F.col(LINE).cast("binary") if LINE in read.frame.columns else None
    whole = F.to_json(F.struct(*map(column_named, read.columns)), {"ignoreNullFields": "false"}).cast("binary")
    value = column_named("value").cast("binary") if "value" in read.columns else whole if line is None else line
    key = column_named("key").cast("binary") if "key" in read.columns else F.lit(None).cast("binary")
    return read.frame.select(
        "*",
        key.alias("keylane_key"),
        value.alias("keylane_value"),
        F.lit(None).cast("bigint").alias("keylane_time"),
        F.lit(None).cast(HEADERS).alias("keylane_headers"),
        source.cast("binary").alias("keylane_source"),
        F.lit(0).alias("keylane_part"),
    )


def starting(text: str, topic: str) -> dict[str, str]:
    """Where a new route begins to read: earliest, latest, a time, or an offset for each partition.

    >>> starting("latest", "t")
    {'startingOffsets': 'latest'}
    >>> starting("2026-01-01T00:00Z", "t")
    {'startingTimestamp': '1767225600000', 'startingOffsetsByTimestampStrategy': 'latest'}
    >>> starting('{"0": 123}', "t")
    {'startingOffsets': '{"t": {"0": 123}}'}
    """
    if text in {"earliest", "latest"}:
        return {"startingOffsets": text}
    if text.startswith("{"):
        return {"startingOffsets": json.dumps({topic: _offsets(text)})}
    if _DAY.fullmatch(text) is None:
        raise _start_error(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _start_error(text) from None
    if at.tzinfo is None:
        raise UsageError.of("a time to start at has no zone", got=text, hint=f"{text}Z")
    return {
        "startingTimestamp": str(int(at.timestamp() * 1000)),
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _offsets(text: str) -> dict[str, int]:
    try:
        found = json.loads(text)
    except ValueError:
        raise _start_error(text) from None
    whole = all(key.isdigit() and isinstance(n, int) and n >= -2 for key, n in found.items())
    if not found or not whole:
        raise _start_error(text)
    return dict(found)


def _start_error(text: str) -> UsageError:
    allowed = 'earliest, latest, a time (2026-01-01T00:00Z), offsets by partition ({"0": 123})'
    return UsageError.of("no place to start at", got=text, allowed=allowed)


# The fields that a contract needs of a topic's records, in the form that the user says values have.


def fields_of(contract: Contract, said: KafkaOptions) -> tuple[dict[str, Column], Column | None]:
    """The columns that the contract needs, and which records cannot be read; None when all can."""
    names, types = value_fields(contract), needed_types(contract)
    if said.value not in {"avro", "protobuf"} or not names:
        fields, unread = from_value(contract, said.value, types)
        return {**from_key(contract), **fields}, unread
    numbers = [name for name in names if isinstance(types.get(name), LongType)]
    degrees = [name for name in names if isinstance(types.get(name), DoubleType)]
    form = value_form(str(said.value), said.value_schema, said.message, names, numbers, degrees)
    found = _read(form)(F.col("value"))
    return {**from_key(contract), **{name: found[name] for name in names}}, found[UNREAD]


def _read(form: ValueForm) -> Any:
    def read(values: pa.Array) -> pa.Array:
        return read_fields(form, values)

    kinds = ", ".join(f"`{name}`: {_written(form, name)}" for name in form.fields)
    return arrow_udf(read, f"struct<{kinds}, {UNREAD}: boolean>")


def _written(form: ValueForm, name: str) -> str:
    return "bigint" if name in form.numbers else "double" if name in form.degrees else "string"

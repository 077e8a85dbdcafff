"""A topic made from a file, for development: a record for each row, its key placed as Java's client places it.

Into any cluster, by a contract and exactly once: `keylane route`.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.fields import FieldSpec, no_such_field
from keylane.errors import BrokerError, DataError, TargetError
from keylane.numbers import count
from keylane.systems.broker.tls import librdkafka_settings
from keylane.systems.endpoint import Address, open_endpoint
from keylane.systems.files.lines import line_blocks
from keylane.systems.files.listing import data_files, kinds_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from keylane.systems.broker.layout import Cluster
    from keylane.systems.endpoint import StreamOptions

#: A record: its key, and its value as JSON.
Row = tuple[bytes | None, bytes]
#: How long the last records may take, and the topic to be removed again.
FLUSH_SECONDS: Final = 120.0
REMOVE_SECONDS: Final = 2.0
#: Records between two calls of `sent`.
EVERY: Final = 1_000


def fill(
    cluster: Cluster,
    path: str,
    topic: str,
    key: str,
    partitions: int,
    options: StreamOptions,
    *,
    sent: Callable[[int], None] = lambda _: None,
) -> tuple[int, int]:
    """Make the topic and write every row; how many records there are, and how many of them have no key.

    `sent` is called with the number of records so far. A topic that is not filled to its end, because of an error or
    an interrupt, is removed: the same call can be made again.
    """
    from confluent_kafka.admin import NewTopic

    from keylane.systems.broker.cluster import admin_client

    rows = iter(rows_of(path, key, options))
    first = next(rows, None)
    if first is None:
        raise DataError.of("no records", got=path)
    admin = admin_client(librdkafka_settings(cluster))
    made = admin.create_topics([NewTopic(topic, partitions)])[topic]
    try:
        _wait_until_made(made, topic)
        return _produced(cluster, topic, chain([first], rows), sent)
    except BaseException:
        # Only one that was made here: the answer of one that was there already is an error.
        with suppress(Exception):
            made.result(REMOVE_SECONDS)
            admin.delete_topics([topic])[topic].result(REMOVE_SECONDS)
        raise


def rows_of(path: str, key: str, options: StreamOptions) -> Iterator[Row]:
    """The rows of a file or folder, each with its key; lines of JSON stay as they are."""
    if Path(path).exists() and kinds_in(Path(path)) == {"json"}:
        yield from _lines(path, key)
        return
    there = open_endpoint(Address("files", "", path), options).describe(FieldSpec((key,)))
    columns = there.columns
    if key not in columns:
        raise there.misread or no_such_field(f"{path} has no column {key!r}", key, list(columns))
    # Named, so that a cell of CSV stays the text that it is.
    stream = open_endpoint(Address("files", "", path), options).describe(FieldSpec(tuple(columns)))
    for batch in stream.batches(list(columns)):
        for row in batch.to_pylist():
            yield _key(row[key]), json.dumps(row, ensure_ascii=False, default=_written).encode()


def _lines(path: str, key: str) -> Iterator[Row]:
    for file in data_files(Path(path), "json"):
        number = 0
        for lines in line_blocks(str(file)):
            for line in lines:
                number += 1
                if line.strip():
                    yield _key(_field(line, key, f"line {count(number)} of {file}")), line


def _field(line: bytes, key: str, where: str) -> Any:
    try:
        record = json.loads(line)
    except ValueError:
        raise DataError.of("not a record of JSON", got=where) from None
    if not isinstance(record, dict) or key not in record:
        raise no_such_field(f"{where} has no field {key!r}", key, list(record) if isinstance(record, dict) else [])
    return record[key]


def _key(value: Any) -> bytes | None:
    """As text, as producers send it; bytes as they are."""
    if value is None or isinstance(value, bytes):
        return value
    return (json.dumps(value) if isinstance(value, bool | dict | list) else str(value)).encode()


def _written(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _wait_until_made(made: Any, topic: str) -> None:
    from confluent_kafka import KafkaException

    try:
        made.result(30)
    except KafkaException as error:
        name = error.args[0].name()
        if name == "TOPIC_ALREADY_EXISTS":
            raise TargetError.of("the topic is there already", got=topic, hint="--topic NAME, for another") from None
        raise BrokerError.of("the topic cannot be made", got=f"{topic}: {error.args[0].str()}") from None


def _produced(cluster: Cluster, topic: str, rows: Iterable[Row], sent: Callable[[int], None]) -> tuple[int, int]:
    from confluent_kafka import Producer

    failed: list[str] = []
    producer = Producer({**librdkafka_settings(cluster), "partitioner": "murmur2_random", "acks": "all"})

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error.str())

    records = nulls = 0
    for row in rows:
        _send(producer, topic, row, delivered)
        records, nulls = records + 1, nulls + (row[0] is None)
        if not records % EVERY:
            sent(records)
    if left := _flush(producer):
        failed.append(f"{left} without an answer")
    if failed:
        raise BrokerError.of("records were not written", got=failed[0])
    return records, nulls


def _send(producer: Any, topic: str, row: Row, delivered: Callable[[Any, Any], None]) -> None:
    """Send a row, when there is room for it."""
    while True:
        try:
            producer.produce(topic, row[1], row[0], on_delivery=delivered)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _flush(producer: Any) -> int:
    """Wait for the last answers, in short turns: an interrupt in a long flush ends in a SystemError."""
    until = time.monotonic() + FLUSH_SECONDS
    while (left := int(producer.flush(0.1))) and time.monotonic() < until:
        continue
    return left

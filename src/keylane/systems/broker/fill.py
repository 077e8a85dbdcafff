"""A topic made from a file, for development: a record for each row, its key placed as Java's client places it.

Into any cluster, by a contract and exactly once: `keylane route`.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.contract.fields import FieldSpec, no_such_field
from keylane.errors import BrokerError, DataError, TargetError
from keylane.keys.arrow_bytes import plain
from keylane.keys.times import WRITTEN, checked_times, micros_of, sizes_of, unit_of, unread_times
from keylane.numbers import count
from keylane.systems.broker.tls import librdkafka_settings
from keylane.systems.endpoint import Address, open_endpoint
from keylane.systems.files.lines import line_blocks
from keylane.systems.files.listing import data_files, kinds_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from keylane.keys.times import TimeField
    from keylane.systems.broker.layout import Cluster
    from keylane.systems.endpoint import StreamOptions

#: A record: its key, its value as JSON, and its own time in milliseconds, where it has one.
Row = tuple[bytes | None, bytes, int | None]
#: A topic of records with times of their own, which may be of any year: none is too old to be kept, or too new to come.
KEPT: Final = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
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
    time: TimeField | None = None,
    sent: Callable[[int], None] = lambda _: None,
) -> tuple[int, int]:
    """Make the topic and write every row; how many records there are, and how many of them have no key.

    `time` is the column of the records' own times; without one they have that of the load. `sent` is called with the
    number of records so far. A topic that is not filled to its end, because of an error or an interrupt, is removed:
    the same call can be made again.
    """
    from confluent_kafka.admin import NewTopic

    from keylane.systems.broker.cluster import admin_client

    rows = iter(rows_of(path, key, options, time))
    first = next(rows, None)
    if first is None:
        raise DataError.of("no records", got=path)
    admin = admin_client(librdkafka_settings(cluster))
    made = admin.create_topics([NewTopic(topic, partitions, config={} if time is None else KEPT)])[topic]
    try:
        _wait_until_made(made, topic)
        return _produced(cluster, topic, chain([first], rows), sent)
    except BaseException:
        # Only one that was made here: the answer of one that was there already is an error.
        with suppress(Exception):
            made.result(REMOVE_SECONDS)
            admin.delete_topics([topic])[topic].result(REMOVE_SECONDS)
        raise


def rows_of(path: str, key: str, options: StreamOptions, time: TimeField | None = None) -> Iterator[Row]:
    """The rows of a file or folder, each with its key and time; lines of JSON stay as they are."""
    times = _Times(time)
    if Path(path).exists() and kinds_in(Path(path)) == {"json"}:
        yield from _lines(path, key, times)
        times.check()
        return
    there = open_endpoint(Address("files", "", path), options).describe(FieldSpec((key,)))
    columns = there.columns
    for name in (key, *([time.name] if time else [])):
        if name not in columns:
            raise there.misread or no_such_field(f"{path} has no column {name!r}", name, list(columns))
    # Named, so that a cell of CSV stays the text that it is.
    stream = open_endpoint(Address("files", "", path), options).describe(FieldSpec(tuple(columns)))
    number = 0
    for batch in stream.batches(list(columns)):
        column = None if time is None else batch.column(time.name)
        own = times.of(column, len(batch), partial(_row, number))
        for row, at in zip(batch.to_pylist(), own, strict=True):
            yield _key(row[key]), json.dumps(row, ensure_ascii=False, default=_written).encode(), at
        number += len(batch)
    times.check()


def _lines(path: str, key: str, times: _Times) -> Iterator[Row]:
    names = (key, *([times.given.name] if times.given else []))
    for file in data_files(Path(path), "json"):
        number = 0
        for lines in line_blocks(str(file)):
            there = [(number + n, line) for n, line in enumerate(lines, 1) if line.strip()]
            number += len(lines)
            fields = [_fields(line, names, f"line {count(n)} of {file}") for n, line in there]
            texts = pa.array([_text(one[-1]) for one in fields], pa.string()) if times.given else None
            own = times.of(texts, len(there), partial(_line, file, there))
            for (_, line), found, at in zip(there, fields, own, strict=True):
                yield _key(found[0]), line, at


def _row(before: int, at: int) -> str:
    return f"row {count(before + at + 1)}"


def _line(file: Path, lines: Sequence[tuple[int, bytes]], at: int) -> str:
    return f"line {count(lines[at][0])} of {file}"


def _fields(line: bytes, names: Sequence[str], where: str) -> list[Any]:
    try:
        record = json.loads(line)
    except ValueError:
        raise DataError.of("not a record of JSON", got=where) from None
    for name in names:
        if not isinstance(record, dict) or name not in record:
            known = list(record) if isinstance(record, dict) else []
            raise no_such_field(f"{where} has no field {name!r}", name, known)
    return [record[name] for name in names]


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


class _Times:
    """The own times of records, in milliseconds; none where no column of them was given."""

    def __init__(self, given: TimeField | None) -> None:
        self.given, self._sizes = given, np.zeros(WRITTEN + 1, np.int64)

    def of(self, column: Any, many: int, where: Callable[[int], str]) -> Iterable[int | None]:
        """Those of a column. A record without one is refused: it would have the time of the load."""
        if self.given is None:
            return repeat(None, many)
        column = plain(column)
        checked_times(self.given.name, column.type)
        micros, missing = micros_of(column, self.given.form)
        self._sizes += sizes_of(column) if self.given.form is None else 0
        bad = np.flatnonzero(missing | (micros < 0))
        if len(bad):
            at = int(bad[0])
            error = unread_times(self.given.name, str(column.type), self.given.form, [str(column[at].as_py())])
            raise DataError.of(f"{where(at)} has no time that a record can have", got=str(error))
        return (micros // 1000).tolist()

    def check(self) -> None:
        """Refuse numbers of several units."""
        if self.given is not None and self._sizes.any():
            unit_of(self.given.name, self._sizes.tolist(), text=bool(self._sizes[WRITTEN]))


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
            stamp = {} if row[2] is None else {"timestamp": row[2]}
            producer.produce(topic, row[1], row[0], on_delivery=delivered, **stamp)
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

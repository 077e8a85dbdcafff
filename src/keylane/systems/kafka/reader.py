"""An offset range of a topic's partition -> columns of its records, in chunks of bounded size, through librdkafka.

A stretch ends at an offset that was determined once, so that what is read does not depend on concurrent writers. Its
offsets have gaps, at its end too: markers of transactions, what was aborted, what was compacted. So a stretch is over
when the reader has come to a record, or to the end of the partition, at or beyond its end; never by counting.

What a record's bytes mean: `values`. Writing: `spark.kafka_writer`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError, DataError, MissingExtraError
from keylane.systems.kafka.cluster import Listener, explained, is_permanent
from keylane.systems.kafka.headers import ATTEMPT, CONTRACT, DEAD_PREFIX, EPOCH, REASON, SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from keylane.systems.kafka.access import KafkaAccess

    #: Fingerprint, epoch, and whether the record is marked as written again.
    Writer = tuple[bytes | None, bytes | None, bool]

#: No group is joined and no offset committed; librdkafka requires a group id, and ACLs refer to it.
SETTINGS: Final = {
    "group.id": "keylane-verify",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    # What is read is there already, and the next lane waits for the last answer of the one before.
    "fetch.wait.max.ms": 10,
    # Once 100,000 records are queued librdkafka pauses, by default for a second, which a reader takes a tenth of.
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": 4 << 20,
    "queued.max.messages.kbytes": 32 << 10,
    "allow.auto.create.topics": False,
}
#: Properties of writers, about which a reader warns.
_OF_WRITERS: Final = ("transaction.timeout.ms", "compression.type", "linger.ms", "batch.size", "message.max.bytes")
#: Headers of a dead letter: the time of its record, and what is there of parts that it has not.
TIME: Final = f"{DEAD_PREFIX}timestamp"
_LEFT_OUT: Final = frozenset(f"{DEAD_PREFIX}{name}" for name in ("value.bytes", "headers.count", "key.bytes"))
_MOST_DIGITS: Final = 19
#: Headers that a route adds to a record: source, contract and epoch.
_ROUTE_HEADERS: Final = 3
#: What librdkafka calls the kinds of time.
_CREATED, _APPENDED = 1, 2
#: The end of no record's headers.
_NEVER: Final = [("", b"")]
#: Records asked for at once. Few: the objects of a chunk are gone before the collector looks at them.
AT_ONCE: Final = 500
#: How long such a call waits for the last of them, which may not exist.
TURN_SECONDS: Final = 0.02
#: Records and bytes that are held before they are handed on.
ROWS, BYTES = 65_536, 64 << 20
#: A broker may take this long to restart.
SILENT_SECONDS: Final = 60.0


@dataclass(slots=True)
class RecordChunk:
    """Columns of consecutive records; those from `values` on only where requested.

    `lengths` are those of the values, `sources` is the source header of each record, `writers` the index of its writer
    among the reader's, `reasons` why it is a dead letter. `stamps` are times that producers gave, and `own` are the
    headers of a record, without those that its last route wrote. `cut` are dead letters of which something was left
    out. `lanes` are those of the records, where a part has not one for all.
    """

    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    sources: list[bytes | None] = field(default_factory=list)
    writers: list[int] = field(default_factory=list)
    reasons: list[bytes | None] = field(default_factory=list)
    stamps: list[int | None] = field(default_factory=list)
    own: list[list[tuple[str, bytes]] | None] = field(default_factory=list)
    cut: list[bool] = field(default_factory=list)
    lanes: list[int] = field(default_factory=list)
    weight: int = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, first: int, last: int) -> RecordChunk:
        """The records from one number up to another."""
        columns = {one.name: getattr(self, one.name)[first:last] for one in fields(self) if one.name != "weight"}
        return RecordChunk(**columns, weight=self.weight)

    def taken(self, rows: Sequence[int]) -> RecordChunk:
        """The records with these numbers."""
        columns = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "weight"}
        return RecordChunk(
            **{name: [column[row] for row in rows] if column else [] for name, column in columns.items()},
            weight=self.weight,
        )


@dataclass(slots=True)
class TopicReader:
    """Reads partitions one after the other over one connection, which is not pickled with the reader."""

    access: KafkaAccess
    values: bool = False
    times: bool = False
    headers: bool = False
    contents: bool = False
    lengths: bool = False
    writers: dict[Writer, int] = field(default_factory=dict)
    _consumer: Any = None
    _listener: Listener = field(default_factory=Listener)
    _tail: list[tuple[str, bytes]] = field(default_factory=list)
    _writer: int = -1

    def __getstate__(self) -> tuple[KafkaAccess, bool, bool, bool, bool, bool]:
        return self.access, self.values, self.times, self.headers, self.contents, self.lengths

    def __setstate__(self, state: tuple[KafkaAccess, bool, bool, bool, bool, bool]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # what is not pickled starts empty

    def with_values(self) -> TopicReader:
        """The same, and values too."""
        return replace(self, values=True)

    @property
    def kept(self) -> tuple[int, ...]:
        """The kinds of time that are of the record: in a target not the one that the broker set when it came."""
        return (_CREATED,) if self.headers else (_CREATED, _APPENDED)

    def chunks(
        self, topic: str, lane: int, start: int, end: int | None, *, dead: bool = False
    ) -> Iterator[RecordChunk]:
        """The records of a partition from one offset up to another; of dead letters their reasons, too."""
        assert end is not None
        if start >= end:
            return
        consumer, chunk = self._assigned(topic, lane, start), RecordChunk()
        for messages in self._turns(consumer, f"{topic}/{lane}", start, end):
            self._add(chunk, messages)
            if dead:
                self._add_letters(chunk, [dict(message.headers() or []) for message in messages])
            if len(chunk) >= ROWS or chunk.weight >= BYTES:
                yield chunk
                chunk = RecordChunk()
        if len(chunk):
            yield chunk

    def _assigned(self, topic: str, lane: int, start: int) -> Any:
        try:
            from confluent_kafka import Consumer, TopicPartition
        except ImportError:
            raise MissingExtraError.named("kafka", "confluent-kafka") from None
        if self._consumer is None:
            settings = self.access.librdkafka(**SETTINGS)
            for name in _OF_WRITERS:
                settings.pop(name, None)
            self._consumer = Consumer(
                {**settings, "isolation.level": level_of(self.access), "error_cb": self._listener}
            )
        self._consumer.assign([TopicPartition(topic, lane, start)])
        return self._consumer

    def _turns(self, consumer: Any, where: str, start: int, end: int) -> Iterator[list[Any]]:
        """Messages below the end, some at a time. A chunk whose records are large is followed by smaller ones."""
        at, many, heard = start, AT_ONCE, time.monotonic()
        while at < end:
            chunk = consumer.consume(min(many, end - at), TURN_SECONDS)
            good = self._good(chunk, where) if chunk and any(map(type(chunk[0]).error, chunk)) else chunk
            is_end = bool(chunk) and _is_end(chunk[-1])
            if not good and not is_end:
                # An error that may pass is no sign of life: repeated for ever, it would be waited for as long.
                self._check_heard(heard)
                continue
            heard = time.monotonic()
            if is_end:
                at = max(at, int(chunk[-1].offset()))
            if good:
                at, many = max(at, int(good[-1].offset()) + 1), _fitting(good)
                within = good if at <= end else [message for message in good if message.offset() < end]
                if within:
                    yield within

    def _good(self, chunk: list[Any], where: str) -> list[Any]:
        """The records of a chunk that has something else in it: the end of the partition, or an error."""
        for message in chunk:
            error = message.error()
            if error is not None and not _is_end(message):
                if error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
                    hint = "by the topic's retention; run again, on what is left"
                    raise DataError.of(f"records of {where} were deleted while it was read", got=error.str(), hint=hint)
                if is_permanent(error) or error.fatal():
                    raise explained(error, self.access.brokers, self._listener)
        return [message for message in chunk if message.error() is None]

    def _check_heard(self, heard: float) -> None:
        silent = time.monotonic() - heard
        if silent > SILENT_SECONDS:
            if errors := self._listener.errors:
                raise explained(errors[-1], self.access.brokers, self._listener)
            raise BrokerError.of(f"no broker answers at {self.access.brokers}", got=f"nothing for {silent:.0f} s")

    def _add(self, chunk: RecordChunk, messages: list[Any]) -> None:
        """The hot part: a call for each column that is wanted, and nothing else for each record."""
        message = type(messages[0])
        chunk.offsets += map(message.offset, messages)
        chunk.keys += map(message.key, messages)
        if self.values:
            values = list(map(message.value, messages))
            chunk.weight += sum(len(value) for value in values if value is not None)
            chunk.values += values
        if self.lengths:
            chunk.lengths += map(len, messages)
        if self.times or self.contents:
            stamps = list(map(message.timestamp, messages))
            chunk.times += [at for _, at in stamps]
            # One less than zero is how a record without a time has it: a route's writer gives it one.
            chunk.stamps += [at if kind in self.kept and at != -1 else None for kind, at in stamps]
        if self.headers:
            self._add_headers(chunk, map(message.headers, messages))
        elif self.contents:
            chunk.own += map(message.headers, messages)

    def _add_letters(self, chunk: RecordChunk, letters: list[dict[str, bytes]]) -> None:
        """Why each is a dead letter; the time of its record, which its topic may not take; and what was left out."""
        chunk.reasons += [letter.get(REASON) for letter in letters]
        chunk.cut += [not _LEFT_OUT.isdisjoint(letter) for letter in letters]
        if self.contents:
            own = chunk.stamps[-len(letters) :]
            chunk.stamps[-len(letters) :] = [
                _number(letter[TIME]) if TIME in letter else at for letter, at in zip(letters, own, strict=True)
            ]

    def _add_headers(self, chunk: RecordChunk, several: Iterable[list[tuple[str, bytes]] | None]) -> None:
        """The fast path for records whose headers end as those of the previous record: nearly all."""
        source, writer, number, own = chunk.sources.append, chunk.writers.append, self._writer, chunk.own.append
        for headers in several:
            if headers and headers[-2:] == self._tail and headers[-3:][0][0] == SOURCE:
                source(headers[-3][1])
                own(headers[:-3] if len(headers) > _ROUTE_HEADERS else None)
            else:
                source(self._source_of(headers or []))
                own(_own(headers or []))
                number = self._writer
            writer(number)

    def _source_of(self, headers: list[tuple[str, bytes]]) -> bytes | None:
        """The slow path. Of two headers of one name the last counts: it is what the last route wrote.

        An attempt is the last route's only behind its source: otherwise it is of an earlier route of the record.
        """
        values, names = dict(headers), [name for name, _ in headers]
        again = ATTEMPT in names and SOURCE not in names[_last(names, ATTEMPT) :]
        self._writer = self.writers.setdefault((values.get(CONTRACT), values.get(EPOCH), again), len(self.writers))
        self._tail = headers[-2:] if names[-3:] == [SOURCE, CONTRACT, EPOCH] else _NEVER
        return values.get(SOURCE)


def level_of(access: KafkaAccess) -> str:
    """What a reader sees of transactions: committed ones, unless isolation.level is set."""
    return dict(access.properties).get("isolation.level", "read_committed")


def _own(headers: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The headers that a record had before its last route, and what somebody has put behind those of the route."""
    names = [name for name, _ in headers]
    if SOURCE not in names:
        return headers
    at = _last(names, SOURCE)
    return headers[:at] + [one for one in headers[at + 1 :] if one[0] not in {CONTRACT, EPOCH, ATTEMPT}]


def _number(text: bytes | None) -> int | None:
    return int(text) if text and text.removeprefix(b"-").isdigit() and len(text) < _MOST_DIGITS else None


def of_letter(headers: list[tuple[str, bytes]] | None) -> list[tuple[str, bytes]] | None:
    """The headers of a dead letter's record: those that say why it is one come behind them."""
    names = [name for name, _ in headers or []]
    return headers[: _last(names, REASON)] if headers and REASON in names else headers


def _last(names: list[str], name: str) -> int:
    return len(names) - 1 - names[::-1].index(name)


def _is_end(message: Any) -> bool:
    error = message.error()
    return error is not None and error.name() == "_PARTITION_EOF"


def _fitting(messages: list[Any]) -> int:
    """How many records to ask for next, so that they weigh no more than some megabytes."""
    heaviest = max(len(messages[0]), len(messages[-1]), 1)
    return max(1, min(AT_ONCE, (BYTES >> 2) // heaviest))

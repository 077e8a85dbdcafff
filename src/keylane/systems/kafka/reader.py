"""An offset range of a topic's partition -> columns of its records, in chunks of bounded size, through librdkafka.

A stretch ends at an offset that was determined once, so that what is read does not depend on concurrent writers. Its
offsets have gaps, at its end too: markers of transactions, what was aborted, what was compacted. So a stretch is over
when the reader has come to a record, or to the end of the partition, at or beyond its end; never by counting.

The columns: `messages.chunks`. What a record's bytes mean: `messages.values`. Writing: `spark.kafka_writer`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError, DataError, MissingExtraError
from keylane.systems.kafka.cluster import Listener, abort_command, explained, is_permanent, open_cluster
from keylane.systems.messages.chunks import ChunkReader, RecordChunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.messages.chunks import WantedColumns

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
#: Records asked for at once. Few: the objects of a chunk are gone before the collector looks at them.
AT_ONCE: Final = 500
#: How long such a call waits for the last of them, which may not exist.
TURN_SECONDS: Final = 0.02
#: Records and bytes that are held before they are handed on.
ROWS, BYTES = 65_536, 64 << 20
#: Silence after which a broker is asked for the reason.
ASK_AFTER_SECONDS: Final = 5.0
#: A broker may take this long to restart.
SILENT_SECONDS: Final = 60.0


@dataclass(slots=True)
class TopicReader(ChunkReader):
    """Reads partitions one after the other over one connection, which is not pickled with the reader."""

    access: KafkaAccess
    _consumer: Any = None
    _listener: Listener = field(default_factory=Listener)

    def __getstate__(self) -> tuple[KafkaAccess, WantedColumns]:
        return self.access, self.wanted

    def __setstate__(self, state: tuple[KafkaAccess, WantedColumns]) -> None:
        access, wanted = state
        self.__init__(wanted, access)  # type: ignore[misc]  # what is not pickled starts empty

    def chunks(
        self, topic: str, lane: int, start: int, end: int | None, *, dead: bool = False
    ) -> Iterator[RecordChunk]:
        """The records of a partition from one offset up to another; of dead letters their reasons, too."""
        assert end is not None
        if start >= end:
            return
        consumer, chunk = self._assigned(topic, lane, start), RecordChunk()
        for messages in self._turns(consumer, (topic, lane), start, end):
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

    def _turns(self, consumer: Any, place: tuple[str, int], start: int, end: int) -> Iterator[list[Any]]:
        """Messages below the end, some at a time. A chunk whose records are large is followed by smaller ones."""
        at, many, heard, where = start, AT_ONCE, time.monotonic(), "{}/{}".format(*place)
        asked = heard
        while at < end:
            chunk = consumer.consume(min(many, end - at), TURN_SECONDS)
            good = self._good(chunk, where) if chunk and any(map(type(chunk[0]).error, chunk)) else chunk
            is_end = bool(chunk) and _is_end(chunk[-1])
            if not good and not is_end:
                # An error that may pass is no sign of life: repeated for ever, it would be waited for as long.
                if time.monotonic() - max(heard, asked) > ASK_AFTER_SECONDS:
                    asked = time.monotonic()
                    self._check_readable(place, end)
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

    def _check_readable(self, place: tuple[str, int], end: int) -> None:
        """Refuse to wait for what is in an open transaction: a broker that answers hands none of it out."""
        topic, lane = place
        if level_of(self.access) != "read_committed":
            return
        with suppress(BrokerError), open_cluster(self.access) as cluster:
            there = cluster.offset_ranges(topic, lane + 1, committed=True)[lane]
            if there.end < min(end, there.high):
                by = abort_command(self.access.brokers, topic, lane, there.end)
                hint = f"it ends when its producer commits or aborts it, or by: {by}"
                what = f"a transaction is open in lane {lane} of {topic!r}: what is behind its beginning cannot be read"
                raise DataError.of(what, got=f"last stable offset {there.end}, below {end}", hint=hint)

    def _check_heard(self, heard: float) -> None:
        silent = time.monotonic() - heard
        if silent > SILENT_SECONDS:
            if errors := self._listener.errors:
                raise explained(errors[-1], self.access.brokers, self._listener)
            raise BrokerError.of(f"no broker answers at {self.access.brokers}", got=f"nothing for {silent:.0f} s")


def level_of(access: KafkaAccess) -> str:
    """What a reader sees of transactions: committed ones, unless isolation.level is set."""
    return dict(access.properties).get("isolation.level", "read_committed")


def _is_end(message: Any) -> bool:
    error = message.error()
    return error is not None and error.name() == "_PARTITION_EOF"


def _fitting(messages: list[Any]) -> int:
    """How many records to ask for next, so that they weigh no more than some megabytes."""
    heaviest = max(len(messages[0]), len(messages[-1]), 1)
    return max(1, min(AT_ONCE, (BYTES >> 2) // heaviest))

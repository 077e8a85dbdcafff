"""Records of one batch -> their lanes in one Kafka transaction: exactly once for readers at `read_committed`.

The rule. A batch is divided among W writers; a lane has one writer. A writer opens the transaction of its name
(`keylane-ROUTE-WRITER`), which ends every earlier holder of that name and whatever it had open: from then on no zombie
can commit. Only then does it read, for each of its lanes, the number that was last committed; a lane whose number is
beyond this batch has its records already, and is passed over. The rest is sent, and in the same transaction each lane
that got records commits `batch + 1`, with the count of its records, as the offset of the group `keylane-ROUTE`, which
nobody joins. Records and number are there together or not at all.

    batch 7, lanes 0 and 2 of writer 0      committed {0: 8, 2: 7}    lane 0 has batch 7, lane 2 has not
    -> lane 0 passed over; lane 2 sent; commit {2: 8}                 a third run would find {0: 8, 2: 8}

A lane without records commits nothing: its number says how far it has come, and a replay has no records for it either.
More lanes than writers share transactions. Another lane count or number of writers makes another division, which is
safe only from one batch to the next: so both are written down before a batch begins (`kafka_state`). Do not use this
where two routes write one lane: each is exactly once by itself, and their records mix.

Which rows come to a writer, and in which order, is said in `keylane.spark.messages`; the run is `pipelines.kafka`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.systems.folders import no_probe
from keylane.systems.kafka_cluster import Listener, explained, is_permanent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from keylane.systems.folders import Probe
    from keylane.systems.kafka_access import KafkaAccess

__all__ = ["PERMANENT", "WRITTEN", "Division", "WriteError", "group_name", "transaction_name", "write"]

#: What a writer says of each lane, as Spark spells it.
WRITTEN: Final = "slot int, records bigint, repeated boolean"
PERMANENT: Final = "not to be tried again"
#: Well above what a batch takes; a broker allows 15 minutes unless it is told otherwise.
TRANSACTION_MS: Final = 300_000
#: How long a step of a transaction may take. A broker that is paused or started anew is waited for, not given up.
STEP_SECONDS: Final = 60.0
#: Larger than librdkafka's own: a writer has all its records at hand.
SETTINGS: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 50,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 262_144,
    "delivery.report.only.error": True,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "transaction.timeout.ms": TRANSACTION_MS,
}
SOURCE: Final = "keylane.source"
_POLL_EVERY: Final = 20_000


class WriteError(Exception):
    """A transaction that did not happen, or of which nobody knows. Its text crosses from a worker to the driver."""


@dataclass(frozen=True, slots=True)
class Division:
    """How a batch is divided: its topics with their lanes in order (a slot is a lane's number in it), and its writers.

    `headers` are those that every record of the batch gets beside its own.
    """

    access: KafkaAccess
    route: str
    batch: int
    topics: tuple[tuple[str, int], ...]
    writers: int
    headers: tuple[tuple[str, bytes], ...] = ()
    probe: Probe = field(default=no_probe)

    def slots(self) -> list[tuple[str, int]]:
        """Topic and lane of each slot."""
        return [(topic, lane) for topic, lanes in self.topics for lane in range(lanes)]


def transaction_name(route: str, writer: int) -> str:
    """The name that fences: one for each writer of a route."""
    return f"keylane-{route}-{writer}"


def group_name(route: str) -> str:
    """The group whose offsets are the numbers of batches."""
    return f"keylane-{route}"


def write(division: Division, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The work of one task: rows `slot, key, value, time, source, headers` of one writer, in the source's order."""
    from confluent_kafka import KafkaException

    full = (batch for batch in batches if len(batch))
    first = next(full, None)
    if first is None:
        return
    writer = first.column("slot")[0].as_py() % division.writers
    began = time.monotonic()
    listener = Listener()
    try:
        yield _written(Transaction.begun(division, writer, listener), chain([first], full))
    except KafkaException as error:
        raise _told(error, division, writer, listener, time.monotonic() - began) from error


def _written(transaction: Transaction, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    try:
        for batch in batches:
            transaction.send(batch)
        return transaction.commit()
    except BaseException:
        transaction.abort()
        raise


@dataclass(slots=True)
class Transaction:
    """A writer's transaction of one batch, from the fence to the commit."""

    division: Division
    writer: int
    producer: Any
    group: Any
    slots: list[tuple[str, int]]
    committed: dict[int, tuple[int, str]]
    counts: np.ndarray[Any, Any]
    since_poll: int = 0

    @classmethod
    def begun(cls, division: Division, writer: int, listener: Listener) -> Transaction:
        """Fence every earlier holder of the name, then read how far each lane is: the other order proves nothing."""
        from confluent_kafka import Producer

        name = transaction_name(division.route, writer)
        settings = {**SETTINGS, **division.access.librdkafka()}
        producer = Producer({**settings, "transactional.id": name, "error_cb": listener})
        producer.init_transactions(STEP_SECONDS)
        division.probe(f"fenced {writer}", division.batch)
        slots = division.slots()
        own = range(writer, len(slots), division.writers)
        committed, group = _committed(division, {slot: slots[slot] for slot in own})
        producer.begin_transaction()
        return cls(division, writer, producer, group, slots, committed, np.zeros(len(slots), np.int64))

    def send(self, batch: pa.RecordBatch) -> None:
        """Send rows to their lanes, except those of lanes that have them already."""
        slots = batch.column("slot").to_numpy()
        self.counts += np.bincount(slots, minlength=len(self.slots))
        has = [slot for slot, (number, _) in self.committed.items() if number > self.division.batch]
        if has:
            batch = batch.filter(pa.array(~np.isin(slots, has)))
        self._produce(batch)
        self.since_poll += len(batch)
        if self.since_poll > _POLL_EVERY:
            self.producer.poll(0)
            self.since_poll = 0

    def _produce(self, batch: pa.RecordBatch) -> None:
        """The hot loop: everything that is the same for all records is made before it."""
        produce, slots, fixed = self.producer.produce, self.slots, list(self.division.headers)
        usual: dict[str, bytes] = {SOURCE: b"", **dict(fixed)}  # copied by each call, so one will do
        columns = [batch.column(name).to_pylist() for name in ("slot", "key", "value", "time", "source")]
        for slot, key, value, at, source, own in zip(*columns, _headers(batch), strict=True):
            topic, lane = slots[slot]
            usual[SOURCE] = source
            headers = [*own, (SOURCE, source), *fixed] if own else usual
            try:
                produce(topic, value, key, lane, None, None, at or 0, headers)
            except BufferError:
                self._produce_when_there_is_room(topic, value, key, lane, None, None, at or 0, headers)

    def _produce_when_there_is_room(self, *message: Any) -> None:
        while True:
            self.producer.poll(0.05)
            try:
                self.producer.produce(*message)
            except BufferError:
                continue
            return

    def commit(self) -> pa.RecordBatch:
        """Commit records and numbers in one step; what each lane got, and whether it had it before."""
        from confluent_kafka import TopicPartition

        batch, touched = self.division.batch, [int(slot) for slot in np.flatnonzero(self.counts)]
        repeated = [self.committed[slot][0] > batch for slot in touched]
        self._check_repeated()
        new = [slot for slot, again in zip(touched, repeated, strict=True) if not again]
        self.division.probe(f"sent {self.writer}", batch)
        if new:
            numbers = [TopicPartition(*self.slots[slot], batch + 1, metadata=str(self.counts[slot])) for slot in new]
            self.producer.send_offsets_to_transaction(numbers, self.group, STEP_SECONDS)
            self.producer.commit_transaction(STEP_SECONDS)
        else:
            self.abort()
        self.division.probe(f"committed {self.writer}", batch)
        columns = [pa.array(touched, pa.int32()), pa.array(self.counts[touched]), pa.array(repeated, pa.bool_())]
        return pa.RecordBatch.from_arrays(columns, ["slot", "records", "repeated"])

    def abort(self) -> None:
        """Give up what was sent. One that cannot be aborted here is ended by the next holder of the name."""
        from confluent_kafka import KafkaException

        try:
            self.producer.abort_transaction(5.0)
        except KafkaException:
            self.producer.purge()

    def _check_repeated(self) -> None:
        """A lane that has this very batch must have as many records of it as there are now, or a batch has changed."""
        for slot, (number, records) in self.committed.items():
            if number == self.division.batch + 1 and records and int(records) != self.counts[slot]:
                topic, lane = self.slots[slot]
                raise WriteError(
                    f"{PERMANENT}: batch {self.division.batch} was committed to {topic} lane {lane} with {records} "
                    f"records and has {self.counts[slot]} now: the source has changed under it"
                )


def _headers(batch: pa.RecordBatch) -> Sequence[Sequence[tuple[str, bytes | None]]]:
    """The headers that a record brings along, as pairs; shared emptiness where there are none."""
    column = batch.column("headers")
    if column.null_count == len(column):
        return [()] * len(column)
    return [[(h["key"], h["value"]) for h in own] if own else () for own in column.to_pylist()]


def _committed(division: Division, lanes: dict[int, tuple[str, int]]) -> tuple[dict[int, tuple[int, str]], Any]:
    """The number and the count that each slot has committed; and the group, as a transaction wants it named.

    Read at `read_committed`, which waits for numbers that a transaction of another name still holds open.
    """
    from confluent_kafka import Consumer, TopicPartition

    own = {"group.id": group_name(division.route), "isolation.level": "read_committed", "enable.auto.commit": False}
    settings = division.access.librdkafka(**own)
    for name in ("transaction.timeout.ms", "compression.type", "linger.ms", "batch.size"):
        settings.pop(name, None)
    consumer = Consumer(settings)
    try:
        found = _asked(consumer, [TopicPartition(*lane) for lane in lanes.values()])
        numbers = {slot: (one.offset, one.metadata or "") for slot, one in zip(lanes, found, strict=True)}
        return numbers, consumer.consumer_group_metadata()
    finally:
        consumer.close()


def _asked(consumer: Any, lanes: Sequence[Any]) -> Sequence[Any]:
    """Ask until there is an answer: right after a start, a broker does not know yet that it is the one to ask."""
    from confluent_kafka import KafkaException

    until, found = time.monotonic() + STEP_SECONDS, []
    while True:
        try:
            found = list(consumer.committed(lanes, timeout=max(1.0, until - time.monotonic())))
            failed = next((KafkaException(one.error) for one in found if one.error is not None), None)
        except KafkaException as error:
            failed = error
        if failed is None:
            return found
        if time.monotonic() > until or is_permanent(failed):
            raise failed
        time.sleep(0.1)


def _told(error: Exception, division: Division, writer: int, listener: Listener, seconds: float) -> WriteError:
    words = explained(error, division.access.brokers, listener)
    allowed = dict(division.access.properties).get("transaction.timeout.ms", str(TRANSACTION_MS))
    late = seconds * 1000 > int(allowed)
    hint = "; it took longer than transaction.timeout.ms: lower --max-records" if late else ""
    mark = f"{PERMANENT}: " if late or is_permanent(error) else ""
    return WriteError(f"{mark}writer {writer} of batch {division.batch}: {words}{hint}")

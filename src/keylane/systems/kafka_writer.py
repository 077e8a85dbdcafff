"""Records of one batch -> their lanes in Kafka transactions: exactly once for readers at `read_committed`.

The rule. A batch falls into units, and a writer has some of them for itself. It opens the transaction of its name: that
ends every earlier holder of that name and whatever it had open: from then on no zombie can commit. Only then does it
read, for each of its units, the number that was last committed; a unit whose number is beyond this batch is there
already, and is passed over. The rest is sent, and in the same transaction each unit that had records commits
`batch + 1`, with the count of its records, as an offset of a group that nobody joins. Records and number are there
together or not at all.

    batch 7, lanes 0 and 2 of writer 0      committed {0: 8, 2: 7}    lane 0 has batch 7, lane 2 has not
    -> lane 0 passed over; lane 2 sent; commit {2: 8}                 a third run would find {0: 8, 2: 8}

What a unit is, is the division's to say (`units`): a partition of the source, whose task reads it in order and writes
it to whichever lanes, with nothing to shuffle; or a lane, whose records come from everywhere, shuffled and sorted. A
unit without records commits nothing: its number says how far it has come, and a replay has no records for it either.
Another lane count or another division is safe only from one batch to the next, so both are written down before a batch
begins (`kafka_state`). Do not use this where two routes write one lane and their records must not mix.

Which rows come to a writer is said in `keylane.spark.messages`; the run is `pipelines.kafka`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.systems.kafka_cluster import Listener, explained, is_permanent
from keylane.systems.kafka_units import PERMANENT, WriteError, committed_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from keylane.systems.kafka_units import Division, Units

__all__ = ["WRITTEN", "Transaction", "write"]

#: What a writer says of each lane, as Spark spells it.
WRITTEN: Final = "slot int, records bigint, repeated boolean"
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
_COLUMNS: Final = ("slot", "key", "value", "time", "source")


def write(division: Division, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The work of one task: rows of one writer, in the source's order. Says what each lane got."""
    from confluent_kafka import KafkaException

    full = (batch for batch in batches if len(batch))
    first = next(full, None)
    if first is None:
        return
    began, listener, units = time.monotonic(), Listener(), division.units(first)
    try:
        yield _written(Transaction.begun(division, units, listener), chain([first], full))
    except KafkaException as error:
        raise _told(error, division, units.writer, listener, time.monotonic() - began) from error


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
    units: Units
    producer: Any
    group: Any
    slots: list[tuple[str, int]]
    committed: dict[int, tuple[int, str]]
    counts: np.ndarray[Any, Any]
    since_poll: int = 0

    @classmethod
    def begun(cls, division: Division, units: Units, listener: Listener) -> Transaction:
        """Fence every earlier holder of the name, then read how far each unit is: the other order proves nothing."""
        from confluent_kafka import Producer

        settings = {**SETTINGS, **division.access.librdkafka()}
        producer = Producer({**settings, "transactional.id": units.name, "error_cb": listener})
        producer.init_transactions(STEP_SECONDS)
        division.probe(f"fenced {units.writer}", division.batch)
        committed, group = committed_numbers(division.access, units, STEP_SECONDS)
        producer.begin_transaction()
        slots = division.slots()
        return cls(division, units, producer, group, slots, committed, np.zeros(len(slots), np.int64))

    def send(self, batch: pa.RecordBatch) -> None:
        """Send rows to their lanes, except those of units that are there already."""
        slots = batch.column("slot").to_numpy()
        self.units.check(batch)
        self.counts += np.bincount(slots, minlength=len(self.slots))
        there = self.units.slots_of(unit for unit in self.committed if self._is_there(unit))
        if there:
            batch = batch.filter(pa.array(~np.isin(slots, there)))
        self._produce(batch)
        self.since_poll += len(batch)
        if self.since_poll > _POLL_EVERY:
            self.producer.poll(0)
            self.since_poll = 0

    def _is_there(self, unit: int) -> bool:
        return self.committed[unit][0] > self.division.batch

    def _produce(self, batch: pa.RecordBatch) -> None:
        """The hot loop: everything that is the same for all records is made before it."""
        produce, slots, fixed = self.producer.produce, self.slots, list(self.division.headers)
        usual: dict[str, bytes] = {SOURCE: b"", **dict(fixed)}  # copied by each call, so one will do
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
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

        batch, counts = self.division.batch, self.units.counted(self.counts)
        self._check_repeated(counts)
        new = {unit: records for unit, records in counts.items() if records and not self._is_there(unit)}
        self.division.probe(f"sent {self.units.writer}", batch)
        if new:
            places = self.units.places
            numbers = [TopicPartition(*places[unit], batch + 1, metadata=str(n)) for unit, n in new.items()]
            self.producer.send_offsets_to_transaction(numbers, self.group, STEP_SECONDS)
            self.producer.commit_transaction(STEP_SECONDS)
        else:
            self.abort()
        self.division.probe(f"committed {self.units.writer}", batch)
        return self._told()

    def _told(self) -> pa.RecordBatch:
        touched = np.flatnonzero(self.counts)
        there = self.units.slots_of(unit for unit in self.committed if self._is_there(unit))
        columns = [pa.array(touched, pa.int32()), pa.array(self.counts[touched]), pa.array(np.isin(touched, there))]
        return pa.RecordBatch.from_arrays(columns, ["slot", "records", "repeated"])

    def abort(self) -> None:
        """Give up what was sent. One that cannot be aborted here is ended by the next holder of the name."""
        from confluent_kafka import KafkaException

        try:
            self.producer.abort_transaction(5.0)
        except KafkaException:
            self.producer.purge()

    def _check_repeated(self, counts: dict[int, int]) -> None:
        """A unit that has this very batch must have as many records of it as there are now, or a batch has changed."""
        for unit, (number, records) in self.committed.items():
            if number == self.division.batch + 1 and records and int(records) != counts[unit]:
                raise WriteError(
                    f"{PERMANENT}: batch {self.division.batch} of {self.units.shown(unit)} was committed with "
                    f"{records} records and has {counts[unit]} now: the source has changed under it"
                )


def _headers(batch: pa.RecordBatch) -> Sequence[Sequence[tuple[str, bytes | None]]]:
    """The headers that a record brings along, as pairs; shared emptiness where there are none."""
    column = batch.column("headers")
    if column.null_count == len(column):
        return [()] * len(column)
    return [[(h["key"], h["value"]) for h in own] if own else () for own in column.to_pylist()]


def _told(error: Exception, division: Division, writer: str, listener: Listener, seconds: float) -> WriteError:
    words = explained(error, division.access.brokers, listener)
    allowed = dict(division.access.properties).get("transaction.timeout.ms", str(TRANSACTION_MS))
    late = seconds * 1000 > int(allowed)
    hint = "; it took longer than transaction.timeout.ms: lower --max-records" if late else ""
    mark = f"{PERMANENT}: " if late or is_permanent(error) else ""
    return WriteError(f"{mark}writer {writer} of batch {division.batch}: {words}{hint}")

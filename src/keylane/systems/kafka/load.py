"""A producer and a consumer group that measure themselves: errors, batches, lag. For `demo lesson`.

`send` puts rows where a contract says, through the same producer that users have (`kafka`). `following` is a real
consumer group that reads along from before the first record. What is measured, and by whom:

errors    delivery reports: one for each record
batches   librdkafka's statistics: bytes of each batch as it goes to the broker, and how many records were in it
lag       the end offset of a lane, minus the position of the group. The group is read first and the broker then, so
          that a peak is rather too high than too low
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import BrokerError
from keylane.numbers import count
from keylane.systems.kafka.cluster import explained
from keylane.systems.kafka.producers import KeyedProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.router import Router
    from keylane.systems.kafka.access import KafkaAccess

    Row = tuple[Mapping[str, Any], bytes]

WAIT_SECONDS: Final = 60.0
#: When an undelivered record has failed: well before the wait for it ends.
FATE_MS: Final = 30_000
#: Windows of librdkafka's statistics; the last one is waited for.
WINDOW_MS: Final = 100
#: How often lag is sampled.
SAMPLE_SECONDS: Final = 0.01


@dataclass(slots=True)
class Sent:
    """What a producer did: delivery reports, and its batches as librdkafka added them up."""

    topic: str
    delivered: int = 0
    failed: int = 0
    first_error: str | None = None
    batches: int = 0
    batch_bytes: int = 0
    batch_records: int = 0
    seconds: float = 0.0
    is_ready: bool = False

    def reported(self, error: Any, _message: Any) -> None:
        """Count one delivery report."""
        if error is None:
            self.delivered += 1
            return
        self.failed += 1
        self.first_error = self.first_error or str(error)

    def counted(self, statistics: str) -> None:
        """Add one window of librdkafka's statistics: each batch is in exactly one."""
        values = json.loads(statistics)
        self.is_ready = values.get("eos", {}).get("idemp_state") == "Assigned"
        topic = values.get("topics", {}).get(self.topic)
        if topic:
            self.batches += topic["batchsize"]["cnt"]
            self.batch_bytes += topic["batchsize"]["sum"]
            self.batch_records += topic["batchcnt"]["sum"]


def send(
    access: KafkaAccess, router: Router, rounds: Sequence[Sequence[Row]], every: float = 0.0, **settings: Any
) -> Sent:
    """Send rounds of (record, value), one every `every` seconds; return when each is delivered or failed."""
    sent = Sent(router.stream)
    windows = {"statistics.interval.ms": WINDOW_MS, "stats_cb": sent.counted, "message.timeout.ms": FATE_MS}
    own = access.librdkafka(**windows, **settings)
    # Failures are counted where each record is.
    keyed = KeyedProducer(router, access.brokers, start=0, on_failure=lambda _record: None, **own)
    with _explained(access):
        _make_ready(keyed.producer, sent)
    began = time.monotonic()
    for number, rows in enumerate(rounds):
        _served(keyed.producer, began + number * every - time.monotonic())
        for record, value in rows:
            keyed.send(record, value, on_delivery=sent.reported)
        keyed.producer.poll(0)
    _served(keyed.producer, WAIT_SECONDS, lambda: not len(keyed.producer))
    sent.seconds = time.monotonic() - began
    # Wait for the statistics that have the last batch; not for ever: a failed batch is in none.
    _served(keyed.producer, 10 * WINDOW_MS / 1000, lambda: sent.batch_records >= sent.delivered)
    return sent


@contextmanager
def _explained(access: KafkaAccess) -> Iterator[None]:
    """Errors of the client, translated."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise explained(error, access.brokers) from error


def _make_ready(producer: Any, sent: Sent) -> None:
    """Wait for lanes and for the producer id: records that wait for those would make batches look large."""
    producer.list_topics(sent.topic, WAIT_SECONDS)
    if not _served(producer, WAIT_SECONDS, lambda: sent.is_ready):
        raise BrokerError.of(f"timed out waiting for a producer id for {sent.topic}")


def _served(producer: Any, seconds: float, is_done: Callable[[], bool] = lambda: False) -> bool:
    """Serve the producer's callbacks until `is_done`, or for `seconds`; whether it was done.

    In short turns with a pause in Python: an interrupt in a long `poll` or `flush` ends in a SystemError.
    """
    until = time.monotonic() + seconds
    while not is_done():
        producer.poll(0)
        if (left := until - time.monotonic()) <= 0:
            return False
        time.sleep(min(left, 0.005))
    return True


@dataclass(slots=True)
class MeasuredGroup:
    """A consumer group of one member that reads a topic, and its lag."""

    topic: str
    lanes: int
    read: NDArray[np.int64] = field(init=False)
    position: NDArray[np.int64] = field(init=False)
    peak: NDArray[np.int64] = field(init=False)
    end: NDArray[np.int64] = field(init=False)
    samples: int = 0
    assigned: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    failed: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.read, self.position, self.peak, self.end = (np.zeros(self.lanes, np.int64) for _ in range(4))

    def wait_for(self, records: int) -> None:
        """Return when this many records were read."""
        until = time.monotonic() + WAIT_SECONDS
        while self.read.sum() < records:
            self.check()
            if time.monotonic() > until:
                got = f"{count(self.read.sum())} of {count(records)} records"
                raise BrokerError.of(f"the group stopped reading {self.topic}", got=got)
            time.sleep(SAMPLE_SECONDS)

    def check(self) -> None:
        """Raise what ended a thread."""
        if self.failed:
            raise self.failed[0]

    def take(self, messages: list[Any]) -> None:
        """Count what was read."""
        for message in messages:
            if message.error() is not None:
                raise explained(message.error(), self.topic)
            self.read[message.partition()] += 1
            self.position[message.partition()] = message.offset() + 1


@contextmanager
def following(access: KafkaAccess, topic: str, lanes: int, group: str) -> Iterator[MeasuredGroup]:
    """A group that reads a topic from its beginning, and its lag, for as long as this is open.

    `end` is known when it is closed: the end offsets minus the offsets that the group has committed.
    """
    measured = MeasuredGroup(topic, lanes)
    _asker(access, measured)()  # answers once every lane has a leader
    threads = [_thread(measured, work, access, group) for work in (_read, _sample)]
    try:
        _wait_until_following(measured, group)
        yield measured
    finally:
        measured.stopping.set()
        for thread in threads:
            thread.join(WAIT_SECONDS)
    measured.check()


def _wait_until_following(measured: MeasuredGroup, group: str) -> None:
    """The group has its lanes, and lag was sampled: a peak before that would be missed."""
    until = time.monotonic() + WAIT_SECONDS
    while not (measured.assigned.is_set() and measured.samples):
        measured.check()
        if time.monotonic() > until:
            raise BrokerError.of(f"no lane of {measured.topic} was assigned to the group", got=group)
        time.sleep(SAMPLE_SECONDS)


def _thread(measured: MeasuredGroup, work: Callable[..., None], access: KafkaAccess, group: str) -> threading.Thread:
    def run() -> None:
        try:
            with _explained(access):
                work(measured, access, group)
        except BaseException as error:  # noqa: BLE001  it is raised in the waiting thread
            measured.failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _read(measured: MeasuredGroup, access: KafkaAccess, group: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    own = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 20}
    reader = Consumer(access.librdkafka(**own))
    try:
        reader.subscribe([measured.topic], on_assign=lambda *_: measured.assigned.set())
        while not measured.stopping.is_set():
            measured.take(reader.consume(500, 0.02))
        read = enumerate(measured.position)
        offsets = [TopicPartition(measured.topic, lane, int(at)) for lane, at in read if at]
        if offsets:
            reader.commit(offsets=offsets, asynchronous=False)
        committed = reader.committed(
            [TopicPartition(measured.topic, lane) for lane in range(measured.lanes)], WAIT_SECONDS
        )
        measured.end[:] = _asker(access, measured)() - [max(0, lane.offset) for lane in committed]
    finally:
        reader.close()


def _sample(measured: MeasuredGroup, access: KafkaAccess, _group: str) -> None:
    ask = _asker(access, measured)
    while not measured.stopping.wait(SAMPLE_SECONDS):
        position = measured.position.copy()
        np.maximum(measured.peak, ask() - position, out=measured.peak)
        measured.samples += 1


def _asker(access: KafkaAccess, measured: MeasuredGroup) -> Callable[[], NDArray[np.int64]]:
    """A function that asks the broker for the end offset of each lane."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin, latest = AdminClient(access.librdkafka()), OffsetSpec.latest()  # type: ignore[no-untyped-call]  # has no types
    lanes = {TopicPartition(measured.topic, lane): latest for lane in range(measured.lanes)}

    def ask() -> NDArray[np.int64]:
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                answers = admin.list_offsets(lanes)
                return np.array([answers[lane].result(WAIT_SECONDS).offset for lane in lanes], np.int64)
            except KafkaException as error:
                # A new topic has lanes without a leader.
                if time.monotonic() > until:
                    raise explained(error, access.brokers) from None
                time.sleep(0.1)

    return ask

"""A producer and a consumer group that measure themselves: errors, batches, lag. For `demo lesson`.

`send` puts rows where a contract says, through the same producer that users have (`kafka`). `following` is a real
consumer group that reads along from before the first record. What is measured, and by whom:

errors    delivery reports: one for each record
batches   librdkafka's statistics: bytes of each batch as it goes to the broker, and how many records were in it
lag       what the broker holds of a lane, less what the group has read of it. The group is looked at first and the
          broker then, so a peak is rather shown too high than too low
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
from keylane.systems.kafka.cluster import explained
from keylane.systems.kafka.producers import KeyedProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.router import Router
    from keylane.systems.kafka.access import KafkaAccess

    Row = tuple[Mapping[str, Any], bytes]

WAIT_SECONDS: Final = 60.0
#: When a record that nobody took has failed: well before anybody stops waiting.
FATE_MS: Final = 30_000
#: Windows of librdkafka's statistics; the last one is waited for.
WINDOW_MS: Final = 100
#: How often lag is looked at.
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
        """Hear of one record's fate."""
        if error is None:
            self.delivered += 1
            return
        self.failed += 1
        self.first_error = self.first_error or str(error)

    def counted(self, statistics: str) -> None:
        """Add one window of librdkafka's statistics: each batch is in exactly one."""
        told = json.loads(statistics)
        self.is_ready = told.get("eos", {}).get("idemp_state") == "Assigned"
        topic = told.get("topics", {}).get(self.topic)
        if topic:
            self.batches += topic["batchsize"]["cnt"]
            self.batch_bytes += topic["batchsize"]["sum"]
            self.batch_records += topic["batchcnt"]["sum"]


def send(
    access: KafkaAccess, router: Router, rounds: Sequence[Sequence[Row]], every: float = 0.0, **settings: Any
) -> Sent:
    """Send rounds of (record, value), in one go or one every so many seconds; return when all fates are told."""
    sent = Sent(router.stream)
    windows = {"statistics.interval.ms": WINDOW_MS, "stats_cb": sent.counted, "message.timeout.ms": FATE_MS}
    keyed = KeyedProducer(router, access.brokers, start=0, **access.librdkafka(**windows, **settings))
    with _told(access):
        _make_ready(keyed.producer, sent)
    began = time.monotonic()
    for number, rows in enumerate(rounds):
        _served(keyed.producer, began + number * every - time.monotonic())
        for record, value in rows:
            keyed.send(record, value, on_delivery=sent.reported)
        keyed.producer.poll(0)
    _served(keyed.producer, WAIT_SECONDS, lambda: not len(keyed.producer))
    sent.seconds = time.monotonic() - began
    _last_window(keyed.producer, sent)
    return sent


@contextmanager
def _told(access: KafkaAccess) -> Iterator[None]:
    """Errors of the client in keylane's words."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise explained(error, access.brokers) from error


def _make_ready(producer: Any, sent: Sent) -> None:
    """Wait for lanes and for the producer's number: records that wait for those would make batches look large."""
    producer.list_topics(sent.topic, WAIT_SECONDS)
    if not _served(producer, WAIT_SECONDS, lambda: sent.is_ready):
        raise BrokerError.of("the broker gives the producer no number", got=sent.topic)


def _served(producer: Any, seconds: float, is_done: Callable[[], bool] = lambda: False) -> bool:
    """Hear the producer's callbacks until something is so, or for so long; whether it became so.

    In short turns with a pause of Python's own: an interrupt in a long `poll` or `flush` ends in a SystemError.
    """
    until = time.monotonic() + seconds
    while not is_done():
        producer.poll(0)
        if (left := until - time.monotonic()) <= 0:
            return False
        time.sleep(min(left, 0.005))
    return True


def _last_window(producer: Any, sent: Sent) -> None:
    """Wait for the statistics that have the last batch; not for ever, for a batch that failed is in none."""
    _served(producer, 10 * WINDOW_MS / 1000, lambda: sent.batch_records >= sent.delivered)


@dataclass(slots=True)
class MeasuredGroup:
    """A consumer group of one member that reads a topic, and what was seen of its lag."""

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
        """Return when so many records were read."""
        until = time.monotonic() + WAIT_SECONDS
        while self.read.sum() < records:
            self.check()
            if time.monotonic() > until:
                got = f"{self.read.sum():,} of {records:,} records"
                raise BrokerError.of(f"the group reads nothing more of {self.topic}", got=got)
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
    """A group that reads a topic from its beginning, and lag that is looked at, for as long as this is open.

    `end` is known when it is closed: what the broker says the group has committed, against what it holds.
    """
    found = MeasuredGroup(topic, lanes)
    _asker(access, found)()  # answers once every lane is led by somebody
    threads = [_thread(found, work, access, group) for work in (_read, _sample)]
    try:
        _wait_until_following(found, group)
        yield found
    finally:
        found.stopping.set()
        for thread in threads:
            thread.join(WAIT_SECONDS)
    found.check()


def _wait_until_following(found: MeasuredGroup, group: str) -> None:
    """The group has its lanes, and lag has been looked at: a peak before that would go unseen."""
    until = time.monotonic() + WAIT_SECONDS
    while not (found.assigned.is_set() and found.samples):
        found.check()
        if time.monotonic() > until:
            raise BrokerError.of(f"no lane of {found.topic} was given to the group", got=group)
        time.sleep(SAMPLE_SECONDS)


def _thread(found: MeasuredGroup, work: Callable[..., None], access: KafkaAccess, group: str) -> threading.Thread:
    def run() -> None:
        try:
            with _told(access):
                work(found, access, group)
        except BaseException as error:  # noqa: BLE001  it is raised where somebody waits
            found.failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _read(found: MeasuredGroup, access: KafkaAccess, group: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    own = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 20}
    reader = Consumer(access.librdkafka(**own))
    try:
        reader.subscribe([found.topic], on_assign=lambda *_: found.assigned.set())
        while not found.stopping.is_set():
            found.take(reader.consume(500, 0.02))
        places = [TopicPartition(found.topic, lane, int(at)) for lane, at in enumerate(found.position) if at]
        if places:
            reader.commit(offsets=places, asynchronous=False)
        committed = reader.committed([TopicPartition(found.topic, lane) for lane in range(found.lanes)], WAIT_SECONDS)
        found.end[:] = _asker(access, found)() - [max(0, place.offset) for place in committed]
    finally:
        reader.close()


def _sample(found: MeasuredGroup, access: KafkaAccess, _group: str) -> None:
    ask = _asker(access, found)
    while not found.stopping.wait(SAMPLE_SECONDS):
        position = found.position.copy()
        np.maximum(found.peak, ask() - position, out=found.peak)
        found.samples += 1


def _asker(access: KafkaAccess, found: MeasuredGroup) -> Callable[[], NDArray[np.int64]]:
    """Ask the broker where each lane ends, as often as one likes."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

    admin, latest = AdminClient(access.librdkafka()), OffsetSpec.latest()  # type: ignore[no-untyped-call]
    places = {TopicPartition(found.topic, lane): latest for lane in range(found.lanes)}

    def ask() -> NDArray[np.int64]:
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                told = admin.list_offsets(places)
                return np.array([told[place].result(WAIT_SECONDS).offset for place in places], np.int64)
            except KafkaException as error:
                # A topic that was made just now has lanes that nobody leads yet.
                if time.monotonic() > until:
                    raise explained(error, access.brokers) from None
                time.sleep(0.1)

    return ask

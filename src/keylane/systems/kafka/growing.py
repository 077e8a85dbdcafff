"""Live producers and a live reader of a topic that grows, ordinary or by the gate. For `demo migrate`.

Every producer has keys of its own and numbers the records of each key; the reader writes down what it applied, in the
order in which it did. One lane is slow: the reader leaves it alone for a while, so that old records wait while new ones
come. Who judges the order: `pipelines.demo.migrate`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from keylane.errors import BrokerError, KeylaneError
from keylane.systems.kafka.cluster import explained
from keylane.systems.kafka.migration_clients import GatedConsumer, MigratingProducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.router import Router
    from keylane.systems.kafka.access import KafkaAccess

#: How often clients look for new lanes; by default every five minutes.
REFRESH_MS: Final = 300
WAIT_SECONDS: Final = 120.0


class AppliedRecord(NamedTuple):
    """A record that was applied: when, in seconds since the run began, and which one of its key it is."""

    at: float
    key: str
    number: int
    lane: int


@dataclass(slots=True)
class LiveTopic:
    """A topic with everybody who uses it. `begin` starts them, `end` waits until every record is applied."""

    access: KafkaAccess
    topic: str
    group: str
    producers: tuple[str, ...]
    keys: int
    records: int
    per_second: float
    slow_lane: int
    applied: list[AppliedRecord] = field(default_factory=list)
    pauses: dict[str, float] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    slow_over: Event = field(default_factory=Event)
    _stop: Event = field(default_factory=Event)
    _threads: list[Thread] = field(default_factory=list)
    _began: float = 0.0
    _began_at: float = 0.0

    @property
    def total(self) -> int:
        """Records of all producers."""
        return self.records * len(self.producers)

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def since_began(self, at: float) -> float:
        """A time of the wall clock, as an entry of a journal has it, in seconds since the run began."""
        return max(0.0, at - self._began_at)

    def begin(self, routers: tuple[Router, Router] | None = None, journal: str | None = None) -> None:
        """Start producers and reader: by the migration in `journal`, or ordinary ones where there is none."""
        self._began, self._began_at = time.monotonic(), time.time()

        def send(name: str) -> None:
            if routers and journal:
                self._send_migrating(name, routers, journal)
            else:
                self._send_plain(name)

        work = [*(partial(send, name) for name in self.producers), partial(self._read, journal)]
        # Whoever ends the run in the middle waits for none of them: a producer may stand at the fence.
        self._threads = [Thread(target=self._guarded, args=(one,), daemon=True) for one in work]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait until all is sent and applied; what failed on the way is raised."""
        try:
            for thread in self._threads:
                thread.join(WAIT_SECONDS)
        finally:
            self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        if self.failures:
            error = self.failures[0]
            raise error if isinstance(error, KeylaneError) else explained(error, self.access.brokers) from error
        if len(self.applied) != self.total:
            raise BrokerError.of("not every record was read in time", got=len(self.applied), allowed=str(self.total))

    def stop(self) -> None:
        """Let everybody end, whatever is left."""
        self._stop.set()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  raised by `end`, in the thread that can answer for it
            self.failures.append(error)
            self._stop.set()

    def _paced(self, send: Callable[[str, int], object]) -> None:
        """The records of one producer: its keys in turn, each numbered, at the speed that was asked."""
        began = time.monotonic()
        for number in range(self.records):
            if self._stop.is_set():
                return
            send(f"{number % self.keys:03}", number // self.keys)
            ahead = (number + 1) / self.per_second - (time.monotonic() - began)
            if ahead > 0.005:
                time.sleep(ahead)

    def _send_plain(self, name: str) -> None:
        from confluent_kafka import Producer

        own = {"partitioner": "murmur2_random", "topic.metadata.refresh.interval.ms": REFRESH_MS, "linger.ms": 5}
        producer = Producer(self.access.librdkafka(**own))

        def send(key: str, number: int) -> None:
            producer.produce(self.topic, str(number).encode(), f"{name}-{key}".encode())
            producer.poll(0)

        self._paced(send)
        producer.flush(WAIT_SECONDS)

    def _send_migrating(self, name: str, routers: tuple[Router, Router], journal: str) -> None:
        old, new = routers
        settings = self.access.librdkafka(**{"linger.ms": 5})
        settings.pop("bootstrap.servers")
        with MigratingProducer(journal, name, old=old, new=new, bootstrap=self.access.brokers, **settings) as producer:

            def send(key: str, number: int) -> None:
                producer.send({"k": f"{name}-{key}"}, str(number).encode())

            self._paced(send)
            producer.flush()
            self.pauses[name] = producer.pause

    def _read(self, journal: str | None) -> None:
        from confluent_kafka import Consumer, TopicPartition

        slow = TopicPartition(self.topic, self.slow_lane)
        own = {
            "group.id": self.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": REFRESH_MS,
        }
        consumer = Consumer(self.access.librdkafka(**own))

        def assigned(_: Any, lanes: list[Any]) -> None:
            consumer.assign(lanes)
            if not self.slow_over.is_set():
                consumer.pause([slow])

        try:
            consumer.subscribe([self.topic], on_assign=assigned)
            reader = GatedConsumer(consumer, journal) if journal else consumer
            is_slow = True
            while len(self.applied) < self.total and not self._stop.is_set():
                if is_slow and self.slow_over.is_set():
                    consumer.resume([slow])
                    is_slow = False
                self._apply(consumer, reader.consume(200, 0.05))
        finally:
            consumer.close()

    def _apply(self, consumer: Any, messages: list[Any]) -> None:
        """Apply what was read, then commit it."""
        from confluent_kafka import TopicPartition

        ends: dict[int, int] = {}
        for message in messages:
            if message.error() is None:
                lane = message.partition()
                number = int(message.value())
                self.applied.append(AppliedRecord(self.now(), message.key().decode(), number, lane))
                ends[lane] = message.offset() + 1
        if ends:
            committed = [TopicPartition(self.topic, lane, at) for lane, at in ends.items()]
            consumer.commit(offsets=committed, asynchronous=False)

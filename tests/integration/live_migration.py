"""A topic with live producers and a live reader while it is migrated, and the judgement of what was applied.

Producers and reader are threads of the test, the migrator is whatever the test runs. Everything that was sent, read and
applied becomes a history (`keylane.testing.history`), judged by the same rules as anything else: sets equal, none
twice, lists equal per key, nothing new applied before its old records were.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import yaml
from confluent_kafka import Consumer, KafkaException, TopicPartition

from keylane import Router
from keylane.pipelines.migrate import plan_migrate
from keylane.systems.broker import librdkafka_settings
from keylane.systems.endpoint import StreamOptions
from keylane.systems.kafka.migration_clients import GatedConsumer, MigratingProducer
from keylane.systems.messages.headers import EPOCH, SOURCE
from keylane.systems.migration_journal import MigrationView
from keylane.testing.history import Settings, check, rows

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from keylane.systems.broker import Cluster
    from keylane.testing.history import Verdict

GROUP = "ledger"
#: Keys of a large run.
KEYS = 2_000


def contract_file(folder: Path, topic: str, lanes: int, epoch: int, **spec: Any) -> Path:
    known = {"streams": [topic], "lanes": lanes, "key": {"fields": ["k"]}, "partitioner": "kafka-java", **spec}
    metadata = {"name": "payments", "epoch": epoch}
    path = folder / f"{epoch}.yaml"
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": metadata, "spec": known}
    path.write_text(yaml.safe_dump(document))
    return path


def source_of(message: Any) -> tuple[str, int]:
    """Who wrote a record, and its number there; a copy has its own source behind that of its writer."""
    writer, _, seq = next(value for name, value in message.headers() if name == SOURCE).decode().rpartition("/")
    return writer, int(seq)


#: So many new records are ahead of the old ones of a lane that is left alone, where no gate keeps them back.
AHEAD = 200
#: They come soon, or there are none.
AHEAD_SECONDS = 60.0


@dataclass
class Slow:
    """A lane that a reader leaves alone for a while: old records wait while new ones come."""

    consumer: Any
    lane: TopicPartition
    gated: bool
    seconds: float
    over: Event
    paused: bool = False
    opened: float = 0.0

    def begin(self) -> None:
        """Pause the lane, while the migration is not open."""
        if not self.paused and not self.opened and not self.over.is_set():
            self.consumer.pause([self.lane])
            self.paused = True

    def look(self, new: int, *, is_open: bool) -> None:
        """Let the lane go on: some time after the migration was opened, or when new records are ahead."""
        self.opened = self.opened or (time.monotonic() if is_open or new else 0.0)
        for_long = self.opened and time.monotonic() - self.opened > (self.seconds if self.gated else AHEAD_SECONDS)
        if for_long or (new >= AHEAD and not self.gated):
            self.over.set()
        if self.paused and self.over.is_set():
            self.consumer.resume([self.lane])
            self.paused = False


@dataclass
class LiveMigration:
    """One topic, its contracts, and everybody who uses it."""

    cluster: Cluster
    topic: str
    folder: Path
    old: Path
    new: Path
    producers: tuple[str, ...] = ("p0", "p1")
    gated: bool = True
    #: By a mirror: the topic that the old one is copied into.
    new_topic: str | None = None
    #: Another way to the broker than the direct one, for everybody but the judge; the journal's topic, where it is one.
    way: str | None = None
    journal_topic: str | None = None
    #: A lane that the reader leaves alone for this many seconds after the migration was opened.
    slow_lane: int = 0
    slow_seconds: float = 1.5
    pauses: dict[str, float] = field(default_factory=dict)
    sends: list[tuple[str, int, bytes]] = field(default_factory=list)
    applies: list[tuple[bytes, int, int, int, int, int]] = field(default_factory=list)
    #: Of each record that was applied, in that order: its writer, its number there, and its key.
    applied_sources: list[tuple[str, int, bytes]] = field(default_factory=list)
    #: By a mirror, of a reader without a gate: copies that it left out.
    left_out: int = 0
    failures: list[BaseException] = field(default_factory=list)
    #: What producers may end with.
    may_fail: tuple[type[BaseException], ...] = ()
    held_seconds: float = 600.0
    #: The slow lane is slow no more, whatever the migration does.
    slow_over: Event = field(default_factory=Event)
    #: Producers may end, once they have sent what they were asked for.
    enough: Event = field(default_factory=Event)
    _stop: Event = field(default_factory=Event)

    @property
    def bootstrap(self) -> str:
        return self.way or self.cluster.bootstrap

    @property
    def address(self) -> str:
        return f"kafka://{self.bootstrap}/{self.topic}"

    @property
    def topics(self) -> list[str]:
        return [self.topic, *([self.new_topic] if self.new_topic else [])]

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    @property
    def journal(self) -> str:
        return f"kafka://{self.bootstrap}/{self.journal_topic}" if self.journal_topic else f"{self.plan}.journal"

    def entries(self) -> int:
        """How many the journal has."""
        view = MigrationView(self.journal)
        return len(view.look())

    def save_plan(self, **more: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"producers": self.producers, "groups": [GROUP], **more}
        if self.new_topic:
            given["target"] = f"kafka://{self.bootstrap}/{self.new_topic}"
        found = plan_migrate(
            str(self.old), str(self.new), source=self.address, options=StreamOptions(), **given
        ).as_json()
        self.plan.write_text(json.dumps(found))
        return found

    def produce(self, name: str, keys: Callable[[int], str], records: int, per_second: float) -> None:
        """One producer: so many records at some speed; each delivery that is acknowledged is noted."""

        def delivered(number: int, error: Any, message: Any) -> None:
            assert error is None, error
            self.sends.append((producer.source, number, message.key()))

        try:
            with MigratingProducer(
                self.journal,
                name,
                old=Router(self.old),
                new=Router(self.new),
                bootstrap=self.bootstrap,
                held_seconds=self.held_seconds,
            ) as producer:
                began = time.monotonic()
                for number in count():
                    if (number >= records and self.enough.is_set()) or self._stop.is_set():
                        break
                    noted = partial(delivered, producer.sent)
                    producer.send({"k": keys(number)}, str(number).encode(), on_delivery=noted)
                    ahead = (number + 1) / per_second - (time.monotonic() - began)
                    if ahead > 0.01:
                        time.sleep(ahead)
                    if producer.pause:
                        self.pauses[name] = producer.pause
                producer.flush()
        except BaseException as error:  # noqa: BLE001  raised by the test
            self.failures.append(error)

    def read(self, until: Callable[[], int]) -> None:
        """The reader: applies by the gate or without, commits what it has applied; ends after `until()` records."""
        settings = {"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        fresh = {"topic.metadata.refresh.interval.ms": 500, "enable.auto.offset.store": False}
        at = {**librdkafka_settings(self.cluster), "bootstrap.servers": self.bootstrap}
        consumer = Consumer({**at, **settings, **fresh})
        try:
            consumer.subscribe(self.topics)
            self._read(consumer, GatedConsumer(consumer, self.journal), until)
        except BaseException as error:  # noqa: BLE001  raised by the test
            self.failures.append(error)
        finally:
            consumer.close()

    def _read(self, consumer: Any, gate: GatedConsumer, until: Callable[[], int]) -> None:
        lane = TopicPartition(self.topic, self.slow_lane)
        slow, new = Slow(consumer, lane, self.gated, self.slow_seconds, self.slow_over), 0
        seen = set[tuple[str, int, int]]()
        while not self._stop.is_set() and (len(self.applies) < until() or slow.paused):
            found = gate.consume(200, 0.1) if self.gated else consumer.consume(200, 0.1)
            offsets = {}
            for message in found:
                if message.error() is not None:
                    continue
                began, place = time.monotonic_ns(), (message.topic(), message.partition(), message.offset())
                assert place not in seen, f"{place} was applied twice"
                seen.add(place)
                epoch = int(dict(message.headers())[EPOCH])
                if not self.gated and self._is_copy(message):
                    # Whoever reads both topics without the gate knows copies by their two sources, and nothing else.
                    self.left_out += 1
                    continue
                new += epoch > 1
                self.applies.append((message.key(), *place[1:], epoch - 1, began, time.monotonic_ns()))
                self.applied_sources.append((*source_of(message), message.key()))
                offsets[place[:2]] = message.offset() + 1
            if offsets:
                committed = [TopicPartition(*lane, at) for lane, at in offsets.items()]
                self._commit(consumer, committed)
                slow.begin()
            slow.look(new, is_open=gate.gate is not None)

    def _is_copy(self, message: Any) -> bool:
        sources = sum(name == SOURCE for name, _ in message.headers())
        return message.topic() == self.new_topic and sources > 1

    @staticmethod
    def _commit(consumer: Any, offsets: list[TopicPartition]) -> None:
        """Until it is: what a broker that is away has not answered is asked again."""
        until = time.monotonic() + 90
        while True:
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException:
                assert time.monotonic() < until
                time.sleep(0.2)
            else:
                return

    @contextmanager
    def running(
        self, keys: Callable[[int], str], records: int, per_second: float = 2_000.0, *, on: bool = False
    ) -> Iterator[LiveMigration]:
        """Producers and reader run while the block does; at its end all records are sent and applied.

        Producers end after so many records each; with `on` not before the block does.
        """
        if not on:
            self.enough.set()
        given = keys, records, per_second
        threads = [Thread(target=self.produce, args=(name, *given), daemon=True) for name in self.producers]
        ended = Event()
        upto = (lambda: len(self.sends) if ended.is_set() else 1 << 60,)
        reader = Thread(target=self.read, args=upto, daemon=True)
        for thread in (*threads, reader):
            thread.start()
        try:
            yield self
            self.enough.set()
            for thread in threads:
                thread.join(600)
            self._check_failures()
            ended.set()
            reader.join(400)
            assert not reader.is_alive(), f"{len(self.applies)} of {len(self.sends)} applied"
        finally:
            self._stop.set()
            reader.join(30)
        self._check_failures()

    def _check_failures(self) -> None:
        unexpected = [one for one in self.failures if not isinstance(one, self.may_fail)]
        assert not unexpected, unexpected

    def judged(self) -> Verdict:
        """All that was sent, read and applied, by the rules of a history."""
        sent = rows(
            "send",
            writer=[one[0] for one in self.sends],
            seq=[one[1] for one in self.sends],
            key=[one[2] for one in self.sends],
            outcome="ok",
        )
        columns = list(zip(*self.applies, strict=True))
        applied = rows(
            "apply",
            stream=self.topic,
            key=list(columns[0]),
            lane=list(columns[1]),
            offset=list(columns[2]),
            generation=list(columns[3]),
            t0=list(columns[4]),
            t1=list(columns[5]),
        )
        return check([sent, self._log(), applied], Settings(sends_complete=True))

    def judged_mirror(self) -> Verdict:
        """All that was sent, and the new topic as a fresh reader finds it from its beginning."""
        sent = rows(
            "send",
            writer=[one[0] for one in self.sends],
            seq=[one[1] for one in self.sends],
            key=[one[2] for one in self.sends],
            outcome="ok",
        )
        assert self.new_topic is not None
        found, router = self.all_of(self.new_topic), Router(self.new)
        log = rows(
            "read",
            writer=[source_of(one)[0] for one in found],
            seq=[source_of(one)[1] for one in found],
            key=[one.key() for one in found],
            stream=self.new_topic,
            lane=[one.partition() for one in found],
            offset=[one.offset() for one in found],
            generation=0,
            epoch=[int(dict(one.headers())[EPOCH]) for one in found],
            expected_stream=self.new_topic,
            expected_lane=[router.lane_of_key(one.key()) for one in found],
        )
        return check([sent, log], Settings(sends_complete=True))

    def early(self) -> int:
        """Records of the old contract that were applied behind one of the new contract and their key."""
        switched = set[bytes]()
        found = 0
        for key, _, _, generation, _, _ in self.applies:
            if generation:
                switched.add(key)
            found += not generation and key in switched
        return found

    def misapplied(self) -> list[str]:
        """Records that were not applied once, and those applied behind a later one of their writer and key."""
        found, last = list[str](), dict[tuple[str, bytes], int]()
        for writer, seq, key in self.applied_sources:
            if seq <= last.get((writer, key), -1):
                found.append(f"{writer}/{seq} of {key!r} behind {last[writer, key]}")
            last[writer, key] = max(seq, last.get((writer, key), -1))
        applied = sorted(self.applied_sources)
        return [*found, *(["other records than were sent"] if applied != sorted(self.sends) else [])]

    def all_of(self, topic: str) -> list[Any]:
        """Every record of a topic, as committed."""
        own = {"group.id": "judge", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({**librdkafka_settings(self.cluster), **own})
        try:
            left = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, lane, 0) for lane in left])
            found = list[Any]()
            while left:
                for one in consumer.consume(1_000, 5.0):
                    if one.error() is None:
                        found.append(one)
                    elif "_PARTITION_EOF" in str(one.error()):
                        left.discard(one.partition())
            return found
        finally:
            consumer.close()

    def ends_of(self, topic: str) -> int:
        """The end offsets of all lanes of a topic, added up; 0 while it is being made."""
        consumer = Consumer({**librdkafka_settings(self.cluster), "group.id": "judge"})
        try:
            lanes = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            return sum(consumer.get_watermark_offsets(TopicPartition(topic, lane))[1] for lane in lanes)
        except KafkaException:
            return 0
        finally:
            consumer.close()

    def _log(self) -> Any:
        """Every record of the topic as a fresh reader finds it."""
        found, routers = self.all_of(self.topic), (Router(self.old), Router(self.new))
        epochs = [int(dict(one.headers())[EPOCH]) for one in found]
        expected = [routers[epoch - 1].lane_of_key(one.key()) for epoch, one in zip(epochs, found, strict=True)]
        return rows(
            "read",
            writer=[source_of(one)[0] for one in found],
            seq=[source_of(one)[1] for one in found],
            key=[one.key() for one in found],
            stream=self.topic,
            lane=[one.partition() for one in found],
            offset=[one.offset() for one in found],
            generation=[epoch - 1 for epoch in epochs],
            epoch=epochs,
            expected_stream=self.topic,
            expected_lane=expected,
        )


@contextmanager
def migrator(run: LiveMigration) -> Iterator[subprocess.Popen[str]]:
    """`keylane migrate run` as a process; what it says is in a file."""
    command = [sys.executable, "-m", "keylane", "migrate", "run", str(run.plan), "--journal", run.journal]
    command += ["--patience", "300s", "-o", "json"]
    with (
        (run.folder / "said.txt").open("a") as says,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=says, text=True) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def said(run: LiveMigration) -> str:
    """What migrators said."""
    return (run.folder / "said.txt").read_text()


def wait_for(what: Callable[[], bool], seconds: float = 600.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.002)


def killed_at(run: LiveMigration, entries: int, sign: signal.Signals) -> None:
    """Run the migrator until the journal has so many entries, and end it there."""
    with migrator(run) as process:
        wait_for(lambda: run.entries() >= entries or process.poll() is not None)
        os.kill(process.pid, sign)
        process.wait(120)
        assert process.returncode != 0


def ended(run: LiveMigration) -> dict[str, Any]:
    """Run the migrator to its end."""
    with migrator(run) as process:
        return goes_on(run, process)


def goes_on(run: LiveMigration, process: subprocess.Popen[str], seconds: float = 600.0) -> dict[str, Any]:
    """The migrator ends unaided, and the migration is done."""
    out, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, said(run)
    found: dict[str, Any] = json.loads(out)
    assert found["phase"] == "done"
    return found


def hot_keys(contract: Path, lane: int = 3) -> list[str]:
    """Keys that are all in one old lane."""
    router = Router(contract)
    return [f"k{n}" for n in range(KEYS) if router.lane(f"k{n}") == lane]

"""Producers and readers that go through a migration: one stops at the fence and switches, the other keeps to the gate.

    MigratingProducer   writes by the contract that holds; stops, flushes and acknowledges by itself
    GatedConsumer       a confluent-kafka consumer that hands a record out when the gate allows it
    spark_offsets       the offsets that a Spark batch may read now, as options of its Kafka source

What each must do, for clients in other languages: docs/migrate-protocol.md. The gate: `keylane.migration.gate`. Who
drives the migration: `keylane.systems.migrations`.
"""

from __future__ import annotations

import json
import time
from collections import deque
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Final, Self

from keylane.errors import BrokerError, DeliveryError, KeylaneError, UsageError
from keylane.migration.cutover import HELD, hold_of, is_dual, may_send, phase_of
from keylane.systems.endpoint import parse_address
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.migration import TopicMigrator
from keylane.systems.kafka.producers import KeyedProducer
from keylane.systems.messages.headers import CONTRACT, EPOCH, KEPT, SOURCE, epoch_of
from keylane.systems.migration_journal import MigrationView, check_producer

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from keylane.migration.cutover import Entry
    from keylane.migration.gate import LaneGate, Leave
    from keylane.records import Placement
    from keylane.router import Router
    from keylane.systems.migration_journal import MigrationJournal

__all__ = ["GatedConsumer", "MigratingProducer", "spark_offsets"]

#: Seconds between two looks of a producer at the journal, and between two looks of a reader at lanes that it holds.
LOOK_SECONDS: Final = 0.1
#: How long a producer waits at the fence before `send` gives up.
HELD_SECONDS: Final = 600.0
#: How long a group's coordinator is asked for what is committed.
ASK_SECONDS: Final = 5.0
#: Records that are kept for a new topic, at most: then `send` waits for the copy to end.
KEPT_MOST: Final = 200_000
#: A parent that stands still for so long below its fence is read: there may be no record left.
STILL_SECONDS: Final = 1.0


@dataclass(slots=True)
class KeptRecord:
    """A record that is in the old topic, or on its way there, and may have to be written to the new one as well."""

    record: Mapping[str, Any]
    value: bytes | None
    options: dict[str, Any]
    #: Lane and offset in the old topic; None until they are known.
    place: tuple[int, int] | None = None


class MigratingProducer:
    """A `KeyedProducer` that follows a migration: the old contract up to the fence, the new one behind it.

    A thread looks at the journal. When producers are to stop, it waits until every record is delivered, acknowledges,
    and `send` blocks until the migration is open or rolled back; `pause` is how long the last stop took. Each record
    carries three headers: `keylane.source`, which is `NAME.LIFE/NUMBER`, and contract and epoch. Records of one
    producer are numbered from 0, and a new process is another life, so that the order of what it wrote can be checked.

    By a mirror the new contract names another topic, and `new_bootstrap` where that is, if it is on another cluster. By
    one whose producers write to both topics nothing blocks: from the fence on every record goes to both, under one
    number, until the migration is done. While the last copy runs, what is written to the old topic is kept, and what is
    behind the fence then follows in the new one; so `close` waits for that.

    A record whose delivery failed is raised by the next `send` or `flush`, and the stop is acknowledged after that:
    whoever wrote it has to know first.
    """

    def __init__(
        self,
        journal: str | os.PathLike[str] | MigrationJournal,
        name: str,
        *,
        old: Router,
        new: Router,
        bootstrap: str,
        new_bootstrap: str | None = None,
        held_seconds: float = HELD_SECONDS,
        look_seconds: float = LOOK_SECONDS,
        **given: Any,
    ) -> None:
        self.name = check_producer(name)
        #: What its records are called in `keylane.source`, before their number.
        self.source = f"{name}.{time.time_ns() // 1_000_000:x}"
        self._old, self._new, self._bootstrap, self._given = old, new, bootstrap, given
        self._new_bootstrap = new_bootstrap or bootstrap
        self._held_seconds, self._look_seconds = held_seconds, look_seconds
        self._view = MigrationView(journal)
        self._turn = Condition()
        self._failure: KeylaneError | None = None
        self._producer: KeyedProducer | None = None
        self._is_new = False
        #: Where records go as well while both topics are written to, and those that wait to be known to go there.
        self._second: KeyedProducer | None = None
        self._kept: deque[KeptRecord] | None = None
        #: The same producer as long as not all that was kept is handed to it.
        self._publishing: KeyedProducer | None = None
        self._acknowledged: int | None = None
        self._stopped_at = 0.0
        self._closed = False
        self.sent = 0
        self.pause = 0.0
        with self._turn:
            self._follow()
        self._watcher = Thread(target=self._watch, name=f"keylane-migrating-{name}", daemon=True)
        self._watcher.start()

    @property
    def router(self) -> Router:
        """The contract that holds now."""
        return self._new if self._is_new else self._old

    def send(self, record: Mapping[str, Any], value: bytes | None, **options: Any) -> Placement:
        """Send one record by the contract that holds; waits while nobody may write."""
        with self._turn:
            self._wait_while(lambda: self._producer is None or len(self._kept or ()) >= KEPT_MOST)
            self._raise_failure()
            assert self._producer is not None
            given, number = options.pop("headers", None) or [], self.sent
            if self._kept is None and self._second is None:
                placed = self._producer.send(record, value, headers=self._headers(given, number), **options)
            else:
                placed = self._send_to_both(record, value, given, number, options)
            self.sent += 1
            return placed

    def _wait_while(self, held: Callable[[], bool]) -> None:
        until = time.monotonic() + self._held_seconds
        while held():
            self._raise_failure()
            if self._closed:
                raise UsageError.of("this producer is closed")
            if time.monotonic() > until:
                phase = phase_of(self._view.entries)
                hint = "keylane migrate run goes on, keylane migrate rollback lets producers go on as before"
                raise BrokerError.of("the migration holds all producers", got=phase, hint=hint)
            self._turn.wait(self._look_seconds)

    def _headers(self, given: Sequence[Any], number: int, *, new: bool | None = None, kept: bool = False) -> list[Any]:
        contract = (self.router if new is None else self._new if new else self._old).contract
        return [
            *given,
            *([(KEPT, b"1")] if kept else ()),
            (SOURCE, f"{self.source}/{number}".encode()),
            (CONTRACT, contract.fingerprint.encode()),
            (EPOCH, str(contract.metadata.epoch).encode()),
        ]

    def _send_to_both(
        self, record: Mapping[str, Any], value: bytes | None, given: Sequence[Any], number: int, options: dict[str, Any]
    ) -> Placement:
        """To the old topic, marked; and to the new one, or kept until it is known whether the copy has it."""
        assert self._producer is not None
        again = {name: one for name, one in options.items() if name not in ("on_delivery", "callback")}
        # What waits must not follow a record that its writer fills again.
        same = record if self._second is not None else deepcopy(dict(record))
        kept = KeptRecord(same, value, {**again, "headers": self._headers(given, number, new=True)})
        asked = options.pop("on_delivery", None) or options.pop("callback", None) or self._given.get("on_delivery")

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                kept.place = message.partition(), message.offset()
            if asked is not None:
                asked(error, message)

        headers = self._headers(given, number, new=False, kept=True)
        placed = self._producer.send(record, value, headers=headers, on_delivery=delivered, **options)
        if self._second is not None:
            self._second.send(kept.record, kept.value, **kept.options)
        else:
            assert self._kept is not None
            self._kept.append(kept)
        return placed

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record is delivered; what is kept for a new topic is not on its way yet."""
        with self._turn:
            self._raise_failure()
            for producer in (self._producer, self._second):
                if producer is not None:
                    producer.flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Wait for every record, and follow the migration no more."""
        with self._turn:
            if not self._closed:
                # Whoever keeps records is the only one who has them for the new topic.
                self._wait_while(lambda: bool(self._kept))
            producers = [one for one in (self._producer, self._second, self._publishing) if one is not None]
            self._producer = self._second = self._publishing = None
            self._closed = True
            self._turn.notify_all()
        self._watcher.join()
        for producer in producers:
            producer.close(timeout)
        self._raise_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _watch(self) -> None:
        while True:
            time.sleep(self._look_seconds)
            with self._turn:
                if self._closed:
                    return
                try:
                    self._follow()
                except DeliveryError as error:
                    self._failure = error
                except BrokerError:
                    # Looked at again: without an answer nothing is acknowledged, and nobody goes on.
                    continue
                except KeylaneError as error:
                    self._failure = error
                self._turn.notify_all()

    def _follow(self) -> None:
        """Look at the journal, and do what it says."""
        entries = self._view.look()
        phase = phase_of(entries)
        if phase in HELD:
            self._stop(hold_of(entries))
            return
        if is_dual(entries) and (phase != "done" or self._kept is not None):
            # Also when it is done already: what is kept is in the old topic alone.
            self._follow_both(entries)
            if phase != "done":
                return
        self._kept = None
        is_new = may_send(entries, new=True)
        if self._producer is not None and is_new == self._is_new:
            return
        if self._producer is not None:
            # Opened without a stop that this producer has seen, or both topics were written to until now.
            self._end()
        self._is_new, self._producer, self._second = is_new, self._second, None
        self._producer = self._producer or self._opened(self.router)
        if self._stopped_at:
            self.pause, self._stopped_at = time.monotonic() - self._stopped_at, 0.0

    def _opened(self, router: Router) -> KeyedProducer:
        return KeyedProducer(router, self._new_bootstrap if router is self._new else self._bootstrap, **self._given)

    def _follow_both(self, entries: Sequence[Entry]) -> None:
        """Keep what is written from here on for the new topic; once the fence is known, write it there."""
        self._producer = self._producer or self._opened(self._old)
        hold, gate = hold_of(entries), self._view.gate
        if self._kept is None and self._second is None:
            began = time.monotonic()
            # What is on its way is not marked as kept, and has to be below the fence.
            self._producer.flush()
            self._kept, self.pause = deque(), time.monotonic() - began
        if self._acknowledged != hold and self._failure is None and hold is not None:
            self._view.journal.acknowledge(self.name, hold)
            self._acknowledged = hold
        if gate is not None and self._second is None:
            self._producer.flush()
            self._publish(gate, self._kept or deque())
            self._second, self._publishing, self._kept = self._publishing, None, None

    def _publish(self, gate: LaneGate, kept: deque[KeptRecord]) -> None:
        """Write what is behind the fence to the new topic. Broken off, the next look goes on at the same record."""
        self._publishing = self._publishing or self._opened(self._new)
        while kept:
            one = kept[0]
            # One without a place has failed, and its writer knows.
            if one.place is not None and one.place[1] >= gate.fences[one.place[0]]:
                self._publishing.send(one.record, one.value, **one.options)
            kept.popleft()

    def _stop(self, hold: int | None) -> None:
        if self._producer is not None:
            self._stopped_at = self._stopped_at or time.monotonic()
            self._end()
        elif not self._stopped_at:
            self._stopped_at = time.monotonic()
        if hold is not None and self._acknowledged != hold and self._failure is None:
            self._view.journal.acknowledge(self.name, hold)
            self._acknowledged = hold

    def _end(self) -> None:
        """Wait for all that is on its way, then let the client go; one whose records failed stays."""
        assert self._producer is not None
        self._producer.flush()
        self._producer.close()
        self._producer = None


class GatedConsumer:
    """A confluent-kafka consumer of which the gate holds lanes back; `consumer` is the consumer itself.

    `poll` and `consume` are those of the consumer. A record that may not be applied yet is not handed out: its lane is
    paused at it, and goes on when all parents are committed up to their fences, by this member of the group or another.
    So commit what was applied, and after it was. By default a client stores the offset of every record that it reads,
    and commits it: a held record would be lost after a crash, so a consumer needs `enable.auto.offset.store=false`.

    By a mirror the consumer subscribes to both topics, of one cluster: it is given the old one up to the fences, and
    the new one from behind the copies on, each lane of it after its parents; copies are passed over.

    For a topic that was migrated more than once wrap it once more, the first migration innermost:
    `GatedConsumer(GatedConsumer(consumer, first), second)`. A reader of old records has to go by the gates of all.

    Until the lanes change, the journal is looked at with every call that reads a record, unless it has the plan already
    and all records carry the epoch of the old contract. `properties` are client properties for looking through a lane's
    last offsets.
    """

    def __init__(
        self,
        consumer: Any,
        journal: str | os.PathLike[str] | MigrationJournal,
        *,
        properties: Iterable[tuple[str, str]] = (),
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        _check_stores_nothing(consumer)
        self.consumer = consumer
        self._view = MigrationView(journal)
        self._properties = tuple(properties)
        self._look_seconds = look_seconds
        #: By topic and lane: the offset of the first record that waits.
        self._held: dict[tuple[str, int], int] = {}
        self._open: set[int] = set()
        self._looked = 0.0
        self._stands: dict[int, tuple[int, float]] = {}
        #: Whether records were handed out, and whether offsets that somebody stored were committed since.
        self._given = self._stored = False
        self._view.look()

    @property
    def held(self) -> dict[int, int]:
        """The lanes of the new contract that are held back, and the offset of the first record of each that waits."""
        return {lane: offset for (topic, lane), offset in self._held.items() if topic == self._new_topic}

    @property
    def gate(self) -> LaneGate | None:
        """The gate, as of the last look; None while all records are of the old contract."""
        return self._view.gate

    def poll(self, timeout: float = 1.0) -> Any:
        """The next record that may be applied, or an error as the consumer has it; None where there is none yet."""
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, most: int = 1, timeout: float = 1.0) -> list[Any]:
        """Some records that may be applied. They may be applied in any order among the lanes."""
        self._release()
        messages = self.consumer.consume(most, timeout)
        try:
            return self._allowed(messages)
        except BaseException:
            # Whoever catches this and goes on reads the same records again: none of them was handed out.
            self._rewind(messages)
            raise

    def _allowed(self, messages: list[Any]) -> list[Any]:
        """Those that may be applied; lanes are held at the first one that may not."""
        if self._needs_a_look(messages):
            self._view.look()
        given, passed = [], set[tuple[str, int]]()
        for message in messages:
            if message.error() is not None:
                given.append(message)
                continue
            place = message.topic(), message.partition()
            if place in passed:
                # What comes behind it in this call is read again from there.
                continue
            leave = self._leave(message)
            if leave == "apply":
                given.append(message)
            elif leave == "hold":
                passed.add(place)
                self._hold(place, message.offset())
            elif place[0] == self._new_topic:
                passed.add(place)
                self._pass_copies(place)
        self._given = self._given or bool(given)
        return given

    def commit(self, *arguments: Any, **options: Any) -> Any:
        """As the consumer does; without arguments it commits what was stored by `consumer.store_offsets`.

        Such a commit is refused where nothing was ever stored: the client answers it in silence, and no lane drains.
        """
        named = arguments or options.get("message") is not None or options.get("offsets") is not None
        if not named and self._given and not self._stored:
            return self._commit_stored()
        return self.consumer.commit(*arguments, **options)

    def _commit_stored(self) -> Any:
        """The first commit of stored offsets, waited for: the client says only then that there are none."""
        from confluent_kafka import KafkaException

        try:
            found = self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].name() != "_NO_OFFSET":
                raise
            what = "there is nothing to commit: no offset was stored, as enable.auto.offset.store=false has it"
            hint = (
                "commit(message=record) after the record was applied, or consumer.store_offsets(message=record) first"
            )
            raise UsageError.of(what, got="commit()", hint=hint) from None
        self._stored = True
        return found

    def _rewind(self, messages: list[Any]) -> None:
        """Go back to where a call began that handed nothing out."""
        from confluent_kafka import KafkaException, TopicPartition

        first: dict[tuple[str, int], int] = {}
        for message in messages:
            if message.error() is None:
                first.setdefault((message.topic(), message.partition()), message.offset())
        for place, offset in first.items():
            self._held.pop(place, None)
            try:
                self.consumer.seek(TopicPartition(*place, offset))
                self.consumer.resume([TopicPartition(*place)])
            except KafkaException:
                # Not this member's any more.
                continue

    def __getattr__(self, name: str) -> Any:
        """Everything else is the consumer's: `close`, `subscribe`."""
        if name == "consumer":
            raise AttributeError(name)
        return getattr(self.consumer, name)

    @property
    def _new_topic(self) -> str:
        """The topic that the gate is about: the same one, where it is changed in place."""
        plan = self._view.plan
        return parse_address(plan["new"]["address"] or plan["old"]["address"]).name if plan else ""

    @property
    def _old_topic(self) -> str:
        plan = self._view.plan
        return parse_address(plan["old"]["address"]).name if plan else ""

    def _needs_a_look(self, messages: list[Any]) -> bool:
        """Whether a record may be of the new contract: after it was read, the journal says so if it is."""
        if self._view.gate is not None:
            return False
        records = [message for message in messages if message.error() is None]
        known = int(self._view.plan["old"]["epoch"]) if self._view.plan else None
        return any(_epoch_of(one) != known or known is None or _is_kept(one) for one in records)

    def _leave(self, message: Any) -> Leave:
        """Whether a record is applied, held back or passed over."""
        view, lane = self._view, message.partition()
        if not view.plan or message.topic() not in (self._new_topic, self._old_topic):
            return "apply"
        if not view.is_mirror:
            return "apply" if self._admits(lane, message) else "hold"
        if message.topic() == self._old_topic:
            return view.mirror_gate.old_allows(lane, message.offset(), kept=_is_kept(message))
        if view.gate is not None and view.gate.is_new(lane, message.offset()):
            return "apply" if self._is_open(view.gate, lane) else "hold"
        return view.mirror_gate.new_allows(lane, message.offset(), {})

    def _admits(self, lane: int, message: Any) -> bool:
        gate = self._view.gate
        if gate is None:
            # A lane that is not there yet, or a record of an epoch that is not open: nobody may know its parents.
            plan = self._view.plan
            return lane < int(plan["old"]["lanes"]) and _epoch_of(message) != int(plan["new"]["epoch"])
        return not gate.is_new(lane, message.offset()) or self._is_open(gate, lane)

    def _is_open(self, gate: LaneGate, lane: int) -> bool:
        if lane not in self._open and not gate.waits_for(lane, self._applied(gate, lane)):
            self._open.add(lane)
        return lane in self._open

    def _applied(self, gate: LaneGate, lane: int) -> dict[int, int]:
        """What the group has committed of the parents of a lane."""
        from confluent_kafka import KafkaException, TopicPartition

        topic, parents = self._old_topic, gate.parents_of(lane)
        asked = [TopicPartition(topic, old) for old in parents]
        try:
            found = {one.partition: one.offset for one in self.consumer.committed(asked, timeout=ASK_SECONDS)}
        except KafkaException:
            # Without an answer nothing is known to be drained: the lane is held, and asked about again.
            found = {}
        return {old: self._passed(gate, old, found.get(old, -1)) for old in parents}

    def _passed(self, gate: LaneGate, old: int, committed: int) -> int:
        """How far a parent is: up to its fence, where no record is left between."""
        fence = gate.fences[old]
        if committed >= fence or not fence:
            return max(committed, 0)
        at, since = self._stands.get(old, (None, 0.0))
        now = time.monotonic()
        if at != committed:
            self._stands[old] = committed, now
        elif now - since > STILL_SECONDS:
            self._stands[old] = committed, now
            address = parse_address(self._view.plan["old"]["address"])
            # Without an answer nothing is known to be drained, as above.
            with suppress(BrokerError), open_cluster(kafka_access(address.authority, self._properties)) as cluster:
                there = cluster.offset_ranges(address.name, old + 1, committed=True)[old]
                return TopicMigrator(cluster, address.name).passed(old, committed, fence, there)
        return committed

    def _hold(self, place: tuple[str, int], offset: int) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        self._held[place] = offset
        try:
            self.consumer.pause([TopicPartition(*place)])
            self.consumer.seek(TopicPartition(*place, offset))
        except KafkaException:
            # Not this member's any more: whoever has the lane now begins where it was committed.
            self._held.pop(place, None)

    def _pass_copies(self, place: tuple[str, int]) -> None:
        """Go on where the copies end: what they are copies of is applied from the old topic."""
        from confluent_kafka import KafkaException, TopicPartition

        gate = self._view.gate
        assert gate is not None
        try:
            self.consumer.seek(TopicPartition(*place, gate.start(place[1])))
        except KafkaException:
            # Not this member's any more.
            return

    def _release(self) -> None:
        """Let lanes go on whose parents are drained, and those of the old topic once the fences are known."""
        from confluent_kafka import KafkaException, TopicPartition

        now = time.monotonic()
        if not self._held or now - self._looked < self._look_seconds:
            return
        self._looked = now
        if self._view.gate is None:
            self._view.look()
        for place in [place for place, offset in self._held.items() if self._may_go_on(place, offset)]:
            offset = self._held.pop(place)
            gate = self._view.gate
            try:
                if gate is not None and place[0] == self._new_topic and offset < gate.start(place[1]):
                    # Held before it was known which records are copies.
                    self.consumer.seek(TopicPartition(*place, gate.start(place[1])))
                self.consumer.resume([TopicPartition(*place)])
            except KafkaException:
                continue

    def _may_go_on(self, place: tuple[str, int], offset: int) -> bool:
        view, (topic, lane) = self._view, place
        if view.is_mirror and topic == self._old_topic:
            # Held as one that is kept; whatever comes there is looked at again.
            return view.mirror_gate.old_allows(lane, offset, kept=True) != "hold"
        return view.gate is not None and self._is_open(view.gate, lane)


def _check_stores_nothing(consumer: Any) -> None:
    """Refuse a consumer that stores offsets by itself; the client has no other way to ask for the setting."""
    from confluent_kafka import KafkaException

    try:
        consumer.store_offsets(offsets=[])
    except KafkaException as error:
        if error.args[0].name() != "_INVALID_ARG":
            raise
        what = "the consumer stores the offset of every record that it reads, also of those that the gate holds back"
        hint = "commit, or store, the offsets of records after they were applied"
        setting = "enable.auto.offset.store"
        raise UsageError.of(what, got=f"{setting}=true", allowed=f"{setting}=false", hint=hint) from None


def _epoch_of(message: Any) -> int | None:
    """The epoch in a record's headers; None without one, or where it is foreign."""
    return epoch_of(dict(message.headers() or ()).get(EPOCH))


def _is_kept(message: Any) -> bool:
    """Whether its producer writes it to the new topic of a mirror as well."""
    return any(name == KEPT for name, _ in message.headers() or ())


def spark_offsets(gate: LaneGate, topic: str, positions: Mapping[int, int], ends: Mapping[int, int]) -> dict[str, str]:
    """The options of Spark's Kafka source for a batch of all that may be applied now.

    `positions` is how far each lane is applied, by the job's own account, and `ends` where it ends. Records of one
    batch may be applied in any order among the lanes; the next batch is asked for after this one is applied.

    >>> from keylane.migration.gate import LaneGate
    >>> spark_offsets(LaneGate((2,), (2, 0), ((0,), (0,))), "t", {0: 0}, {0: 3, 1: 4})["endingOffsets"]
    '{"t": {"0": 2, "1": 0}}'
    """
    ranges = gate.readable(positions, ends)
    starting, ending = ({str(lane): ends[at] for lane, ends in sorted(ranges.items())} for at in (0, 1))
    return {
        "assign": json.dumps({topic: sorted(ranges)}),
        "startingOffsets": json.dumps({topic: starting}),
        "endingOffsets": json.dumps({topic: ending}),
    }

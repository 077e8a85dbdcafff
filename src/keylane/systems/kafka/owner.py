"""A consumer that owns its lanes for life: it takes an id, restores the state of its lanes, and goes on where it stood.

    step = Balances()                                     # a LaneStep: state and record -> state and output records
    with open_leases("leases.db", "balances", instances=3) as store:
        owner = LaneOwner(OwnerPlan(kafka_access("localhost:9092"), "balances", "payments", "balances"), step, store)
        owner.run_until_signalled()

Lanes are assigned by hand from the id, so there is no rebalance: who comes or goes moves nothing of the others. What an
owner goes through:

    waiting     a spare, until an id is free
    fencing     whatever a former owner of the id writes from now on is refused (`owner_writers`)
    restoring   the newest snapshot of each lane, and where the lane stands by what was written
    serving     records are applied to the state of their lane, what comes out is written, then the position is. Records
                between the snapshot and that position are applied again, and nothing is written for them
    stopping    after SIGTERM: a last snapshot, and the id is given back, so that a spare goes on without a replay

Three things are numbers that never go back, and an owner that finds one lower than it was says so instead of going on:
the term of its lease (the store of leases was lost: another term is asked for, above those that are left in snapshots
and with the group), the offsets of its group (they were deleted, or have expired: what was written since would be
written again), and the id of its topic.

A step has to be deterministic: the state of a lane is what its records make of an empty one, in their order. Then any
snapshot is as good as a replay. Where the records that a state needs are gone from the topic, the owner ends with an
error instead of going on with half a state.

The lease, its term and why the fence is what counts: `keylane.groups.ownership`. A reader of what owners write in
`headers` mode: `owner_terms`. How to run it: docs/how-to/keep-state.md.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar
from uuid import uuid4

from keylane.errors import BrokerError, DataError, FencedError, MissingExtraError, UsageError
from keylane.groups.ownership import Terms, claim_of, lanes_of
from keylane.systems.health import serving_health
from keylane.systems.kafka.cluster import explained, is_permanent, open_cluster
from keylane.systems.kafka.owner_terms import TERM, owner_headers, term_of
from keylane.systems.kafka.owner_writers import WRITERS, Duty, OwnerFence, Produced
from keylane.systems.kafka.reader import TopicReader
from keylane.systems.leases.group import check_group
from keylane.systems.leases.keeper import STUCK_SECONDS, LeaseKeeper, stuck_after
from keylane.systems.messages.chunks import WantedColumns
from keylane.systems.messages.headers import number_of, origin
from keylane.systems.snapshots import Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from keylane.groups.ownership import Claim, Lease, LeaseStore
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.owner_terms import Headers
    from keylane.systems.kafka.owner_writers import OwnerWriter

__all__ = ["InputRecord", "JsonStep", "LaneOwner", "LaneStep", "OutputRecord", "OwnerPlan", "Phase"]

S = TypeVar("S")
Phase: TypeAlias = Literal["starting", "waiting", "fencing", "restoring", "serving", "stopping", "stopped"]
#: How long records are waited for before the loop looks around.
TURN_SECONDS: Final = 0.1
#: Positions are committed again so often, though nothing came: brokers drop the offsets of a group that is silent for
#: days, and what was written already would be written once more.
TOUCH_SECONDS: Final = 3600.0
#: Topics are asked so often whether they have more lanes than before: nobody would read those otherwise.
GROWTH_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class InputRecord:
    """A record of a lane."""

    topic: str
    lane: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    time_ms: int


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A record to write. Without a lane it goes to the partition of the output with the number of its source lane."""

    key: bytes | None
    value: bytes | None
    lane: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class LaneStep(ABC, Generic[S]):
    """What a service does with the records of a lane. It has to be deterministic, and a lane's state is its own."""

    @abstractmethod
    def new(self) -> S:
        """The state of a lane without records."""

    @abstractmethod
    def apply(self, state: S, record: InputRecord) -> Iterable[OutputRecord]:
        """Change the state by a record, and return what is to be written; a generator is run to its end."""

    @abstractmethod
    def dump(self, state: S) -> bytes:
        """The state as a snapshot keeps it."""

    @abstractmethod
    def load(self, data: bytes) -> S:
        """The inverse of `dump`."""


class JsonStep(LaneStep[dict[str, Any]]):
    """A step whose state is a JSON object."""

    def new(self) -> dict[str, Any]:
        """An empty object."""
        return {}

    def dump(self, state: dict[str, Any]) -> bytes:
        """As text, whole numbers of any size included."""
        return json.dumps(state, separators=(",", ":")).encode()

    def load(self, data: bytes) -> dict[str, Any]:
        """From text."""
        loaded: dict[str, Any] = json.loads(data)
        return loaded


@dataclass(frozen=True, slots=True)
class OwnerPlan:
    """Where an owner reads, writes and keeps its snapshots, and how.

    `instance` is the id that it wants, or None for whichever is free. `fence`: see `owner_writers`. `batch` records at
    most are applied at a time, and a snapshot is taken when the last is `snapshot_seconds` old. A batch, a `dump` or a
    `load` of one lane that takes longer than `stuck_seconds` is taken for a loop that is stuck: it loses the lease.
    """

    access: KafkaAccess
    group: str
    topic: str
    output: str
    folder: Path = field(default_factory=lambda: Path("snapshots"))
    terms: Terms = field(default_factory=Terms)
    instance: int | None = None
    fence: OwnerFence = "transactions"
    batch: int = 1000
    snapshot_seconds: float = 30.0
    name: str = ""
    stuck_seconds: float = STUCK_SECONDS

    def __post_init__(self) -> None:
        check_group(self.group, 1)
        if self.fence not in WRITERS:
            raise UsageError.of("no such fence", got=self.fence, allowed=", ".join(WRITERS))
        if self.batch < 1 or self.snapshot_seconds < 0 or self.stuck_seconds <= 0:
            allowed = "batch >= 1, snapshot_seconds >= 0, stuck_seconds > 0"
            raise UsageError.of("not a plan of an owner", got=self, allowed=allowed)


@dataclass(slots=True)
class _Holding(Generic[S]):
    """The lanes of a lease in memory: their states, and behind which records these stand."""

    lease: Lease
    lanes: tuple[int, ...]
    states: dict[int, S] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    #: Up to here everything was written: what is applied again writes nothing.
    written: dict[int, int] = field(default_factory=dict)
    #: What was applied and not written yet, and the positions behind it.
    pending: tuple[list[Produced], dict[int, int]] | None = None
    kept: dict[int, int] = field(default_factory=dict)
    #: The lanes of which the cluster knows that they had an owner before.
    noted: frozenset[int] = frozenset()
    kept_at: float = 0.0
    touched_at: float = 0.0


class LaneOwner(Generic[S]):
    """An owner of lanes, or a spare. `run` works until `stop` is called, by a signal or by another thread."""

    def __init__(
        self,
        plan: OwnerPlan,
        step: LaneStep[S],
        store: LeaseStore,
        *,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str, dict[str, Any]], None] | None = None,
    ) -> None:
        self._plan, self._step, self._store, self._clock = plan, step, store, clock
        self._tell = tell or (lambda _what, _about: None)
        self._stop, self._snapshots = Event(), Snapshots(plan.folder, plan.group)
        # No two processes have one name, so that a lease is never taken for one's own by mistake.
        self.name = f"{plan.name or socket.gethostname()}/{os.getpid()}/{uuid4().hex[:8]}"
        self._phase: Phase = "starting"
        self._holding: _Holding[S] | None = None
        self._counts = dict.fromkeys(("applied", "replayed", "written", "snapshots", "fenced", "interrupted"), 0)
        self._around, self._lanes, self._output_lanes, self._topic_id = clock(), 0, 0, ""
        self._looked_at = clock()
        self._silence: Callable[[], str] = lambda: ""

    def stop(self) -> None:
        """Finish the batch, take a snapshot, give the id back, and return from `run`."""
        self._stop.set()

    def run_until_signalled(self, health_port: int | None = None) -> None:
        """Run until SIGTERM or SIGINT, with a health endpoint where a port is given. For the main thread."""
        for what in (signal.SIGTERM, signal.SIGINT):
            signal.signal(what, lambda *_: self.stop())
        if health_port is None:
            self.run()
            return
        with serving_health(self.health, health_port) as port:
            self._tell("health", {"port": port})
            self.run()

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether the loop comes around, and what it does: for `keylane.systems.health`."""
        holding, idle = self._holding, self._clock() - self._around
        shown: dict[str, Any] = {
            "name": self.name,
            "group": self._plan.group,
            "phase": self._phase,
            "instance": holding.lease.instance if holding else None,
            "term": holding.lease.term if holding else None,
            "positions": {str(lane): at for lane, at in sorted(dict(holding.positions).items())} if holding else {},
            "seconds_since_turn": round(idle, 3),
            "store_silence": self._silence(),
            **self._counts,
        }
        most = stuck_after(self._plan.stuck_seconds, self._plan.terms.ttl)
        return idle < most and self._phase != "stopped", shown

    def run(self) -> None:
        """Take an id and serve its lanes, again and again, until `stop`. An error ends it; the id is given back."""
        plan = self._plan
        with open_cluster(plan.access) as cluster:
            counts = cluster.lanes([plan.topic, plan.output])
            if missing := [topic for topic, lanes in counts.items() if not lanes]:
                raise DataError.of("there is no such topic", got=missing[0], hint=f"create it at {plan.access.brokers}")
            self._lanes, self._output_lanes = counts[plan.topic], counts[plan.output]
            self._topic_id = cluster.topic_ids([plan.topic]).get(plan.topic, "")
        claim = claim_of(self.name, self._store.instances, plan.terms, plan.instance)
        try:
            with self._consumer() as consumer, self._keeper(claim) as keeper:
                self._silence = lambda: keeper.silence
                while not self._stop.is_set():
                    self._turn("waiting")
                    lease = keeper.lease()
                    if lease is None:
                        keeper.wait(TURN_SECONDS)
                    else:
                        self._own(lease, keeper, consumer)
                self._phase = "stopping"
        finally:
            self._phase = "stopped"

    def _keeper(self, claim: Claim) -> LeaseKeeper:
        return LeaseKeeper(self._store, claim, self._clock, stuck_seconds=self._plan.stuck_seconds)

    def _own(self, lease: Lease, keeper: LeaseKeeper, consumer: Any) -> None:
        """Serve under a lease until it is lost. An interruption leaves states in memory; the fence is put up anew."""
        plan = self._plan
        self._refresh_lanes(consumer)
        lanes = self._lanes_of(lease)
        try:
            noted = self._noted_terms(lanes)
        except BrokerError as error:
            if is_permanent(error.__cause__):
                raise
            self._tell("interrupted", {"why": str(error)})
            keeper.wait(TURN_SECONDS)
            return
        kept = (self._snapshots.highest_term(plan.topic, lane) for lane in lanes)
        known = max([*noted.values(), *kept], default=0)
        if known >= lease.term:
            # The store has lost what it gave: whatever carried this term would be taken for a former owner's.
            self._tell("terms", {"instance": lease.instance, "term": lease.term, "known": known})
            keeper.take_above(known)
            return
        now = self._clock()
        holding = _Holding[S](lease, lanes, kept_at=now, touched_at=now, noted=frozenset(noted))
        self._holding = holding
        self._tell("owned", {"instance": lease.instance, "term": lease.term, "lanes": holding.lanes})
        while not keeper.has_lost(lease) and not self._stop.is_set():
            self._turn("waiting")
            if not keeper.holds(lease):
                keeper.wait(TURN_SECONDS)
                continue
            holding.lanes = self._lanes_of(lease)
            writer = WRITERS[plan.fence](self._duty(holding))
            try:
                self._serve(holding, writer, keeper, consumer)
            except BrokerError as error:
                if is_permanent(error.__cause__):
                    raise
                self._counts["fenced" if isinstance(error, FencedError) else "interrupted"] += 1
                self._tell("fenced" if isinstance(error, FencedError) else "interrupted", {"why": str(error)})
                keeper.wait(TURN_SECONDS)
            finally:
                consumer.unassign()
                writer.close()
        if not self._stop.is_set():
            self._tell("lost", {"instance": lease.instance, "term": lease.term})
        self._holding = None

    def _lanes_of(self, lease: Lease) -> tuple[int, ...]:
        return tuple(lanes_of(lease.instance, self._store.instances, self._lanes))

    def _duty(self, holding: _Holding[S]) -> Duty:
        plan, lanes, lease = self._plan, holding.lanes, holding.lease
        return Duty(plan.access, plan.group, plan.topic, lanes, plan.output, self._output_lanes, lease, plan.terms.ttl)

    def _refresh_lanes(self, consumer: Any) -> bool:
        """Ask for the lane counts again: whether a topic has more. Where no broker answers, they are as they were."""
        from confluent_kafka import KafkaException

        before = self._lanes, self._output_lanes
        self._looked_at = self._clock()
        with suppress(KafkaException):
            found = [
                len(consumer.list_topics(topic, timeout=1.0).topics[topic].partitions)
                for topic in (self._plan.topic, self._plan.output)
            ]
            self._lanes, self._output_lanes = map(max, before, found)
        return (self._lanes, self._output_lanes) != before

    def _begin(self, holding: _Holding[S], writer: OwnerWriter, keeper: LeaseKeeper, consumer: Any) -> bool:
        """Fence, look at the lease again, restore; False where another has the id by now."""
        plan = self._plan
        self._turn("fencing")
        writer.begin()
        # Only now: whoever took the id in between has begun behind this fence, and would be fenced by it.
        if not keeper.verify(holding.lease):
            return False
        self._turn("restoring")
        self._refresh_topic_id(holding)
        before = dict(holding.written)
        self._restore(holding, writer.positions(consumer), keeper)
        self._check_records_there(holding, consumer)
        if plan.fence == "transactions":
            self._check_positions(holding, before, keeper)
            if new := {lane: 0 for lane in holding.lanes if lane not in holding.written}:
                # From here on a lane without a committed offset is one whose offset was lost.
                writer.write([], new, consumer)
                holding.written.update(new)
        self._note_terms(holding)
        return True

    def _serve(self, holding: _Holding[S], writer: OwnerWriter, keeper: LeaseKeeper, consumer: Any) -> None:
        if not self._begin(holding, writer, keeper, consumer):
            return
        self._assign(holding, consumer)
        if holding.pending is not None:
            self._write(holding, writer, consumer)
        self._tell("serving", {"instance": holding.lease.instance, "term": holding.lease.term})
        while not self._stop.is_set() and keeper.holds(holding.lease):
            self._turn("serving")
            messages = consumer.consume(self._plan.batch, TURN_SECONDS)
            if messages and keeper.holds(holding.lease):
                self._apply(holding, messages)
                self._write(holding, writer, consumer)
            elif messages:
                break
            if self._clock() - holding.kept_at >= self._plan.snapshot_seconds:
                self._take_snapshots(holding, keeper)
            if self._clock() - holding.touched_at >= TOUCH_SECONDS and holding.written:
                writer.write([], holding.written, consumer)
                self._note_terms(holding)
                holding.touched_at = self._clock()
            if self._clock() - self._looked_at >= GROWTH_SECONDS and self._refresh_lanes(consumer):
                # The caller begins again, with the lanes that the topics have now.
                self._tell("grown", {"lanes": self._lanes, "output_lanes": self._output_lanes})
                break
        if self._stop.is_set() and holding.pending is None:
            self._turn("stopping")
            self._take_snapshots(holding, keeper)

    def _restore(self, holding: _Holding[S], written: dict[int, int], keeper: LeaseKeeper) -> None:
        """States from snapshots, unless they are in memory; and which records were written already."""
        holding.written = written
        if holding.pending is not None and all(written.get(lane, -1) >= at for lane, at in holding.pending[1].items()):
            # The last transaction took effect, though its answer was lost.
            holding.pending = None
        for lane in holding.lanes:
            if lane in holding.states:
                continue
            self._come_around(keeper)
            found, problems = self._snapshots.newest(self._plan.topic, lane)
            for problem in problems:
                self._tell("damaged", {"lane": lane, "why": problem})
            if found is not None:
                self._check_same_topic(found.topic_id, self._topic_id, f"the snapshot of lane {lane} was taken")
                holding.kept[lane] = found.position
            holding.states[lane] = self._step.load(found.state) if found else self._step.new()
            holding.positions[lane] = found.position if found else 0

    def _refresh_topic_id(self, holding: _Holding[S]) -> None:
        """Ask which topic it is now: a spare may have waited since before the topic was made anew."""
        with open_cluster(self._plan.access) as cluster:
            found = cluster.topic_ids([self._plan.topic], self._plan.terms.ttl).get(self._plan.topic, "")
        if holding.states:
            self._check_same_topic(self._topic_id, found, "its states were restored")
        self._topic_id = found or self._topic_id

    def _check_same_topic(self, then: str, now: str, since: str) -> None:
        """Offsets of one topic mean nothing in another of its name."""
        if then and now and then != now:
            raise DataError.of(
                f"topic {self._plan.topic!r} was made anew since {since}",
                got=f"topic id {now}",
                allowed=then,
                hint=f"remove {self._plan.folder} to begin with an empty state",
            )

    def _check_records_there(self, holding: _Holding[S], consumer: Any) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        for lane, position in holding.positions.items():
            try:
                low, high = consumer.get_watermark_offsets(
                    TopicPartition(self._plan.topic, lane), timeout=self._plan.terms.ttl
                )
            except KafkaException as error:
                raise BrokerError.of("no broker answers", got=str(error)) from error
            if not low <= position <= high:
                raise DataError.of(
                    f"the state of lane {lane} of {self._plan.topic!r} cannot be rebuilt: its records are gone",
                    got=f"a state behind offset {position}",
                    allowed=f"{low} to {high}",
                    hint="restore a snapshot of the lane, or keep records for longer than snapshots are apart",
                )

    def _noted_terms(self, lanes: Sequence[int]) -> dict[int, int]:
        """The term of the last owner of each lane, as the cluster keeps it beside an offset of a group of its own."""
        with open_cluster(self._plan.access) as cluster:
            texts = cluster.texts_beside(
                notes_of(self._plan.group), self._plan.topic, self._lanes, self._plan.terms.ttl
            )
        found = {lane: number_of(texts[lane].encode()) for lane in lanes if lane < len(texts)}
        return {lane: term for lane, term in found.items() if term is not None}

    def _note_terms(self, holding: _Holding[S]) -> None:
        from confluent_kafka import TopicPartition

        plan, term = self._plan, str(holding.lease.term)
        with open_cluster(plan.access) as cluster:
            offsets = [TopicPartition(plan.topic, lane, 0, term) for lane in holding.lanes]
            failed = cluster.commit_for(notes_of(plan.group), offsets) if offsets else None
        if failed is not None:
            raise explained(failed, plan.access.brokers) from (failed if isinstance(failed, Exception) else None)

    def _check_positions(self, holding: _Holding[S], before: Mapping[int, int], keeper: LeaseKeeper) -> None:
        """Refuse committed offsets that are gone, or behind what was written: that would be written once more."""
        plan, committed = self._plan, holding.written
        least = {lane: max(before.get(lane, 0), holding.kept.get(lane, 0)) for lane in holding.lanes}
        behind = {lane for lane, at in least.items() if committed.get(lane, 0) < at}
        gone = {lane for lane in holding.lanes if lane not in committed}
        lost = behind | (gone & holding.noted)
        # Notes may have expired with the offsets: the first owners of a group have written nothing yet.
        doubtful = lost | (gone if holding.lease.term > self._store.instances else set())
        if not doubtful:
            return
        written = self._written_up_to(doubtful, keeper)
        lost |= set(written) & doubtful
        if not lost:
            return
        by = f"kafka-consumer-groups.sh --bootstrap-server {plan.access.brokers} --group {plan.group} --reset-offsets"
        to = {lane: max(least[lane], written.get(lane, 0)) for lane in sorted(lost)}
        commands = [f"{by} --topic {plan.topic}:{lane} --to-offset {at} --execute" for lane, at in to.items()]
        got = ", ".join(f"lane {lane} at {committed.get(lane, 'no offset')}" for lane in to)
        allowed = ", ".join(f"lane {lane} at {at}" for lane, at in to.items())
        what = f"committed offsets of group {plan.group!r} are gone, or went back: outputs would be written again"
        hint = f"by what the output holds, and then start the owner again: {'; '.join(commands)}"
        raise DataError.of(what, got=got, allowed=allowed, hint=hint)

    def _written_up_to(self, lanes: set[int], keeper: LeaseKeeper) -> dict[int, int]:
        """Behind which record of each lane the output of this group ends, by the headers of all that is there."""
        plan, found = self._plan, dict[int, int]()
        reader = TopicReader(WantedColumns(headers=True), plan.access)
        with open_cluster(plan.access) as cluster:
            ranges = cluster.settled_ranges(plan.output, self._output_lanes)
        for into, there in enumerate(ranges):
            for chunk in reader.chunks(plan.output, into, there.start, there.end):
                self._come_around(keeper)
                sources, seqs = origin(chunk.sources)
                for source, seq, own in zip(sources.to_pylist(), seqs.to_pylist(), chunk.own, strict=True):
                    topic, _, lane = (source or "").rpartition("/")
                    marked = term_of(dict(own or ()).get(TERM))
                    if topic != plan.topic or seq is None or marked is None or marked[0] != plan.group:
                        continue
                    if lane.isdecimal() and int(lane) in lanes:
                        found[int(lane)] = max(found.get(int(lane), 0), seq + 1)
        return found

    def _assign(self, holding: _Holding[S], consumer: Any) -> None:
        from confluent_kafka import TopicPartition

        consumer.assign([TopicPartition(self._plan.topic, lane, at) for lane, at in holding.positions.items()])

    def _apply(self, holding: _Holding[S], messages: list[Any]) -> None:
        """Apply records to states. From here on until they are written what comes out is `pending`."""
        made: list[Produced] = []
        positions: dict[int, int] = {}
        for message in messages:
            if message.error() is not None:
                _check_error(message.error(), self._plan.topic)
                continue
            record = _input(message)
            if record.offset < holding.positions[record.lane]:
                continue
            # Also of a replay, whose outputs nobody takes: a generator changes the state only as it is read.
            outputs = list(self._step.apply(holding.states[record.lane], record))
            holding.positions[record.lane] = record.offset + 1
            if record.offset < holding.written.get(record.lane, 0):
                self._counts["replayed"] += 1
                continue
            positions[record.lane] = record.offset + 1
            self._counts["applied"] += 1
            own = owner_headers(self._plan.group, record.topic, record.lane, record.offset, holding.lease.term)
            made += [self._produced(output, record.lane, own) for output in outputs]
        holding.pending = (made, positions) if positions else None

    def _write(self, holding: _Holding[S], writer: OwnerWriter, consumer: Any) -> None:
        if holding.pending is None:
            return
        records, positions = holding.pending
        writer.write(records, positions, consumer)
        self._counts["written"] += len(records)
        holding.written.update(positions)
        holding.pending = None

    def _take_snapshots(self, holding: _Holding[S], keeper: LeaseKeeper) -> None:
        """A snapshot of every lane that has changed since the last one."""
        for lane, position in holding.positions.items():
            if holding.kept.get(lane) != position:
                state = self._step.dump(holding.states[lane])
                topic, term = self._plan.topic, holding.lease.term
                self._snapshots.write(Snapshot(self._plan.group, topic, lane, term, position, state, self._topic_id))
                holding.kept[lane] = position
                self._counts["snapshots"] += 1
                self._come_around(keeper)
        holding.kept_at = self._clock()

    def _come_around(self, keeper: LeaseKeeper) -> None:
        """After each lane: many that take long are not a loop that is stuck."""
        keeper.note_progress()
        self._around = self._clock()

    def _turn(self, phase: Phase) -> None:
        self._phase, self._around = phase, self._clock()

    def _produced(self, output: OutputRecord, lane: int, own: Headers) -> Produced:
        into = lane if output.lane is None else output.lane
        if not 0 <= into < self._output_lanes:
            raise DataError.of(
                f"{self._plan.output!r} has no such partition",
                got=into,
                allowed=f"0 to {self._output_lanes - 1}",
                hint="as many partitions as the source has, or a lane for each output",
            )
        return Produced(into, output.key, output.value, [*output.headers, *own])

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        try:
            from confluent_kafka import Consumer
        except ImportError:
            raise MissingExtraError.named("kafka", "confluent-kafka") from None
        own = {
            "group.id": self._plan.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
        }
        consumer = Consumer(self._plan.access.librdkafka(**own, error_cb=lambda _error: None))
        try:
            yield consumer
        finally:
            consumer.close()


def notes_of(group: str) -> str:
    """The group beside whose offsets the terms of another one are noted: nobody joins it."""
    return f"keylane-terms-{group}"


def _input(message: Any) -> InputRecord:
    return InputRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        list(message.headers() or ()),
        message.timestamp()[1],
    )


def _check_error(error: Any, topic: str) -> None:
    """Errors of a consumer pass, except for those that never will."""
    if error.name() == "_AUTO_OFFSET_RESET":
        raise DataError.of(f"records of {topic!r} are gone that were not read yet", got=error.str())
    if is_permanent(error):
        raise DataError.of(f"{topic!r} cannot be read", got=error.str())

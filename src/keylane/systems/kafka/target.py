"""Kafka as the target of a route: a recorded plan, a job of writers, and the result of the batch.

Why a batch that is run again changes nothing: `spark.kafka_writer` for the records, `state` for everything else.
Lane counts and topics: `topics`. Records without a lane: `spark.poison`.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.fields import fields_of, lacking_text
from keylane.contract.fingerprint import abbreviated
from keylane.errors import CountError
from keylane.router import Router
from keylane.systems.checkpoint import force_batch, offsets_digest, query_id
from keylane.systems.flow import BatchReport, Origin, Routed, RouteTarget, report_dead
from keylane.systems.folders.folder import Counts
from keylane.systems.identity import agreed_source
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.headers import ATTEMPT, CONTRACT, EPOCH, dead_topic
from keylane.systems.kafka.progress import TargetProgress, check_first, newer_than_state
from keylane.systems.kafka.state import (
    BatchPlan,
    RouteHead,
    check_planned,
    check_state,
    default_state,
    open_state,
    parked_digest,
    read_begun,
    with_parked,
)
from keylane.systems.kafka.topics import Topics, agreed_ids, agreed_lanes, check_other_stream, check_tombstones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.records import Parked, RecordLimits
    from keylane.spark.context import RunContext
    from keylane.spark.kafka_writer import Division, SlotWritten
    from keylane.spark.messages import Messages
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.flow import Followed
    from keylane.systems.folders.folder import TakenFile
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import KafkaCluster
    from keylane.systems.kafka.state import BatchDone, RouteState

#: Writers for each core: one that waits for its commit leaves the core to another.
WRITERS_A_CORE: Final = 2


@contextmanager
def open_topics(
    contract: Contract,
    origin: Origin,
    target: Address,
    access: KafkaAccess,
    options: StreamOptions,
    run: RunContext,
    lanes: int | None,
    stream: str | None,
) -> Iterator[KafkaTarget]:
    """The topics of a route, their lane counts agreed. A state that exists is locked; `begin` makes what is missing."""
    with open_cluster(access) as cluster, ExitStack() as held:
        agreed = agree(cluster, contract, origin, target, options, lanes, stream, run.say)
        path, head = agreed.path, agreed.head
        state = held.enter_context(open_state(path, head)) if agreed.same and not agreed.absent else None
        yield KafkaTarget(
            agreed.router, agreed.origin, target, options, cluster, path, head, agreed.absent, run, held, state
        )


@dataclass(frozen=True, slots=True)
class Agreed:
    """What a route is to begin with. `absent` are topics to be made; `same`: the state at `path` is of this route."""

    router: Router
    origin: Origin
    path: Path
    head: RouteHead
    absent: dict[str, int]
    same: bool


def agree(
    cluster: KafkaCluster,
    contract: Contract,
    origin: Origin,
    target: Address,
    options: StreamOptions,
    lanes: int | None,
    stream: str | None,
    say: Callable[[str], None],
) -> Agreed:
    """Refuse what cannot be routed; nothing is made and no lock is taken."""
    path = state_of(contract, target, options)
    begun = read_begun(path)
    before = None if begun is None else Origin(begun.source, begun.kind, begun.pattern, begun.source_id)
    origin = agreed_source(origin, before, say)
    if not origin.kind:
        check_tombstones(cluster, contract, target)
    counts, absent = agreed_lanes(cluster, contract, target, options, lanes, begun)
    ids = agreed_ids(cluster, target, options, counts, absent, begun, say)
    check_other_stream(origin, ids)
    router = Router(contract, lanes=counts[target.name] if contract.spec.lanes == "live" else None, stream=stream)
    meta, by = contract.metadata, (origin.kind, origin.pattern, options.value or "")
    head = RouteHead(meta.name, meta.epoch, contract.fingerprint, origin.address, str(target), counts, *by)
    head = replace(head, source_id=origin.id or "", topic_ids=ids)
    head = replace(head, csv_null=list(origin.csv_null), delimiter=origin.delimiter)
    known = check_state(path, head)
    if begun is None and target.name not in absent and not options.second_route:
        check_first(cluster, head, str(path))
    return Agreed(router, origin, path, head, absent, known is not None and not known.differences(head))


def state_of(contract: Contract, target: Address, options: StreamOptions) -> Path:
    """Where the state of a route is: as given, or a folder of the user's."""
    if options.state is not None:
        return Path(options.state).absolute()
    return default_state(contract.metadata.name, str(target), os.environ, Path.cwd())


@dataclass
class KafkaTarget(RouteTarget):
    """Topics: what this run began with, the last batch that is done, and the keys that are parked.

    `absent` are topics that `begin` makes, `known` is a state that is locked already.
    """

    router: Router
    origin: Origin
    target: Address
    options: StreamOptions
    cluster: KafkaCluster
    path: Path
    head: RouteHead
    absent: dict[str, int]
    run: RunContext
    held: ExitStack
    known: RouteState | None
    about: dict[tuple[str, ...], dict[str, Column]] = field(default_factory=dict)

    def taken(self) -> Iterator[TakenFile]:
        """The source files of the batches that are kept, oldest first."""
        return self.state.taken()

    def begin(self, spark: SparkSession, source: Followed) -> None:
        """Create what is missing, refuse a state that is not as new as its records, and take the source.

        The number of writers is as given; otherwise none for a topic, which is divided by its own partitions, and some
        for files.
        """
        if self.absent:
            for topic, lanes in self.absent.items():
                self.cluster.create(topic, lanes)
            ids = agreed_ids(self.cluster, self.target, self.options, self.head.topics, {}, self.head, self.run.say)
            self.head = replace(self.head, topic_ids=ids)
        self.state = self.known or self.held.enter_context(open_state(self.path, self.head))
        self.lock, self.checkpoint = self.state.lock, self.state.checkpoint
        self.state.check_whole()
        self.last = self.before = self.state.last()
        self.parked = self.state.parked()
        options, head = self.options, self.state.head
        self.progress = TargetProgress(self.cluster, head, str(self.path), options.try_seconds)
        self.progress.check(self.last, self.state.plan(self.last.batch + 1))
        some = WRITERS_A_CORE * spark.sparkContext.defaultParallelism if head.kind else 0
        self.topics = Topics(
            self.cluster,
            {self.router.stream: self.target.name, **{tier: tier for tier in self.router.contract.tiers}},
            options.dead_letters or dead_topic(self.target.name),
            head.topics,
            head.topic_ids,
            self.router.contract.spec.lanes,
            options.writers or some,
            options.delivery == "exactly-once",
            options.on_growth,
            options.on_poison,
            options.try_seconds,
        )
        self.source = source

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write one batch, unless it is done: the same one, by the offsets in Spark's checkpoint."""
        from keylane.spark.kafka_writer import retried
        from keylane.spark.session import active_session_kept

        offsets = self.state.offsets(batch)
        if batch != self.last.batch + 1:
            self.state.check_same(batch, offsets)
            return
        force_batch(self.checkpoint, batch)
        with active_session_kept():
            began = time.monotonic()
            self.topics.check_same()
            messages = self.source.messages(frame, self.last)
            plan = self.state.plan(batch)
            if plan is None:
                # What is found here is found before anything is sent, and the batch can be made again.
                self.source.check_unchanged(messages.taken)
                plan = self._planned(batch, messages, offsets)
            else:
                self.state.check_same(batch, offsets)
                check_planned(plan, messages.taken)
                self.topics.check_memory(plan)
            self.run.probe("planned", batch)
            if messages.lacking:
                self.run.say(lacking_text(batch, messages.lacking))
            self._begin(plan, offsets_digest(offsets))
            self.run.probe("begun", batch)
            seconds = self.topics.try_seconds
            written = retried(
                lambda: self._written(plan, messages), batch, seconds, self.run, lambda: self.topics.check_plan(plan)
            )
            self.run.probe("written", batch)
            # A topic that was recreated meanwhile has lost what earlier batches wrote.
            self.topics.check_same()
            self.source.check_unchanged(messages.taken)
            self._finish(self._done(plan, messages, written), plan, began)

    def result(self, source: str, *, stopped: bool) -> Routed:
        """The result of this run."""
        before, after = self.before, self.last
        lanes = {
            topic: [now - then for now, then in zip(records, before.lanes[topic], strict=True)]
            for topic, records in after.lanes.items()
        }
        counts = (after.total - before.total).checked("this run")
        in_lanes = sum(map(sum, lanes.values()))
        if in_lanes != counts.out:
            raise CountError.of("the lanes of this run do not add up", got=in_lanes, allowed=f"{counts.out}")
        return Routed(
            source,
            str(self.target),
            counts,
            after.total,
            lanes,
            after.batch - before.batch,
            stopped,
            str(self.state.path),
            str(replace(self.target, name=self.topics.dead)),
            after.repeated - before.repeated,
        )

    def _begin(self, plan: BatchPlan, digest: str) -> None:
        """Note in the cluster that a batch is begun, and here that it is noted there: a cluster may forget it."""
        first = plan.batch == 0 and plan.exactly_once and not self.options.second_route
        self.progress.begin(plan.batch, digest, first=first)
        if plan.exactly_once and not plan.begun:
            self.state.write_plan(replace(plan, begun=True))

    def _planned(self, batch: int, messages: Messages, offsets: str) -> BatchPlan:
        """A new plan, by the lanes as they are now; forced to the disk before anything of the batch is sent."""
        from keylane.spark.messages import decided, refuse_lacking
        from keylane.spark.poison import newly_parked, refuse_any

        topics, now = self.topics, time.time()
        lanes = topics.for_new_batch(self.run.say)
        limits = topics.limits(lanes, now)
        if messages.topic and not self.last.total.in_:
            refuse_lacking(decided(messages.frame, self.router), fields_of(self.router.contract), "keylane_value")
        parked: tuple[Parked, ...] = ()
        if topics.on_poison == "stop":
            refuse_any(self._decided(messages.frame, messages, limits), batch)
        elif topics.on_poison == "dlq-and-park-key":
            parked = newly_parked(self._decided(messages.frame, messages, limits), self.parked)
        plan = BatchPlan(batch, lanes, topics.writers, now, parked, topics.exactly_once, topics.dead, offsets)
        plan = replace(plan, taken=messages.after.get("taken", ()), limits=limits)
        self.state.write_plan(plan)
        return plan

    def _finish(self, done: BatchDone, plan: BatchPlan, began: float) -> None:
        if plan.parked:
            # Every key once, also when a batch is finished twice: from here on it is parked from its first record.
            self.parked = with_parked(self.parked, plan.parked)
            self.state.write_parked(self.parked)
            self.run.probe("parked", plan.batch)
            done = replace(done, parked=parked_digest(self.parked))
        self.state.write_done(done)
        size, self.last = done.taken_bytes - self.last.taken_bytes, done
        self.run.probe("done", plan.batch)
        seconds = time.monotonic() - began
        report = BatchReport(plan.batch, done.counts, seconds, size, done.taken_files, done.taken_bytes, None)
        self.run.progress(report)
        report_dead(report, done.total, self.run.say)

    def _written(self, plan: BatchPlan, messages: Messages) -> dict[int, SlotWritten]:
        """The job. The records written are compared with the records that Spark read out of a topic.

        Those of files were counted without Spark, and are compared when the batch is done.
        """
        from keylane.spark.kafka_writer import write
        from keylane.spark.messages import to_writers

        rows = self._slotted(messages.frame, plan, messages)
        written, read = write(to_writers(rows, plan.writers), self._division(plan, messages.topic))
        # A zombie finds later batches too, and its result goes nowhere; for a living driver its own state is too old.
        if beyond := max((one.beyond for one in written.values()), default=0):
            raise newer_than_state(plan.batch, beyond)
        in_lanes = sum(one.records for one in written.values())
        # A stage that Spark ran twice counts twice: then they are counted again.
        if messages.topic and read != in_lanes and (read := messages.frame.count()) != in_lanes:
            got = f"{read} read, {in_lanes} in lanes or dead letters"
            raise CountError.of("the records of a batch do not add up", got=got, allowed="equal")
        return written

    def _decided(self, frame: DataFrame, messages: Messages, limits: Mapping[str, RecordLimits]) -> DataFrame:
        """The messages with their lane, or the reason why they have none or cannot be written to it."""
        from keylane.spark.messages import decided, keyed_by_routing_key

        routed = decided(frame, self.router)
        return self._unfit(routed if messages.keyed else keyed_by_routing_key(routed), limits, messages)

    def _unfit(self, routed: DataFrame, limits: Mapping[str, RecordLimits], messages: Messages) -> DataFrame:
        """A reason for what the topics do not take."""
        from keylane.spark.writable import unwritable

        by_stream = {stream: limits[topic] for stream, topic in self.topics.streams.items() if topic in limits}
        return unwritable(routed, by_stream, messages.topic)

    def _slotted(self, frame: DataFrame, plan: BatchPlan, messages: Messages) -> DataFrame:
        from keylane.spark.messages import WRITER_COLUMNS, about_dead_letters, slotted, unspelled
        from keylane.spark.poison import parked_away
        from keylane.spark.writable import with_letters

        routed = self._decided(frame, messages, plan.limits)
        # A key that this very batch parks is parked from the position of its plan, also when noted before a kill.
        parked = {(key.kind, key.key): key for key in [*self.parked, *plan.parked]}
        routed = parked_away(routed, list(parked.values()))
        lanes = [(stream, plan.topics[topic]) for stream, topic in self.topics.streams.items()]
        shape = tuple(routed.columns)
        if shape not in self.about:
            self.about = {shape: about_dead_letters(self.router.contract, self.source.where(), routed)}
        slots = slotted(routed, lanes, plan.topics.get(plan.dead, 1))
        rows = unspelled(slots) if messages.topic else slots
        return with_letters(rows, WRITER_COLUMNS, self.about[shape], plan.limits.get(plan.dead), messages.topic)

    def _division(self, plan: BatchPlan, came_from: str) -> Division:
        """The settings of the writers. A probe of tests may hold them at their steps."""
        from keylane.spark.kafka_writer import Division

        contract, access = self.router.contract, self.cluster.access
        headers = [(CONTRACT, abbreviated(contract.fingerprint).encode()), (EPOCH, b"%d" % contract.metadata.epoch)]
        if not plan.exactly_once:
            # The attempt has to be known after a kill too, so it is recorded first.
            attempt = (self.state.plan(plan.batch) or plan).attempt + 1
            self.state.write_plan(replace(plan, attempt=attempt))
            headers += [(ATTEMPT, b"%d" % attempt)] if attempt > 1 else []
        return Division(
            access.java_producer(),
            access.java_client(),
            self.state.head.route,
            plan.batch,
            tuple(plan.topics.items()),
            plan.writers,
            tuple(headers),
            came_from,
            plan.exactly_once,
            getattr(self.run.probe, "held", ""),
            offsets_digest(plan.offsets),
            min((one.largest for one in plan.limits.values()), default=0),
        )

    def _done(self, plan: BatchPlan, messages: Messages, written: dict[int, SlotWritten]) -> BatchDone:
        lanes, dead = {topic: list(records) for topic, records in self.last.lanes.items()}, 0
        slots = [(topic, lane) for topic, lanes in plan.topics.items() for lane in range(lanes)]
        for slot, one in written.items():
            topic, lane = slots[slot]
            if topic == plan.dead:
                dead += one.records
            else:
                lanes[topic][lane] += one.records
        total = sum(one.records for one in written.values())
        into = messages.records if messages.records is not None else total + messages.filtered
        counts = Counts(into, total - dead, dead, messages.filtered).checked(f"batch {plan.batch}")
        after: dict[str, Any] = {"batch": plan.batch, "counts": counts, "total": self.last.total + counts}
        after |= {"query": query_id(self.checkpoint), "lanes": lanes, "offsets": plan.offsets, **messages.after}
        return replace(self.last, repeated=self.last.repeated + sum(one.repeated for one in written.values()), **after)

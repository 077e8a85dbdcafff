"""Topics as the target of a route: what is agreed before it begins, what the cluster remembers of a batch, the job.

What a batch is: `messages.target`. Why one that is run again changes nothing: `spark.kafka_writer` for the records,
`messages.state` for everything else. Lane counts and topics: `topics`.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from keylane.contract.fingerprint import abbreviated
from keylane.errors import CountError
from keylane.router import Router
from keylane.systems.checkpoint import offsets_digest
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.progress import (
    TargetProgress,
    check_first,
    check_no_later,
    check_not_routed,
    newer_than_state,
)
from keylane.systems.kafka.topics import (
    Topics,
    agreed_ids,
    agreed_lanes,
    check_memory_of,
    check_other_stream,
    check_tombstones,
)
from keylane.systems.messages.headers import ATTEMPT, CONTRACT, EPOCH, dead_topic
from keylane.systems.messages.state import open_state
from keylane.systems.messages.target import MessageTarget, begun_route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.records import RecordLimits
    from keylane.spark.context import RunContext
    from keylane.spark.kafka_writer import Division, SlotWritten
    from keylane.spark.messages import Messages
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.flow import Followed, Origin
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import KafkaCluster
    from keylane.systems.messages.state import BatchPlan, RouteHead
    from keylane.systems.messages.target import BegunRoute

#: Writers for each core: one that waits for its commit leaves the core to another.
WRITERS_A_CORE: Final = 2
#: A batch of a topic is divided by lane where its partitions are so many times as many as such writers, and have fewer
#: records each than this: by partition each of them would open a transaction for its few.
MANY_PARTITIONS, FEW_RECORDS = 4, 1_000


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
        ours, change = agreed.same and not agreed.absent, agreed.before.followed
        state = held.enter_context(open_state(path, head, change)) if ours else None
        yield KafkaTarget(
            *(agreed.router, agreed.origin, target, options, path, head, agreed.absent, run, held, state, cluster),
            followed=change,
            to_finish=agreed.before.to_finish,
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
    before: BegunRoute


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
    before = begun_route(contract, origin, target, options, say)
    if not before.origin.kind:
        check_tombstones(cluster, contract, target)
    if before.to_finish is not None:
        # What is left of a batch goes to the lanes that it was planned for, however many there are by now.
        options = replace(options, on_growth="keep")
    known = before.head if before.head is None or before.followed is None else replace(before.head, topics={})
    counts, absent = agreed_lanes(cluster, contract, target, options, lanes, known)
    ids = agreed_ids(cluster, target, options, counts, absent, before.head, say)
    check_other_stream(before.origin, ids)
    router = Router(contract, lanes=counts[target.name] if contract.spec.lanes == "live" else None, stream=stream)
    grown = target.name not in absent and counts[target.name] < cluster.lanes([target.name])[target.name]
    if grown and before.to_finish is None:
        check_no_later(cluster, target.name, contract)
    head, same = before.now(contract, target, options, counts, ids)
    if before.head is None and target.name not in absent and not options.second_route:
        check_first(cluster, head, str(before.path))
        check_not_routed(cluster, target.name, before.origin)
    return Agreed(router, before.origin, before.path, head, absent, same, before)


@dataclass
class KafkaTarget(MessageTarget):
    """Topics of a cluster."""

    cluster: KafkaCluster
    some_writers: int = field(default=0, init=False)

    def begin(self, spark: SparkSession, source: Followed) -> None:
        """Create what is missing, refuse a state that is not as new as its records, and take the source.

        The number of writers is as given; otherwise some for files, and for a topic as each batch has it: `_writers`.
        """
        if self.absent:
            for topic, lanes in self.absent.items():
                self.cluster.create(topic, lanes)
            ids = agreed_ids(self.cluster, self.target, self.options, self.head.topics, {}, self.head, self.run.say)
            self.head = replace(self.head, topic_ids=ids)
        if self.options.delivery == "exactly-once":
            check_memory_of(self.cluster, self.options.try_seconds)
        self._open()
        options, head = self.options, self.state.head
        self.progress = TargetProgress(self.cluster, head, str(self.path), options.try_seconds)
        self.progress.check(self.last, self.state.plan(self.last.batch + 1), self.state.taken(), self.run.say)
        self.some_writers = WRITERS_A_CORE * spark.sparkContext.defaultParallelism
        self.topics = Topics(
            self.cluster,
            {self.router.stream: self.target.name, **{tier: tier for tier in self.router.contract.tiers}},
            options.dead_letters or dead_topic(self.target.name),
            head.topics,
            head.topic_ids,
            self.router.contract.spec.lanes,
            options.writers or (self.some_writers if head.kind else 0),
            options.delivery == "exactly-once",
            options.on_growth,
            options.on_poison,
            options.try_seconds,
        )
        self.source = source

    def _writers(self, messages: Messages, offsets: str) -> int:
        """As given; otherwise a topic is divided by its own partitions, but where many of them have little by lane."""
        if self.topics.writers or not messages.topic or not self.last.offsets:
            return self.topics.writers
        before, after = (json.loads(text)[messages.topic] for text in (self.last.offsets, offsets))
        records = sum(end - before.get(part, 0) for part, end in after.items())
        are_many = len(after) > MANY_PARTITIONS * self.some_writers
        return self.some_writers if are_many and records < FEW_RECORDS * len(after) else 0

    def _note_begun(self, plan: BatchPlan, digest: str) -> None:
        """Note in the cluster that a batch is begun, and here that it is noted there: a cluster may forget it."""
        first = plan.batch == 0 and plan.exactly_once and not self.options.second_route
        self.progress.begin(plan.batch, digest, first=first)
        if plan.exactly_once and not plan.begun:
            self.state.write_plan(replace(plan, begun=True))

    def _written(self, plan: BatchPlan, messages: Messages) -> dict[int, SlotWritten]:
        """The job. The records written are compared with the records that Spark read out of a topic.

        Those of files were counted without Spark, and are compared when the batch is done.
        """
        from keylane.spark.kafka_writer import write
        from keylane.spark.messages import to_writers

        rows = self._slotted(messages.frame, plan, messages)
        readers = self.some_writers if messages.topic else 0
        written, read = write(to_writers(rows, plan.writers, readers), self._division(plan, messages.topic))
        # A zombie finds later batches too, and its result goes nowhere; for a living driver its own state is too old.
        if beyond := max((one.beyond for one in written.values()), default=0):
            raise newer_than_state(plan.batch, beyond)
        in_lanes = sum(one.records for one in written.values())
        # A stage that Spark ran twice counts twice: then they are counted again.
        if messages.topic and read != in_lanes and (read := messages.frame.count()) != in_lanes:
            got = f"{read} read, {in_lanes} in lanes or dead letters"
            raise CountError.of("the records of a batch do not add up", got=got, allowed="equal")
        return written

    def _unfit(self, routed: DataFrame, limits: Mapping[str, RecordLimits], messages: Messages) -> DataFrame:
        """A reason for what the topics do not take."""
        from keylane.spark.writable import unwritable

        by_stream = {stream: limits[topic] for stream, topic in self.topics.streams.items() if topic in limits}
        return unwritable(routed, by_stream, messages.topic)

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

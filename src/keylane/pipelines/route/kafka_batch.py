"""One batch of a route into Kafka: a plan that is written down, a job of writers, and what it came to.

Called by `run` through `spark.streaming.Gate`. Why a batch that is run again changes nothing: `kafka_writer` for the
records, `systems.kafka.state` for everything else. Records without a lane: `poison`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PythonException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import Observation
from pyspark.sql import functions as F

from keylane.contract.fingerprint import abbreviated
from keylane.errors import BrokerError, CountError, KeylaneError
from keylane.pipelines.context import translated
from keylane.pipelines.route.files import Done as Told
from keylane.pipelines.route.files import query_id
from keylane.pipelines.route.kafka_writer import PERMANENT, WRITE_ERROR, Division, write
from keylane.pipelines.route.poison import newly_parked, parked_away, refuse_any
from keylane.spark.messages import dead_headers, decided, slotted, to_writers
from keylane.spark.session import active_session_kept
from keylane.spark.write_lanes import MESSAGE_LENGTH, explained
from keylane.systems.folders.folder import Counts
from keylane.systems.kafka.headers import ATTEMPT, CONTRACT, EPOCH
from keylane.systems.kafka.state import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from keylane.pipelines.route.options import Running
    from keylane.pipelines.route.sources import Messages, Source
    from keylane.pipelines.route.topics import Topics
    from keylane.router import Router
    from keylane.systems.kafka.state import Done, Parked, RouteState

__all__ = ["KafkaBatches", "tried"]


# A step that is tried again while its error may pass: a broker that is away, a worker that died, a fence.

T = TypeVar("T")
#: Between two tries; each pause is twice the last, up to the second number.
PAUSE_SECONDS: Final = (0.25, 8.0)


def tried(step: Callable[[], T], batch: int, seconds: float, running: Running) -> T:
    """What the step returns; its error, in keylane's words, when it would come again or time is up."""
    until, pause = time.monotonic() + seconds, PAUSE_SECONDS[0]
    while True:
        try:
            return step()
        except (KeylaneError, AnalysisException):
            raise
        except Exception as error:
            said = told_by_writer(str(error))
            told = said or translated(error, batch)
            stopping = running.stop_asked is not None and running.stop_asked.is_set()
            if not _passes(error, said) or stopping or time.monotonic() + pause > until:
                raise told from error
            running.say(f"batch {batch} is tried again: {told}")
        running.probe("again", batch)
        time.sleep(pause)
        pause = min(pause * 2, PAUSE_SECONDS[1])


def _passes(error: Exception, said: BrokerError | None) -> bool:
    """Whether another try may do better: after what a writer said of its broker, or when a job broke from outside.

    What Python raised in a worker for another reason comes again, and so does what never became a job.
    """
    if said is not None:
        return PERMANENT not in str(error)
    return isinstance(error, Py4JJavaError | CapturedException) and not isinstance(error, PythonException)


def told_by_writer(text: str) -> BrokerError | None:
    """What a writer said, out of the text that Spark makes of it."""
    for line in text.splitlines():
        _, sign, words = line.partition(WRITE_ERROR)
        if sign:
            return BrokerError(words.removeprefix(PERMANENT))
    return None


#: Records of a slot, and how many of them were in the topic before.
Written = dict[int, tuple[int, int]]


@dataclass(slots=True)
class KafkaBatches:
    """The body of the query: what it works with, and where it stands."""

    router: Router
    source: Source
    topics: Topics
    state: RouteState
    last: Done
    running: Running
    parked: list[Parked] = field(default_factory=list)
    about: dict[str, Column] = field(default_factory=dict)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make one batch happen, unless it has: this very one, by the offsets that Spark wrote down for it."""
        offsets = self.state.offsets(batch)
        if batch <= self.last.batch:
            self.state.check_same(batch, offsets)
            return
        with active_session_kept():
            self._make(frame, batch, offsets)

    def _make(self, frame: DataFrame, batch: int, offsets: str) -> None:
        began = time.monotonic()
        messages = self.source.messages(frame, self.last)
        plan = self.state.plan(batch)
        if plan is None:
            plan = self._planned(batch, messages, offsets)
        else:
            self.state.check_same(batch, offsets)
            self.topics.check_memory(plan)
        self.running.probe("planned", batch)
        found = tried(lambda: self._written(plan, messages), batch, self.topics.try_seconds, self.running)
        self.running.probe("written", batch)
        self._finish(self._done(plan, messages, found), plan, began)

    def _planned(self, batch: int, messages: Messages, offsets: str) -> Plan:
        """A new plan, by the lanes as they are now; forced to the disk before anything of the batch is sent."""
        lanes = self.topics.for_new_batch(self.running.say)
        parked: tuple[Parked, ...] = ()
        if self.topics.on_poison == "stop":
            refuse_any(decided(messages.frame, self.router), batch)
        elif self.topics.on_poison == "dlq-and-park-key":
            parked = newly_parked(decided(messages.frame, self.router), self.parked)
        topics = self.topics
        plan = Plan(batch, lanes, topics.writers, time.time(), parked, topics.exactly_once, topics.dead, offsets)
        self.state.write_plan(plan)
        return plan

    def _finish(self, done: Done, plan: Plan, began: float) -> None:
        if plan.parked:
            # Every key once, also when a batch is finished twice: from here on it is parked from its first record.
            known = {(one.kind, one.key): one for one in self.parked}
            known |= {(one.kind, one.key): replace(one, part=-1, place=-1) for one in plan.parked}
            self.parked = list(known.values())
            self.state.write_parked(self.parked)
            self.running.probe("parked", plan.batch)
        self.state.write_done(done)
        weight, self.last = done.taken_bytes - self.last.taken_bytes, done
        self.running.probe("done", plan.batch)
        seconds = time.monotonic() - began
        self.running.tell(Told(plan.batch, done.counts, seconds, weight, done.taken_files, done.taken_bytes, None))

    def _written(self, plan: Plan, messages: Messages) -> Written:
        """The job. What it has written is held against what it has read, counted before they were divided."""
        division = self._division(plan, messages.topic)
        seen = Observation()
        counted = messages.frame.observe(seen, F.count(F.lit(1)).alias("records"))
        rows = self._slotted(counted, plan, keyed=messages.keyed)
        written = write(to_writers(rows, plan.writers, spelled=not messages.topic), division)
        _check_all(int(seen.get["records"]), sum(records for records, _ in written.values()), messages)
        return written

    def _slotted(self, frame: DataFrame, plan: Plan, *, keyed: bool) -> DataFrame:
        routed = decided(frame, self.router)
        if not keyed:
            routed = routed.withColumn("keylane_key", F.col("routing_key"))
        # A key that this very batch parks is parked from the place its plan says, also when it was noted before a kill.
        parked = {(one.kind, one.key): one for one in [*self.parked, *plan.parked]}
        routed = parked_away(routed, list(parked.values()))
        lanes = [(stream, plan.topics[topic]) for stream, topic in self.topics.streams.items()]
        self.about = self.about or self._about()
        return dead_headers(slotted(routed, lanes, plan.topics.get(plan.dead, 1)), self.about)

    def _about(self) -> dict[str, Column]:
        """What a dead letter says of itself: the same columns for every batch, and slow to spell out in Python."""
        contract = self.router.contract
        whole = F.left(F.make_valid_utf8(F.col("keylane_value").cast("string")), F.lit(MESSAGE_LENGTH))
        why = {"reason": F.col("reason"), "message": explained(contract.spec.key.fields, whole)}
        told = {"contract": contract.metadata.name, "fingerprint": contract.fingerprint}
        told["epoch"] = str(contract.metadata.epoch)
        return {**why, **self.source.where(), **{name: F.lit(text) for name, text in told.items()}}

    def _division(self, plan: Plan, came_from: str) -> Division:
        """What the writers are told. A probe of tests may hold them at their steps."""
        contract, head = self.router.contract, self.state.head
        epoch = str(contract.metadata.epoch).encode()
        headers = [(CONTRACT, abbreviated(contract.fingerprint).encode()), (EPOCH, epoch)]
        if not plan.exactly_once:
            headers += self._attempt(plan)
        topics, held = tuple(plan.topics.items()), getattr(self.running.probe, "held", "")
        return Division(
            self.topics.access,
            head.route,
            plan.batch,
            topics,
            plan.writers,
            tuple(headers),
            came_from,
            plan.exactly_once,
            held,
        )

    def _attempt(self, plan: Plan) -> list[tuple[str, bytes]]:
        """Which try this is has to be known after a kill too, so it is written down first."""
        attempt = (self.state.plan(plan.batch) or plan).attempt + 1
        self.state.write_plan(replace(plan, attempt=attempt))
        return [(ATTEMPT, b"%d" % attempt)] if attempt > 1 else []

    def _done(self, plan: Plan, messages: Messages, found: Written) -> Done:
        lanes, dead = {topic: list(records) for topic, records in self.last.lanes.items()}, 0
        slots = [(topic, lane) for topic, lanes in plan.topics.items() for lane in range(lanes)]
        for slot, (records, _) in found.items():
            topic, lane = slots[slot]
            if topic == plan.dead:
                dead += records
            else:
                lanes[topic][lane] += records
        written = sum(records for records, _ in found.values())
        into = messages.records if messages.records is not None else written + messages.filtered
        counts = Counts(into, written - dead, dead, messages.filtered).checked(f"batch {plan.batch}")
        after: dict[str, Any] = {"batch": plan.batch, "counts": counts, "total": self.last.total + counts}
        after |= {"query": query_id(self.state.checkpoint), "lanes": lanes, "offsets": plan.offsets, **messages.taken}
        return replace(self.last, repeated=self.last.repeated + sum(again for _, again in found.values()), **after)


def _check_all(seen: int, written: int, messages: Messages) -> None:
    """All that was read is in a lane. A stage that Spark ran twice counts twice: then they are counted anew."""
    if seen != written and messages.frame.count() != written:
        got = f"{seen} read, {written} in lanes or dead letters"
        raise CountError.of("the records of a batch do not add up", got=got, allowed="as many as were read")

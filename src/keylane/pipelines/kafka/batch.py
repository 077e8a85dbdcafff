"""One batch of a route into Kafka: a plan that is written down, a job of writers, and what it came to.

Called by `kafka` through `spark.stopping.Gate`. Why a batch that is run again changes nothing: `systems.kafka_writer`
for the records, `systems.kafka_state` for everything else.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Observation
from pyspark.sql import functions as F

from keylane.errors import BrokerError, CountError, KeylaneError, LaneCountError
from keylane.pipelines.batch import Done as Told
from keylane.pipelines.batch import query_id, translated
from keylane.spark.messages import dead_headers, decided, slotted, to_writers
from keylane.spark.writing import MESSAGE_LENGTH, explained
from keylane.systems.kafka_state import Plan
from keylane.systems.kafka_writer import PERMANENT, WRITTEN, Division, write
from keylane.systems.manifest import Counts

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from keylane.pipelines.kafka_sources import Messages, Source
    from keylane.router import Router
    from keylane.systems.folders import Probe
    from keylane.systems.kafka_access import KafkaAccess
    from keylane.systems.kafka_cluster import Cluster
    from keylane.systems.kafka_state import Done, RouteState

__all__ = ["KafkaBatches", "Sink"]

#: Between two tries of a batch; the next one waits twice as long, up to the second number.
PAUSE_SECONDS: Final = (0.25, 8.0)


@dataclass(frozen=True, slots=True)
class Sink:
    """Where the records go: the topic of each stream, the topic of the dead letters, and how."""

    access: KafkaAccess
    streams: dict[str, str]
    dead: str
    writers: int
    exactly_once: bool = True
    on_growth: str = "stop"
    try_seconds: float = 600.0


@dataclass(slots=True)
class KafkaBatches:
    """The body of the query: what it works with, and where it stands."""

    router: Router
    source: Source
    sink: Sink
    state: RouteState
    cluster: Cluster
    last: Done
    probe: Probe
    tell: Callable[[Told], None]
    stop_asked: threading.Event | None = None
    warnings: list[str] = field(default_factory=list)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make one batch happen, unless it has."""
        if batch <= self.last.batch:
            return
        began = time.monotonic()
        plan = self._plan(batch)
        self.probe("planned", batch)
        messages = self.source.messages(frame, self.last)
        counted = self._tried(plan, messages)
        self.probe("written", batch)
        done = self._done(plan, messages, counted)
        self.state.write_done(done)
        weight, self.last = done.taken_bytes - self.last.taken_bytes, done
        self.probe("done", batch)
        seconds = time.monotonic() - began
        self.tell(Told(batch, done.counts, seconds, weight, done.taken_files, done.taken_bytes))

    def _plan(self, batch: int) -> Plan:
        """The plan that the batch has, or a new one by the lanes as they are now."""
        found = self.state.plan(batch)
        if found is not None:
            self._check_memory(found)
            return found
        plan = Plan(batch, self._lanes(), self.sink.writers, time.time())
        self.state.write_plan(plan)
        return plan

    def _lanes(self) -> dict[str, int]:
        """Lane counts for a new batch: those the route began with, held against the topics as they are now."""
        began, now = self.state.head.topics, self.cluster.lanes(list(self.state.head.topics))
        for topic, lanes in now.items():
            if lanes == 0:
                raise BrokerError.of(f"the topic {topic} is gone from {self.sink.access.brokers}")
            grown = lanes > began[topic] and (topic == self.sink.dead or self.sink.on_growth == "keep")
            if lanes != began[topic] and not grown:
                raise _grown(topic, began[topic], lanes, self.router.contract.spec.lanes)
            if grown and topic != self.sink.dead:
                self._warn(f"{topic} has {lanes} lanes now; the route keeps to its {began[topic]}")
        return dict(began)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _check_memory(self, plan: Plan) -> None:
        """A batch that may be half there needs the numbers that say so, and a cluster forgets them after some days."""
        kept = self.cluster.offsets_kept_seconds()
        if self.sink.exactly_once and kept is not None and time.time() - plan.made > kept * 0.9:
            raise BrokerError.of(
                f"batch {plan.batch} was begun longer ago than the cluster remembers what was committed",
                got=f"begun {(time.time() - plan.made) / 3600:.0f} h ago; offsets.retention.minutes={kept / 60:.0f}",
                hint="look in the target for records of this batch, and begin a new route after them",
            )

    def _tried(self, plan: Plan, messages: Messages) -> dict[int, tuple[int, bool]]:
        """Write the batch, again after an error that passes: what is committed by then is passed over."""
        until, pause = time.monotonic() + self.sink.try_seconds, PAUSE_SECONDS[0]
        while True:
            try:
                return self._written(plan, messages)
            except (KeylaneError, AnalysisException):
                raise
            except Exception as error:
                told = _told(error, plan.batch)
                stopping = self.stop_asked is not None and self.stop_asked.is_set()
                if PERMANENT in str(error) or time.monotonic() + pause > until or stopping:
                    raise told from error
                self._warn(f"tried again: {told}")
            self.probe("again", plan.batch)
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS[1])

    def _written(self, plan: Plan, messages: Messages) -> dict[int, tuple[int, bool]]:
        """The job: records by slot, and whether they were there before."""
        seen = Observation()
        counted = messages.frame.observe(seen, F.count(F.lit(1)).alias("records"))
        division = self._division(plan)
        slots = self._slotted(counted, plan)
        rows = to_writers(slots, plan.writers).mapInArrow(_task(division), WRITTEN).collect()
        found = {row["slot"]: (row["records"], row["repeated"]) for row in rows}
        _check_all(int(seen.get["records"]), sum(records for records, _ in found.values()), messages)
        return found

    def _slotted(self, frame: DataFrame, plan: Plan) -> DataFrame:
        meta, contract = self.router.contract.metadata, self.router.contract
        whole = F.left(F.make_valid_utf8(F.col("keylane_value").cast("string")), F.lit(MESSAGE_LENGTH))
        about = {
            "reason": F.col("reason"),
            "message": explained(contract.spec.key.fields, whole),
            **self.source.where(),
        }
        told = {"contract": meta.name, "fingerprint": contract.fingerprint, "epoch": str(meta.epoch)}
        about |= {name: F.lit(text) for name, text in told.items()}
        streams = [(stream, plan.topics[topic]) for stream, topic in self.sink.streams.items()]
        routed = slotted(decided(frame, self.router), streams, plan.topics[self.sink.dead])
        return dead_headers(routed, about)

    def _division(self, plan: Plan) -> Division:
        contract = self.router.contract
        headers = (
            ("keylane.contract", contract.fingerprint.encode()),
            ("keylane.epoch", str(contract.metadata.epoch).encode()),
        )
        topics = tuple(plan.topics.items())
        return Division(self.sink.access, self.state.head.route, plan.batch, topics, plan.writers, headers, self.probe)

    def _done(self, plan: Plan, messages: Messages, found: dict[int, tuple[int, bool]]) -> Done:
        lanes = {topic: list(records) for topic, records in self.last.lanes.items()}
        slots = [(topic, lane) for topic, count in plan.topics.items() for lane in range(count)]
        dead = 0
        for slot, (records, _) in found.items():
            topic, lane = slots[slot]
            lanes[topic][lane] += records
            dead += records if topic == self.sink.dead else 0
        written = sum(records for records, _ in found.values())
        counts = Counts(written + messages.filtered, written - dead, dead, messages.filtered)
        return replace(
            self.last,
            batch=plan.batch,
            query=query_id(self.state.checkpoint),
            counts=counts.checked(f"batch {plan.batch}"),
            total=self.last.total + counts,
            lanes=lanes,
            repeated=self.last.repeated + sum(records for records, again in found.values() if again),
            **messages.taken,
        )


def _task(division: Division) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    return partial(write, division)


def _check_all(seen: int, written: int, messages: Messages) -> None:
    """Every record that was read is in a lane. A stage that Spark ran twice counts twice: then they are counted anew."""
    if seen != written and messages.frame.count() != written:
        got = f"{seen} read, {written} in lanes or dead letters"
        raise CountError.of("the records of a batch do not add up", got=got, allowed="as many as were read")


def _grown(topic: str, began: int, now: int, promised: Any) -> LaneCountError:
    rule = (
        "the contract asked the cluster when the route began" if promised == "live" else f"the contract says {promised}"
    )
    more = "; or --on-growth keep, to go on with the lanes it began with" if now > began else ""
    return LaneCountError.of(
        f"the lanes of {topic} have changed; nothing of the next batch was written",
        got=f"{now} lanes",
        allowed=f"{began}: {rule}",
        hint=f"plan the change as a new epoch of the contract{more}",
    )


def _told(error: Exception, batch: int) -> Exception:
    """What a writer said, out of the text that Spark makes of it."""
    for line in str(error).splitlines():
        _, sign, words = line.partition("WriteError: ")
        if sign:
            return BrokerError(words.removeprefix(f"{PERMANENT}: "))
    return translated(error, batch)

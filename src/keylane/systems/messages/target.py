"""Streams of messages as the target of a route: a recorded plan, a job of writers, and the result of the batch.

A system adds what it makes of a plan: `_note_begun` before the first record, `_unfit` for what its streams do not take,
and `_written`, the job. Why a batch that is run again changes nothing: `state`, and the writers of each system. Records
without a lane: `spark.poison`. Folders as the target: `folders.target`.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from keylane.contract.fields import fields_of, lacking_text
from keylane.errors import CountError, TargetError, UsageError
from keylane.systems.checkpoint import force_batch, offsets_digest, query_id
from keylane.systems.endpoint import parse_address
from keylane.systems.flow import BatchReport, Origin, Routed, RouteTarget, report_dead
from keylane.systems.folders.folder import Counts
from keylane.systems.identity import agreed_source
from keylane.systems.messages.state import (
    BatchPlan,
    RouteHead,
    check_planned,
    check_state,
    default_state,
    last_planned,
    open_state,
    parked_digest,
    read_begun,
    read_last,
    with_parked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import ExitStack

    from pyspark.sql import Column, DataFrame

    from keylane.contract.model import Contract
    from keylane.records import Parked, RecordLimits
    from keylane.router import Router
    from keylane.spark.context import RunContext
    from keylane.spark.kafka_writer import SlotWritten
    from keylane.spark.messages import Messages
    from keylane.systems.endpoint import Address, ContractChange, OnPoison, StreamOptions
    from keylane.systems.flow import Followed
    from keylane.systems.folders.folder import TakenFile
    from keylane.systems.messages.state import BatchDone, RouteState


def state_of(contract: Contract, target: Address, options: StreamOptions) -> Path:
    """Where the state of a route is: as given, or a folder of the user's."""
    if options.state is not None:
        return Path(options.state).absolute()
    return default_state(contract.metadata.name, str(target), os.environ, Path.cwd())


@dataclass(frozen=True, slots=True)
class BegunRoute:
    """Where the state of a route is, what it began with (None before its first batch), and its source as agreed.

    `followed` is the change of contract that it goes on behind from now on; `to_finish` a batch that was begun before
    that change, and is all that is to be written.
    """

    path: Path
    head: RouteHead | None
    origin: Origin
    followed: ContractChange | None = None
    to_finish: int | None = None

    def now(
        self, contract: Contract, target: Address, options: StreamOptions, counts: dict[str, int], ids: dict[str, str]
    ) -> tuple[RouteHead, bool]:
        """The route as it would begin now, and whether the state is of this very route; that of another is refused."""
        meta, origin = contract.metadata, self.origin
        by = (origin.kind, origin.pattern, options.value or "")
        head = RouteHead(meta.name, meta.epoch, contract.fingerprint, origin.address, str(target), counts, *by)
        head = replace(head, source_id=origin.id or "", topic_ids=ids)
        head = replace(head, csv_null=list(origin.csv_null), delimiter=origin.delimiter)
        known = check_state(self.path, head, self.followed)
        return head, known is not None and not known.differences(head)


def begun_route(
    contract: Contract, origin: Origin, target: Address, options: StreamOptions, say: Callable[[str], None]
) -> BegunRoute:
    """What is there of a route; another source than the one it began with is refused, and so is another contract."""
    change = options.after
    path = state_of(contract, target, options)
    if change is not None and options.state is None and change.old_address and read_begun(path) is None:
        path = state_of(contract, replace(target, name=change.old_stream), options)
    head = read_begun(path)
    before = None if head is None else Origin(head.source, head.kind, head.pattern, head.source_id)
    agreed = agreed_source(origin, before, say)
    if head is None:
        if change is not None:
            what = "there is no route that could go on behind the change: no batch of it is in this state"
            raise UsageError.of(what, got=str(path), hint="--state of the route; or a new route, without --after")
        return BegunRoute(path, None, agreed)
    last, planned = read_last(path, head).batch, last_planned(path)
    if change is not None and contract.fingerprint == change.new and change.new_stream not in {"", target.name}:
        hint = f"--to the stream that has the lanes now: {change.new_stream}"
        raise UsageError.of("the change is of another stream", got=target.name, allowed=change.new_stream, hint=hint)
    followed, to_finish = _followed(contract, head, change, planned if planned > last else None)
    return BegunRoute(path, head, agreed, followed, to_finish)


def _followed(
    contract: Contract, head: RouteHead, change: ContractChange | None, half: int | None
) -> tuple[ContractChange | None, int | None]:
    """The change that a route follows, and the batch that it finishes before; refused where neither fits its state."""
    if change is None:
        if head.contract == contract.metadata.name and head.fingerprint != contract.fingerprint:
            raise _other_version(contract, head)
        return None, None
    given = f"epoch {contract.metadata.epoch} of {contract.metadata.name}"
    if contract.fingerprint == head.fingerprint and contract.fingerprint == change.new:
        return None, None
    if head.fingerprint != change.old or contract.fingerprint not in {change.old, change.new}:
        raise TargetError.of(
            f"{change.plan} is not the change between the contract of the route and the given one",
            got=f"the route is at epoch {head.epoch}, {head.fingerprint[:12]}; {given}, {contract.fingerprint[:12]}",
            allowed=f"{change.old[:12]}, then {change.new[:12]}",
            hint="--after takes the saved plan that was carried out; of several all, in their order",
        )
    old = change.old_file or "the former contract"
    if contract.fingerprint == change.old:
        if half is None:
            hint = "give the new contract; or leave out --after, where the change is not carried out"
            raise UsageError.of("no batch is left to finish under the former contract", got=given, hint=hint)
        return None, half
    if change.unfinished:
        hint = "keylane migrate run carries it out; until then route by the former contract, without --after"
        raise TargetError.of(f"the change is not carried out: {change.unfinished}", got=change.plan, hint=hint)
    if half is not None:
        raise TargetError.of(
            f"batch {half} of the route was begun before the change and is not finished: a part of it may be written",
            got=f"epoch {head.epoch} of {head.contract}",
            hint=f"keylane route {old} with the same options and --after {change.plan} finishes that batch and ends",
        )
    return change, None


def _other_version(contract: Contract, head: RouteHead) -> TargetError:
    now = contract.metadata.epoch
    if now < head.epoch:
        what = "the route has gone on under a later epoch of this contract"
        hint = "give that version of the contract: a former one would put keys back into their former lanes"
    else:
        what = "the route was begun under another version of this contract"
        hint = (
            "--after PLAN, the saved plan, goes on behind a change that `keylane migrate run` or `keylane apply` has "
            "carried out; otherwise give the contract as it was. Another --state would write every record again"
        )
    got = f"epoch {now}, {contract.fingerprint[:12]}"
    return TargetError.of(what, got=got, allowed=f"epoch {head.epoch}, {head.fingerprint[:12]}", hint=hint)


def refuse_routed(places: Iterable[str | None], where: str, source: Origin) -> None:
    """Refuse a new state where a record of the target, which stands somewhere, came from the same source.

    By the records, because a cluster forgets which routes there were, and a mirror copies what another route wrote.
    """
    for place in places:
        if _is_of(place, source):
            raise TargetError.of(
                "the target has records of this source already; a new state would write every record again",
                got=f"{place}, {where}",
                allowed="a target without records of the source, or the state of the route that wrote them",
                hint="--state of that route continues with it, and --after PLAN behind a change that keylane has "
                "carried out; without that state: --start OFFSETS behind these records, with --second-route",
            )


def _is_of(place: str | None, source: Origin) -> bool:
    """Whether a position, `topic/partition/offset` or `file/row`, is one in this source."""
    name = (place or "").rpartition("/")[0]
    address = parse_address(source.address)
    if not address.is_path:
        return name.rpartition("/")[0] == address.name
    path = Path(address.name)
    return bool(name) and (path.name == name if path.is_file() else (path / name).is_file())


class TargetStreams(Protocol):
    """Where a route's records go: the stream of each name in the contract, and that of the dead letters."""

    @property
    def streams(self) -> dict[str, str]:
        """What the contract calls a stream -> its name in the system."""

    @property
    def dead(self) -> str:
        """The stream of the dead letters."""

    @property
    def on_poison(self) -> OnPoison:
        """What becomes of records without a lane."""

    @property
    def writers(self) -> int:
        """How many there are; 0: one for each lane of the source."""

    @property
    def exactly_once(self) -> bool:
        """Whether a batch that is written again shows no second time."""

    @property
    def try_seconds(self) -> float:
        """How long a batch is tried."""

    def for_new_batch(self, say: Callable[[str], None]) -> dict[str, int]:
        """The lanes of each stream for a new batch, dead letters last; refused where they are not what they were."""

    def limits(self, names: Iterable[str], now: float) -> dict[str, RecordLimits]:
        """What each stream takes of a record at this time."""

    def check_same(self) -> None:
        """Refuse to go on when a stream was recreated."""

    def check_plan(self, plan: BatchPlan) -> None:
        """Refuse to write a batch again to streams that do not take any more what its plan says."""

    def check_memory(self, plan: BatchPlan) -> None:
        """Refuse a batch that may be half written, where the system has forgotten which half."""


@dataclass
class MessageTarget(RouteTarget):
    """What this run began with, the last batch that is done, and the keys that are parked.

    `absent` are streams that `begin` makes, `known` is a state that is locked already. `followed` and `to_finish` are
    those of the route as it was begun.
    """

    router: Router
    origin: Origin
    target: Address
    options: StreamOptions
    path: Path
    head: RouteHead
    absent: dict[str, int]
    run: RunContext
    held: ExitStack
    known: RouteState | None
    followed: ContractChange | None = field(default=None, kw_only=True)
    to_finish: int | None = field(default=None, kw_only=True)
    about: dict[tuple[str, ...], dict[str, Column]] = field(default_factory=dict, init=False)
    topics: TargetStreams = field(init=False)
    source: Followed = field(init=False)

    def taken(self) -> Iterator[TakenFile]:
        """The source files of the batches that are kept, oldest first."""
        return self.state.taken()

    def _open(self) -> None:
        """Lock the state, refuse one that is not whole, and take up where it stands."""
        self.state = self.known or self.held.enter_context(open_state(self.path, self.head, self.followed))
        self.lock, self.checkpoint = self.state.lock, self.state.checkpoint
        self.state.check_whole()
        self.last = self.before = self.state.last()
        self.parked = self.state.parked()

    def _note_begun(self, plan: BatchPlan, digest: str) -> None:
        """Let the system remember that a batch is begun, by the digest of its offsets."""
        raise NotImplementedError

    def _unfit(self, routed: DataFrame, limits: Mapping[str, RecordLimits], messages: Messages) -> DataFrame:
        """A reason for what the streams do not take."""
        raise NotImplementedError

    def _written(self, plan: BatchPlan, messages: Messages) -> dict[int, SlotWritten]:
        """The job: what was written to each slot, which is a lane of the plan's streams."""
        raise NotImplementedError

    def _writers(self, messages: Messages, offsets: str) -> int:  # noqa: ARG002  the same for every batch
        """How many a new batch gets; 0: one for each lane of the source."""
        return self.topics.writers

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
            self._note_begun(plan, offsets_digest(offsets))
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

    def _planned(self, batch: int, messages: Messages, offsets: str) -> BatchPlan:
        """A new plan, by the lanes as they are now; forced to the disk before anything of the batch is sent."""
        from keylane.spark.messages import decided, refuse_lacking
        from keylane.spark.poison import newly_parked, refuse_any

        if self.to_finish is not None:
            raise TargetError.of(
                f"batch {self.to_finish} is finished under the former contract; nothing else was written",
                hint="its records stand behind the change in their former lanes: let every reader group read to the "
                "ends of the lanes, then route by the new contract, with the same --after",
            )
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
        writers = self._writers(messages, offsets)
        plan = BatchPlan(batch, lanes, writers, now, parked, topics.exactly_once, topics.dead, offsets)
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

    def _decided(self, frame: DataFrame, messages: Messages, limits: Mapping[str, RecordLimits]) -> DataFrame:
        """The messages with their lane, or the reason why they have none or cannot be written to it."""
        from keylane.spark.messages import decided, keyed_by_routing_key

        routed = decided(frame, self.router)
        return self._unfit(routed if messages.keyed else keyed_by_routing_key(routed), limits, messages)

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

"""How far a route has come, kept in the cluster beside its records: what an older copy of its state is found out by.

    group keylane-ROUTE-at     the batch that was begun last, as an offset, with a digest of its offsets
    group keylane-of-DIGEST    the routes of one source and target, with the folders of their states

Both are written after the plan of a batch and before its first record, under both kinds of delivery, as offsets of
groups that nobody joins. The numbers of the writers, which are in the same transaction as the records, are others:
`spark.kafka_writer`. A cluster forgets all of them after `offsets.retention.minutes` without a commit. Then the newest
records of the target itself are asked, which name their source (`newest_records`).
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from keylane.errors import BrokerError, TargetError
from keylane.systems.checkpoint import offsets_digest
from keylane.systems.endpoint import parse_address
from keylane.systems.kafka.cluster import explained
from keylane.systems.messages.headers import EPOCH, SOURCE, texts_of
from keylane.systems.messages.target import refuse_routed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from keylane.contract.model import Contract
    from keylane.spark.context import Say
    from keylane.systems.flow import Origin
    from keylane.systems.folders.folder import TakenFile
    from keylane.systems.kafka.cluster import KafkaCluster
    from keylane.systems.messages.state import BatchDone, BatchPlan, RouteHead

#: A cluster keeps 4096 bytes beside an offset, and refuses more.
_MOST_BYTES: Final = 4000
_MOST_ROUTES: Final = 10
_MOST_PATH: Final = 200
#: An epoch in a header, as far as it fits a number.
_NUMBER: Final = re.compile(rb"[0-9]{1,18}")
_SECONDS: Final = 30.0
#: The list of routes is written again this often, because a cluster forgets it.
_REFRESH_SECONDS: Final = 3600.0
_OLDER: Final = (
    "restore the newest copy of the state; or begin behind the records that are there: "
    "--start OFFSETS with another --state and --second-route"
)


@dataclass(frozen=True, slots=True)
class Begun:
    """The batch that a route has begun last, by the cluster."""

    batch: int
    digest: str


@dataclass(frozen=True, slots=True)
class KnownRoute:
    """A route that has begun a batch, and where its state is."""

    route: str
    state: str


@dataclass(slots=True)
class TargetProgress:
    """The progress of one route, in a cluster that is waited for so many seconds."""

    cluster: KafkaCluster
    head: RouteHead
    state: str
    seconds: float = 30.0
    _listed: float = field(default=-_REFRESH_SECONDS)

    @property
    def _topic(self) -> str:
        return next(iter(self.head.topics))

    @property
    def _group(self) -> str:
        return f"keylane-{self.head.route}-at"

    def begun(self) -> Begun | None:
        """The batch that was begun last; None when the cluster knows of none."""
        offset, text = self.cluster.noted(self._group, self._topic, self.seconds)
        return Begun(offset - 1, text) if offset >= 0 else None

    def check(self, last: BatchDone, plan: BatchPlan | None, taken: Iterable[TakenFile], say: Say) -> None:
        """Refuse a state that is not as new as the records in the cluster; `plan` is of the batch after the last.

        `taken` are the source files of the batches that are kept, by which the newest records are known where the
        cluster has forgotten what was begun.
        """
        begun = self.begun()
        if begun is None:
            if plan is not None and plan.begun and plan.exactly_once:
                raise self._forgotten(plan.batch)
            if last.batch >= 0:
                self._check_newest(last, plan, taken, say)
            return
        ends = last.batch if plan is None else plan.batch
        if begun.batch > ends:
            raise _older(f"the state ends at batch {ends}", f"batch {begun.batch}, which the route has begun")
        if begun.batch < last.batch:
            raise TargetError.of(
                "the cluster is older than the state of the route: records that were written may be gone",
                got=f"batch {begun.batch} in the cluster, batch {last.batch} in the state",
                hint="was the cluster restored, or the topic recreated? Look for the records, and start a new route",
            )
        # A plan that was written just before a kill is not known to the cluster yet.
        expected = offsets_digest(plan.offsets if plan is not None and begun.batch == plan.batch else last.offsets)
        if begun.digest != expected:
            raise _older(f"batch {begun.batch} of {expected}", f"{begun.digest}: another copy of the state was used")

    def _check_newest(self, last: BatchDone, plan: BatchPlan | None, taken: Iterable[TakenFile], say: Say) -> None:
        """The same by the records themselves: the last position that each names has to be one that the state knows."""
        say(
            f"the cluster has forgotten that batch {last.batch} was begun (offsets.retention.minutes, or deleted "
            "groups): whether this is the newest copy of the state is compared with the newest records of the target"
        )
        files = {one.name for one in (*taken, *(plan.taken if plan is not None else ()))}
        if self.head.kind and len(files) < last.taken_files:
            return
        ends = _ends(plan.offsets if plan is not None else last.offsets)
        name = parse_address(self.head.source).name
        for topic in self.head.topics:
            for one in newest_records(self.cluster, topic):
                file, _, number = one.sources[-1].rpartition("/") if one.sources else ("", "", "")
                source, _, lane = file.rpartition("/")
                newer = file not in files if self.head.kind else source == name and int(number) >= ends.get(lane, 0)
                if file and newer:
                    raise _older(f"the state ends at batch {last.batch}", f"{one.sources[-1]}, which is in the target")

    def _forgotten(self, batch: int) -> TargetError:
        """Without its numbers, a batch that may be half written would be written again as if nothing were there."""
        return TargetError.of(
            f"the cluster has forgotten how far batch {batch} was written: its groups were deleted, or have expired",
            got=f"no offset of group {self._group}",
            hint="look in the target for records of this batch, by the header keylane.source, and begin behind them: "
            "--start OFFSETS with another --state and --second-route",
        )

    def begin(self, batch: int, digest: str, *, first: bool = False) -> None:
        """Record that a batch is begun, before its first record; a copy of the state that is ahead is refused.

        With `first` it is the first batch of a route that must be alone: another state of the same route, that was
        started at the same time, is refused here.
        """
        begun = self.begun()
        if begun is not None and (begun.batch > batch or (begun.batch == batch and begun.digest != digest)):
            raise _older(f"batch {batch} of {digest}", f"batch {begun.batch} of {begun.digest}, by another copy of it")
        if begun != Begun(batch, digest):
            if first:
                self._list_alone()
            self.cluster.note(self._group, self._topic, batch + 1, digest, self.seconds)
        if time.monotonic() - self._listed >= _REFRESH_SECONDS:
            self._list()

    def _list(self) -> None:
        group = _routes_group(self.head)
        _, text = self.cluster.noted(group, self._topic)
        self.cluster.note(group, self._topic, *self._with_mine(_routes_in(text)), self.seconds)
        self._listed = time.monotonic()

    def _list_alone(self) -> None:
        """The same for a new route, whom nobody may come before between the look and the note."""

        def alone(text: str) -> tuple[int, str]:
            routes = _routes_in(text)
            if self.head.route not in {route.route for route in routes}:
                refuse_second(routes, self.state)
            return self._with_mine(routes)

        self.cluster.note_after(_routes_group(self.head), self._topic, alone, self.seconds)
        self._listed = time.monotonic()

    def _with_mine(self, routes: list[KnownRoute]) -> tuple[int, str]:
        mine = KnownRoute(self.head.route, self.state[-_MOST_PATH:])
        others = [route for route in routes if route.route != mine.route]
        kept = [asdict(route) for route in [*others, mine][-_MOST_ROUTES:]]
        # Beyond ASCII a character takes six bytes or more, so that fewer routes fit.
        while len(json.dumps(kept)) > _MOST_BYTES:
            kept = kept[1:]
        return len(kept), json.dumps(kept)


def _ends(offsets: str) -> dict[str, int]:
    """Where a batch ends in each partition of a topic, by Spark's offsets; nothing of other sources."""
    try:
        (ends,) = json.loads(offsets).values()
        return {str(lane): int(end) for lane, end in ends.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def known_routes(cluster: KafkaCluster, head: RouteHead) -> list[KnownRoute]:
    """The routes of this source and target that have begun a batch."""
    _, text = cluster.noted(_routes_group(head), next(iter(head.topics)))
    return _routes_in(text)


def _routes_in(text: str) -> list[KnownRoute]:
    try:
        return [KnownRoute(str(route["route"]), str(route["state"])) for route in json.loads(text or "[]")]
    except (ValueError, KeyError, TypeError):
        return []


def check_first(cluster: KafkaCluster, head: RouteHead, state: str) -> None:
    """Refuse a new state where another one has written the same records: everything would be there twice."""
    refuse_second([route for route in known_routes(cluster, head) if route.route != head.route], state)


def refuse_second(others: list[KnownRoute], state: str) -> None:
    """Refuse a state beside these; where it is in the place of one of them, that one is gone."""
    if any(route.state == state[-_MOST_PATH:] for route in others):
        raise TargetError.of(
            "the state of this route is gone, and a new one would write every record again",
            got=state,
            hint=f"restore the newest copy; or begin behind the records that are there, by their header {SOURCE}: "
            "--start OFFSETS with --second-route",
        )
    if others:
        raise TargetError.of(
            "another state has routed this source into this target; a new one would write every record again",
            got=state,
            allowed=", ".join(route.state for route in others),
            hint=f"--state {others[-1].state} continues with it; --second-route starts a second route all the same",
        )


def _routes_group(head: RouteHead) -> str:
    """By names, not by brokers: a cluster has many addresses. Under any contract: another epoch writes them again."""
    names = [parse_address(text).name for text in (head.source, head.target)]
    return f"keylane-of-{hashlib.sha256(chr(0).join(names).encode()).hexdigest()[:16]}"


#: How many offsets before the end of a lane are looked at, and lanes in one look.
_LOOK: Final = 100
_LANES: Final = 64


class NewestRecord(NamedTuple):
    """Where a record near the end of a lane stands, the positions in sources that it carries, the last of them last.

    `epoch` is that in its last such header; 0 where it has none that is a number.
    """

    lane: int
    offset: int
    sources: tuple[str, ...]
    epoch: int


def newest_records(cluster: KafkaCluster, topic: str) -> Iterator[NewestRecord]:
    """The records at the ends of the lanes of a topic, as committed: what remains when groups are forgotten."""
    from confluent_kafka import Consumer, TopicPartition

    lanes = cluster.lanes_now(topic)
    ranges = cluster.offset_ranges(topic, lanes, committed=True)
    ends = {lane: one.end for lane, one in enumerate(ranges) if one.end > one.start}
    own = {"group.id": "keylane-newest", "enable.auto.commit": False, "isolation.level": "read_committed"}
    soon = {"enable.partition.eof": True, "fetch.wait.max.ms": 10, "auto.offset.reset": "earliest"}
    left = iter(ends)
    while some := list(islice(left, _LANES)):
        reader = Consumer(cluster.access.librdkafka(**own, **soon))
        try:
            begins = {lane: max(ranges[lane].start, ends[lane] - _LOOK) for lane in some}
            reader.assign([TopicPartition(topic, lane, at) for lane, at in begins.items()])
            waiting = set(some)
            while waiting:
                message = reader.poll(_SECONDS)
                if message is None:
                    raise BrokerError.of(f"no broker answers at {cluster.access.brokers}", got=topic)
                lane, offset = message.partition() or 0, message.offset() or 0
                error = message.error()
                if error is not None and error.name() != "_PARTITION_EOF":
                    raise explained(error, cluster.access.brokers, cluster.listener)
                if error is not None or offset >= ends[lane]:
                    waiting.discard(lane)
                    continue
                headers: Any = message.headers() or ()
                named = [_bytes(value) for name, value in headers if name == SOURCE]
                epoch = dict(headers).get(EPOCH) or b""
                number = int(epoch) if _NUMBER.fullmatch(epoch) else 0
                yield NewestRecord(lane, offset, tuple(texts_of(named).to_pylist()), number)
        finally:
            reader.close()


def check_not_routed(cluster: KafkaCluster, topic: str, source: Origin) -> None:
    """Refuse a new state where the records of the target name the same source: everything would be there twice.

    By the records, because a cluster forgets which routes there were, and a mirror copies what another route wrote.
    """
    for one in newest_records(cluster, topic):
        refuse_routed(one.sources, f"in lane {one.lane} at offset {one.offset}", source)


def check_no_later(cluster: KafkaCluster, topic: str, contract: Contract) -> None:
    """Refuse to leave the new lanes of a topic empty where somebody places records by a later epoch already."""
    epoch = contract.metadata.epoch
    for one in newest_records(cluster, topic):
        if one.epoch > epoch:
            raise TargetError.of(
                f"{topic} has records of a later epoch than the contract's: keys would get back into former lanes",
                got=f"epoch {epoch}",
                allowed=f"epoch {one.epoch}, as of the record in lane {one.lane} at offset {one.offset}",
                hint="route by the contract of that epoch, with --after PLAN, the saved plan of the change",
            )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def newer_than_state(batch: int, number: int) -> TargetError:
    """The error for a batch some lanes of which have a later one already, by the numbers of the writers."""
    return _older(f"batch {batch}", f"batch {number}, the first that the target does not have")


def _older(got: str, allowed: str) -> TargetError:
    what = "the state of the route is older than what it has written: it would lose or repeat records"
    return TargetError.of(what, got=got, allowed=allowed, hint=_OLDER)

"""The topics of a route: which there are, how many lanes each has, and what a change of that means.

A route keeps the lane counts it began with. At the start of each new batch they are compared with the topics as they
are: fewer lanes are an error, more lanes end the route between two batches, or, with `--on-growth keep`, are left
empty. A route never changes its count by itself: that would break the order of keys. A topic that was recreated under
its name is refused by its id: what the route wrote is gone with the first, and which batches are there.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.answers import answers, weakest
from keylane.contract.fields import fields_of
from keylane.errors import BrokerError, LaneCountError, TargetError, UsageError
from keylane.systems.identity import agreed_topic_ids, recreated_topic
from keylane.systems.kafka.limits import check_for_letters, limits_of
from keylane.systems.messages.headers import dead_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from keylane.contract.model import Contract
    from keylane.records import RecordLimits
    from keylane.systems.endpoint import Address, OnGrowth, OnPoison, StreamOptions
    from keylane.systems.flow import Origin
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import KafkaCluster
    from keylane.systems.messages.state import BatchPlan, RouteHead


_NEW_EPOCH: Final = "give the topic its lanes first; or plan the change as a new epoch of the contract"
_GROWN: Final = (
    "where `keylane migrate run` has changed it, route by the new contract with --after PLAN, the saved plan; "
    "otherwise plan the change as a new epoch of the contract"
)


@dataclass(frozen=True, slots=True)
class Topics:
    """Where a route's records go: the topic of each stream, that of the dead letters, and how they are written."""

    cluster: KafkaCluster
    streams: dict[str, str]
    dead: str
    began: Mapping[str, int]
    ids: Mapping[str, str]
    promised: Any
    writers: int
    exactly_once: bool
    on_growth: OnGrowth
    on_poison: OnPoison
    try_seconds: float

    @property
    def access(self) -> KafkaAccess:
        """How the cluster is reached."""
        return self.cluster.access

    def for_new_batch(self, say: Callable[[str], None]) -> dict[str, int]:
        """The lane counts of a new batch: those that the route began with, if the topics still have them.

        Dead letters come last and have the lanes that their topic has now: they keep no order but that of their source.
        """
        now = self.cluster.lanes([*self.began, *self.for_dead])
        for topic, began in self.began.items():
            if now[topic] < began or (now[topic] > began and self.on_growth == "stop"):
                raise _changed(topic, began, now[topic], self.promised)
            if now[topic] > began:
                say(f"{topic} has {now[topic]} lanes now; the route keeps the {began} it began with")
        return {**self.began, **{topic: now[topic] for topic in self.for_dead}}

    def limits(self, topics: Iterable[str], now: float) -> dict[str, RecordLimits]:
        """What each topic takes of a record, by its settings at this time."""
        producer, millis = self.access.java_producer(), int(now * 1000)
        found = {topic: limits_of(self.cluster.topic_settings(topic), producer, millis) for topic in topics}
        for topic in self.for_dead:
            if topic in found:
                check_for_letters(topic, found[topic])
        return found

    def check_plan(self, plan: BatchPlan) -> None:
        """Refuse to write a batch again to topics that are gone, or do not take any more what its plan says."""
        self.check_same()
        for topic, now in self.limits(plan.limits, plan.made).items():
            if now.largest < plan.limits[topic].largest:
                raise TargetError.of(
                    f"max.message.bytes of {topic} was lowered while batch {plan.batch} was written",
                    got=now.largest,
                    allowed=f"{plan.limits[topic].largest}, as when the batch began",
                    hint="raise it again until the batch is written; later batches keep to the lower limit",
                )

    def check_same(self) -> None:
        """Refuse to go on when a topic was recreated, or deleted, under the same name."""
        known = {topic: id_ for topic in (*self.began, *self.for_dead) if (id_ := self.ids.get(topic))}
        now = self.cluster.topic_ids(list(known), self.try_seconds) if known else {}
        for topic, id_ in known.items():
            if now.get(topic) not in {"", id_}:
                raise recreated_topic(topic, id_, now.get(topic, ""))

    @property
    def for_dead(self) -> list[str]:
        """The topic of the dead letters, if there may be any."""
        return [] if self.on_poison == "stop" else [self.dead]

    def check_memory(self, plan: BatchPlan) -> None:
        """A batch that may be half written needs its committed offsets, which a cluster deletes after some days."""
        kept = self.cluster.offsets_kept_seconds() if plan.exactly_once else None
        age = time.time() - plan.made
        if kept is not None and age > kept * 0.9:
            raise BrokerError.of(
                f"batch {plan.batch} is older than the retention of committed offsets",
                got=f"begun {age / 3600:.0f} h ago; offsets.retention.minutes={kept / 60:.0f}",
                hint="look in the target for records of this batch, and start a new route after them",
            )


def check_memory_of(cluster: KafkaCluster, seconds: float) -> None:
    """Refuse a cluster that forgets committed offsets, by which batches are known, while a batch is still tried."""
    kept = cluster.offsets_kept_seconds()
    if kept is not None and kept * 0.9 < seconds:
        raise TargetError.of(
            "the cluster forgets committed offsets sooner than a batch is given up: it could be written twice",
            got=f"offsets.retention.minutes={kept / 60:.0f}",
            allowed=f"{seconds / 0.9 / 60:.0f} minutes or more",
            hint="raise offsets.retention.minutes, or lower --retry-for",
        )


def agreed_lanes(
    cluster: KafkaCluster,
    contract: Contract,
    target: Address,
    options: StreamOptions,
    lanes: int | None,
    known: RouteHead | None,
) -> tuple[dict[str, int], dict[str, int]]:
    """The lane count of each topic of a route: as it began, as in the contract, or as the topic has it.

    Beside them those that are missing and may be made, the one of the dead letters included. Nothing is made here.
    """
    promised = contract.spec.lanes if contract.spec.lanes != "live" else lanes
    wanted: dict[str, int | None] = {target.name: promised, **contract.tiers}
    if known is not None:
        wanted = {topic: known.topics.get(topic, many) for topic, many in wanted.items()}
    dead = options.dead_letters or dead_topic(target.name)
    _check_name(dead)
    if dead in wanted and options.on_poison != "stop":
        what = "dead letters cannot go to a topic that has lanes of the contract"
        raise UsageError.of(what, got=dead, allowed="a topic of their own", hint="--dead-letters TOPIC")
    there = cluster.lanes([*wanted, dead])
    for topic in wanted if options.on_poison == "stop" else there:
        if not there[topic] and known is not None and known.topic_ids.get(topic):
            raise recreated_topic(topic, known.topic_ids[topic], "")
    if options.on_poison != "stop" and there[dead]:
        # Before anything is made: its limits are those of each batch's plan, and are compared again there.
        settings = cluster.topic_settings(dead, must_answer=True)
        check_for_letters(dead, limits_of(settings, cluster.access.java_producer(), 0))
    # The target is named before its dead letters where both are missing. No order is kept there: one lane is enough.
    asked = {**wanted, **({dead: 1} if options.on_poison != "stop" else {})}
    absent = [topic for topic in asked if not there[topic]]
    missing = {topic: _creatable(cluster, asked[topic], options, absent) for topic in absent}
    counts = {topic: there[topic] or missing[topic] for topic in wanted}
    return {topic: _agreed(topic, lanes, counts[topic], options) for topic, lanes in wanted.items()}, missing


def check_other_stream(source: Origin, ids: Mapping[str, str]) -> None:
    """Refuse a source that is also written, by its id: one cluster has many addresses. The route would never end."""
    for topic, id_ in ids.items():
        if id_ and id_ == source.id:
            what = "the topic of the source is one that the route writes"
            raise UsageError.of(what, got=source.address, allowed=f"another topic than {topic}")


def check_tombstones(cluster: KafkaCluster, contract: Contract, target: Address) -> None:
    """Refuse a compacted topic for records of a topic whose lane depends on more than their own key.

    A tombstone has a key and nothing else: it has to find the lane of the record that it deletes by that alone.
    """
    others = [name for name in fields_of(contract) if name != "key"]
    scope = weakest(answers(contract))
    topics = [topic for topic in (target.name, *contract.tiers) if cluster.is_compacted(topic)]
    if not topics or (not others and scope == "per-key"):
        return
    raise UsageError.of(
        f"{', '.join(topics)} is compacted, and a tombstone would not reach the lane of the record that it deletes",
        got=f"lanes by {', '.join(others)}" if others else f"order {scope}",
        allowed="lanes by the record's key alone, one for each key: key: {fields: [key]}",
        hint="or a target with cleanup.policy=delete, where tombstones become dead letters",
    )


def agreed_ids(
    cluster: KafkaCluster,
    target: Address,
    options: StreamOptions,
    lanes: Mapping[str, int],
    absent: Mapping[str, int],
    known: RouteHead | None,
    say: Callable[[str], None],
) -> dict[str, str]:
    """The id of each topic of a route that is there, that of the dead letters included; one recreated is refused."""
    dead = [] if options.on_poison == "stop" else [options.dead_letters or dead_topic(target.name)]
    now = cluster.topic_ids([topic for topic in (*lanes, *dead) if topic not in absent])
    return agreed_topic_ids({} if known is None else known.topic_ids, now, say)


def _agreed(topic: str, wanted: int | None, there: int, options: StreamOptions) -> int:
    grown = wanted is not None and there > wanted and options.on_growth == "keep"
    if wanted is not None and there != wanted and not grown:
        hint = _GROWN if there > wanted else _NEW_EPOCH
        more = "; or --on-growth keep, to leave the new lanes empty" if there > wanted else ""
        raise LaneCountError.of(f"{topic} has another lane count", got=there, allowed=str(wanted), hint=hint + more)
    return wanted or there


def _creatable(cluster: KafkaCluster, lanes: int | None, options: StreamOptions, absent: Sequence[str]) -> int:
    """The lanes that a missing topic gets; an error, which names all that are missing, where it may not be made."""
    if options.create and lanes is not None:
        return lanes
    flags = "--create" if lanes is not None else "--create --lanes N"
    raise TargetError.of(
        f"no such topic at {cluster.access.brokers}", got=", ".join(absent), hint=f"create it first, or {flags}"
    )


def _check_name(topic: str) -> None:
    """Refuse a name that no topic can have: that of the dead letters is made from another, and may be too long."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic) or topic in {".", ".."}:
        raise UsageError.of(
            "the topic of the dead letters cannot have this name; nothing was written",
            got=topic,
            allowed="1 to 249 of A-Z, a-z, 0-9, '.', '_' and '-'",
            hint="--dead-letters TOPIC",
        )


def _changed(topic: str, began: int, now: int, promised: Any) -> LaneCountError:
    rule = "the topic's own when the route began" if promised == "live" else "the contract's"
    more = "; or --on-growth keep, to continue with the lanes it began with" if now > began else ""
    hint = _GROWN if now > began else _NEW_EPOCH
    return LaneCountError.of(
        f"the lanes of {topic} changed while the route ran; nothing of the next batch was written",
        got=now,
        allowed=f"{began}, {rule}",
        hint=f"{hint}{more}",
    )

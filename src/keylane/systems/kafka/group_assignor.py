"""keylane's assignors inside a consumer group: for kafka-python's classic protocol, where the group's leader decides.

    consumer = KafkaConsumer(
        bootstrap_servers=..., group_id="payments",
        partition_assignment_strategy=[group_assignor("by-load", loads=measured)],
    )

Every member of the group names the same assignor. confluent-kafka (librdkafka) takes no assignor from outside, and
neither does the protocol of Kafka 4 (`group.protocol=consumer`), where brokers decide: there a plan is carried out by
`assign()`, see `group.manual_assignment`. Lanes held for life, by leases: `groups.ownership`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from keylane.errors import MissingExtraError, UnknownNameError
from keylane.groups.assignors.cooperative import rounds, settled
from keylane.groups.changes import PROTOCOLS, deciding
from keylane.groups.model import FREE, Assignment, Lanes, Member

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from keylane.groups.model import Lane

Loads: TypeAlias = Mapping[tuple[str, int], float] | Callable[[], Mapping[tuple[str, int], float]]

#: Of members that are away the leader knows nothing, so `static` cannot be had this way.
TAKEN: Final = tuple(name for name in PROTOCOLS if name != "static")
#: Subscriptions of this version have the lanes that a member owns, and the generation that gave them.
VERSION: Final = 2


def group_assignor(name: str = "by-load", *, loads: Loads | None = None) -> GroupAssignor:
    """An assignor for `partition_assignment_strategy`; brokers see it as `keylane-NAME`.

    `loads` is what lanes carry, or a function that the group's leader asks at every rebalance; `by-load` only.
    """
    if name not in TAKEN:
        raise UnknownNameError.among("assignor for a group", name, TAKEN)
    try:
        with warnings.catch_warnings():
            # It reads its schemas by a deprecated name of importlib's.
            warnings.simplefilter("ignore", DeprecationWarning)
            from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    except ImportError:
        raise MissingExtraError.named("kafka", "kafka-python 3") from None
    # kafka-python asks isinstance(): a virtual subclass needs no import where there is none.
    AbstractPartitionAssignor.register(GroupAssignor)
    return GroupAssignor(name, loads)


@dataclass(slots=True)
class GroupAssignor:
    """An assignor as kafka-python calls it: on every member for what it sends, on the leader for the decision."""

    rule: str
    loads: Loads | None = None
    #: What this member has, and since which generation.
    owned: tuple[Lane, ...] = ()
    generation: int = -1
    #: The leader's last decision, kept until it is carried out: the second round of a change follows the first.
    target: Assignment | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What the group agrees on."""
        return f"keylane-{self.rule}"

    def supported_protocols(self) -> list[Any]:
        """Whether members keep their lanes while they agree."""
        from kafka.coordinator.assignors.abstract import RebalanceProtocol

        kept = PROTOCOLS[self.rule] == "cooperative"
        return [RebalanceProtocol.COOPERATIVE if kept else RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> Any:
        """What this member sends when it joins: its topics, and the lanes that it has."""
        from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

        part = ConsumerProtocolSubscription.TopicPartition
        held = [part(topic=topic, partitions=indexes) for topic, indexes in _by_topic(self.owned)]
        return ConsumerProtocolSubscription(
            version=VERSION,
            topics=sorted(topics),
            user_data=b"",
            owned_partitions=held,
            generation_id=self.generation,
        )

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remember what this member has been given."""
        self.owned = tuple((lane.topic, lane.partition) for lane in assignment.partitions())
        self.generation = generation

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        """The leader's decision: for every member the lanes of this round."""
        from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

        topics = {topic for member in members for topic in member.metadata.topics}
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        lanes = Lanes.of({topic: count for topic, count in counts.items() if count})
        people = [_member(member) for member in members]
        claims = {member.member_id: (member.metadata.generation_id, _claimed(member)) for member in members}
        now = settled(lanes, claims)
        target = self._decided(people, lanes, now)
        given = rounds(now, target)[0] if PROTOCOLS[self.rule] == "cooperative" else target
        return {
            name: ConsumerProtocolAssignment(VERSION, _by_topic(held), b"") for name, held in given.as_lists().items()
        }

    def _decided(self, members: Sequence[Member], lanes: Lanes, now: Assignment) -> Assignment:
        if not self._is_under_way(members, lanes, now):
            loads = self.loads() if callable(self.loads) else self.loads
            self.target = deciding(self.rule, loads)(members, lanes, now)
        assert self.target is not None
        return self.target

    def _is_under_way(self, members: Sequence[Member], lanes: Lanes, now: Assignment) -> bool:
        """Whether the last target is still to be reached: nobody came or went, and lanes that are held are in place."""
        target = self.target
        if target is None or set(target.members) != {member.id for member in members}:
            return False
        if (target.lanes.topics, target.lanes.counts) != (lanes.topics, lanes.counts):
            return False
        held = now.seen_by([Member(name) for name in target.members], lanes)
        free = held == FREE
        return bool(free.any() and (free | (held == target.owners)).all())


def _member(joined: Any) -> Member:
    return Member(joined.member_id, frozenset(joined.metadata.topics), joined.group_instance_id or None)


def _claimed(joined: Any) -> list[Lane]:
    held = joined.metadata.owned_partitions or ()
    return [(part.topic, index) for part in held for index in part.partitions]


def _by_topic(lanes: Iterable[Lane]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for topic, index in lanes:
        found.setdefault(topic, []).append(index)
    return sorted((topic, sorted(indexes)) for topic, indexes in found.items())

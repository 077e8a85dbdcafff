"""A live consumer group: members, who owns which lane, lag; and a plan as a manual assignment.

Only read: nothing here changes a group. An assignor for the group itself: `group_assignor`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError, UnknownNameError, UsageError
from keylane.groups.model import Assignment, Lanes, Member
from keylane.systems.kafka.cluster import ANSWER_SECONDS, explained, open_cluster
from keylane.systems.kafka.reassign import cluster_access

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from keylane.groups.model import Lane
    from keylane.systems.kafka.cluster import KafkaCluster

__all__ = ["LiveGroup", "live_group", "manual_assignment"]

NO_SUCH: Final = "DEAD"
#: Answers while brokers elect or load the coordinator of a group, as on a cluster that nobody has read from before.
MOVING: Final = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group as brokers report it. `lag` has the lanes whose offsets are committed."""

    name: str
    state: str
    protocol: str
    assignor: str
    members: tuple[Member, ...]
    assignment: Assignment
    lag: Mapping[Lane, int]


def live_group(address: str, name: str, properties: Iterable[tuple[str, str]] = ()) -> LiveGroup:
    """The group of a name on the cluster at `kafka://host:port`."""
    from confluent_kafka import KafkaException

    with open_cluster(cluster_access(address, properties)) as cluster:
        cluster.reached()
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return _read(cluster, name)
            except KafkaException as error:
                if error.args[0].name() not in MOVING or time.monotonic() > until:
                    raise explained(error, cluster.access.brokers, cluster.listener) from None
                time.sleep(0.2)


def _read(cluster: KafkaCluster, name: str) -> LiveGroup:
    asked = cluster.admin.describe_consumer_groups([name], request_timeout=ANSWER_SECONDS)
    found = asked[name].result()
    committed = _committed(cluster, name)
    if found.state.name == NO_SUCH or (not found.members and not committed):
        raise UnknownNameError.among("group", name, _known(cluster))
    owned = {
        member.member_id: [(lane.topic, lane.partition) for lane in member.assignment.topic_partitions]
        for member in found.members
    }
    topics = sorted({topic for lanes in owned.values() for topic, _ in lanes} | {topic for topic, _ in committed})
    there = {topic: count for topic, count in cluster.lanes(topics).items() if count}
    if not there:
        raise BrokerError.of("the group reads no topic that is there", got=name, hint="start a member, then ask again")
    lanes = Lanes.of(there)
    # Brokers do not report subscriptions of the classic protocol, so a member may read what all read.
    members = tuple(Member(one.member_id, None, one.group_instance_id or None) for one in found.members)
    ends = _ends(cluster, lanes)
    lag = {lane: max(0, ends[lane] - offset) for lane, offset in committed.items() if lane in ends}
    protocol = getattr(getattr(found, "type", None), "name", "CLASSIC").lower()
    assignor = found.partition_assignor or ""
    return LiveGroup(
        name, found.state.name.lower(), protocol, assignor, members, Assignment.of_lists(lanes, owned), lag
    )


def _committed(cluster: KafkaCluster, name: str) -> dict[Lane, int]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = cluster.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(name)], request_timeout=ANSWER_SECONDS
    )
    lanes = asked[name].result().topic_partitions or []
    return {(lane.topic, lane.partition): lane.offset for lane in lanes if lane.offset >= 0}


def _ends(cluster: KafkaCluster, lanes: Lanes) -> dict[Lane, int]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # has no types
    wanted = {
        TopicPartition(topic, index): latest
        for topic, count in zip(lanes.topics, lanes.counts, strict=True)
        for index in range(count)
    }
    asked = cluster.admin.list_offsets(wanted, request_timeout=ANSWER_SECONDS)
    return {(lane.topic, lane.partition): answer.result().offset for lane, answer in asked.items()}


def _known(cluster: KafkaCluster) -> list[str]:
    listed = cluster.admin.list_consumer_groups(request_timeout=ANSWER_SECONDS).result()
    return sorted(group.group_id for group in listed.valid)


def manual_assignment(assignment: Mapping[str, Sequence[tuple[str, int]]], member: str) -> list[Any]:
    """What a member of a plan passes to confluent-kafka's `Consumer.assign`.

    A consumer that assigns itself is no member of a group: nobody takes over when it dies, and a group that is also
    subscribed to the same topics reads the same lanes. Offsets are still committed under `group.id`.
    """
    from confluent_kafka import TopicPartition

    if member not in assignment:
        raise UnknownNameError.among("member", member, list(assignment))
    if not assignment[member]:
        raise UsageError.of("this member has no lane in the plan", got=member)
    return [TopicPartition(topic, index) for topic, index in assignment[member]]

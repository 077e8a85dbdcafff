"""A Kafka cluster in memory, asked as kafka-python's admin client is. It writes down every call that changes it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from keylane.brokers.layout import Broker, Lane, Layout

with warnings.catch_warnings():
    # kafka-python reads its schemas by a deprecated name of importlib's, which warns as importlib: once, here.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.errors import ClusterAuthorizationFailedError, InvalidReplicationAssignmentError, NodeNotReadyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIZE = 1_000_000


def lane(partition: int, *replicas: int, topic: str = "t", leader: int | None = None, **more: Any) -> Lane:
    """A lane that is whole unless something else is said."""
    usual = {"isr": replicas, "size": SIZE, **more}
    return Lane(topic, partition, replicas, replicas[0] if leader is None else leader, **usual)


def layout(*lanes: Lane, brokers: int = 3, racks: tuple[str | None, ...] = (None,)) -> Layout:
    """These lanes on brokers 1, 2, …"""
    return Layout(tuple(Broker(i + 1, racks[i % len(racks)]) for i in range(brokers)), lanes)


def on_two_brokers(**more: Any) -> Layout:
    """Six lanes on two of three brokers."""
    return layout(*(lane(p, *((1, 2) if p % 2 == 0 else (2, 1)), **more) for p in range(6)))


@dataclass
class Admin:
    """The cluster. A move is done after `steps` looks at what is under way; `on_look` is called at each."""

    now: Layout
    steps: int = 1
    settings: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    moving: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    refuses: set[tuple[str, int]] = field(default_factory=set)
    sizes_hidden: bool = False
    dead: set[str] = field(default_factory=set)
    on_look: Callable[[], None] = lambda: None
    looks: int = 0
    set_when_started: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": one.id, "rack": one.rack, "is_fenced": False} for one in self.now.brokers]}

    def describe_topics(self, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        there = dict.fromkeys(one.topic for one in self.now.lanes)
        asked = there if names is None else names
        return [{"name": name, "partitions": list(map(self._told, self._of(name)))} for name in there if name in asked]

    def _of(self, topic: str) -> list[Lane]:
        return [one for one in self.now.lanes if one.topic == topic]

    def _told(self, one: Lane) -> dict[str, Any]:
        coming = [broker for broker in self.moving.get(one.place, ()) if broker not in one.replicas]
        lists = {"replica_nodes": [*one.replicas, *coming], "isr_nodes": list(one.isr)}
        return {"partition_index": one.partition, "leader_id": one.leader, **lists}

    def describe_log_dirs(self, _: Any, brokers: list[int]) -> list[dict[str, Any]]:
        if self.sizes_hidden:
            raise ClusterAuthorizationFailedError("no")
        return [{"broker": broker, "log_dirs": [self._folder(broker)]} for broker in brokers]

    def _folder(self, broker: int) -> dict[str, Any]:
        here = [one for one in self.now.lanes if broker in one.replicas]
        topics = [
            {
                "name": one.topic,
                "partitions": [{"partition_index": one.partition, "partition_size": one.size, "is_future_key": False}],
            }
            for one in here
            if one.size is not None
        ]
        return {"error_code": 0, "topics": topics}

    def describe_configs(self, asked: list[Any], config_filter: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one in asked:
            kind = one.resource_type.name.lower()
            own = {**self._default(kind, one.name, config_filter), **self.settings.get((kind, one.name), {})}
            values = {name: {"value": own[name]} for name in one.configs if name in own}
            found.setdefault(kind, {})[one.name] = values
        return found

    def _default(self, kind: str, name: str, config_filter: str) -> dict[str, str]:
        told = (
            [one.min_isr for one in self._of(name) if one.min_isr] if (kind, config_filter) == ("topic", "all") else []
        )
        return {"min.insync.replicas": str(told[0])} if told else {}

    def list_partition_reassignments(self) -> dict[Any, Any]:
        self.on_look()
        self.looks += 1
        if self.looks > self.steps:
            self.finish()
        where = {one.place: one.replicas for one in self.now.lanes}
        return {
            kafka.TopicPartition(*place): {
                "replicas": [*to, *(broker for broker in where[place] if broker not in to)],
                "adding_replicas": [broker for broker in to if broker not in where[place]],
                "removing_replicas": [broker for broker in where[place] if broker not in to],
            }
            for place, to in self.moving.items()
        }

    def finish(self) -> None:
        """All that is under way is done: a leader that left is replaced by the last of its list, as if by chance."""
        lanes = []
        for one in self.now.lanes:
            to = self.moving.get(one.place, one.replicas)
            leader = one.leader if one.leader in to else to[-1]
            lanes.append(Lane(one.topic, one.partition, to, leader, to if to != one.replicas else one.isr, one.size))
        self.now, self.moving = Layout(self.now.brokers, tuple(lanes)), {}

    def alter_partition_reassignments(self, moves: dict[Any, list[int]]) -> dict[Any, Any]:
        self.written.append("reassign")
        self.set_when_started = {who: dict(values) for who, values in self.settings.items()}
        self.looks = 0
        for place, to in moves.items():
            if tuple(place) not in self.refuses:
                self.moving[place.topic, place.partition] = tuple(to)
        return {place: InvalidReplicationAssignmentError if tuple(place) in self.refuses else None for place in moves}

    def alter_configs(self, resources: list[Any], **_: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one in resources:
            kind = one.resource_type.name.lower()
            if kind == "broker" and one.name in self.dead:
                raise NodeNotReadyError(one.name)
            own = self.settings.setdefault((kind, one.name), {})
            for name, (operation, value) in one.configs.items():
                self.written.append(f"{operation} {kind} {one.name} {name}")
                if operation == "SET":
                    own[name] = value
                else:
                    own.pop(name, None)
            found.setdefault(kind, {})[one.name] = "OK"
        return found

    def elect_leaders(self, kind: int, asked: dict[str, list[int]], **_: Any) -> None:
        assert kind == 0
        self.written.append("elect")
        meant = {(topic, partition) for topic, partitions in asked.items() for partition in partitions}
        lanes = [
            Lane(one.topic, one.partition, one.replicas, one.replicas[0], one.isr, one.size)
            if one.place in meant and one.replicas[0] in one.isr
            else one
            for one in self.now.lanes
        ]
        self.now = Layout(self.now.brokers, tuple(lanes))

    @property
    def left(self) -> dict[tuple[str, str], dict[str, str]]:
        """Settings that are not as they would be on a new cluster."""
        return {who: values for who, values in self.settings.items() if values}

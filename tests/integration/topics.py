"""Topics of the broker under test: made, and read back to their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from keylane.systems.broker import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.systems.broker import Cluster

SECONDS = 120.0


class Read(NamedTuple):
    """A record as a reader has it."""

    lane: int
    offset: int
    key: bytes | None
    value: bytes | None


def create_topic(cluster: Cluster, name: str, lanes: int, **config: str) -> str:
    """Make a topic and wait until it is there; underscores in the names of settings are dots."""
    client = AdminClient({**librdkafka_settings(cluster)})
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    (made,) = client.create_topics([NewTopic(name, lanes, config=dotted)], operation_timeout=SECONDS).values()
    made.result(SECONDS)
    return name


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic and wait until it is gone."""
    client = AdminClient({**librdkafka_settings(cluster)})
    client.delete_topics([name], operation_timeout=SECONDS)[name].result(SECONDS)


def read_back(cluster: Cluster, topic: str, **settings: Any) -> list[Read]:
    """Every record that is in a topic now, lane by lane in the order of their offsets."""
    own = {"group.id": "read-back", "enable.auto.commit": False, "isolation.level": "read_committed", **settings}
    reader = Consumer({**librdkafka_settings(cluster), **own})
    try:
        return sorted(_all(reader, topic), key=lambda read: (read.lane, read.offset))
    finally:
        reader.close()


def _all(reader: Consumer, topic: str) -> Iterator[Read]:
    ends = _ends(reader, topic)
    reader.assign([TopicPartition(topic, lane, 0) for lane in ends])
    while ends:
        message = reader.poll(SECONDS)
        assert message is not None, f"{topic}: no record for {SECONDS} s, and lanes {sorted(ends)} are not at their end"
        assert message.error() is None, message.error()
        lane, offset = message.partition(), message.offset()
        assert lane is not None
        assert offset is not None
        yield Read(lane, offset, message.key(), message.value())
        if offset + 1 >= ends[lane]:
            del ends[lane]


def _ends(reader: Consumer, topic: str) -> dict[int, int]:
    """Where each lane that has records ends now."""
    lanes = reader.list_topics(topic, timeout=SECONDS).topics[topic].partitions
    ends = {lane: reader.get_watermark_offsets(TopicPartition(topic, lane), timeout=SECONDS)[1] for lane in lanes}
    return {lane: end for lane, end in ends.items() if end}

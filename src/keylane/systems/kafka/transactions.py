"""Transactions of one process: the producer behind a fence, and the batches of a pipeline with their numbers.

A batch of a pipeline is one transaction: its messages, and the number of the next batch as the offset of a group that
nobody joins. So the number and the messages are there together or not at all, and whoever starts again asks for the
number first. The transactional id fences every earlier process of the same name; what it left open is aborted.
Readers have to read committed records, as they do by default in Kafka Streams and as `isolation.level` says elsewhere.

Routes have a writer of their own, on Spark's executors: `spark.kafka_writer`. Owners of lanes: `owner_writers`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import MissingExtraError, TargetError
from keylane.hashing.murmur2 import murmur2
from keylane.systems.delivery import DeliveredMessage
from keylane.systems.kafka.access import OF_READERS, OF_WRITERS
from keylane.systems.kafka.cluster import explained, open_cluster
from keylane.systems.kafka.reader import TopicReader
from keylane.systems.messages.chunks import WantedColumns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.systems.delivery import OutMessage
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import KafkaCluster

_SECONDS: Final = 60.0


def transactional_producer(cluster: KafkaCluster, name: str, seconds: float) -> Any:
    """A producer behind the fence of this name."""
    try:
        from confluent_kafka import KafkaException, Producer
    except ImportError:
        raise MissingExtraError.named("kafka", "confluent-kafka") from None
    given = {key: text for key, text in cluster.access.librdkafka().items() if key not in OF_READERS}
    own = {"transactional.id": name, "acks": "all", "linger.ms": 5, "error_cb": cluster.listener}
    producer = Producer({"compression.type": "lz4", **given, **own})
    try:
        producer.init_transactions(seconds)
    except KafkaException as error:
        raise explained(error, cluster.access.brokers, cluster.listener) from None
    return producer


@contextmanager
def open_batches(access: KafkaAccess, name: str, streams: Sequence[str]) -> Iterator[TransactionalBatches]:
    """Topics, for the batches of one pipeline."""
    with open_cluster(access) as cluster:
        lanes = cluster.lanes(streams)
        producer = transactional_producer(cluster, name, _SECONDS)
        yield TransactionalBatches(cluster, name, streams[0], lanes, producer)


@dataclass(frozen=True, slots=True)
class TransactionalBatches:
    """Batches as transactions. `group` is the transactional id, too; `first` is the topic that has the number."""

    cluster: KafkaCluster
    group: str
    first: str
    lanes: Mapping[str, int]
    producer: Any

    @property
    def exactly_once(self) -> bool:
        """For readers of committed records."""
        return True

    def next_batch(self) -> int:
        """0 before the first."""
        return max(0, self.cluster.noted(self.group, self.first)[0])

    def write(self, batch: int, messages: Sequence[OutMessage]) -> None:
        """One transaction; a message is in the partition where every client of Java puts its key."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        given = {key: text for key, text in self.cluster.access.librdkafka().items() if key not in OF_WRITERS}
        reader = Consumer({**given, "group.id": self.group, "enable.auto.commit": False})
        try:
            self.producer.begin_transaction()
            for message in messages:
                self._send(message)
            number = [TopicPartition(self.first, 0, batch + 1)]
            self.producer.send_offsets_to_transaction(number, reader.consumer_group_metadata(), _SECONDS)
            self.producer.commit_transaction(_SECONDS)
        except KafkaException as error:
            raise explained(error, self.cluster.access.brokers, self.cluster.listener) from None
        finally:
            reader.close()

    def _send(self, message: OutMessage) -> None:
        lane = (murmur2(message.key) & 0x7FFF_FFFF) % self.lanes[message.stream]
        while True:
            try:
                self.producer.produce(message.stream, message.value, message.key, lane, headers=list(message.headers))
            except BufferError:
                self.producer.poll(0.1)
            else:
                return


def delivered_messages(access: KafkaAccess, topic: str) -> Iterator[DeliveredMessage]:
    """The committed messages of a topic, partition by partition."""
    with open_cluster(access) as cluster:
        lanes = cluster.lanes([topic])[topic]
        if not lanes:
            raise TargetError.of(f"no such topic at {access.brokers}", got=topic)
        ranges = cluster.settled_ranges(topic, lanes)
    reader = TopicReader(WantedColumns(values=True), access)
    for lane, one in enumerate(ranges):
        for chunk in reader.chunks(topic, lane, one.start, one.end):
            for offset, value in zip(chunk.offsets, chunk.values, strict=True):
                yield DeliveredMessage(f"{topic}/{lane}/{offset}", value)

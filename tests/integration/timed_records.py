"""Records with times of their own, sent into topics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from keylane.systems.broker import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from keylane.systems.broker import Cluster

#: An hour ago: a broker forgets what is older than a week.
BEGAN = int(time.time()) * 1000 - 3_600_000
Sent = tuple[bytes | None, bytes, int]


def send(broker: Cluster, topic: str, records: Iterable[Sent], **settings: Any) -> None:
    """Send records with their times, as a Java producer places them."""
    producer = Producer({**librdkafka_settings(broker), "partitioner": "murmur2_random", **settings})
    if "transactional.id" in settings:
        producer.init_transactions()
        producer.begin_transaction()
    for key, value, at in records:
        producer.produce(topic, value, key=key, timestamp=at)
    if "transactional.id" in settings:
        producer.abort_transaction()
    producer.flush()

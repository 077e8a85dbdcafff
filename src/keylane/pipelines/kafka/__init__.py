"""`route` from and into Kafka.

options   what may be said about it
run       the route: addresses, lane counts, state, session, query
sources   a topic or files -> messages
batch     one batch: its plan, its job, what it came to
poison    records without a lane: dead letters, parked keys, or a stop
writer    the tasks that bring records into their lanes, in Java
folder    a topic as the source of a folder

What is written down: `systems.kafka_state`. The transaction: `java/keylane`. The promise: docs/kafka.md.
"""

from __future__ import annotations

from keylane.pipelines.kafka.options import KafkaOptions

__all__ = ["KafkaOptions"]

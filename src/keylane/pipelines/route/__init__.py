"""`route`: every record of a source in its lane, exactly once, batch or stream.

    run           the route of files into a folder, and the way into the others
    options       what may be set about Kafka
    files         one batch of files: read, decided, staged, committed
    sources       a topic or files -> messages
    to_folder     a topic as the source of a folder
    to_kafka      the route into Kafka: topics, lane counts, state, session, query
    kafka_batch   one batch of it: its plan, its job, its counts
    poison        records without a lane: dead letters, parked keys, or a stop
    kafka_writer  the tasks that write records into their lanes, in Java

What is written down: `systems.kafka.state`. The transaction: `java/keylane`. The promise: docs/kafka.md.
"""

from __future__ import annotations

from keylane.pipelines.route.files import Done
from keylane.pipelines.route.options import KafkaOptions
from keylane.pipelines.route.run import Options, Routed, route

__all__ = ["Done", "KafkaOptions", "Options", "Routed", "route"]

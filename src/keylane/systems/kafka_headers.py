"""The names that a route into Kafka gives: the headers of its records, and the topic of its dead letters.

`Delivery.java` spells the first header for itself, and `spark.messages`, which is below this room, the prefix of a dead
letter's. Who writes them: `pipelines.kafka`. Who reads them: `topic_reader`. What they mean: docs/kafka.md.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ATTEMPT", "CONTRACT", "EPOCH", "REASON", "SOURCE", "dead_topic"]

#: Of every record, in this order, behind those that it brought along.
SOURCE: Final = "keylane.source"
CONTRACT: Final = "keylane.contract"
EPOCH: Final = "keylane.epoch"
#: Of every record of a batch that is written again, at least once; behind the others.
ATTEMPT: Final = "keylane.attempt"
#: Of a dead letter: why it is one.
REASON: Final = "__keylane.errors.reason"


def dead_topic(target: str) -> str:
    """Where dead letters of a route into this topic go, unless another topic was named."""
    return f"{target}.dlq"

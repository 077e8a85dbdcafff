"""A topic on Spark, in a batch: what lies between two offsets of each lane, and the fields of its records as columns.

Nothing is written or committed to the cluster. The same records as Arrow batches: `reader`. As a stream: `follow`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from keylane.spark.messages import from_decoder, from_json, from_message, from_text
from keylane.systems.kafka.values import UNREAD, checked_form, read_fields, schema_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from keylane.contract.fields import FieldSpec
    from keylane.spark.messages import Fields
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.kafka.access import KafkaAccess

    #: From one offset up to another, for each lane.
    Ranges = Sequence[tuple[int, int]]

__all__ = ["message_columns", "read_between"]


def message_columns(spec: FieldSpec, options: StreamOptions) -> Fields:
    """The fields as columns of a frame of messages, and which messages cannot be read; None when all can."""
    own = from_message(spec)
    checked_form(spec, options.value)
    if not spec.of_value:
        return own, None
    schema = schema_for(spec, options)
    if schema is not None:

        def decode(values: pa.Array) -> pa.Array:
            return read_fields(schema, values)

        found, unread = from_decoder(spec, decode, UNREAD)
    else:
        found, unread = from_text(spec) if options.value == "utf8" else from_json(spec)
    return {**own, **found}, unread


def read_between(spark: SparkSession, access: KafkaAccess, topic: str, ranges: Ranges) -> DataFrame:
    """What lies between two offsets of each lane, as committed."""
    starts, ends = ({str(lane): one[end] for lane, one in enumerate(ranges)} for end in (0, 1))
    options = {
        "kafka.isolation.level": "read_committed",
        **access.java(),
        "subscribe": topic,
        "failOnDataLoss": "true",
        "startingOffsets": json.dumps({topic: starts}),
        "endingOffsets": json.dumps({topic: ends}),
    }
    return spark.read.format("kafka").options(**options).load()

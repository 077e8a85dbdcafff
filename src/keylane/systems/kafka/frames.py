"""A topic on Spark, in a batch: what lies between two offsets of each lane, and the fields of its records as columns.

Nothing is written or committed to the cluster. The same records as Arrow batches: `reader`; counted in this process:
`local_scan`. As a stream: `follow`.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from keylane.spark.messages import key_as_text
from keylane.spark.scan import scan_messages
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.data import scanned_ranges
from keylane.systems.kafka.session import kafka_session
from keylane.systems.messages.frames import message_columns
from keylane.systems.messages.local_scan import scanned_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.profile.scan import ScanRequest
    from keylane.spark.context import RunContext
    from keylane.spark.scan import Scan
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.messages.local_scan import Ranges


@contextmanager
def scan_topic(run: RunContext, address: Address, options: StreamOptions, wanted: ScanRequest) -> Iterator[Scan]:
    """All that is there when it begins; or, with a length of time, exactly what arrives in it."""
    access, topic = kafka_access(address.authority, options.properties), address.name
    found = scanned_ranges(access, topic, options.read_range, wanted, run.say)
    with kafka_session(run, options, access) as session:
        frame, *ends = (read_between(session, access, topic, part) for part in (found.ranges, found.heads, found.tails))
        fields, unread = _scanned_fields(wanted, options)
        scan = scan_messages(frame, ends[0].union(ends[1]), wanted, fields, unread, found.ranges)
        yield replace(scan, facts={**scan.facts, **found.facts})


def _scanned_fields(wanted: ScanRequest, options: StreamOptions) -> tuple[dict[str, Column], list[Column]]:
    """The fields of the key and the time by their names, and which messages cannot be read."""
    spec = scanned_spec(wanted, options)
    names = spec.names
    fields, misread = message_columns(replace(spec, names=tuple(name for name in names if name != spec.key)), options)
    # A record without the field has no key, as one whose key is null: they are counted together.
    fields = {name: column for name, column in fields.items() if name in names}
    unread = [] if misread is None else [misread]
    if spec.key in spec.names:
        fields[spec.key], misfit = key_as_text(spec)
        unread.append(misfit)
    return fields, unread


def read_between(spark: SparkSession, access: KafkaAccess, topic: str, ranges: Ranges) -> DataFrame:
    """What lies between two offsets of each lane, as committed."""
    starts, ends = ({str(lane): one[end] for lane, one in enumerate(ranges)} for end in (0, 1))
    options = {
        **access.java_reader(),
        "subscribe": topic,
        "failOnDataLoss": "true",
        "startingOffsets": json.dumps({topic: starts}),
        "endingOffsets": json.dumps({topic: ends}),
    }
    return spark.read.format("kafka").options(**options).load()

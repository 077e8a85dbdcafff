"""The two sources of a running match as one stream, and what a batch of it holds: raw frames of drivers and of riders.

Of files the stream has names, of topics records: Spark's checkpoint decides which of them make a batch, and replays the
same after a kill. Files are numbered as they are taken, from batch to batch, so that of two records of one time the
later one counts however they were cut into batches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane.contract.parse import parse_contract
from keylane.pipelines.match.follow_state import Epoch
from keylane.pipelines.match.records import check_columns
from keylane.pipelines.match.sources import raw_files
from keylane.pipelines.watermark import BEGINNING
from keylane.placement.cell_lanes import CellLanes, cell_lanes
from keylane.spark.read_parquet import PLACE, place_of
from keylane.spark.streaming import file_names
from keylane.systems.endpoint import path_of
from keylane.systems.files.follow import files_of
from keylane.systems.files.listing import kind_of, pattern_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.pipelines.match.follow_state import Happened
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import MatchSource

SIDE: Final = "keylane_side"
#: A lane that is read to its end is not waited at: there are as many waits as lanes.
_SOON: Final = {"kafka.fetch.max.wait.ms": "20", "kafka.max.poll.records": "10000"}
_FILE: Final = ("path", "modified", "length", "url")
_MESSAGE: Final = ("key", "value", "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class BatchSource:
    """A source in a batch: its raw frame, None where it has no record; its records; files that were taken by then."""

    frame: DataFrame | None
    records: int = 0
    files: int = 0


def has_topics(*sides: MatchSource) -> bool:
    """Whether records themselves are in the stream, which then is read more than once in a batch."""
    return any(side.messages for side in sides)


def both_sides(
    spark: SparkSession, sides: tuple[MatchSource, MatchSource], given: Options, max_files: int
) -> DataFrame:
    """One stream of both."""
    first, second = (_stream(spark, side, given, max_files) for side in sides)
    return first.unionByName(second, allowMissingColumns=True)


def _stream(spark: SparkSession, side: MatchSource, given: Options, max_files: int) -> DataFrame:
    if side.messages:
        return _topic(spark, side, given).select(F.lit(side.side).alias(SIDE), *_MESSAGE)
    path = path_of(side.address, f"the {side.side}")
    kind = kind_of(path, given.kind)
    found = file_names(spark, str(path), pattern_of(kind, given.kind), max_files).toDF(*_FILE)
    return found.select(F.lit(side.side).alias(SIDE), *_FILE)


def _topic(spark: SparkSession, side: MatchSource, given: Options) -> DataFrame:
    from keylane.systems.kafka.access import kafka_access
    from keylane.systems.kafka.follow import starting

    topic, said = side.address.name, given.kafka
    options = {
        "kafka.isolation.level": "read_committed",
        **_SOON,
        **kafka_access(side.address.authority, said.properties).java(),
        **starting(said.start, topic),
        "subscribe": topic,
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(said.max_records),
    }
    return spark.readStream.format("kafka").options(**options).load()


def taken(frame: DataFrame, side: MatchSource, given: Options, before: int) -> BatchSource:
    """What a batch has of a source; `before` files were taken until now."""
    own = frame.where(F.col(SIDE) == side.side)
    if side.messages:
        from keylane.pipelines.match.sources import raw_messages

        return BatchSource(raw_messages(own, side, given), own.count())
    path = path_of(side.address, f"the {side.side}")
    files = [file for file in files_of(own.select(*_FILE), path) if file.size]
    if not files:
        return BatchSource(None, 0, before)
    raw, records = raw_files(frame.sparkSession, files, kind_of(path, given.kind), side.columns, given.kafka)
    check_columns(raw, side.columns, str(side))
    numbered: Any = F.col(PLACE) + place_of(F.lit(before), F.lit(0).cast("bigint"))
    return BatchSource(raw.withColumn(PLACE, numbered), records, before + len(files))


# Contracts that are in use at the same time: while drivers move from an old lane table to a new one.


@dataclass(frozen=True, slots=True)
class InUse:
    """A contract in use, and its lanes."""

    epoch: Epoch
    lanes: CellLanes


@dataclass(slots=True)
class Epochs:
    """The contract of this run, and those of earlier ones."""

    contract: Contract
    count: int
    known: dict[str, CellLanes] = field(default_factory=dict)

    def of(self, last: Happened) -> list[InUse]:
        """What is in use in the batch after this one, oldest first; the last one places pings."""
        now = self.contract
        kept = [one for one in last.epochs if one.fingerprint != now.fingerprint]
        newest = next((one.newest for one in last.epochs if one.fingerprint == now.fingerprint), BEGINNING)
        text = json.dumps(now.model_dump(mode="json", by_alias=True, exclude_none=True))
        current = Epoch(now.metadata.name, now.metadata.epoch, now.fingerprint, text, newest)
        return [InUse(one, self._lanes(one)) for one in (*kept, current)]

    def _lanes(self, epoch: Epoch) -> CellLanes:
        if epoch.fingerprint not in self.known:
            own = epoch.fingerprint == self.contract.fingerprint
            found = self.contract if own else parse_contract(epoch.text, epoch.name)
            self.known[epoch.fingerprint] = cell_lanes(found, self.count)
        return self.known[epoch.fingerprint]


def after_batch(used: list[InUse], newest: Mapping[str, int], oldest: int | None) -> tuple[Epoch, ...]:
    """What stays in use after a batch.

    `newest` has the times of its newest pings, `oldest` that of the oldest ping, of all drivers, that still counts.
    """
    *old, current = (one.epoch for one in used)
    last = replace(current, newest=max([current.newest, *newest.values()]))
    needed = [one for one in old if oldest is not None and oldest <= one.newest]
    return (*needed, last)

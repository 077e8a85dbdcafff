"""A topic as the source of a folder: the batches of `pipelines.route.files`, with partitions where files would be.

A record's position is `topic/partition` and its offset. Key, value, timestamp and headers are columns of the lanes;
what the contract needs of the value is decoded for the decision and not written. Each batch is read twice: once to
count what it has, without which nobody could say that it is all there, and once to write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.errors import UsageError
from keylane.pipelines.context import fetch_cells, java_process
from keylane.pipelines.route import run as files
from keylane.pipelines.route.files import Batches
from keylane.pipelines.route.kafka_writer import session_with_login
from keylane.pipelines.route.sources import KafkaSource, fields_of
from keylane.pipelines.route.topics import check_source
from keylane.router import Router
from keylane.spark.read_parquet import LINE, MALFORMED, PLACE, POSITION, Batch, SourceFile, place_of
from keylane.spark.streaming import Gate
from keylane.systems.endpoint import path_of
from keylane.systems.folders.folder import Head, Manifest, open_target
from keylane.systems.kafka.access import kafka_access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from keylane.contract.model import Contract
    from keylane.pipelines.route.options import Running
    from keylane.pipelines.route.run import Options, Routed
    from keylane.systems.endpoint import Address

__all__ = ["route_to_folder"]

#: What a record of a topic is, as columns of a lane.
COLUMNS: Final = ("key", "value", "timestamp", "headers")
#: Where a partition's offsets have to stay, for a place to hold them beside the partition.
MOST_OFFSETS: Final = 1 << 40


def route_to_folder(contract: Contract, source: Address, target: Address, given: Options, running: Running) -> Routed:
    """Route a topic into a folder; arguments as `route.route`."""
    router = Router(contract, lanes=given.lanes, stream=given.stream)
    if any(e not in {"utf8", "raw", "uuid"} for f, e in _key_parts(contract) if f == "key"):
        raise UsageError.of("a key that spells a number cannot be a column and the key at once", hint="--to a topic")
    access = kafka_access(source.authority, given.kafka.properties)
    check_source(access, source)
    going_to = path_of(target, "the target")
    head = _head(router, source)
    with open_target(going_to, head) as held:
        before = held.recover() or Manifest.before_all(head)
        files.check_checkpoint(held.checkpoint, before)
        with session_with_login(given, running, access) as session:
            held.lock.note_java(java_process(session))
            if contract.spec.key.is_place:
                fetch_cells(session, running.say)
            fields, unread = fields_of(contract, given.kafka)
            said = given.kafka
            topic = KafkaSource(session, access, source.name, fields, unread, said.start, said.max_records)
            told = (running.probe, running.tell, running.say)
            body = TopicBatches(session, router, going_to, "kafka", held, before, None, *told, topic=topic)
            running.ready()
            stopped = files.run_query(
                topic.stream(), Gate(body), held.checkpoint, given, running.follow, running.stop_asked
            )
        return files.routed(held, before, body.state, str(source), stopped=stopped)


def _key_parts(contract: Contract) -> list[tuple[str, str]]:
    return list(zip(contract.spec.key.fields, contract.spec.key.encodings, strict=True))


def _head(router: Router, source: Address) -> Head:
    return files.head_of(router, Path("/"), "kafka", "").at(str(source))


@dataclass(slots=True)
class TopicBatches(Batches):
    """Batches whose files are the partitions of a topic, each from one offset to another."""

    topic: KafkaSource | None = None
    frame: DataFrame | None = None

    def _taken(self, frame: DataFrame) -> list[SourceFile]:
        self.frame = frame
        ends = [F.count(F.lit(1)).alias("n"), F.min("offset").alias("low"), F.max("offset").alias("high")]
        rows = sorted(frame.groupBy("partition").agg(*ends).collect())
        assert self.topic is not None
        if any(row["high"] >= MOST_OFFSETS for row in rows):
            raise UsageError.of("a topic with offsets this high cannot be a folder's source", allowed=str(MOST_OFFSETS))
        return [
            SourceFile(
                "", "", f"{self.topic.topic}/{row['partition']}/{row['low']}-{row['high']}", row["n"], row["low"]
            )
            for row in rows
        ]

    def _names(self, files: Sequence[SourceFile]) -> list[str]:
        return [file.name.rpartition("/")[0] for file in files]

    def _check_unchanged(self, files: Sequence[SourceFile]) -> None:
        """What is in a topic does not change."""

    def _read(self, files: Sequence[SourceFile]) -> Batch:
        assert self.topic is not None
        assert self.frame is not None
        partitions = [int(file.name.split("/")[-2]) for file in files]
        number = F.array_position(F.array(*map(F.lit, partitions)), F.col("partition")) - 1
        fields = {name: column for name, column in self.topic.fields.items() if name not in COLUMNS}
        added: list[Column] = [column.alias(name) for name, column in fields.items()]
        added += [place_of(number, F.col("offset")).alias(PLACE), F.col("offset").alias(POSITION)]
        added += [F.col("value").cast("string").alias(LINE)]
        if self.topic.malformed is not None:
            added.append(self.topic.malformed.alias(MALFORMED))
        frame = self.frame.select(*COLUMNS, *added)
        records = tuple(file.size for file in files)
        return Batch(frame, COLUMNS, frame.select(*COLUMNS).schema, records, records)

"""The two sources of a running match as streams of blocks, and the contracts that are in use at the same time.

Topics are read by a source of their own (`spark.topic_blocks`), whose offsets say what else there was to read and what
the clock said, so that a batch that is made again is the same batch.

Files are read by Spark's readers, which are no streams. So a first query names them as they appear (its checkpoint
remembers which), and each batch of it reads its files and leaves their records as one file of blocks, in STATE/blocks;
the match itself reads these, in their order. Everything that could differ from run to run, as the clock, is then in
the blocks. Files are numbered as they are taken, so that of two records of one time the later one counts however they
were cut into batches.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keylane.contract.parse import parse_contract
from keylane.errors import DataError
from keylane.pipelines.match.follow_plan import NUMBERS
from keylane.pipelines.match.options import MICROS, region_for
from keylane.pipelines.match.records import as_rows, check_columns
from keylane.pipelines.match.sources import raw_files, raw_messages
from keylane.pipelines.stateful.block_files import BlockFiles, beside
from keylane.pipelines.stateful.state_folder import BEGINNING, Epoch
from keylane.placement.cell_lanes import CellLanes, cell_lanes
from keylane.spark.blocks import loading_by
from keylane.spark.context import RunContext, translated
from keylane.spark.read_parquet import PLACE, place_of
from keylane.spark.session import file_name_encoding
from keylane.spark.streaming import file_names, run_query
from keylane.spark.topic_blocks import CLOCK, MESSAGE
from keylane.systems.checkpoint import batch_offsets, force_batch
from keylane.systems.endpoint import open_endpoint, path_of
from keylane.systems.files.follow import handed_over
from keylane.systems.files.handover import Handover, check_unchanged
from keylane.systems.files.listing import kind_of, pattern_of
from keylane.systems.files.spark_log import SparkLog
from keylane.systems.identity import recreated_source
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.geo.coordinates import Region
    from keylane.pipelines.match.follow_plan import MatchPlan
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import MatchSource
    from keylane.pipelines.stateful.state_folder import BatchManifest, StateFolder
    from keylane.spark.context import Say
    from keylane.spark.read_parquet import SourceFile
    from keylane.systems.journal import Probe
    from keylane.systems.kafka.cluster import KafkaCluster

SIDE: Final = "keylane_side"
_FILE: Final = ("path", "modified", "length", "url")
#: What a topic's source gives beside messages: blocks.
_PACKED: Final = ("keylane_slot", "keylane_block")


# Topics as blocks.


def topic_rows(
    spark: SparkSession, side: MatchSource, given: Options, region: Region, plan: MatchPlan, start: Sequence[int]
) -> DataFrame:
    """The blocks of a topic, packed by its source.

    What of a record takes columns of Spark is worked out where the record is read, and is in no plan. Values that are
    decoded in Python need one: their rows are packed after it.
    """
    number, drivers = NUMBERS[side.side], side.side == "drivers"
    messages = spark.createDataFrame(spark.sparkContext.emptyRDD(), MESSAGE)
    read = as_rows(raw_messages(messages, side, given, CLOCK), side.columns, region, drivers=drivers)
    columns = plan.columns(read)
    packer = plan.packer(number, side.columns, region, columns, json=given.kafka.value in {"json", None})
    tasks = spark.sparkContext.defaultParallelism
    found = open_endpoint(side.address, given.kafka).blocks(spark, plan.loader, packer, start, tasks)
    if columns is not None:
        return found.select(*_PACKED)
    raw = raw_messages(found, side, given, CLOCK, *_PACKED)
    return plan.packed(as_rows(raw, side.columns, region, drivers=drivers), number, topic=True)


# Files as blocks.


@dataclass(frozen=True, slots=True)
class FileBlocks:
    """The body of the query that names files: it leaves the records of a batch's files as one file of blocks.

    `handed` compares, by side, what Spark names with what there is: Spark leaves out what it cannot read or find.
    """

    sides: tuple[MatchSource, ...]
    given: Options
    contract: Contract
    plan: MatchPlan
    state: StateFolder
    probe: Probe = no_probe
    handed: Mapping[str, Handover] = field(default_factory=dict)

    def opened(self, spark: SparkSession) -> FileBlocks:
        """With the sources as they are now."""
        handed = {}
        for number, side in enumerate(self.sides):
            path = path_of(side.address, f"the {side.side}")
            counted = None if self.given.kind else kind_of(path, None)
            handed[side.side] = Handover.of(path, counted, file_name_encoding(spark))
            handed[side.side].begin(SparkLog(self.state.files, number), ())
        return replace(self, handed=handed)

    @property
    def files(self) -> BlockFiles:
        """Where the blocks are left."""
        return BlockFiles(self.state)

    def stream(self, spark: SparkSession, max_files: int) -> DataFrame:
        """The names of the files of all sides."""
        return reduce(DataFrame.unionByName, [self._names(spark, side, max_files) for side in self.sides])

    def _names(self, spark: SparkSession, side: MatchSource, max_files: int) -> DataFrame:
        path = path_of(side.address, f"the {side.side}")
        kind = kind_of(path, self.given.kind)
        found = file_names(spark, str(path), pattern_of(kind, self.given.kind), max_files).toDF(*_FILE)
        return found.select(F.lit(side.side).alias(SIDE), *_FILE)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make the file of a batch, unless it is there."""
        try:
            offsets = batch_offsets(self.state.files, batch)
            if self.files.is_made(batch, offsets):
                return
            force_batch(self.state.files, batch)
            self._make(frame, batch, offsets)
        except Exception as error:
            raise translated(error, batch, "the match") from error

    def _make(self, frame: DataFrame, batch: int, offsets: str) -> None:
        clock = round(time.time() * MICROS)
        before = self.files.facts(batch - 1)["taken"] if batch else {}
        files = {side: self._files(frame.sparkSession, handover, batch) for side, handover in self.handed.items()}
        taken = {side: before.get(side, 0) + len(found) for side, found in files.items()}
        made = []
        for side in self.sides:
            if files[side.side]:
                rows = self._rows(frame, side, files[side.side], before.get(side.side, 0), clock)
                made.append(self.plan.packed(rows, NUMBERS[side.side], topic=False))
        waiting = self.files.waiting(batch)
        if made:
            reduce(DataFrame.unionAll, made).coalesce(1).write.parquet(f"file://{waiting}")
        for found in files.values():
            check_unchanged(found)
        self.probe("read", batch)
        self.files.note(batch, offsets, self.files.digest(waiting), {"taken": taken})
        self.probe("known", batch)
        if made:
            self.files.put(waiting, batch)
        self.probe("put", batch)

    @staticmethod
    def _files(spark: SparkSession, handover: Handover, batch: int) -> list[SourceFile]:
        handover.batch = batch
        return [file for file in handed_over(spark, handover) if file.size]

    def _rows(
        self, frame: DataFrame, side: MatchSource, files: Sequence[SourceFile], before: int, clock: int
    ) -> DataFrame:
        """The records of files of a side; `before` files of it were taken until now."""
        kind = kind_of(path_of(side.address, f"the {side.side}"), self.given.kind)
        raw, _ = raw_files(frame.sparkSession, files, kind, side, self.given.kafka)
        check_columns(raw, side.columns, side.side, str(side))
        numbered: Any = F.col(PLACE) + place_of(F.lit(before), F.lit(0).cast("bigint"))
        region = region_for(side.columns, self.contract)
        rows = as_rows(raw.withColumn(PLACE, numbered), side.columns, region, drivers=side.side == "drivers")
        return rows.select("*", F.lit(0).alias("part"), F.lit(clock).alias("clock"))


# Both sources.


@dataclass(frozen=True, slots=True)
class Sources:
    """The two sources of a match, each a topic or files."""

    spark: SparkSession
    sides: tuple[MatchSource, MatchSource]
    given: Options
    contract: Contract
    plan: MatchPlan
    state: StateFolder
    probe: Probe = no_probe

    def blocks(self) -> list[DataFrame]:
        """The streams of blocks."""
        files = self._files()
        found = [files.files.stream(self.spark)] if files is not None else []
        return [*found, *(self._topic(side) for side in self.sides if side.messages)]

    def _topic(self, side: MatchSource) -> DataFrame:
        endpoint = open_endpoint(side.address, self.given.kafka)
        start = self.state.settled(f"start of {side.side}", lambda: list(endpoint.start_offsets()))
        return topic_rows(self.spark, side, self.given, region_for(side.columns, self.contract), self.plan, start)

    def _files(self) -> FileBlocks | None:
        sides = tuple(side for side in self.sides if not side.messages)
        if not sides:
            return None
        return FileBlocks(sides, self.given, self.contract, self.plan, self.state, self.probe)

    def forget(self, batch: int) -> None:
        """Remove what the batches before this one have taken."""
        files = self._files()
        if files is not None:
            files.files.forget(batch)

    @contextmanager
    def files_followed(self, max_files: int, run: RunContext) -> Iterator[Callable[[], None]]:
        """Leave blocks for the files that appear, for as long as this is open; a call that raises what ended it.

        A run that does not follow leaves all of them before it begins.
        """
        body = self._files()
        if body is None:
            yield lambda: None
            return
        body.files.check()
        body = body.opened(self.spark)

        def look(progress: Callable[[], Any]) -> None:
            for handover in body.handed.values():
                handover.look(progress)

        def named(own: RunContext) -> None:
            with loading_by(self.spark, self.plan.loader):
                stopped = run_query(body.stream(self.spark, max_files), body, self.state.files, own, look)
            for handover in body.handed.values() if not (stopped or run.follow) else ():
                handover.check_complete()

        if not run.follow:
            named(run)
            yield lambda: None
            return
        with beside("keylane files", lambda ended: named(replace(run, stop_asked=ended))) as check:
            yield check


@contextmanager
def same_topics(
    sides: tuple[MatchSource, MatchSource], given: Options, state: StateFolder, say: Say
) -> Iterator[Callable[[], None]]:
    """A check that topics are those that the match began with, with as many partitions.

    One that was made anew has other records. What is in a new partition is read late, or not at all.
    """
    with ExitStack() as opened:
        checks = []
        for side in sides:
            cluster = opened.enter_context(open_endpoint(side.address, given.kafka).connected())
            if cluster is not None:
                checks.append(_same_topic(cluster, side, state, say))

        def check() -> None:
            for one in checks:
                one()

        check()
        yield check


def _same_topic(cluster: KafkaCluster, side: MatchSource, state: StateFolder, say: Say) -> Callable[[], None]:
    name = side.address.name
    began, many = cluster.topics_now([name]).get(name, ("", 0))
    known = state.settled(f"id of {side.side}", lambda: began)
    if not known:
        say(f"the cluster reports no id of {side}, so a recreated one would not be noticed")

    def check() -> None:
        now, partitions = cluster.topics_now([name]).get(name, (None, many))
        if known and now not in {"", known}:
            raise recreated_source(str(side), known, now or "")
        if partitions != many:
            raise DataError.of(
                f"{side} got partitions while it was followed",
                got=partitions,
                allowed=str(many),
                hint="a match keeps its lane count: start a new one, with a contract of so many and another --to",
            )

    return check


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

    def of(self, last: BatchManifest) -> list[InUse]:
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


def after_batch(used: list[InUse], newest: int, oldest: int | None) -> tuple[Epoch, ...]:
    """What stays in use after a batch.

    `newest` is the time of its newest ping, `oldest` that of the oldest ping, of all drivers, that still counts.
    """
    *old, current = (one.epoch for one in used)
    last = replace(current, newest=max(current.newest, newest))
    needed = [one for one in old if oldest is not None and oldest <= one.newest]
    return (*needed, last)

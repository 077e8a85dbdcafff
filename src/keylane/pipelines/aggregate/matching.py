"""Stage 1: events -> parts of windows, left as one file of blocks for each batch of the source.

    names or messages of a batch -> events -> which queries they match -> windows, aggregated as far as a task goes

A query of Spark's over the source says which records make a batch, and remembers it in STATE/files. What could differ
from one try at a batch to the next is decided before it and written down in STATE/queries: the clock, and the queries
with the version of their registry. Blocks appear by one rename, in STATE/blocks, after the JSON that says what they
are; so each batch is matched once, and whatever happens later reads the same blocks. The stages that read them:
`batches`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.types import StructType

from keylane.aggregation.expressions import FUNCTIONS
from keylane.pipelines.aggregate.events import EventReader
from keylane.pipelines.aggregate.options import MICROS
from keylane.pipelines.aggregate.results import columns_of
from keylane.pipelines.match.follow_state import read_sealed, write_sealed
from keylane.spark.blocks import BLOCKS
from keylane.spark.context import translated
from keylane.spark.jvm import java_class
from keylane.spark.session import file_name_encoding
from keylane.spark.streaming import file_names
from keylane.systems.atomic import force_all
from keylane.systems.checkpoint import batch_offsets, check_checkpoint, force_batch, query_id, unreadable
from keylane.systems.endpoint import path_of
from keylane.systems.files.follow import handed_over
from keylane.systems.files.handover import Handover, check_unchanged
from keylane.systems.files.listing import kind_of, pattern_of
from keylane.systems.files.spark_log import SparkLog
from keylane.systems.journal import no_probe
from keylane.systems.query_registry import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from keylane.aggregation.query import Query
    from keylane.pipelines.aggregate.events import Events
    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.pipelines.match.follow_state import MatchState
    from keylane.spark.read_parquet import SourceFile
    from keylane.systems.endpoint import Endpoint
    from keylane.systems.journal import Probe
    from keylane.systems.query_registry import RegistrySnapshot

WORK: Final = "the aggregation"
SOURCES: Final = BLOCKS.parent / "aggregate"
#: What Spark's parser makes functions of, and is none to write.
_SYNTAX: Final = frozenset({"between", "like", "ilike"})
#: Letters of `Aggregate.java`.
_KINDS: Final = {
    "count": "c",
    "sum": "s",
    "average": "a",
    "least": "l",
    "most": "m",
    "distinct": "d",
    "quantiles": "q",
    "top": "t",
}
#: Files of blocks are given these times, in their order: Spark takes the older ones first.
_FIRST_TIME: Final = 1_000_000_000
_BLOCKS: Final = "_1 int, _2 binary"


@dataclass(slots=True)
class BoundQueries:
    """Queries bound to events of some columns: Java's object, what they give, and which do not fit."""

    java: Any
    columns: dict[str, dict[str, str]]
    errors: dict[str, str]


@dataclass(slots=True)
class AggregatePlan:
    """The stages in Java."""

    plan: Any
    loader: Any
    lanes: int
    _bound: dict[str, BoundQueries] = field(default_factory=dict)

    @staticmethod
    def of(spark: SparkSession, lanes: int) -> AggregatePlan:
        """Compile and load the steps."""
        loaded = java_class(spark, (BLOCKS, SOURCES), "keylane.aggregate.Plan")
        return AggregatePlan(loaded.newInstance(), loaded.getClassLoader(), lanes)

    def bound(self, events: Events, queries: Sequence[Query]) -> BoundQueries:
        """Queries for events of these columns, made ready; the same as for the batch before, where nothing changed."""
        schema = events.frame.schema
        given = [_definition(query, events.times.index(query.time)) for query in queries if query.time in events.times]
        texts = json.dumps(given)
        key = hashlib.sha256(f"{schema.json()}\n{events.times}\n{texts}".encode()).hexdigest()
        if key not in self._bound:
            spark = events.frame.sparkSession
            empty = cast("ClassicFrame", spark.createDataFrame(spark.sparkContext.emptyRDD(), schema))
            java = self.plan.queries(empty._jdf, texts, _java_list(spark, sorted(FUNCTIONS | _SYNTAX)))  # noqa: SLF001  Java's
            types = {str(name): [str(one) for one in found] for name, found in dict(java.types()).items()}
            errors = {str(name): str(text) for name, text in dict(java.errors()).items()}
            absent = {query.id: f"the events have no time field {query.time}" for query in queries}
            errors |= {name: text for name, text in absent.items() if name not in {one["id"] for one in given}}
            columns = {query.id: columns_of(query, types[query.id]) for query in queries if query.id in types}
            self._bound.clear()
            self._bound[key] = BoundQueries(java, columns, errors)
        return self._bound[key]

    def matched(self, events: Events, bound: BoundQueries, given: dict[str, Any]) -> DataFrame:
        """Events as blocks."""
        spark, frame = events.frame.sparkSession, cast("ClassicFrame", events.frame)
        times = _java_list(spark, events.times)
        made = self.plan.matched(frame._jdf, bound.java, times, {**given, "lanes": self.lanes})  # noqa: SLF001  Java's
        return ClassicFrame(made, spark)

    def ended(self, spark: SparkSession, extra: dict[str, int]) -> DataFrame:
        """Blocks that make every window due."""
        any_frame = cast("ClassicFrame", spark.range(0))
        numbers = _java_list(spark, [str(one) for one in extra.values()])
        made = self.plan.ended(any_frame._jdf, self.lanes, _java_list(spark, list(extra)), numbers)  # noqa: SLF001  Java's
        return ClassicFrame(made, spark)

    def results(self, blocks: DataFrame) -> DataFrame:
        """Blocks -> rows of a kind and a text."""
        frame = cast("ClassicFrame", blocks)
        return ClassicFrame(self.plan.results(frame._jdf, self.lanes), blocks.sparkSession)  # noqa: SLF001  Java's

    def forget(self, query: str) -> int:
        """Drop what the steps of a query that has ended left in memory."""
        return int(self.plan.forget(query))


def _java_list(spark: SparkSession, values: Sequence[str]) -> Any:
    java: Any = spark.sparkContext._jvm  # noqa: SLF001  Java's
    made = java.java.util.ArrayList()
    for value in values:
        made.add(value)
    return made


def _definition(query: Query, time_number: int) -> dict[str, Any]:
    """A query as `Queries.java` reads it."""
    return {
        "id": query.id,
        "filter": query.filter,
        "groups": [".".join(f"`{part}`" for part in group.split(".")) for group in query.group_by],
        "aggregates": [
            {"kind": _KINDS[one.kind], "argument": one.argument, "given": list(one.given)} for one in query.aggregates
        ],
        "time": time_number,
        "time_name": query.time,
        "window": query.window,
        "slide": query.slide,
        "lateness": query.lateness,
        "corrects": query.late == "correct",
    }


@dataclass(slots=True)
class MatchingStage:
    """The body of the query over the source."""

    spark: SparkSession
    endpoint: Endpoint
    options: AggregateOptions
    plan: AggregatePlan
    state: MatchState
    registry: Callable[[], RegistrySnapshot]
    probe: Probe = no_probe
    handover: Handover | None = None
    _taken: list[SourceFile] = field(default_factory=list)

    # The source.

    def opened(self) -> MatchingStage:
        """Look at the source as it is now."""
        path = path_of(self.endpoint.address, "the source")
        counted = None if self.options.stream.kind else kind_of(path, None)
        self.handover = Handover.of(path, counted, file_name_encoding(self.spark))
        self.handover.begin(SparkLog(self.state.files, 0), ())
        return self

    def stream(self) -> DataFrame:
        """Names of files as they appear."""
        path = path_of(self.endpoint.address, "the source")
        kind = kind_of(path, self.options.stream.kind)
        pattern = pattern_of(kind, self.options.stream.kind)
        return file_names(self.spark, str(path), pattern, self.options.max_files)

    def look(self, progress: Callable[[], Any]) -> None:
        """Compare the source with what was handed over, from time to time."""
        if self.handover is not None:
            self.handover.look(progress)

    def check_complete(self) -> None:
        """Refuse to end while a file was not handed over."""
        if self.handover is not None:
            self.handover.check_complete()

    def _events(self, frame: DataFrame, batch: int, reader: EventReader, queries: list[Query]) -> Events | None:
        assert self.handover is not None
        self.handover.batch = batch
        files = [file for file in handed_over(frame.sparkSession, self.handover) if file.size]
        if not files or not queries:
            return None
        path = path_of(self.endpoint.address, "the source")
        events = reader.of_files(files, kind_of(path, self.options.stream.kind), path, queries)
        self._taken = files
        return events

    # A batch.

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make the blocks of a batch, unless they are there."""
        try:
            offsets = batch_offsets(self.state.files, batch)
            known = self._json(batch)
            if known.exists() and read_sealed(known)["offsets"] == offsets and self._is_put(batch):
                return
            force_batch(self.state.files, batch)
            self._make(frame, batch, offsets)
        except Exception as error:
            raise translated(error, batch, WORK) from error

    def _is_put(self, batch: int) -> bool:
        return self._blocks(batch).exists() or not read_sealed(self._json(batch))["made"]

    def _make(self, frame: DataFrame, batch: int, offsets: str) -> None:
        border = self._border(batch)
        queries = checked(border["queries"])
        self.probe("bordered", batch)
        before = read_sealed(self._json(batch - 1)) if batch else {}
        reader = EventReader(frame.sparkSession, self.options)
        if before.get("known"):
            reader.known = StructType.fromJson(json.loads(before["known"]))
        events = self._events(frame, batch, reader, queries)
        waiting = self.state.blocks / f".{batch:010d}"
        shutil.rmtree(waiting, ignore_errors=True)
        columns, errors, digest = dict(before.get("columns", {})), {}, ""
        if events is not None:
            bound = self.plan.bound(events, queries)
            columns |= bound.columns
            errors = bound.errors
            given = {
                "by_window": self.options.by == "query-window",
                "partial": self.options.partial,
                "clock": str(border["clock"]),
                "ahead": str(round(self.options.ahead * MICROS)),
                "stream": self.endpoint.address.name,
            }
            blocks = self.plan.matched(events, bound, given)
            blocks.repartition(1).write.parquet(f"file://{waiting}")
            check_unchanged(self._taken)
            digest = _digest(next(waiting.glob("part-*.parquet")))
        self.probe("matched", batch)
        known = {
            "batch": batch,
            "made": digest,
            "query": query_id(self.state.files),
            "offsets": offsets,
            "version": border["version"],
            "columns": columns,
            "errors": errors,
            "absent": list(events.absent) if events is not None else [],
            "known": reader.known.json() if reader.known.fields else before.get("known", ""),
            "extra": _extra(before.get("extra", {}), queries),
            "groups": {**before.get("groups", {}), **{query.id: list(query.group_by) for query in queries}},
            "slides": {**before.get("slides", {}), **{query.id: query.slide for query in queries}},
        }
        write_sealed(self._json(batch), known)
        self.probe("known", batch)
        if digest:
            self._put(waiting, self._blocks(batch), 2 * batch)
        self.probe("put", batch)

    def _border(self, batch: int) -> dict[str, Any]:
        """The queries and the clock of a batch: decided once, before it is made."""
        path = self.state.path / "queries" / f"{batch:010d}.json"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            now = self.registry()
            border = {"batch": batch, "version": now.version, "clock": round(time.time() * MICROS)}
            write_sealed(path, {**border, "queries": list(now.active)})
        found = read_sealed(path)
        if found.get("batch") != batch:
            raise unreadable(path, f"it is that of batch {found.get('batch')}")
        return found

    def end(self) -> None:
        """Leave the blocks that end the source, after those of its last batch."""
        last = max(self._numbers(), default=-1)
        if last < 0:
            return
        final = self.state.blocks / f"{last:010d}-end.parquet"
        marked = self.state.blocks / f"{last:010d}-end.json"
        if marked.exists():
            return
        extra = read_sealed(self._json(last))["extra"]
        if extra:
            waiting = self.state.blocks / f".{last:010d}-end"
            shutil.rmtree(waiting, ignore_errors=True)
            self.plan.ended(self.spark, extra).repartition(1).write.parquet(f"file://{waiting}")
            self._put(waiting, final, 2 * last + 1)
        write_sealed(marked, {"batch": last})

    @staticmethod
    def _put(waiting: Path, final: Path, order: int) -> None:
        """The only file of a folder becomes that of a batch, with its checksum, by which a damaged one is noticed."""
        (part,) = waiting.glob("part-*.parquet")
        check = part.with_name(f".{part.name}.crc")
        force_all([path for path in (part, check) if path.exists()])
        os.utime(part, (_FIRST_TIME + order, _FIRST_TIME + order))
        if check.exists():
            check.rename(final.with_name(f".{final.name}.crc"))
        part.rename(final)
        force_all([final.parent])
        shutil.rmtree(waiting)

    # What stages 2 and 3 read.

    def blocks(self) -> DataFrame:
        """The blocks as a stream: a batch has those of one batch of the source."""
        options = {"maxFilesPerTrigger": "1", "pathGlobFilter": "[0-9]*.parquet", "maxFileAge": f"{2**63 - 1}ms"}
        return self.spark.readStream.schema(_BLOCKS).options(**options).parquet(f"file://{self.state.blocks}")

    def of_blocks(self, batch: int) -> dict[str, Any]:
        """What is known of the blocks that a batch of the later stages reads; nothing for those that end a source."""
        names = [Path(file.path).stem for file in SparkLog(self.state.checkpoint).of_batch(batch)]
        numbers = [int(name) for name in names if name.isdecimal()]
        return read_sealed(self._json(numbers[0])) if numbers and self._json(numbers[0]).exists() else {}

    def check(self) -> None:
        """Refuse a checkpoint of the source that is not that of the newest blocks, and blocks that are missing."""
        known = {batch: read_sealed(self._json(batch)) for batch in self._numbers()}
        newest = max(known, default=-1)
        found = known.get(newest, {})
        check_checkpoint(self.state.files, newest, found.get("query", ""), found.get("offsets", ""))
        log = SparkLog(self.state.checkpoint)
        log.refresh()
        read = max((Path(path) for path in log.known), default=None)
        if read is not None and int(read.stem.partition("-")[0]) > newest:
            raise unreadable(self.state.blocks, f"it is older than the aggregation, which has read {read.name}")
        for batch, one in known.items():
            path = self._blocks(batch)
            if one["batch"] != batch:
                raise unreadable(self._json(batch), f"it is that of batch {one['batch']}")
            # The newest may not have been put there yet: its batch is given again.
            if one["made"] and batch < newest and not path.exists() and str(path) not in log.known:
                raise unreadable(path, "it is missing, and was not read yet")
            if path.exists() and one["made"] != _digest(path):
                raise unreadable(path, "it is not what was written: its digest differs")

    def forget(self, batch: int) -> None:
        """Remove what the batches before this one have taken: Spark has committed them, and gives them no more."""
        taken = [Path(file.path) for file in SparkLog(self.state.checkpoint).of_batch(batch - 1)] if batch else []
        kept = self._numbers()[-2:]
        for path in taken:
            number = int(path.stem.partition("-")[0])
            if number in kept:
                continue
            path.unlink(missing_ok=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            for one in (self._json(number), self.state.path / "queries" / f"{number:010d}.json"):
                one.unlink(missing_ok=True)
            (self.state.blocks / f"{number:010d}-end.json").unlink(missing_ok=True)

    def _blocks(self, batch: int) -> Path:
        return self.state.blocks / f"{batch:010d}.parquet"

    def _json(self, batch: int) -> Path:
        return self.state.blocks / f"{batch:010d}.json"

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.state.blocks.glob("[0-9]*.json") if path.stem.isdecimal())


def _extra(before: dict[str, int], queries: Sequence[Query]) -> dict[str, int]:
    """By time field, how long after its newest event the last window of it is due."""
    found = dict(before)
    for query in queries:
        found[query.time] = max(found.get(query.time, 0), query.window + query.lateness)
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]

"""Stage 1: events -> parts of windows, left as one file of blocks for each batch of the source.

    names or messages of a batch -> events -> which queries they match -> windows, aggregated as far as a task goes

A query of Spark's over the source (`sources`) says which records make a batch. What could differ from one try at a
batch to the next is decided before it and written down in STATE/queries: the clock, and the queries with the version
of their registry. Each batch is matched once, and whatever happens later reads the same blocks
(`stateful.block_files`). The stages that read them: `batches`.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.types import StructType

from keylane.aggregation.expressions import FUNCTIONS
from keylane.errors import DataError
from keylane.pipelines.aggregate.events import EventReader
from keylane.pipelines.aggregate.options import MICROS
from keylane.pipelines.aggregate.results import columns_of, merged
from keylane.pipelines.stateful.block_files import BlockFiles
from keylane.pipelines.stateful.state_folder import read_sealed, write_sealed
from keylane.spark.blocks import BLOCKS
from keylane.spark.context import translated
from keylane.spark.jvm import java_class
from keylane.systems.checkpoint import batch_offsets, force_batch, unreadable
from keylane.systems.journal import no_probe
from keylane.systems.query_registry import checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from keylane.aggregation.query import Query
    from keylane.aggregation.registry import QueryRegistry, RegistrySnapshot
    from keylane.pipelines.aggregate.events import Events
    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.pipelines.aggregate.sources import EventSource
    from keylane.pipelines.stateful.state_folder import StateFolder
    from keylane.systems.journal import Probe

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
        refused = dict(events.refused)
        fit = [query for query in queries if query.time in events.times and not refused.keys() & query.columns]
        given = [_definition(query, events.times.index(query.time)) for query in fit]
        texts = json.dumps(given)
        key = hashlib.sha256(f"{schema.json()}\n{events.times}\n{texts}".encode()).hexdigest()
        if key not in self._bound:
            spark = events.frame.sparkSession
            empty = cast("ClassicFrame", spark.createDataFrame(spark.sparkContext.emptyRDD(), schema))
            java = self.plan.queries(empty._jdf, texts, json.dumps(sorted(FUNCTIONS | _SYNTAX)))  # noqa: SLF001  Java's
            facts = json.loads(java.facts())
            types, errors = facts["types"], facts["errors"]
            bad = {name: f"the time field {name} is no time but {kind}" for name, kind in events.timeless.items()}
            known = {one["id"] for one in given}
            absent = [query for query in queries if query.id not in known]
            errors |= {one.id: bad.get(one.time) or _why_left_out(one, refused) for one in absent}
            columns = {query.id: columns_of(query, types[query.id]) for query in queries if query.id in types}
            self._bound.clear()
            self._bound[key] = BoundQueries(java, columns, errors)
        return self._bound[key]

    def matched(self, events: Events, bound: BoundQueries, given: dict[str, Any]) -> DataFrame:
        """Events as blocks."""
        spark, frame = events.frame.sparkSession, cast("ClassicFrame", events.frame)
        times = _java_list(spark, events.times or ("",))
        made = self.plan.matched(frame._jdf, bound.java, times, {**given, "lanes": self.lanes})  # noqa: SLF001  Java's
        return ClassicFrame(made, spark)

    def ended(self, spark: SparkSession, times: Sequence[str]) -> pa.Table:
        """Blocks that make every window of these time fields due."""
        made = self.plan.ended(self.lanes, _java_list(spark, times))
        # By number: a walk to the end of a list of Java's is an exception that PySpark takes apart.
        rows = [made[at] for at in range(made.size())]
        return pa.table({"_1": pa.array(rows[::2], pa.int32()), "_2": pa.array(map(bytes, rows[1::2]), pa.binary())})

    def results(self, blocks: DataFrame) -> DataFrame:
        """Blocks -> rows of a kind and a text."""
        frame = cast("ClassicFrame", blocks)
        return ClassicFrame(self.plan.results(frame._jdf, self.lanes), blocks.sparkSession)  # noqa: SLF001  Java's

    def forget(self, query: str) -> int:
        """Drop what the steps of a query that has ended left in memory."""
        return int(self.plan.forget(query))


def _why_left_out(query: Query, refused: Mapping[str, str]) -> str:
    why = (refused[name] for name in query.columns if name in refused)
    return next(why, f"the events have no time field {query.time}")


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
    source: EventSource
    options: AggregateOptions
    plan: AggregatePlan
    state: StateFolder
    registry: QueryRegistry
    probe: Probe = no_probe

    @property
    def files(self) -> BlockFiles:
        """Where the blocks are left."""
        return BlockFiles(self.state)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make the blocks of a batch, unless they are there."""
        try:
            offsets = batch_offsets(self.state.files, batch)
            if self.files.is_made(batch, offsets):
                return
            force_batch(self.state.files, batch)
            self._make(frame, batch, offsets)
        except Exception as error:
            raise translated(error, batch, WORK) from error

    def _make(self, frame: DataFrame, batch: int, offsets: str) -> None:
        border = self._border(batch)
        queries = checked(border["queries"])
        self.probe("bordered", batch)
        before = self.files.facts(batch - 1) if batch else {}
        reader = EventReader(frame.sparkSession, self.options)
        if before.get("known"):
            reader.known = StructType.fromJson(json.loads(before["known"]))
        events = self.source.events(frame, batch, reader, queries)
        waiting = self.files.waiting(batch)
        columns, errors = dict(before.get("columns", {})), {}
        units = dict(before.get("units", {}))
        if events is not None:
            if not units:
                units = events.units()
            bound = self.plan.bound(events, queries)
            columns |= {name: merged(columns.get(name, {}), own) for name, own in bound.columns.items()}
            errors = bound.errors
            given = {
                "by_window": self.options.by == "query-window",
                "partial": self.options.partial,
                "clock": str(border["clock"]),
                "ahead": str(round(self.options.ahead * MICROS)),
                "stream": self.source.name,
            }
            blocks = self.plan.matched(events, bound, given)
            blocks.repartition(1).write.parquet(f"file://{waiting}")
            self.source.check_unchanged()
        self.probe("matched", batch)
        facts = {
            "version": border["version"],
            "registry": border.get("registry", ""),
            "columns": columns,
            "errors": errors,
            "absent": list(events.absent) if events is not None else [],
            "known": reader.known.json() if reader.known.fields else before.get("known", ""),
            "fingerprints": {**before.get("fingerprints", {}), **{one.id: one.fingerprint for one in queries}},
            "groups": {**before.get("groups", {}), **{query.id: list(query.group_by) for query in queries}},
            "units": units,
            "times": {**before.get("times", {}), **{query.id: query.time for query in queries}},
            "slides": {**before.get("slides", {}), **{query.id: query.slide for query in queries}},
        }
        self.files.note(batch, offsets, self.files.digest(waiting), facts)
        self.probe("known", batch)
        if events is not None:
            self.files.put(waiting, batch)
        self._forget_queries()
        self.probe("put", batch)

    def _border(self, batch: int) -> dict[str, Any]:
        """The queries and the clock of a batch: decided once, before it is made."""
        path = self._queries(batch)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            now = self.registry.snapshot()
            if batch:
                self._check_registry(now, self.files.facts(batch - 1))
            border = {"batch": batch, "version": now.version, "registry": now.digest}
            write_sealed(path, {**border, "clock": round(time.time() * MICROS), "queries": list(now.active)})
        found = read_sealed(path)
        if found.get("batch") != batch:
            raise unreadable(path, f"it is that of batch {found.get('batch')}")
        return found

    def _check_registry(self, now: RegistrySnapshot, before: dict[str, Any]) -> None:
        """Refuse a registry that is older than the last batch, or another one: windows of its queries are open."""
        hint = "give the registry that the aggregation ran with, or restore it"
        if now.version < before["version"]:
            what = "the registry of queries is older than the last batch"
            raise DataError.of(what, got=f"version {now.version}", allowed=f"{before['version']} or later", hint=hint)
        known, there = before.get("registry", ""), self.registry.digest_of(before["version"])
        if known and there and there != known:
            what = "the registry of queries was restored from an older copy and has changed since: queries may be gone"
            got = f"version {before['version']} of {there}"
            hint = "restore the newest copy of the registry, and add there what was added since; or begin anew, with "
            again = "another --to and --state"
            raise DataError.of(what, got=got, allowed=f"version {before['version']} of {known}", hint=hint + again)
        own = before["fingerprints"]
        for query in checked(now.active):
            if own.get(query.id, query.fingerprint) != query.fingerprint:
                what = "the registry of queries is another one: an id means another query than in the last batch"
                raise DataError.of(what, got=query.id, hint=hint)
        missing = set(own) - {one.id for one in self.registry.all()} if now.version != before["version"] else set()
        if missing:
            what = "the registry of queries is another one: it never had a query of the last batch"
            raise DataError.of(what, got=min(missing), hint=hint)

    def _queries(self, batch: int) -> Path:
        return self.state.path / "queries" / f"{batch:010d}.json"

    def end(self) -> None:
        """Leave the blocks that end the source, after those of its last batch."""
        last = max(self.files.numbers(), default=-1)
        if last < 0:
            return
        times = sorted(set(self.files.facts(last)["times"].values()))

        def write(waiting: Path) -> None:
            if times:
                waiting.mkdir()
                pq.write_table(self.plan.ended(self.spark, times), waiting / "part-00000.parquet")

        self.files.end(last, write)

    def forget(self, batch: int) -> None:
        """Remove what the batches before this one have taken."""
        self.files.forget(batch)
        self._forget_queries()

    def _forget_queries(self) -> None:
        """Remove the queries of batches whose blocks are gone."""
        oldest = min(self.files.numbers(), default=0)
        for path in (self.state.path / "queries").glob("[0-9]*.json"):
            if int(path.stem) < oldest:
                path.unlink(missing_ok=True)

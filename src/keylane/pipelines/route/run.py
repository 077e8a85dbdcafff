"""`route`: put every record of a source in its lane, batch or stream, exactly once.

    Spark's file source   says which files make a batch, and remembers it (its checkpoint)
    spark.read_parquet, .lines   the files of a batch -> records with their places
    spark.frames          records -> lanes, by the contract
    spark.write_lanes         lanes -> staged files, numbered
    systems.folders.folder       staged files -> the target, in one step

The query sees names of files, never records: each batch is an ordinary Spark job over the files it names (`batch`).
What happens when a process is killed at any point is in `systems.folders.folder` and docs/stream-folders.md.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NullType, StructType

from keylane.errors import TargetError, UsageError
from keylane.pipelines.context import fetch_cells, java_process, session_beside, translated, warn
from keylane.pipelines.route.files import Batches, Done, changed_since, query_id
from keylane.pipelines.route.options import KafkaOptions, Running
from keylane.router import Router
from keylane.spark.streaming import Gate, finish, stop
from keylane.systems.endpoint import parse_address, path_of
from keylane.systems.files.listing import kind_of, pattern_of
from keylane.systems.folders.folder import Counts, Head, Manifest, no_probe, open_target, read_head

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from keylane.contract.model import Contract
    from keylane.pipelines.context import Say
    from keylane.pipelines.match.follow_state import Happened
    from keylane.systems.folders.folder import Probe, Target
    from keylane.systems.kafka.state import Done as Written

__all__ = ["Done", "Options", "Routed", "route"]

#: Spark never reads a file that is older than this, counted from the newest it has seen. No file is.
_ANY_AGE: Final = "36500d"
_FILE_COLUMNS: Final = "path string, modificationTime timestamp, length bigint, content binary"
_POLL_SECONDS: Final = 0.05
_EVERY: Final = re.compile(r"\d{1,9} (milli)?seconds?|\d{1,9} (minute|hour|day)s?")


@dataclass(frozen=True, slots=True)
class Options:
    """What may be said about a route beside contract, source and target.

    `kind` is parquet, json or csv, found by the files' endings when it is not given; `schema` gives types to columns of
    JSON and CSV. A batch has at most `max_files` files; `every` is how often a following route looks for new ones.
    """

    lanes: int | None = None
    stream: str | None = None
    kind: str | None = None
    schema: str | None = None
    max_files: int = 1000
    every: str = "1 second"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    kafka: KafkaOptions = field(default_factory=KafkaOptions)


@dataclass(frozen=True, slots=True)
class Routed:
    """What a route came to: records of this run, of all runs into the target, and of this run by stream and lane.

    Into Kafka also: where its state is, where dead letters go, and how many records of this run a run before it had
    written already.
    """

    source: str
    target: str
    counts: Counts
    total: Counts
    lanes: dict[str, list[int]]
    batches: int
    stopped: bool
    state: str = ""
    dead_letters: str = ""
    repeated: int = 0


def route(
    contract: Contract,
    source: str,
    target: str,
    *,
    follow: bool = False,
    options: Options | None = None,
    spark: SparkSession | None = None,
    stop_asked: threading.Event | None = None,
    ready: Callable[[], None] = lambda: None,
    tell: Callable[[Done], None] = lambda _: None,
    say: Say = warn,
    probe: Probe = no_probe,
) -> Routed:
    """Route all there is and end, or, with `follow`, go on until `stop_asked` is set.

    Run again, either way, it goes on where the last run ended, whether that was finished, stopped or killed. A session
    that is given is used as it is; its own settings are left alone. `ready` is called once Spark is up, `tell` after
    each batch, `say` with what is no error and should be known, `probe` at the steps of a batch.
    """
    given = options or Options()
    _check_every(given.every)
    addresses = parse_address(source), parse_address(target)
    if {"kafka", "kinesis"} & {address.system for address in addresses}:
        from keylane.pipelines.route.to_kafka import route_kafka

        return route_kafka(contract, *addresses, given, Running(follow, spark, stop_asked, ready, tell, say, probe))
    router = Router(contract, lanes=given.lanes, stream=given.stream)
    came_from, going_to = _paths(source, target)
    head = head_of(router, came_from, *kind_and_pattern(came_from, going_to, given))
    with open_target(going_to, head) as held:
        before = held.recover() or Manifest.before_all(head)
        check_checkpoint(held.checkpoint, before)
        for text in changed_since(held, came_from):
            say(text)
        session = session_beside(spark, given.master, given.conf, say)
        held.lock.note_java(java_process(session))
        if contract.spec.key.is_place:
            fetch_cells(session, say)
        schema = schema_of(given.schema)
        ready()
        counted = None if head.pattern == pattern_of(head.kind, head.kind) else head.kind
        body = Batches(session, router, came_from, head.kind, held, before, schema, probe, tell, say, counted)
        stopped = run_query(
            discovered(session, head.source, head.pattern, given),
            Gate(body),
            held.checkpoint,
            given,
            follow,
            stop_asked,
        )
        return routed(held, before, body.state, str(came_from), stopped=stopped)


def _check_every(text: str) -> None:
    if not _EVERY.fullmatch(text):
        raise UsageError.of("not a length of time", got=text, allowed="a number and a unit: 500 milliseconds, 1 minute")


def _paths(source: str, target: str) -> tuple[Path, Path]:
    came_from, going_to = (
        Path(os.path.abspath(path_of(parse_address(text), what)))  # noqa: PTH100  not through links: names stay as given
        for text, what in ((source, "the source"), (target, "the target"))
    )
    real_from, real_to = came_from.resolve(), going_to.resolve()
    if real_from == real_to or real_from in real_to.parents or real_to in real_from.parents:
        got = f"{came_from} -> {going_to}"
        raise UsageError.of("source and target lie within each other", got=got, hint="a target beside the source")
    return came_from, going_to


def kind_and_pattern(source: Path, target: Path, given: Options) -> tuple[str, str]:
    """The kind and which names count: as the target remembers, as given, or as the files' endings tell."""
    found = read_head(target)
    if found is not None and given.kind in {None, found.kind}:
        return kind_of(source, found.kind), found.pattern
    kind = kind_of(source, given.kind)
    return kind, pattern_of(kind, given.kind)


def head_of(router: Router, source: Path, kind: str, pattern: str) -> Head:
    contract = router.contract
    streams = {router.stream: router.lane_count, **contract.tiers}
    meta = contract.metadata
    return Head(meta.name, meta.epoch, contract.fingerprint, streams, str(source), kind, pattern)


def check_checkpoint(checkpoint: Path, before: Manifest | Written | Happened) -> None:
    """A route that has taken records needs the checkpoint that says which; `before` is its last batch."""
    found = query_id(checkpoint)
    if before.batch >= 0 and found != before.query:
        raise TargetError.of(
            "the target has records, but not the Spark checkpoint that says which they are",
            got=found or f"no checkpoint in {checkpoint}",
            allowed=before.query,
            hint="restore the checkpoint folder, or begin a new route into a new target",
        )
    if not found and (checkpoint / "offsets").exists():
        raise TargetError.of("the Spark checkpoint is damaged: its metadata is gone", got=str(checkpoint))


def schema_of(text: str | None) -> StructType | None:
    """Columns and types as given. Spark reads them, so it has to be up."""
    try:
        found = None if text is None else DataType.fromDDL(text)
    except PySparkException:
        found = NullType()
    if found is None or isinstance(found, StructType):
        return found
    raise UsageError.of("not a list of columns and types", got=text, allowed="'id bigint, at timestamp'")


def discovered(spark: SparkSession, source: str, pattern: str, given: Options) -> DataFrame:
    """Files as they appear: names, ages and sizes. Their contents are not read here, and not even asked for."""
    return (
        spark.readStream.format("binaryFile")
        .schema(_FILE_COLUMNS)
        .option("recursiveFileLookup", value=True)
        .option("pathGlobFilter", pattern)
        .option("maxFilesPerTrigger", given.max_files)
        .option("maxFileAge", _ANY_AGE)
        .load(f"file://{source}")
        .select("path", F.unix_millis("modificationTime"), "length", F.col("_metadata.file_path"))
    )


def run_query(
    files: DataFrame, gate: Gate, checkpoint: Path, given: Options, follow: bool, stop_asked: threading.Event | None
) -> bool:
    """Run the query to its end; whether it was stopped before it."""
    trigger: dict[str, Any] = {"processingTime": given.every} if follow else {"availableNow": True}
    writer = files.writeStream.foreachBatch(gate).option("checkpointLocation", f"file://{checkpoint}")
    query = None
    try:
        query = writer.trigger(**trigger).start()
        stopped = _wait(query, gate, stop_asked)
        finish(query, gate)
    except Exception as error:
        raise translated(error) from error
    finally:
        if query is not None and query.isActive:
            query.stop()
    return stopped


def _wait(query: StreamingQuery, gate: Gate, stop_asked: threading.Event | None) -> bool:
    while query.isActive:
        if stop_asked is not None and stop_asked.is_set():
            stop(query, gate)
            return True
        time.sleep(_POLL_SECONDS)
    return False


def routed(target: Target, before: Manifest, after: Manifest, source: str, *, stopped: bool) -> Routed:
    lanes = {
        stream: [now - then for now, then in zip(offsets, before.next[stream], strict=True)]
        for stream, offsets in after.next.items()
    }
    counts = (after.total - before.total).checked("this run")
    return Routed(source, str(target.path), counts, after.total, lanes, after.batch - before.batch, stopped)

"""`keylane aggregate`: the stages brought together, run until the source has ended or until it is stopped.

Without `follow` it ends when the source is read and every window is closed. Run again it goes on where the last run
ended, whether that was finished, stopped or killed: events of windows that are closed by then are late.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.documents.aggregate import AggregateDocument, QueryFigures
from keylane.errors import SparkError, TargetError, UsageError
from keylane.pipelines.aggregate.batches import AggregateBatches
from keylane.pipelines.aggregate.matching import WORK, AggregatePlan, MatchingStage
from keylane.pipelines.aggregate.sources import FileEvents
from keylane.pipelines.stateful.block_files import beside
from keylane.pipelines.stateful.state_folder import RunHead, open_state
from keylane.spark.blocks import loading_by, use_slots
from keylane.spark.context import RunContext, java_process, translated, warn
from keylane.spark.session import (
    active_session_kept,
    existing_session,
    for_small_batches,
    is_submitted,
    require_classic,
)
from keylane.spark.streaming import run_query
from keylane.systems.checkpoint import check_checkpoint, check_sums, drop_unforced, query_id
from keylane.systems.endpoint import open_endpoint, parse_address, path_of
from keylane.systems.files.listing import kind_of, refuse_patterns
from keylane.systems.journal import no_probe
from keylane.systems.query_registry import open_queries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.pipelines.stateful.state_folder import BatchManifest
    from keylane.spark.context import Say
    from keylane.systems.endpoint import Endpoint
    from keylane.systems.journal import Probe

#: In the target, unless another folder is given.
STATE: Final = "_state"


@dataclass(frozen=True, slots=True)
class AggregateHead(RunHead):
    """What every run of an aggregation has to agree with."""

    source: str
    target: str
    registry: str
    by: str
    unit: str


def aggregate(
    source: str,
    target: str,
    queries: str,
    options: AggregateOptions,
    *,
    follow: bool = False,
    spark: SparkSession | None = None,
    stop_asked: threading.Event | None = None,
    ready: Callable[[], None] = lambda: None,
    tell: Callable[[dict[str, Any]], None] = lambda _: None,
    say: Say = warn,
    probe: Probe = no_probe,
) -> AggregateDocument:
    """Match, aggregate and deliver; the document of all that this aggregation has done."""
    require_classic(spark)
    given, began = options.checked(), time.monotonic()
    endpoint, to = open_endpoint(source, given.stream), parse_address(target)
    if endpoint.messages or not to.is_path:
        what = "only files can be aggregated yet, into a folder"
        raise UsageError.of(what, got=f"{source} -> {target}", allowed="paths")
    folder = path_of(to, "the target")
    state = Path(given.state).absolute() if given.state else folder / STATE
    _check_places(endpoint, folder, state)
    head = AggregateHead(str(endpoint.address), str(to), str(parse_address(queries)), given.by, given.unit)
    with open_queries(queries) as registry, open_state(state, head, "aggregation") as held:
        held.check_place()
        last = held.last()
        held.check_target(last, folder)
        if last.token:
            held.move(last, folder)
        drop_unforced(held.checkpoint, last.batch, last.batch)
        check_checkpoint(held.checkpoint, last.batch, last.query, last.offsets)
        run = RunContext(spark, given.master, _conf(given, spark), say=say)
        with active_session_kept(), endpoint.session(run) as session:
            held.lock.note_java(java_process(session))
            lanes = held.settled("lanes", lambda: given.lanes or session.sparkContext.defaultParallelism)
            if given.lanes not in {None, lanes}:
                what = "the lane count of an aggregation stays as it began"
                raise UsageError.of(what, got=given.lanes, allowed=str(lanes), hint="another --to and --state")
            use_slots(session, lanes)
            plan = AggregatePlan.of(session, lanes)
            source_events = FileEvents.of(session, endpoint, given, held)
            stage = MatchingStage(session, source_events, given, plan, held, registry.snapshot, probe)
            body = AggregateBatches(held, folder, stage, last, tell, probe)
            ready()
            how = RunContext(follow=follow, every=given.every, stop_asked=stop_asked, work=WORK)
            _run(stage, body, how)
            last = body.last
        stopped = stop_asked is not None and stop_asked.is_set()
        return _document(head, given, lanes, last, registry.version(), stopped, time.monotonic() - began)


def _run(stage: MatchingStage, body: AggregateBatches, run: RunContext) -> None:
    """Stage 1 beside the others where the source is followed; before them where it is read to its end."""
    stage.files.check()

    def matching(own: RunContext) -> bool:
        with loading_by(stage.spark, stage.plan.loader):
            return run_query(stage.source.stream(), stage, stage.state.files, own, stage.source.look)

    def deliver(check: Callable[[], None]) -> None:
        with loading_by(stage.spark, stage.plan.loader):
            results = stage.plan.results(stage.files.stream(stage.spark))
            run_query(results, body, stage.state.checkpoint, run, lambda _: check())

    try:
        if run.follow:
            with beside("keylane matching", lambda ended: matching(replace(run, stop_asked=ended))) as check:
                deliver(check)
            return
        if not matching(run):
            stage.source.check_complete()
            stage.end()
        deliver(lambda: None)
    except Exception as error:
        failed = translated(error, work=WORK)
        if isinstance(failed, SparkError):
            for checkpoint in (stage.state.checkpoint, stage.state.files):
                if isinstance(checkpoint, Path):
                    check_sums(checkpoint)
        raise failed from error
    finally:
        stage.plan.forget(query_id(stage.state.checkpoint))


def _check_places(endpoint: Endpoint, folder: Path, state: Path) -> None:
    refuse_patterns(state, "the state")
    # A source that is not there is refused before anything is made.
    kind_of(path_of(endpoint.address, "the source"), endpoint.options.kind)
    source = path_of(endpoint.address, "the source").resolve()
    for name, place in (("target", folder), ("state", state)):
        if place.resolve().is_relative_to(source):
            what, allowed = f"the {name} lies in the source, where it would be read", f"a folder outside of {source}"
            raise UsageError.of(what, got=str(place), allowed=allowed)
    if not state.exists() and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        hint = "results are added by the aggregation that began the folder; choose another, or give its --state"
        raise TargetError.of("the target is not empty", got=str(folder), allowed="a new folder", hint=hint)


def _conf(given: AggregateOptions, spark: SparkSession | None) -> Mapping[str, str]:
    is_new = spark is None and existing_session() is None and not is_submitted()
    master = given.master or given.conf.get("spark.master", "local")
    return for_small_batches(given.conf, one_machine=master.startswith("local")) if is_new else given.conf


def _document(
    head: AggregateHead,
    given: AggregateOptions,
    lanes: int,
    last: BatchManifest,
    version: int,
    stopped: bool,
    seconds: float,
) -> AggregateDocument:
    counts = last.counts or {}
    total = counts.get("total", {})
    queries = [
        QueryFigures(
            query_id=name,
            events=known["events"],
            windows=known["windows"],
            dropped=known["dropped"],
            corrected=known["corrected"],
            errors=known["errors"],
            error=known.get("error"),
            unfit=known.get("unfit", False),
        )
        for name, known in sorted(counts.get("queries", {}).items())
    ]
    return AggregateDocument(
        source=head.source,
        target=head.target,
        registry=head.registry,
        registry_version=version,
        by=given.by,
        lanes=lanes,
        batches=last.batch + 1,
        records=total.get("records", 0),
        matched=total.get("matched", 0),
        pairs=total.get("pairs", 0),
        dead=total.get("dead", 0),
        windows=total.get("windows", 0),
        corrections=total.get("corrections", 0),
        late=total.get("late", 0),
        errors=total.get("errors", 0),
        queries=queries,
        stopped=stopped,
        seconds=seconds,
    )

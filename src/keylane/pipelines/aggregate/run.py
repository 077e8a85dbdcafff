"""`keylane aggregate`: the stages brought together, run until the source has ended or until it is stopped.

Without `follow` it ends when the source is read and every window is closed. Run again it goes on where the last run
ended, whether that was finished, stopped or killed: events of windows that are closed by then are late.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from keylane.documents.aggregate import AggregateDocument
from keylane.errors import DataError, SparkError, TargetError, UsageError
from keylane.pipelines.aggregate.batches import AggregateBatches
from keylane.pipelines.aggregate.matching import WORK, AggregatePlan, MatchingStage
from keylane.pipelines.aggregate.results import figures_of
from keylane.pipelines.aggregate.sources import FileEvents, MessageEvents
from keylane.pipelines.aggregate.targets import CORRECTIONS, DEAD, ResultFolder, ResultStreams
from keylane.pipelines.stateful.block_files import beside
from keylane.pipelines.stateful.state_folder import RunHead, open_state, place_of
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
from keylane.systems.messages.records import check_record_options
from keylane.systems.query_registry import open_queries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.pipelines.aggregate.sources import EventSource
    from keylane.pipelines.aggregate.targets import ResultTarget
    from keylane.pipelines.stateful.state_folder import BatchManifest, StateFolder
    from keylane.spark.context import Say
    from keylane.systems.endpoint import Address, Endpoint
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
    times: str


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
    check_record_options(given.stream, messages=endpoint.messages)
    folder, state = _places(to, given)
    _check_places(endpoint, folder, state)
    streams = [] if to.is_path else [to.name, f"{to.name}{CORRECTIONS}", f"{to.name}{DEAD}"]
    out = open_endpoint(to, given.stream)
    if streams:
        out.check_apart(endpoint)
        out.check_streams(streams, given.lanes or 1)
    head = AggregateHead(
        place_of(endpoint.address),
        place_of(to),
        place_of(parse_address(queries)),
        given.by,
        ", ".join(sorted(given.times)),
    )
    with ExitStack() as opened:
        registry = opened.enter_context(open_queries(queries, given.stream))
        held = opened.enter_context(open_state(state, head, "aggregation"))
        held.check_place()
        last = held.last()
        held.check_target(last, folder)
        if last.token:
            held.move(last, folder)
        drop_unforced(held.checkpoint, last.batch, last.batch)
        check_checkpoint(held.checkpoint, last.batch, last.query, last.offsets)
        results: ResultTarget = ResultFolder(folder)
        if streams:
            name = held.settled("delivery", lambda: f"keylane.aggregate.{uuid4().hex[:16]}")
            delivery = opened.enter_context(out.deliveries(name, streams))
            results = ResultStreams(held, to.name, delivery)
            if not delivery.exactly_once:
                say(f"results go to {to} at least once: of two with one query_id and sequence the first counts")
        results.check(last.batch)
        run = RunContext(spark, given.master, _conf(given, spark), say=say)
        with active_session_kept(), endpoint.session(run) as session:
            held.lock.note_java(java_process(session))
            lanes = held.settled("lanes", lambda: given.lanes or session.sparkContext.defaultParallelism)
            if given.lanes not in {None, lanes}:
                what = "the lane count of an aggregation stays as it began"
                raise UsageError.of(what, got=given.lanes, allowed=str(lanes), hint="another --to and --state")
            use_slots(session, lanes)
            plan = AggregatePlan.of(session, lanes)
            stage = MatchingStage(session, _source(session, endpoint, given, held), given, plan, held, registry, probe)
            body = AggregateBatches(held, results, stage, last, tell, probe)
            ready()
            how = RunContext(follow=follow, every=given.every, stop_asked=stop_asked, work=WORK)
            _run(stage, body, how)
            last = body.last
        stopped = stop_asked is not None and stop_asked.is_set()
        return _document(head, given, lanes, last, registry.version(), stopped, time.monotonic() - began)


def _source(spark: SparkSession, endpoint: Endpoint, given: AggregateOptions, held: StateFolder) -> EventSource:
    if not endpoint.messages:
        return FileEvents.of(spark, endpoint, given, held)
    known = held.settled("id of the source", endpoint.identity)
    found = MessageEvents(endpoint.follow_messages(spark, known), endpoint.address.name)
    found.check_unchanged()
    return found


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


def _places(to: Address, given: AggregateOptions) -> tuple[Path, Path]:
    """The folder that batches add to, and the state folder."""
    state = None if given.state is None else Path(given.state).absolute()
    if to.is_path:
        folder = path_of(to, "the target")
        return folder, state or folder / STATE
    if state is None:
        raise UsageError.of("an aggregation into a stream needs a state folder", got=str(to), hint="--state DIR")
    return state, state


def _check_places(endpoint: Endpoint, folder: Path, state: Path) -> None:
    refuse_patterns(state, "the state")
    if endpoint.address.is_path:
        # A source that is not there is refused before anything is made.
        kind_of(path_of(endpoint.address, "the source"), endpoint.options.kind)
        source = path_of(endpoint.address, "the source").resolve()
        for name, place in (("target", folder), ("state", state)):
            if place.resolve().is_relative_to(source):
                what = f"the {name} lies in the source, where it would be read"
                raise UsageError.of(what, got=str(place), allowed=f"a folder outside of {source}")
    elif not endpoint.lanes_there([endpoint.address.name])[endpoint.address.name]:
        raise DataError.of("there is no such source", got=str(endpoint.address))
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
        queries=figures_of(counts.get("queries", {})),
        stopped=stopped,
        seconds=seconds,
    )

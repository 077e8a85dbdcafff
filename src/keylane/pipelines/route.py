"""`route`: put every record of a source in its lane, batch or stream, exactly once.

    systems.endpoint   two addresses -> a source and a target
    source.follow      which records make a batch: Spark's checkpoint remembers it
    target.write       a batch -> lanes, by the contract; committed once
    spark.streaming    the query that hands batches over, and its end

Which systems these are is not known here. What source and target are to each other: `systems.flow`. What is left by a
process that is killed at any point: `systems.folders.folder`, `systems.messages.state`, docs/stream-folders.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import keylane.pipelines.with_spark  # noqa: F401  imported for its error
from keylane.documents.route import RecordCounts, RoutedLane, RouteDocument
from keylane.pipelines.changes import with_change
from keylane.spark.context import RunContext, java_process, warn
from keylane.spark.streaming import run_query
from keylane.systems.endpoint import StreamOptions, open_endpoint
from keylane.systems.flow import BatchReport as Done
from keylane.systems.flow import Routed, check_every
from keylane.systems.jars import fetch_cells
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.spark.context import Probe, Say
    from keylane.systems.endpoint import Endpoint
    from keylane.systems.flow import Followed, RouteTarget

__all__ = ["Done", "KafkaOptions", "Options", "Routed", "document_of", "route", "route_between"]

#: The options of streams, by the name under which the documentation of `route` has them.
KafkaOptions = StreamOptions


@dataclass(frozen=True, slots=True)
class Options:
    """What may be set about a route beside contract, source and target.

    `kind` is parquet, json or csv, by the files' endings when it is not given; `schema` gives types to columns of JSON
    and CSV. A batch has at most `max_files` files; `every` is how often a following route looks for new ones. `after`
    are the files of saved plans that were carried out, behind which the route goes on, and `journal` that of a
    migration where it is not beside its plan.
    """

    lanes: int | None = None
    stream: str | None = None
    kind: str | None = None
    schema: str | None = None
    max_files: int = 1000
    every: str = "1 second"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    kafka: StreamOptions = field(default_factory=StreamOptions)
    after: Sequence[str] = ()
    journal: str | None = None


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
    each batch, `say` with warnings, `probe` at the steps of a batch.
    """
    given = options or Options()
    check_every(given.every)
    run = RunContext(spark, given.master, given.conf, follow, given.every, stop_asked, ready, tell, say, probe)
    kind, schema = given.kind or given.kafka.kind, given.schema or given.kafka.schema
    streams = replace(given.kafka, kind=kind, schema=schema, max_files=given.max_files)
    streams = with_change(streams, given.after, given.journal)
    ends = open_endpoint(source, streams), open_endpoint(target, streams)
    return route_between(contract, *ends, run, lanes=given.lanes, stream=given.stream)


def document_of(found: Routed, contract: Contract, seconds: float) -> RouteDocument:
    """The document that a route ends with: records of this run by lane and in all, and of all runs."""
    counts = found.counts
    return RouteDocument(
        contract=contract.metadata.name,
        fingerprint=contract.fingerprint,
        source=found.source,
        target=found.target,
        in_=counts.in_,
        out=counts.out,
        dead=counts.dead,
        filtered=counts.filtered,
        lanes=[
            RoutedLane(stream=stream, lane=lane, records=records)
            for stream, lanes in found.lanes.items()
            for lane, records in enumerate(lanes)
        ],
        batches=found.batches,
        stopped=found.stopped,
        seconds=round(seconds, 3),
        total=RecordCounts.model_validate(found.total.as_json()),
        state=found.state or None,
        dead_letters=found.dead_letters or f"{found.target}/_dead",
        repeated=found.repeated,
    )


def route_between(
    contract: Contract,
    source: Endpoint,
    target: Endpoint,
    run: RunContext,
    *,
    lanes: int | None = None,
    stream: str | None = None,
) -> Routed:
    """Route from one endpoint to another. Everything that can be refused is, before `begin` creates anything."""
    target.check_apart(source)
    source.check_source(contract, target)
    with (
        target.target(run, contract, source, lanes, stream) as held,
        (source if source.connector else target).session(run) as session,
    ):
        if contract.spec.key.is_place:
            fetch_cells(session, run.say)
        followed = source.follow(session, held.router.contract, held.origin)
        stream_of_batches = followed.stream()
        held.begin(session, followed)
        held.lock.note_java(java_process(session))
        followed.begin(held.checkpoint, held.taken())
        run.ready()
        stopped = run_query(stream_of_batches, _numbered(followed, held), held.checkpoint, run, followed.look)
        if not (stopped or run.follow):
            followed.check_complete()
        return held.result(held.origin.address, stopped=stopped)


def _numbered(source: Followed, target: RouteTarget) -> Callable[[DataFrame, int], None]:
    """The body of a batch, of whose number the source takes notice first."""

    def write(frame: DataFrame, batch: int) -> None:
        source.at(batch)
        target.write(frame, batch)

    return write

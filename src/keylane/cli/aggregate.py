"""`keylane aggregate`: standing queries over a stream of events, their windows aggregated and delivered in order.

The command itself runs the pipeline; `aggregate queries` changes the registry (`aggregate_queries`). `plan_of` is
`keylane plan` of what an aggregation has delivered.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.aggregate_queries import queries
from keylane.cli.options import (
    Applies,
    check_applies,
    client_options,
    grouped,
    properties_from,
    reading_applies,
    settings_from,
    spark_options,
    streaming_from,
    streaming_options,
    time_of,
    written_applies,
)
from keylane.cli.output import Result, Section, check_free, output_option, write
from keylane.cli.terminal import note
from keylane.numbers import agree, count, duration, plural, share, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.cli.progress import RouteProgress
    from keylane.documents.aggregate import AggregateDocument, AggregatePlanDocument
    from keylane.pipelines.aggregate.options import AggregateOptions

#: Queries that a table shows; all of them are in the other formats.
SHOWN: Final = 40
TITLE: Final = "By query; an event counts in each of its windows, and each group of a window is a result:"
COLUMNS: Final = ("query_id", "events", "windows", "dropped", "corrected", "errors", "error")
_options: Final = grouped(
    click.option(
        "--from",
        "source",
        metavar="SRC",
        help="Events: a file, a folder, kafka://host:port/topic or kinesis://region/stream.",
    ),
    click.option(
        "--to", "target", metavar="DST", help="A folder, a topic or a stream; that of an aggregation goes on."
    ),
    click.option(
        "--queries",
        "registry",
        metavar="REGISTRY",
        help="The registry of queries: a SQLite file, or a compacted topic.",
    ),
    click.option("--follow", "-F", is_flag=True, help="Follow the source until stopped; otherwise end with it."),
    click.option(
        "--by",
        type=click.Choice(["query", "query-window"]),
        default="query-window",
        show_default=True,
        help="How windows are divided over lanes (partitions).",
    ),
    click.option("--lanes", "-n", type=click.IntRange(min=1), help="Lanes of the state; default: one per core."),
    click.option(
        "--time",
        "-t",
        "times",
        multiple=True,
        metavar="FIELD:FORMAT",
        callback=time_of,
        help="How a time field of queries is written: ts:ms; default: by its values. Repeatable.",
    ),
    click.option("--no-partial", is_flag=True, help="Send each matched event on its own, for comparison."),
    click.option(
        "--ahead",
        type=float,
        default=86_400.0,
        show_default=True,
        metavar="SECONDS",
        help="Events further in the future are dead letters.",
    ),
    click.option(
        "--state",
        type=click.Path(),
        help="Where the state is kept; default: DST/_state; needed where DST is no folder.",
    ),
    click.option("--every", default="1 second", show_default=True, metavar="TIME", help="How often --follow polls."),
    click.option("--max-files", type=click.IntRange(min=1), default=1000, show_default=True, help="Files in a batch."),
    click.option("--create", is_flag=True, help="Create missing topics or streams of DST."),
    spark_options,
    streaming_options,
)


@click.group(
    invoke_without_command=True, short_help="Standing queries over a stream: windows aggregated, delivered in order."
)
@_options
@output_option
@click.pass_context
def aggregate(
    context: click.Context,
    /,
    source: str | None,
    target: str | None,
    registry: str | None,
    follow: bool,
    output: str,
    **options: Any,
) -> tuple[Result, str] | None:
    """Aggregate the events that match standing queries by window, and deliver each query's windows in order.

    \b
    keylane aggregate queries add queries.json --queries queries.sqlite
    keylane aggregate --from events/ --to results/ --queries queries.sqlite
    keylane aggregate --from events/ --to results/ --queries queries.sqlite --follow

    A result has query_id, window_start, window_end, the fields of group_by, the aggregates by their names, and
    sequence: 0, 1, 2 … within a query, in window order. Results are equal to those of a plain computation over all
    events that are not late. DST gets results/, corrections/, _dead/ and _metrics/.
    Exit codes: 0 done, 1 failed, 2 usage or invalid query, 130 interrupted.
    """
    if (inner := context.invoked_subcommand) is not None:
        # They are of the aggregation itself; the commands within have their own.
        check_applies(Applies(tuple(context.params), False, f"keylane aggregate alone, without {inner}"))
        return None
    missing = [name for name, value in (("--from", source), ("--to", target), ("--queries", registry)) if not value]
    if missing or source is None or target is None or registry is None:
        raise click.UsageError(f"an aggregation needs {', '.join(missing)}; hint: keylane aggregate --help", context)
    from keylane.systems.endpoint import open_endpoint

    check_applies(
        Applies(("every",), follow, "--follow"),
        Applies(("create",), lambda: open_endpoint(target).messages, "a target that is a topic or a stream"),
        Applies(("start", "max_records"), lambda: open_endpoint(source).messages, "a source that is a topic"),
        *reading_applies(source, into=(target, registry), kind=options["kind"]),
    )
    given = _given(options)
    from functools import partial

    from keylane.cli.progress import RouteProgress
    from keylane.cli.route import Stopping, listen

    stopping, progress = Stopping("aggregate"), RouteProgress(source, "aggregate", follow=follow)

    from keylane.pipelines.aggregate.run import aggregate as run

    try:
        document = run(
            source,
            target,
            registry,
            given,
            follow=follow,
            stop_asked=stopping.asked,
            ready=partial(listen, stopping, progress),
            tell=partial(_show, progress),
            say=lambda text: note(f"aggregate: {text}"),
        )
    finally:
        stopping.restore()
        progress.clear()
    return as_result(document, follow=follow), output


def _show(progress: RouteProgress, metrics: dict[str, Any]) -> None:
    """After a batch: how far it is, and how long the state took where it was rebuilt."""
    progress.reached(metrics["total"]["records"])
    if metrics["restored"]:
        size = f"{plural(metrics['restored'], 'slot')}, {count(metrics['state_bytes'])} bytes with this batch"
        note(f"aggregate: state rebuilt from its checkpoint in {duration(metrics['restore_s'])}: {size}")


def _given(options: dict[str, Any]) -> AggregateOptions:
    from keylane.pipelines.aggregate.options import AggregateOptions

    max_files = options["max_files"]
    stream = streaming_from(options)
    return AggregateOptions(
        times=options["times"],
        ahead=options["ahead"],
        by=options["by"],
        lanes=options["lanes"],
        partial=not options["no_partial"],
        state=options["state"],
        every=options["every"],
        max_files=max_files,
        master=options["master"],
        conf=settings_from(options["settings"]),
        stream=stream,
    )


def as_result(document: AggregateDocument, *, follow: bool) -> Result:
    """What came of it in all, then by query: those with problems first, then the largest."""
    from keylane.cli.interrupts import INTERRUPTED

    ordered = sorted(document.queries, key=lambda one: (not (one.errors or one.unfit), -one.events, one.query_id))
    rows = [one.model_dump() for one in ordered[:SHOWN]]
    code = INTERRUPTED if document.stopped and not follow else 0
    return Result(
        document, [Section(COLUMNS, rows, TITLE)], list(_lines(document)), code, answer=list(_answer(document))
    )


def _answer(document: AggregateDocument) -> Iterator[str]:
    yield (
        f"{count(document.windows)} results of {plural(len(document.queries), 'query')}: "
        f"{count(document.matched)} of {count(document.records)} events match, {count(document.pairs)} times in all; "
        f"{plural(document.batches, 'batch')}, {duration(document.seconds)}"
    )
    if document.late:
        yield f"  {count(document.late)} events were late; {count(document.corrections)} corrections were delivered"
    if document.dead:
        yield f"  dead letters: {count(document.dead)}, in {_dead_letters(document.target)}"


def _dead_letters(target: str) -> str:
    from keylane.systems.endpoint import parse_address

    return f"{target}{'/_dead' if parse_address(target).is_path else '.dlq'}"


def _lines(document: AggregateDocument) -> Iterator[str]:
    if len(document.queries) > SHOWN:
        yield f"{count(len(document.queries) - SHOWN)} more queries: -o json has all of them"
    unfit = [one.query_id for one in document.queries if one.unfit]
    if unfit:
        do = agree(len(unfit), "does", "do")
        yield f"{plural(len(unfit), 'query')} {do} not fit the events, and so match none: {', '.join(unfit[:5])}"


@aggregate.command(short_help="Whether results are in order, none missing, none twice.")
@click.argument("target", metavar="DST")
@click.option("--state", type=click.Path(), help="The state of the aggregation; default: DST/_state.")
@client_options
@output_option
def verify(target: str, state: str | None, output: str, **options: Any) -> tuple[Result, str]:
    """Check the results of an aggregation: windows of a query in order, none missing, none twice.

    DST is a folder, a topic or a stream. Of a topic committed records are read. Values are not compared with anything:
    a result that somebody has changed after its delivery is not noticed.
    Exit codes: 0 all right, 1 something is wrong.
    """
    from keylane.pipelines.aggregate.verify import verify_results
    from keylane.systems.endpoint import StreamOptions

    check_applies(*reading_applies(target))

    document = verify_results(target, state, StreamOptions(properties_from(options)))
    answer = f"{count(document.results)} results of {plural(document.queries, 'query')}: "
    found = {"missing": document.missing, "twice": document.twice, "out of order": document.out_of_order}
    wrong = [
        f"{count(number)} {what}" for what, number in {**found, "otherwise wrong": document.other}.items() if number
    ]
    answer += ", ".join(wrong) if wrong else "every query's windows are in order, none missing, none twice"
    lines = [*document.problems, "values were not compared: a result that was changed after delivery is not noticed"]
    if not document.compared_with_state:
        lines.append("without the state, results that are missing after the last one are not noticed")
    return Result(document, [], lines, int(not document.is_right), answer=[answer]), output


@aggregate.command(short_help="The load of lanes by query, by query and window, and with partial sums.")
@click.argument("target", metavar="DST")
@click.option("--lanes", "-n", type=click.IntRange(1, 100_000), default=64, show_default=True, help="How many lanes.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page: hot, late and failing queries.")
@click.option("--force", is_flag=True, help="Replace the page.")
@output_option
def explain(target: str, lanes: int, report: str | None, force: bool, output: str) -> tuple[Result, str]:
    """Show what each lane would receive of the events that an aggregation has delivered, under three divisions.

    \b
    query                  hash of the query's id
    query-window           one lane further with each window of the query
    query-window-partial   the same, and each task sends one partial aggregate of a window

    keylane plan DST says by the same figures whether what runs should change.
    """
    from keylane.pipelines.aggregate.explain import explain_load

    check_applies(written_applies(report, options="--report"))
    check_free(report, force=force)
    document = explain_load(target, lanes)
    if report:
        from keylane.report.aggregate_page import aggregate_page

        write(report, aggregate_page(document))
    rows = [{**one.model_dump(), "fullest": max(one.loads)} for one in document.divisions]
    divisions = Section(("division", "received", "fullest", "max_over_mean"), rows, forms={"max_over_mean": times})
    hottest = Section(
        ("query_id", "events", "share"), [one.model_dump() for one in document.hottest], forms={"share": share}
    )
    hot = f"{count(document.queries_with_90_percent)} of {plural(document.queries, 'query')}"
    have = agree(document.queries_with_90_percent, "has", "have")
    answer = [f"{hot} {have} 90% of {count(document.events)} matched events, in {count(document.windows)} results"]
    lines = [document.advice, *([f"page: {report}"] if report else [])]
    return Result(document, [divisions, hottest], lines, answer=answer), output


aggregate.add_command(queries)

CHANGES: Final = 3
UNMET: Final = 4
PLANNED: Final = ("lanes", "division", "received", "fullest", "max_over_mean", "chosen")


def has_delivered(source: str) -> bool:
    """Whether a folder is the target or the state of an aggregation, before anything large is imported."""
    from keylane.systems.endpoint import parse_address

    address = parse_address(source)
    return address.is_path and Path(address.name, "_load").is_dir()


def plan_of(source: str, lanes: tuple[int, int] | None, max_over_mean: float | None) -> Result:
    """Which division and how many lanes, and whether what runs should change: the choice that `explain` shows."""
    from keylane.pipelines.aggregate.explain import plan_load
    from keylane.plan.choose import lane_counts

    counts = None if lanes is None else lane_counts(*lanes)
    document = plan_load(source, counts, max_over_mean)
    rows = [{**one.model_dump(), "chosen": "yes" if one.chosen else ""} for one in document.candidates]
    code = UNMET if not document.met else CHANGES if document.changes else 0
    table = Section(PLANNED, rows, "divisions of the work", forms={"max_over_mean": times})
    return Result(document, [table], list(_planned(document)), code, answer=[_verdict(document)])


def _verdict(document: AggregatePlanDocument) -> str:
    chosen = " ".join(document.options)
    if not document.met:
        return f"Not possible: no division keeps {times(document.max_over_mean)} the mean; the best is {chosen}"
    if document.running is None:
        return f"{chosen}; how the aggregation runs is not known"
    return f"Change it: {chosen}" if document.changes else f"Leave it: {chosen}"


def _planned(document: AggregatePlanDocument) -> Iterator[str]:
    yield document.advice
    if document.changes and document.anew:
        yield "division and lanes stay as an aggregation began: start a new one, with another --to and --state"
    elif document.changes:
        yield "stop it, and start it again with the same --to and --state"

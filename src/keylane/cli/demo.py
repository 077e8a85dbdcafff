"""`keylane demo`: all of it on one machine, with nothing else to start; ends with a page to look at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keylane.cli.demo_fence import fence
from keylane.cli.demo_lesson import lesson
from keylane.cli.demo_migrate import migrate
from keylane.cli.demo_shards import shards
from keylane.cli.options import Applies, check_applies, master_option
from keylane.cli.output import Result, Section, output_option, write
from keylane.cli.progress import FIGURES, PAGE, progress, ready
from keylane.numbers import count, percent, share, times

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.documents.demo import DemoCase, DemoFigures, DemoTrial, LaneDrift, StandingQueries

STANDING = ("division", "received", "max_over_mean", "fullest", "fullest_minute")
DRIFT = ("lanes", "expected", "keys", "moved", "formula")
#: On this machine the work is done before Java's second compiler has paid for itself; and what Spark generates for a
#: contract with many heavy keys is longer than what Java compiles by default.
SHORT_RUN = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:-DontCompileHugeMethods"}


@click.group(
    invoke_without_command=True,
    short_help="All of it on one machine: a day routed before and after, as a page to look at.",
)
@click.option(
    "--to", type=click.Path(path_type=Path), default="keylane-demo", show_default=True, help="Folder to fill."
)
@click.option("--seed", type=click.IntRange(min=0), default=2026, show_default=True, help="Seed of the generated day.")
@click.option(
    "--scale",
    type=click.FloatRange(0.01, 100),
    default=1.0,
    show_default=True,
    help="Number of records, in millions.",
)
@master_option
@output_option
@click.pass_context
def demo(
    ctx: click.Context, to: Path, seed: int, scale: float, master: str | None, output: str
) -> tuple[Result, str] | None:
    """Make a day of payments, rides and queries, route it under nine contracts, and write a page about it.

    An hour of events under 1,000 standing queries is aggregated too, by the pipeline of `keylane aggregate`.
    Needs Java and the extra `spark`. The folder gets the day (source/), the contracts (contracts/), the aggregation
    (aggregate/), the figures (figures.json) and the page (index.html). A folder that holds anything else is left alone.

    \b
    keylane demo
    keylane demo --to /tmp/demo --seed 7 --scale 0.1
    """
    if ctx.invoked_subcommand:
        # They are of the day; the commands within have their own.
        check_applies(Applies(tuple(ctx.params), False, f"keylane demo alone, without {ctx.invoked_subcommand}"))
        return None
    say = progress(time.monotonic())
    ready(to)
    document = _run(to, seed, scale, master, say)
    page = to.resolve() / PAGE
    say(f"the page is {page}")
    return as_result(document, page), output


def _run(to: Path, seed: int, scale: float, master: str | None, say: Callable[[str], None]) -> DemoFigures:
    say("starting Spark")
    from keylane.spark import local_session  # noqa: I001  first: it names the extra when pyspark is missing
    from keylane.pipelines.demo.run import run_demo, errors_translated
    from keylane.pipelines.demo.traffic import Sizes
    from keylane.report.demo_page import demo_page

    spark = local_session(master, None if master else SHORT_RUN)
    with errors_translated(to):
        try:
            found = run_demo(spark, to, seed, Sizes().scaled(scale), say)
        finally:
            spark.stop()
        write(str(to / PAGE), demo_page(found))
    return found


def as_result(found: DemoFigures, page: Path) -> Result:
    """The figures without the cells of the heat maps: those are in figures.json."""
    from keylane.documents.demo import DemoDocument

    plain = {name: getattr(found, name) for name in type(found).model_fields}
    bare = [
        case.model_copy(update={"trials": [trial.model_copy(update={"cells": []}) for trial in case.trials]})
        for case in found.cases
    ]
    divisions = [one.model_copy(update={"cells": []}) for one in found.standing.divisions]
    standing = found.standing.model_copy(update={"divisions": divisions})
    document = DemoDocument(
        **{**plain, "cases": bare, "standing": standing}, page=str(page), figures=str(page.parent / FIGURES)
    )
    rows = [_row(case, trial, i) for case in bare for i, trial in enumerate(case.trials)]
    columns = ("stream", "contract", "lanes", "max_over_mean", "before_noon", "after_noon", "idle_lanes", "order")
    title = f"Drift: how many of {count(found.merchants)} keys move when the lane count changes"
    drift = Section(DRIFT, [_drift_row(row) for row in found.drift], title)
    forms = dict.fromkeys(("max_over_mean", "before_noon", "after_noon"), times)
    heads = {"max_over_mean": "fullest over mean"}
    lanes = Section(columns, rows, forms=forms, heads=heads)
    return Result(document, [lanes, _standing(standing), drift], [f"Look at it: {page.as_uri()}"])


def _standing(found: StandingQueries) -> Section:
    """What the lanes of the aggregation received, however the work is divided."""
    hot = f"{count(found.queries_with_90_percent)} of {count(found.queries)} have 90% of {count(found.events)} events"
    in_order = f"{count(found.results)} results are in order, none missing, none twice"
    title = f"Standing queries on {found.lanes} lanes of keylane aggregate: {hot}; {in_order}"
    rows = [one.as_json() for one in found.divisions]
    return Section(STANDING, rows, title, forms={"max_over_mean": times}, heads={"max_over_mean": "fullest over mean"})


def _row(case: DemoCase, trial: DemoTrial, i: int) -> dict[str, Any]:
    marks = {0: " (before)", case.chosen: " (after)"}
    scopes = [f"{scope.order_scope} {share(scope.share)}" for scope in trial.order]
    return {"stream": case.name, "contract": trial.name + marks.get(i, ""), **trial.as_json(), "order": scopes}


def _drift_row(row: LaneDrift) -> dict[str, str]:
    return {
        "lanes": f"{row.old} -> {row.new}",
        "expected": percent(row.expected, 2),
        "formula": percent(row.formula, 2),
        "keys": percent(row.keys, 2),
        "moved": count(row.moved),
    }


demo.add_command(fence)
demo.add_command(lesson)
demo.add_command(migrate)
demo.add_command(shards)

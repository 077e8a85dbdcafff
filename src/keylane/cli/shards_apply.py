"""`keylane shards apply`: carries out a saved plan of splits and merges, one call after another; dry without --yes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from keylane.cli.options import length_of_time
from keylane.cli.output import Result, Section, output_option
from keylane.cli.terminal import note
from keylane.numbers import count, plural

PENDING: Final = 3
CALLS: Final = ("step", "call", "at", "state")
SHOWN: Final = 50


@click.command(short_help="Carry out a saved plan of splits and merges; dry without --yes.")
@click.argument("plan", type=click.Path(path_type=Path), metavar="PLAN")
@click.option("--yes", is_flag=True, help="Make the calls; otherwise only what would be done is printed.")
@click.option("--stream", metavar="ADDRESS", help="The stream; default: the one that the plan was made of.")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where each call is recorded; default: PLAN.record.",
)
@click.option(
    "--patience", callback=length_of_time, default="10m", show_default=True, help="How long one call may take."
)
@output_option
def apply(
    plan: Path, yes: bool, stream: str | None, record: Path | None, patience: float, output: str
) -> tuple[Result, str]:
    """Carry out PLAN, a file that `keylane shards plan --out` saved.

    Without --yes nothing is changed. With it, one call is made after the other: each is recorded, and the shards of the
    stream are compared with the plan before the next. Stopped or killed, the same command goes on. A stream that is not
    as planned is refused, and so is one whose records are not placed by their keys.

    \b
    keylane shards plan --layout kinesis://eu-west-1/accounts --to wanted.json --out plan.json
    keylane shards apply plan.json
    keylane shards apply plan.json --yes

    Exit codes: 0 done, or nothing to do; 3 calls are left; 1 refused or failed; 2 usage.
    """
    import time

    from keylane.pipelines.shards import apply_shards
    from keylane.systems.resharding import Waiting

    waiting = Waiting(time.monotonic, time.sleep, patience)
    document = apply_shards(plan, stream=stream, record=record, yes=yes, waiting=waiting, say=note)
    rows = [{"step": one.step, "call": one.call, "at": one.at, "state": one.state} for one in document.calls]
    sections = [
        Section(CALLS, rows, "Calls, in order:", for_programs=len(rows) > SHOWN),
        *([Section(CALLS, rows[:SHOWN], f"Calls, the first {SHOWN}:")] if len(rows) > SHOWN else []),
    ]
    shards = plural(len(document.layout), "open shard")
    if document.left:
        made = "The same command with --yes makes them"
        line = f"{plural(document.left, 'call')} left of {count(len(rows))}; {shards} now. {made}"
    else:
        line = f"done: {plural(document.done, 'call')}, {count(document.now)} of them now; {shards}"
    return Result(document, sections, [], PENDING if document.left else 0, [line]), output

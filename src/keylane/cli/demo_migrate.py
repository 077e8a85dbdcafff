"""`keylane demo migrate`: a topic grows from 12 to 18 lanes under load, without the gate and with it."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from keylane.cli.demo_lesson import own_cluster
from keylane.cli.output import Result, Section, output_option, write
from keylane.cli.progress import FIGURES, PAGE, progress, ready
from keylane.numbers import count, duration, share

if TYPE_CHECKING:
    from keylane.documents.demo_migrate import DemoMigrateDocument

COLUMNS: Final = ("run", "applied", "broken", "broken_keys", "pause", "certificate")
WORDS: Final = {"ungated": "lanes added, ordinary clients", "gated": "keylane migrate, by the gate"}


@click.command(short_help="A topic grows from 12 to 18 lanes under load: broken orders without the gate, none with it.")
@click.option("--bootstrap", metavar="kafka://HOST:PORT", help="A Kafka to use; default: one is started, and stopped.")
@click.option(
    "--seconds", type=click.FloatRange(1, 600), default=6.0, show_default=True, help="How long producers of a run send."
)
@click.option(
    "--slow",
    type=click.FloatRange(0, 600),
    default=2.0,
    show_default=True,
    help="Seconds after the topic has grown until the reader goes on with its slow lane.",
)
@click.option(
    "--to", type=click.Path(path_type=Path), help="A folder for the page, figures, contracts, plan and journal."
)
@output_option
def migrate(bootstrap: str | None, seconds: float, slow: float, to: Path | None, output: str) -> tuple[Result, str]:
    """Grow a topic from 12 to 18 lanes (partitions) while two producers write and a reader, slow on one lane, applies.

    First as anybody can: an admin call adds lanes under ordinary clients. Then by `keylane migrate`. What is counted is
    every record that was applied after a newer one of its key. Needs Java and the extras `spark` and `kafka`. Topics
    and groups are removed again.

    \b
    keylane demo migrate --to growth
    keylane demo migrate --bootstrap kafka://127.0.0.1:9092

    Exit codes: 0 it was measured; 1 it could not be, or an order was broken in spite of the gate.
    """
    from secrets import token_hex

    from keylane.pipelines.demo.migrate import GrowthSettings, run_growth
    from keylane.report.demo_migrate_page import demo_migrate_page
    from keylane.systems.kafka.access import kafka_access

    say = progress(time.monotonic())
    settings = GrowthSettings(token_hex(4), seconds=seconds, slow_seconds=slow)
    if to:
        ready(to, "keylane.demo-migrate/1")
    with ExitStack() as opened:
        folder = to or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        brokers = opened.enter_context(own_cluster(bootstrap, say))
        document = run_growth(kafka_access(brokers), folder, settings, say, own=bootstrap is None)
    if to:
        write(str(to / FIGURES), json.dumps(document.as_json()))
        write(str(to / PAGE), demo_migrate_page(document))
    return as_result(document, to), output


def as_result(found: DemoMigrateDocument, to: Path | None = None) -> Result:
    """Both runs side by side."""
    ungated, gated = found.trials
    rows = [
        {
            "run": WORDS[one.name],
            "applied": one.applied,
            "broken": one.broken,
            "broken_keys": one.broken_keys,
            "pause": None if one.pause_seconds is None else duration(one.pause_seconds),
            "certificate": one.verdict,
        }
        for one in found.trials
    ]
    answer = (
        f"{found.old_lanes} to {found.new_lanes} lanes: {count(ungated.broken)} records were applied after a newer one "
        f"of their key without the gate, {count(gated.broken)} with it."
    )
    lines = [
        f"{count(found.moved_keys)} of {count(found.keys)} keys ({share(found.moved_share)}) change lane.",
        f"The reader left lane {found.slow_lane} alone until {duration(found.slow_seconds)} after the topic had grown.",
        *([f"Look at it: {(to.resolve() / PAGE).as_uri()}"] if to else []),
    ]
    kept = not gated.broken and gated.verdict == "certified"
    return Result(found, [Section(COLUMNS, rows)], lines, 0 if kept else 1, answer=[answer])

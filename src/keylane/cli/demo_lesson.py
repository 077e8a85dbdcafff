"""`keylane demo lesson`: a lesson's own test of H3 cells as Kafka keys, on a real broker, with two hashes."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from keylane.cli.output import Result, Section, output_option, write
from keylane.cli.progress import FIGURES, progress, ready
from keylane.numbers import count, size, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from keylane.documents.lesson import LessonCheck, LessonDocument, LessonTrial, Measure

COLUMNS: Final = ("figure", "asked", "formula", "formula_is", "murmur2", "murmur2_is")
WORDS: Final[dict[Measure, str]] = {
    "cv": "CV of records per lane",
    "error_rate": "producer's error rate",
    "mean_batch_bytes": "producer's mean batch",
    "peak_lag": "peak lag of a lane",
    "end_lag": "lag of a lane at the end",
}


@click.command(short_help="A lesson on H3 cells as keys, done right: two hashes on a real broker.")
@click.option("--bootstrap", metavar="kafka://HOST:PORT", help="A Kafka to use; default: one is started, and stopped.")
@click.option("--lanes", type=click.IntRange(1, 1000), default=60, show_default=True, help="Lanes of each topic.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=2026, show_default=True, help="Seed of the drivers' routes."
)
@click.option(
    "--radius",
    type=click.FloatRange(0.1, 100),
    default=2.0,
    show_default=True,
    help="Km that drivers go from a centre.",
)
@click.option(
    "--linger", type=click.IntRange(0, 10_000), default=20, show_default=True, help="The producer's linger.ms."
)
@click.option(
    "--every",
    type=click.FloatRange(0, 60),
    default=0.0,
    show_default=True,
    help="Seconds from one update to the next; 0: as fast as possible.",
)
@click.option("--to", type=click.Path(path_type=Path), help="A folder for the updates, the contracts and the figures.")
@output_option
def lesson(
    bootstrap: str | None,
    lanes: int,
    seed: int,
    radius: float,
    linger: int,
    every: float,
    to: Path | None,
    output: str,
) -> tuple[Result, str]:
    """Send 100 drivers' 60 updates from six cities into Kafka by H3 cell, and hold what comes of it to the lesson.

    The lesson's formula and Kafka's murmur2 fill a topic each. Every figure stands beside what the lesson asks of it.
    Needs Java and the extras `spark`, `kafka` and `geo`. Topics and groups are removed again.

    \b
    keylane demo lesson
    keylane demo lesson --every 1 --bootstrap kafka://127.0.0.1:9092

    Exit codes: 0 it was measured, whatever is broken; 1 it could not be, or records are not where they belong.
    """
    from secrets import token_hex

    from keylane.documents.lesson import LessonProducer
    from keylane.pipelines.demo.lesson import LessonSettings, Traffic, run_lesson
    from keylane.pipelines.demo.lesson import write as write_lesson
    from keylane.systems.kafka.access import kafka_access

    say = progress(time.monotonic())
    producer = LessonProducer(linger_ms=linger, every=every)
    settings = LessonSettings(token_hex(4), seed, lanes, Traffic(radius_km=radius), producer)
    if to:
        ready(to, "keylane.demo-lesson/1")
    with own_cluster(bootstrap, say) as brokers:
        document = run_lesson(kafka_access(brokers), settings, say, own=bootstrap is None)
    if to:
        write_lesson(to, settings)
        write(str(to / FIGURES), json.dumps(document.as_json()))
    return as_result(document, to), output


@contextmanager
def own_cluster(bootstrap: str | None, say: Callable[[str], None]) -> Iterator[str]:
    """The brokers that were named, or one of our own for as long as it takes."""
    from keylane.systems.broker import running

    if bootstrap is not None:
        yield _brokers(bootstrap)
        return
    say("starting a Kafka of our own")
    with running() as cluster:
        say(f"Kafka answers at {cluster.bootstrap}")
        yield cluster.bootstrap
    say("Kafka is stopped")


def _brokers(text: str) -> str:
    from keylane.errors import UsageError
    from keylane.systems.kafka.reassign import cluster_access

    try:
        return cluster_access(text if "://" in text else f"kafka://{text}").brokers
    except UsageError:
        raise UsageError.of("not the address of a Kafka", got=text, allowed="kafka://host:port") from None


def as_result(found: LessonDocument, to: Path | None = None) -> Result:
    """The verdict, each figure beside what is asked, the keys, and how it was measured."""
    figures = Section(COLUMNS, _figures(found), f"{_verdicts(found.trials)}\n{found.why}")
    cells = [
        {**cell.as_json(), "formula_lane": cell.lanes.formula, "murmur2_lane": cell.lanes.murmur2}
        for cell in found.cells
    ]
    about = f"{found.drivers} drivers within {found.radius_km:g} km of six city centres"
    title = f"The keys: {len(cells)} cells of resolution {found.resolution}, where {about} report from"
    keys = Section(("cell", "cities", "records", "formula_lane", "murmur2_lane"), cells, title)
    return Result(found, [figures, keys], _lines(found, to))


def _verdicts(trials: list[LessonTrial]) -> str:
    """CV first, then whatever else is broken."""
    found = ", ".join(f"{one.name} {spread(one.cv)}" for one in trials)
    broken = {
        name: [one.name for one in trials for check in one.checks if check.measure == name and not check.kept]
        for name in WORDS
    }
    others = [f"{WORDS[name]} ({' and '.join(by)})" for name, by in broken.items() if by and name != "cv"]
    by = {0: "kept by both", 1: f"broken by {''.join(broken['cv'])}", 2: "broken by both"}[len(broken["cv"])]
    return f"CV < 5%: {by} ({found}). " + (
        f"Also broken: {', '.join(others)}." if others else "Everything else is kept."
    )


def _figures(found: LessonDocument) -> list[dict[str, str | None]]:
    least, noise = spread(found.least_cv), spread(found.noise_floor)
    cv, *others = [_check_row(list(checks)) for checks in zip(*(one.checks for one in found.trials), strict=True)]
    return [
        cv,
        _row("  the least that any hash can reach", [least, least]),
        _row("  noise floor: a lane drawn for each record", [noise, noise]),
        _row("lanes in use", [f"{one.active_lanes} of {found.lanes}" for one in found.trials]),
        _row("fullest lane over the mean", [f"{one.max_over_mean:.1f}" for one in found.trials]),
        *others,
    ]


def _row(
    figure: str, shown: list[str], asked: str | None = None, verdicts: tuple[str, ...] = ()
) -> dict[str, str | None]:
    names = ("formula", "murmur2")
    judged = {f"{name}_is": verdict for name, verdict in zip(names, verdicts, strict=False)}
    return {"figure": figure, "asked": asked, **dict(zip(names, shown, strict=True)), **judged}


def _check_row(checks: list[LessonCheck]) -> dict[str, str | None]:
    measure = checks[0].measure
    shown = [_shown(measure, check.got) for check in checks]
    return _row(WORDS[measure], shown, checks[0].asked, tuple("kept" if one.kept else "broken" for one in checks))


def _shown(measure: Measure, value: float | None) -> str:
    if value is None:
        return "not measured"
    if measure == "mean_batch_bytes":
        return size(value)
    return count(value) if isinstance(value, int) else spread(value) if value else "0"


def _lines(found: LessonDocument, to: Path | None) -> list[str]:
    """How each figure was obtained."""
    producer, noise = found.producer, spread(found.noise_floor)
    samples = " and ".join(count(one.lag_samples) for one in found.trials)
    settings = f"linger.ms {producer.linger_ms}, batch.size {count(producer.batch_size)}"
    chance = f"{count(found.records)} records on {found.lanes} lanes, each lane drawn at random, have CV {noise}"
    failed = sum(one.failed for one in found.trials)
    placed = f"{count(failed)} records failed and are on none" if failed else "every record is where its contract says"
    pace = "Sent in one go, which makes batches large and lag high; --every 1 sends as drivers would."
    if producer.every:
        pace = f"Every driver sent an update each {producer.every:g} s."
    lines = [
        f"Noise floor: {chance}; below 5% takes {count(found.records_for_cv)} records.",
        f"Lanes: counted by a group that read both topics; {placed}.",
        f"Batches: librdkafka's statistics; {settings}, compression {producer.compression}. {pace}",
        f"Lag: what the broker held less what the group had read, seen {samples} times. The peak differs by run.",
    ]
    return [*lines, *([f"The updates, the contracts and the figures are in {to}"] if to else [])]

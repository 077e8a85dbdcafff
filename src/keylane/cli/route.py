"""`keylane route`: put every record of a source in its lane, batch or stream."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from keylane import numbers
from keylane.cli.interrupts import interrupts
from keylane.cli.options import (
    LANE_COUNT,
    Applies,
    check_applies,
    conf_option,
    format_option,
    kafka_options,
    master_option,
    note_empty_cells,
    reading_applies,
    routing_from,
    settings_from,
)
from keylane.cli.output import Result, Section, output_option
from keylane.cli.progress import RouteProgress
from keylane.cli.terminal import note, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.model import Contract
    from keylane.documents.route import DryRunDocument
    from keylane.pipelines.route import Routed
    from keylane.systems.folders.folder import Counts

INTERRUPTED = 130


@click.command(short_help="Put every record in its lane, batch or stream, exactly once.")
@click.argument("contract", type=click.Path())
@click.option(
    "--from",
    "source",
    required=True,
    metavar="SRC",
    help="A file, a folder, kafka://host:port/topic, kinesis://region/stream.",
)
@click.option("--to", "target", required=True, metavar="DST", help="The folder, topic or stream that gets the lanes.")
@click.option("--dry-run", is_flag=True, help="Say what would be read, decided, created and written; write nothing.")
@click.option("--follow", "-F", is_flag=True, help="Follow the source until stopped.")
@format_option
@click.option("--schema", metavar="DDL", help="Types of columns of JSON lines or CSV: 'id bigint, at timestamp'.")
@click.option("--lanes", "-n", type=LANE_COUNT, help="The lane count, where the contract has `lanes: live`.")
@click.option("--stream", help="The stream, where the contract has several; default: its first.")
@click.option("--max-files", type=click.IntRange(min=1), default=1000, show_default=True, help="Files in one batch.")
@click.option("--every", default="1 second", show_default=True, help="How often --follow checks for new records.")
@click.option(
    "--after",
    metavar="PLAN",
    multiple=True,
    help="Go on behind a change of the contract that migrate run or apply has carried out: its saved plan; repeatable.",
)
@click.option("--journal", metavar="ADDRESS", help="With --after: the journal of the migration; default: PLAN.journal.")
@master_option
@conf_option("-c")
@kafka_options
@output_option
def route(
    contract: str,
    source: str,
    target: str,
    dry_run: bool,
    follow: bool,
    settings: tuple[str, ...],
    output: str,
    **options: Any,
) -> tuple[Result, str]:
    """Put every record of SRC in its lane under DST, by CONTRACT: exactly once, in the order of the source.

    Takes what is there and ends; with --follow it goes on until it is interrupted, and then ends between two batches.
    Run again, it goes on where the last run ended, whether that was finished, stopped or killed.

    \b
    keylane route payments.yaml --from day1/ --to lanes/
    keylane route payments.yaml --from inbox/ --to lanes/ --follow
    keylane route payments.yaml --from day1/ --to lanes/ --master spark://host:7077
    keylane route payments.yaml --from kafka://broker:9092/raw --to kafka://broker:9092/payments --follow

    A folder gets stream=NAME/lane=N/, which Spark, DuckDB and pandas read as it is, and what has no lane in _dead. A
    topic is written by transactions, for readers at read_committed; what has no lane goes to TOPIC.dlq. A stream
    of Kinesis is written at least once: records of a batch that is written again are marked.
    Exit codes: 0 done, 1 failed, 2 usage or invalid contract, 130 interrupted before the end.
    """
    from keylane.contract.parse import load_contract

    loaded, conf = load_contract(contract), settings_from(settings)
    check_applies(Applies(("journal",), bool(options["after"]), "--after PLAN"))
    check_applies(*_applies(loaded, source, target, follow=follow, kind=options["kind"]))
    if dry_run:
        return _looked_ahead(loaded, source, target, options), output
    stopping, progress = Stopping(), RouteProgress(source, follow=follow)
    kafka = routing_from(options)
    note_empty_cells(source, loaded.spec.key.fields, replace(kafka, kind=options["kind"]))

    from keylane.pipelines.route import Options
    from keylane.pipelines.route import route as run

    given = Options(conf=conf, kafka=kafka, **options)
    try:
        found = run(
            loaded,
            source,
            target,
            follow=follow,
            options=given,
            stop_asked=stopping.asked,
            ready=partial(listen, stopping, progress),
            tell=progress.show,
            say=progress.say,
        )
    finally:
        stopping.restore()
        progress.clear()
    return as_result(found, loaded, progress.seconds(), follow=follow), output


def _applies(contract: Contract, source: str, target: str, *, follow: bool, kind: str | None) -> Iterator[Applies]:
    """What has an effect between this source and this target; of a dry run what the route would have."""
    from keylane.systems.endpoint import open_endpoint

    taken, given = open_endpoint(source), open_endpoint(target)
    yield Applies(("start", "max_records"), taken.messages, "a source that is a topic or a stream")
    into = ("state", "second_route", "delivery", "dead_letters", "on_poison", "on_growth", "try_seconds", "create")
    yield Applies((*into, "writers"), given.messages, "a target that is a topic or a stream")
    yield Applies(("every",), follow, "--follow")
    yield Applies(("lanes",), contract.spec.lanes == "live", "a contract of `lanes: live`")
    yield Applies(("schema",), lambda: taken.columns(kind) is None, "JSON lines or CSV")
    yield from reading_applies(source, into=(target,), kind=kind)


def _looked_ahead(contract: Contract, source: str, target: str, options: dict[str, Any]) -> Result:
    from keylane.pipelines.changes import with_change
    from keylane.pipelines.dry_run import dry_run

    streams = replace(routing_from(options), kind=options["kind"], schema=options["schema"])
    streams = with_change(streams, options["after"], options["journal"])
    wanted = {name: options[name] for name in ("lanes", "stream", "every")}
    note_empty_cells(source, contract.spec.key.fields, streams)
    return as_outlook(dry_run(contract, source, target, options=streams, say=note, **wanted))


def as_outlook(document: DryRunDocument) -> Result:
    """What a route would do, with the lanes of a sample."""
    # How many records a route takes at once is another option: there is no way to ask for more of a sample.
    read = document.sample.partition("; --max-records")[0]
    answer = [f"dry run: nothing is written; from {document.source}", f"  lanes below: of {read}"]
    if document.dead:
        reasons = ", ".join(f"{numbers.count(number)} {reason}" for reason, number in document.dead.items())
        letters = numbers.count(sum(document.dead.values()))
        answer.append(f"dead letters in the sample: {letters} ({reasons}), into {document.dead_letters}")
    new = "" if document.creates else " (records that are there already are not written again)"
    lines = [
        f"would create: {', '.join(document.creates) or 'nothing'}",
        f"would write: {', '.join(document.writes)}{new}",
    ]
    return Result(document, [Section(("stream", "lane", "records"), document.lanes)], lines, answer=answer)


def listen(stopping: Stopping, progress: RouteProgress) -> None:
    """Spark is up: take the signals over, and say that records are waited for."""
    stopping.listen()
    progress.following()


class Stopping:
    """SIGINT and SIGTERM ask for an end between batches; a second one ends the process at once, as it always would.

    It listens when Spark is up, because Spark's start puts a handler of its own in place. Until then nothing has begun,
    and a signal ends the process.
    """

    def __init__(self, what: str = "route") -> None:
        self.asked = threading.Event()
        self._what = what
        self._before: dict[int, Any] = {}

    def listen(self) -> None:
        """Take the signals over."""
        interrupts.take()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)

    def restore(self) -> None:
        """Give the signals back."""
        if self._before:
            interrupts.give_back()
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def _ask(self, _number: int, _frame: Any) -> None:
        self.asked.set()
        self.restore()
        say(f"\n{self._what}: ending after this batch; once more to end at once")


def as_result(found: Routed, contract: Contract, seconds: float, *, follow: bool) -> Result:
    """Records of this run by lane and in all; of all runs where that is more."""
    from keylane.pipelines.route import document_of

    counts, total = found.counts, found.total
    document = document_of(found, contract, seconds)
    answer = [f"{_shown(counts)} in {numbers.plural(found.batches, 'batch')}, {numbers.duration(document.seconds)}"]
    answer += [f"all runs: {_shown(total)}"] if total != counts else []
    answer += [f"dead letters: {document.dead_letters}"] if counts.dead else []
    lines = []
    if found.state:
        lines.append(
            f"state: {found.state}; {numbers.plural(found.repeated, 'record')} of this run had been written already"
        )
    code = INTERRUPTED if found.stopped and not follow else 0
    return Result(document, [Section(("stream", "lane", "records"), document.lanes)], lines, code, answer)


def _shown(counts: Counts) -> str:
    return ", ".join(f"{name} {numbers.count(count)}" for name, count in counts.as_json().items())

"""`keylane migrate`: another contract or lane count for a stream, planned, carried out, looked at and certified."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.options import (
    LANE_COUNT,
    Arguments,
    check_applies,
    client_options,
    length_of_time,
    profiling_from,
    profiling_options,
    properties_from,
    reading_applies,
    reading_from,
    reading_options,
    written_applies,
)
from keylane.cli.output import CERTIFICATE_CODES, Result, Section, check_apart, check_free, output_option, write
from keylane.cli.terminal import note
from keylane.numbers import count, duration, plural, share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.documents.migrate import (
        MigrateCertificateDocument,
        MigratePlanDocument,
        MigrateStatusDocument,
        MigrationBegin,
        MigrationShard,
        MigrationTransaction,
        MigrationWriter,
    )

PENDING: Final = 3
STEPS: Final = ("step", "who", "action", "command")
DRAIN: Final = ("lane", "waits_for")
COST: Final = ("what", "figure", "known", "basis")
#: New lanes that a table shows; all of them are in the other formats.
SHOWN: Final = 48
_SECRET: Final = re.compile(r"password|secret|jaas|token|credential|\.key", re.IGNORECASE)
#: So many that wait in the same manner are one line.
LEAST_IN_A_ROW: Final = 3
ENTRIES: Final = ("number", "phase", "at", "driver")
LANES: Final = ("lane", "fence", "applied", "left", "drained")
SHARDS: Final = ("id", "side", "closed", "parents", "begins_at", "ends_at")
WRITERS: Final = ("writer", "epoch", "records", "lane", "offset")
RULES: Final = ("rule", "checked", "broken", "meaning")
#: A writer that is late is a threshold broken.
BROKEN: Final = 4


@click.group(short_help="Another contract or lane count for a stream: what moves, and who waits for whom.")
def migrate() -> None:
    """Another contract or lane (partition) count for a stream, with the order of every key kept.

    \b
    keylane migrate plan old.yaml new.yaml     what moves, who waits for whom, and in which steps
    keylane migrate run plan.json              carry a saved plan out; again after a kill
    keylane migrate status plan.json           phase, fences, lanes that are drained, lag; --report: a page
    keylane migrate verify plan.json           the certificate: the order of every key, from the stream itself
    keylane migrate rollback plan.json         back to the old contract, before producers switch
    """


@migrate.command(short_help="What moves, who waits for whom, and in which steps.")
@click.argument("old", type=click.Path(), metavar="OLD.yaml")
@click.argument("new", type=click.Path(), metavar="NEW.yaml")
@click.option("--from", "source", metavar="ADDRESS", help="The stream as it is: it is asked for its lanes.")
@click.option("--to", "target", metavar="ADDRESS", help="The stream as it will be: the same one, or another.")
@click.option("--old-lanes", type=LANE_COUNT, help="The lane count of OLD.yaml, where it has live lanes.")
@click.option("--new-lanes", type=LANE_COUNT, help="The lane count of NEW.yaml, where it has live lanes.")
@click.option("--mode", type=click.Choice(("in-place", "mirror")), help="Default: in place wherever that is possible.")
@click.option(
    "--producer", "producers", multiple=True, metavar="NAME", help="A producer that stops by itself, by name."
)
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A reader group whose offsets show the drain.")
@click.option(
    "--no-gate", is_flag=True, help="Readers do not honour the gate: they drain before producers go on; needs --group."
)
@click.option(
    "--dual-write",
    is_flag=True,
    help="By a mirror: producers write to both topics instead of stopping; needs --producer.",
)
@click.option("--out", "saved", type=click.Path(), metavar="FILE", help="Save the plan, for `migrate run`.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page to look at.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@client_options
@output_option
def plan(
    old: str,
    new: str,
    source: str | None,
    target: str | None,
    old_lanes: int | None,
    new_lanes: int | None,
    mode: Any,
    producers: tuple[str, ...],
    groups: tuple[str, ...],
    no_gate: bool,
    dual_write: bool,
    saved: str | None,
    report: str | None,
    force: bool,
    output: str,
    **options: Any,
) -> tuple[Result, str]:
    """Plan the change of a stream from the contract OLD to the contract NEW. Nothing is changed.

    In place, producers stop at a fence, the stream grows, and each new lane is applied after the old lanes whose keys
    it takes over. By a mirror, records are copied into another stream, and producers and readers switch. Without
    addresses the plan is from the contracts alone. Shards of a Kinesis stream are split and merged, and nobody stops.

    \b
    keylane migrate plan payments-12.yaml payments-24.yaml
    keylane migrate plan old.yaml new.yaml --from kafka://broker:9092/payments --to kafka://broker:9092/payments.v2
    keylane migrate plan old.yaml new.yaml --from kafka://broker:9092/payments --group ledger --out plan.json

    Exit codes: 0 nothing to do; 3 there are steps; 2 impossible, with the reason.
    """
    from keylane.pipelines.migrate import plan_migrate
    from keylane.systems.endpoint import StreamOptions

    check_applies(written_applies(saved, report, options="--out or --report"), *reading_applies(source, target))
    check_apart(saved, report, inputs=(old, new))
    for path in (saved, report):
        check_free(path, force=force)
    again = client_again(options)
    document = plan_migrate(
        old,
        new,
        source=source,
        target=target,
        lanes=(old_lanes, new_lanes),
        mode=mode,
        producers=producers,
        groups=groups,
        gated=not no_gate,
        dual=dual_write,
        options=StreamOptions(properties_from(options)),
        saved=saved,
        again=again,
    )
    if saved:
        write(saved, json.dumps(document.as_json(), indent=2) + "\n")
    if report:
        from keylane.report.migrate_page import migrate_page

        write(report, migrate_page(document))
    return _result(document, saved, report), output


def _result(document: MigratePlanDocument, saved: str | None, report: str | None) -> Result:
    steps = Section(STEPS, document.steps, "Steps, in order; -o json says why each is needed:")
    everyone = len(document.drain) > 1 and all(len(old) == document.old.lanes > 1 for old in document.drain.values())
    rows = drain_rows(document.drain)
    if everyone:
        rows = [{"lane": "each", "waits_for": f"all {count(document.old.lanes)} old lanes"}]
    title = "Each new lane (partition) waits for these old lanes to be drained to their fence:"
    if len(rows) > SHOWN:
        title = f"The first {SHOWN} of {count(len(rows))} new lanes wait for these old lanes; -o json has all:"
    sections = [steps, _cost(document), Section(DRAIN, rows[:SHOWN] if document.steps else [], title)]
    breaks = [f"note: {text}" for text in document.breaks]
    if document.steps and document.drain_rule == "ranges" and document.shards is None:
        breaks.append(
            "note: splits and merges of Kinesis shards alone need no fence; keylane shards plan has their calls"
        )
    if report:
        breaks.append(f"page: {report}")
    if saved:
        can_run = document.steps and document.observed is not None
        can_run = can_run and (document.mode == "in-place" or document.new.address is not None)
        breaks += [f"plan: {saved}", *([f"carry it out: keylane migrate run {saved}"] if can_run else [])]
    return Result(document, sections, breaks, PENDING if document.steps else 0, _answer(document))


def client_again(options: Arguments) -> str:
    """The options of the client once more, as they were given, but for secrets: a command is shown and kept."""
    shown = [one for one in options.get("pairs") or () if not _SECRET.search(one.partition("=")[0])]
    pairs = "".join(f" --kafka {quote(one)}" for one in shown)
    return f"{pairs} --kafka-file {quote(options['file'])}" if options.get("file") else pairs


def drain_rows(drain: Mapping[str, Sequence[int | str]]) -> list[dict[str, str]]:
    """Who waits for whom: lanes in a row that wait in the same manner in one line.

    >>> drain_rows({"0": [0], "1": [1], "2": [2], "3": [0, 1], "4": [3, "vip/0"]})[0]
    {'lane': '0 to 2', 'waits_for': '0 to 2, each for the one at its place'}
    """
    rows: list[dict[str, str]] = []
    for _, run in groupby(enumerate(drain.items()), key=_manner):
        some = [one for _, one in run]
        (first, old), (last, end) = some[0], some[-1]
        if len(some) < LEAST_IN_A_ROW:
            rows += [{"lane": lane, "waits_for": ", ".join(map(str, lanes))} for lane, lanes in some]
        else:
            ends = (f"{a} to {b}" if a != b else str(a) for a, b in zip(old, end, strict=True))
            how = ", each for the one at its place" if len(old) == 1 else ", each for those at its place"
            rows.append({"lane": f"{first} to {last}", "waits_for": f"{' and '.join(ends)}{'' if old == end else how}"})
    return rows


def _manner(numbered: tuple[int, tuple[str, Sequence[int | str]]]) -> tuple[object, ...]:
    """What lanes in a row have in common that wait alike: how far off the old lanes are; others stand alone."""
    number, (lane, old) = numbered
    if lane.isdecimal() and all(isinstance(one, int) for one in old):
        return (int(lane) - number, *(int(one) - int(lane) for one in old))
    return (lane,)


def _cost(document: MigratePlanDocument) -> Section:
    """What it moves and needs; with an address, what the streams were asked."""
    from keylane.report.migrate_page import cost_rows

    rows = cost_rows(document.cost) if document.cost is not None else []
    title = "What moves, and what it needs; -o json has the parts of the pause:"
    return Section(COST, [dict(zip(COST, row, strict=True)) for row in rows], title)


def _answer(document: MigratePlanDocument) -> list[str]:
    if not document.steps:
        return [f"nothing to do: {document.reason}"]
    mode = "In place" if document.mode == "in-place" else "By a mirror"
    return [f"{mode}: {document.reason}", _moved(document), _waits(document)]


def _moved(document: MigratePlanDocument) -> str:
    if document.moved_share is None:
        text = f"which share of keys changes lane is not known: {document.moved_basis}"
    else:
        text = f"{share(document.moved_share)} of hashed keys change lane"
    if not document.named_keys:
        return text
    moved = f"{count(document.named_keys_moved)} of {plural(document.named_keys, 'key')} that a rule names"
    return f"{text}, and {moved}"


def _waits(document: MigratePlanDocument) -> str:
    parents, lanes = document.parents_at_most, document.old.lanes
    if not parents:
        return "no new lane waits for an old one: no order of a key is kept"
    return f"each new lane waits for at most {count(parents)} of {plural(lanes, 'old lane')}"


_journal_option: Final = click.option(
    "--journal", metavar="ADDRESS", help="The journal: a folder, or kafka://host:port/topic; default: PLAN.journal."
)
_lease_option: Final = click.option(
    "--lease", metavar="ADDRESS", help="Where the driver's lease is: a file, or zookeeper://…; default: in the journal."
)
_patience_option: Final = click.option(
    "--patience",
    callback=length_of_time,
    default="10m",
    show_default=True,
    help="How long one step waits for producers, readers or brokers.",
)
_plan_argument: Final = click.argument("plan", type=click.Path(path_type=Path), metavar="PLAN")


@migrate.command(short_help="Carry a saved plan out; the same command goes on after a kill.")
@_plan_argument
@_journal_option
@_lease_option
@click.option("--producers-stopped", is_flag=True, help="Producers that do not acknowledge by themselves have stopped.")
@click.option("--allow-dead-letters", is_flag=True, help="A mirror goes on past records that have no lane.")
@_patience_option
@profiling_options
@output_option
def run(
    plan: Path,
    journal: str | None,
    lease: str | None,
    producers_stopped: bool,
    allow_dead_letters: bool,
    patience: float,
    output: str,
    **reading: Any,
) -> tuple[Result, str]:
    """Carry out PLAN, a file that `keylane migrate plan --out` saved, step by step.

    Each step is recorded in the journal before it is taken. Stopped or killed, the same command goes on, from any
    machine that sees the journal; one process drives at a time. A stream that is not as planned is refused. Producers
    that were named in the plan stop and acknowledge by themselves; for others, stop them, and add --producers-stopped.
    Shards are split and merged by the calls of the plan. A mirror copies on Spark; --value is for one whose contracts
    take the key from other fields of the values. It stops at records that have no lane under the new contract.

    \b
    keylane migrate run plan.json
    keylane migrate run plan.json --producers-stopped
    keylane migrate run plan.json --journal kafka://broker:9092/payments.migration

    Exit codes: 0 it is over; 3 it waits for somebody; 4 done, and an old producer still writes; 1 refused or failed.
    """
    from keylane.pipelines.migrate_run import run_migrate

    document = run_migrate(
        plan,
        journal=journal,
        lease=lease,
        all_stopped=producers_stopped,
        allow_dead=allow_dead_letters,
        patience=patience,
        options=profiling_from(reading),
        say=note,
    )
    return _status(document), output


@migrate.command(short_help="How far a migration is: phase, fences, drained lanes, lag.")
@_plan_argument
@_journal_option
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page to look at.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@client_options
@output_option
def status(
    plan: Path, journal: str | None, report: str | None, force: bool, output: str, **kafka: Any
) -> tuple[Result, str]:
    """Show how far the migration of PLAN is. Nothing is changed: ask at any time, while it runs too.

    \b
    keylane migrate status plan.json
    keylane migrate status plan.json --report status.html --force

    Exit codes: 0 it is over; 3 it is not; 4 an old producer still writes behind a fence.
    """
    from keylane.pipelines.migrate_run import status_migrate
    from keylane.systems.endpoint import StreamOptions

    check_applies(written_applies(report, options="--report"))
    check_apart(report, inputs=(plan,))
    check_free(report, force=force)
    document = status_migrate(plan, journal=journal, options=StreamOptions(properties_from(kafka)))
    if report:
        from keylane.report.migrate_status_page import migrate_status_page

        write(report, migrate_status_page(document))
    return _status(document, report), output


@migrate.command(short_help="Back to the old contract, before producers switch.")
@_plan_argument
@_journal_option
@_lease_option
@_patience_option
@client_options
@output_option
def rollback(
    plan: Path, journal: str | None, lease: str | None, patience: float, output: str, **kafka: Any
) -> tuple[Result, str]:
    """End the migration of PLAN, and let producers go on under the old contract.

    Possible until the stream is given its new lanes, by a mirror until producers switch; from then on it is refused,
    and `migrate run` goes on. The stream is as it was before; what a mirror has copied stays in the new one.

    \b
    keylane migrate rollback plan.json

    Exit codes: 0 it is rolled back; 1 refused or failed.
    """
    from keylane.pipelines.migrate_run import rollback_migrate
    from keylane.systems.endpoint import StreamOptions

    document = rollback_migrate(
        plan,
        journal=journal,
        lease=lease,
        patience=patience,
        options=StreamOptions(properties_from(kafka)),
        say=note,
    )
    return _status(document), output


@migrate.command(short_help="The certificate: the order of every key, from the stream itself.")
@_plan_argument
@_journal_option
@click.option(
    "--around", type=click.IntRange(min=1), metavar="N", help="Read N offsets on each side of every fence only."
)
@click.option("--out", "saved", type=click.Path(), metavar="FILE", help="Save the certificate.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@reading_options
@output_option
def verify(
    plan: Path,
    journal: str | None,
    around: int | None,
    saved: str | None,
    force: bool,
    output: str,
    **reading: Any,
) -> tuple[Result, str]:
    """Check by the journal and the records of the stream whether the migration of PLAN kept the order of every key.

    All records are read, or with --around a stated sample; by a mirror both streams, compared. Anybody who may read
    stream and journal can run it again.

    \b
    keylane migrate verify plan.json --out certificate.json

    Exit codes: 0 certified; 4 broken or not proven; 2 there is no fence yet.
    """
    from keylane.cli.progress import working
    from keylane.pipelines.migrate_verify import verify_migrate

    check_apart(saved, inputs=(plan,))
    check_applies(written_applies(saved, options="--out"))
    check_free(saved, force=force)
    options = reading_from(reading)
    working("reading the stream")
    document = verify_migrate(plan, journal=journal, around=around, options=options)
    if saved:
        write(saved, json.dumps(document.as_json(), indent=2) + "\n")
    return _certificate(document, saved), output


def _status(document: MigrateStatusDocument, report: str | None = None) -> Result:
    drained = sum(one.drained is True for one in document.lanes)
    parts = [f"{document.phase or 'not begun'}: {document.stream}"]
    if document.lanes:
        known = document.lag is not None
        of = plural(len(document.lanes), "old lane")
        parts.append(f"{count(drained)} of {of} drained, lag {count(document.lag or 0)}" if known else f"{of} fenced")
    if document.copy_lag is not None:
        parts.append(f"{count(document.copy_lag)} offsets are not copied yet")
    if document.seconds_left is not None:
        parts.append(f"about {duration(document.seconds_left)} left")
    if document.shards is not None:
        made, left = document.calls_done or 0, document.calls_left or 0
        parts.append(f"{count(made)} of {plural(made + left, 'call')} made")
    if document.pause_seconds is not None:
        parts.append(f"producers paused for {duration(document.pause_seconds)}")
    lines = [_waiting(document)] if document.waits_for else []
    lines += [_open(one) for one in document.open_transactions[:SHOWN]]
    lines += [] if document.phase else [f"carry it out: keylane migrate run {document.plan}"]
    lines += _begins(document.begins)
    if document.copies:
        lines.append("copies are written at least once: verify counts those that are there again")
    lines += [
        f"late: {one.writer} wrote {plural(one.records, 'record')} of {_epoch(one)} behind a fence, "
        f"the first at offset {one.offset} of lane {one.lane}"
        for one in document.late_writers
    ]
    if document.phase in {"open", "drained", "done"}:
        lines.append(f"a route into it goes on by the new contract: keylane route … --after {document.plan}")
    lines += [f"page: {report}"] if report else []
    rows = [one.as_json() for one in document.lanes]
    sections = [
        Section(LANES, rows[:SHOWN], "Old lanes (partitions), and how far they are drained:"),
        *_shards(document.shards),
        Section(ENTRIES, document.entries, "The journal:", forms={"at": _time}),
    ]
    code = BROKEN if document.late_writers else 0 if document.over else PENDING
    return Result(document, sections, lines, code, ["; ".join(parts)])


def _shards(shards: Sequence[MigrationShard] | None) -> list[Section]:
    rows = [one.as_json() for one in shards or ()]
    return [Section(SHARDS, rows[:SHOWN], "Shards, each behind its parents:")] if shards else []


def _begins(begins: Sequence[MigrationBegin] | None) -> list[str]:
    more = [f"and in {count(len(begins) - SHOWN)} more"] if begins and len(begins) > SHOWN else []
    return [f"readers begin in {one.shard} behind {one.after}" for one in (begins or ())[:SHOWN]] + more


def _epoch(late: MigrationWriter) -> str:
    if late.header is not None:
        return f"no epoch, with a foreign header keylane.epoch {late.header},"
    return "no epoch" if late.epoch is None else f"epoch {late.epoch}"


def _time(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]


def _waiting(document: MigrateStatusDocument) -> str:
    from keylane.migration.cutover import Wait
    from keylane.systems.migrations import waits_in_words

    waits = document.waits_for
    assert waits is not None
    text = waits_in_words(Wait(waits.why, tuple(waits.names)))
    more = ""
    if waits.why == "producers":
        unnamed = f"stop them, then: keylane migrate run {document.plan} --producers-stopped"
        more = f"; {'start again those that are gone' if waits.names else unnamed}"
    return f"it {text}{more}"


def _open(one: MigrationTransaction) -> str:
    from keylane.systems.migrations import OpenTransaction, open_in_words

    return open_in_words(OpenTransaction(one.lane, one.offset, one.end, one.end_it))


def _certificate(document: MigrateCertificateDocument, saved: str | None) -> Result:
    # The lanes are those of the new contract: by a mirror what lies below the fences is in other ones.
    old = document.records - sum(one.new_records for one in document.lanes)
    if document.shards is not None:
        old = sum(one.records for one in document.shards if one.side == "old")
    line = (
        f"{document.verdict}{_repeats(document)}: {plural(document.violations, 'violation')} in "
        f"{plural(document.records, 'record')}, {count(old)} below the fences and {count(document.records - old)} "
        "behind them"
    )
    sides = [
        f"{side.name} epoch {side.epoch}, {plural(side.lanes, 'lane')}, fingerprint {side.fingerprint[:12]}"
        for side in (document.old, document.new)
    ]
    lines = [
        *(f"not proven: {text}" for text in document.unproven),
        *(f"remark: {text}" for text in document.remarks),
        *document.examples,
        *(
            f"late: {one.writer} wrote {plural(one.records, 'record')} of {_epoch(one)}"
            for one in document.late_writers
        ),
        f"from {sides[0]} to {sides[1]}",
        f"digest of what was read: {document.digest}",
        *_begins(document.begins),
        *([f"certificate: {saved}"] if saved else []),
    ]
    sections = [Section(RULES, document.rules, "Rules:"), *_shards(document.shards)]
    return Result(document, sections, lines, CERTIFICATE_CODES[document.verdict], [line])


def _repeats(document: MigrateCertificateDocument) -> str:
    """Of a system that writes at least once: records that are there again are no violation, and are said."""
    return f" with {plural(document.repeats, 'repeat')}" if document.repeats else ""

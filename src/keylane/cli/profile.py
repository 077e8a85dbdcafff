"""`keylane profile`: who is heavy in a stream, and why a lane is hot, from one pass over it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from keylane import numbers
from keylane.cli.options import (
    SOURCES,
    Arguments,
    check_applies,
    check_sources,
    counting_options,
    grouped,
    length_of_time,
    note_empty_cells,
    profiling_from,
    profiling_options,
    range_from,
    range_options,
    reading_applies,
    scale_option,
    settings_from,
    spark_applies,
    spark_is_configured,
    time_option,
    two_columns,
    typed_among,
    written_applies,
)
from keylane.cli.output import Result, Section, check_free, output_option, write
from keylane.cli.terminal import note
from keylane.contract.names import ENCODINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from keylane.contract.model import Contract
    from keylane.documents.profile import ProfileDocument, ProfileWindows
    from keylane.profile.model import Profile


# The options of `profile`, which `plan` has too: how a source is read and counted. And the profile that they give.

profile_options: Final = grouped(
    click.option(
        "--key", "-k", "keys", multiple=True, metavar="COLUMN", help="A field of the key; repeatable, in order."
    ),
    click.option(
        *("--encoding", "-e", "encodings"),
        multiple=True,
        type=click.Choice(ENCODINGS),
        help="How the key becomes bytes; default: utf8.",
    ),
    click.option(
        "--place",
        metavar="LAT,LNG",
        callback=lambda *a: two_columns(a[2]),
        help="The key is the home cell of these two columns, in degrees.",
    ),
    scale_option(),
    click.option("--contract", "-c", type=click.Path(), help="Take the key from this contract; for plan: today's."),
    time_option("Cut windows by this column; default: by position.", "-t"),
    click.option(
        "--bytes", "size", metavar="COLUMN", help="Column with the record size, or a column whose byte length to use."
    ),
    click.option("--lane", "-l", metavar="COLUMN", help="The column that holds the lane; default: lane or partition."),
    click.option(
        "--windows",
        "-w",
        type=click.IntRange(1, 48),
        help="Number of windows, 1 to 48; default: 24, or 8 over 20 M records.",
    ),
    click.option(
        "--for",
        "seconds",
        metavar="TIME",
        callback=length_of_time,
        help="For topics: count what arrives in this time: 10m.",
    ),
    click.option("--approximate", is_flag=True, help="Count by sketches, for more keys than fit in memory."),
    counting_options,
    range_options,
    profiling_options,
)
_PASSED_ON: Final = (
    *("time", "size", "lane", "windows", "seconds", "scale", "approximate"),
    *("engine", "kind", "master"),
)
#: All that says how a source is read and counted.
_COUNTING: Final = (
    *("keys", "encodings", "place", *_PASSED_ON, "settings"),
    *("last", "since", "until", "most", "partitions", "csv_null", "delimiter", "pairs", "file"),
    *("value", "value_schema", "message", "jars", "packages"),
)


def check_profiled(source: str) -> None:
    """Refuse what is not there, before anything large is imported."""
    check_sources(source, allowed=f"a profile, {SOURCES}")


def profiled(
    source: str,
    options: Arguments,
    *,
    out: str | None = None,
    force: bool = False,
    beside: Callable[[Profile, Path], None] = lambda *_: None,
) -> Profile:
    """The profile of a source: read, where it is one already, or made. `beside` gets it before it is put in place."""
    from keylane.pipelines.profile import saved_in
    from keylane.systems.profiles import read_profile

    if saved_in(source):
        _refuse_reading(options)
        if out is not None:
            raise click.UsageError(f"SRC is a saved profile already; hint: leave out --out {out}")
        return read_profile(Path(source))
    return _made(source, options, out=out, force=force, beside=beside)


def _made(
    source: str, options: Arguments, *, out: str | None, force: bool, beside: Callable[[Profile, Path], None]
) -> Profile:
    from keylane.cli.progress import counted, spark_progress
    from keylane.contract.parse import load_contract

    check_applies(
        *spark_applies(options["engine"]),
        *reading_applies(source, kind=options["kind"]),
    )
    contract = load_contract(options["contract"]) if options["contract"] else None
    if contract is not None and options["encodings"]:
        raise click.UsageError(
            "--encoding beside --contract: the contract has the encoding of its key; leave --encoding out"
        )
    if options["place"] and options["encodings"]:
        raise click.UsageError("--encoding beside --place: the key is a cell of eight bytes; leave it out")
    kafka = replace(profiling_from(dict(options)), read_range=range_from(dict(options), time.time()))
    from keylane.pipelines.profile import Options
    from keylane.pipelines.profile import profile as run

    given = Options(
        kafka=kafka,
        conf=settings_from(options["settings"]),
        configured=spark_is_configured(),
        **{name: options[name] for name in _PASSED_ON},
    )
    with spark_progress("profile"):
        made = run(
            source,
            options["keys"],
            place=options["place"],
            encoding=_encoding(options["encodings"]),
            contract=contract,
            options=given,
            out=out,
            replace_profile=force,
            say=lambda text: note(f"profile: {text}"),
            watch=lambda batches: counted(batches, "profile"),
            beside=beside,
        )
    if made.without_key.empty:
        note_empty_cells(source, made.key.fields, replace(kafka, kind=options["kind"], read_range=None))
    return made


def _refuse_reading(options: Arguments) -> None:
    """A profile is counted already: what says how to count would be of no effect. What is configured is no request."""
    typed = {one.name: max(one.opts, key=len) for one in typed_among(_COUNTING)}
    if typed:
        lanes = click.get_current_context().command.name == "plan" and "lane" in typed and options["lane"].isdigit()
        hint = f"did you mean --lanes {options['lane']}?" if lanes else f"leave out {', '.join(typed.values())}"
        raise click.UsageError(f"SRC is a profile, and counted already; hint: {hint}")


def _encoding(given: tuple[str, ...]) -> Any:
    """One for all fields, or one for each."""
    return given if len(given) > 1 else given[0] if given else "utf8"


@click.command(short_help="Which keys are heavy, since when, and why is a lane (partition) hot?")
@click.argument("source", metavar="SRC")
@profile_options
@click.option("--show-keys", is_flag=True, help="Show whole keys; otherwise they are cut and hashed.")
@click.option("--out", type=click.Path(), metavar="F.profile", help="Save the profile in this folder, for plan.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page to look at.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@output_option
def profile(
    source: str, show_keys: bool, out: str | None, report: str | None, force: bool, output: str, **options: Any
) -> tuple[Result, str]:
    """Count the records of every key of SRC, by window of time: who is heavy, since when, and why a lane is hot.

    SRC is a file or folder of Parquet, JSON lines or CSV, a folder of lanes as route writes it, a topic, a Kinesis
    stream, or a saved profile. Only key, time and length are read. Counts are exact; with --approximate they are
    estimates with a stated error.

    \b
    keylane profile payments/ --key merchant --time paid_at
    keylane profile payments/ --contract payments.yaml --time paid_at --out payments.profile --report page.html
    keylane profile kafka://broker:9092/payments --for 10m
    keylane profile pings/ --place lat,lng --time ts --out pings.profile

    Keys are personal data: they are shown cut, with a hash, unless --show-keys. With --out they are saved in a folder
    that only you can read; without it nothing is saved. Which lanes are hot, and why, needs lanes: a contract, or a
    source that has them.
    Exit codes: 0 done, 1 the source cannot be read, 2 usage.
    """
    check_free(report, force=force)
    check_profiled(source)
    check_applies(written_applies(out, report, options="--out or --report"))
    from keylane.contract.parse import load_contract
    from keylane.pipelines.profile import document_of, saved_in

    contract = load_contract(options["contract"]) if options["contract"] else None
    if report and out:
        document = _with_page(source, options, contract, out, report, show_keys=show_keys, force=force)
    else:
        made = profiled(source, options, out=out, force=force)
        document = document_of(made, contract, show_keys=show_keys, out=out or saved_in(source))
        if report:
            write(report, _page(document))
    return as_result(document, show_keys=show_keys, page=report), output


def _with_page(
    source: str,
    options: Arguments,
    contract: Contract | None,
    out: str,
    report: str,
    *,
    show_keys: bool,
    force: bool,
) -> ProfileDocument:
    """Keep a profile with its page: both are there in the end, or neither, whenever it is interrupted."""
    from keylane.pipelines.profile import document_of
    from keylane.systems.atomic import beside_folder

    found: list[ProfileDocument] = []
    with beside_folder(Path(out), Path(report)) as write_page:

        def ready(made: Profile, folder: Path) -> None:
            found.append(document_of(made, contract, show_keys=show_keys, out=out, now_in=str(folder)))
            write_page(folder, _page(found[0]))

        profiled(source, options, out=out, force=force, beside=ready)
    return found[0]


def _page(document: ProfileDocument) -> str:
    from keylane.report.plan_page import profile_page

    return profile_page(document)


#: Lanes that are listed; of more, the fullest.
_LANES: Final = 24


def lanes_table(document: ProfileDocument) -> Section | None:
    """The lanes as they were found, in their order; of many the fullest ones."""
    if document.lanes is None:
        return None
    known, shards = document.lanes.by_window, document.lanes.shards
    totals = {lane: sum(known[lane]) for lane in document.lanes.read or range(len(known))}
    all_, mean = max(1, sum(totals.values())), sum(totals.values()) / len(totals)
    causes = {
        one.lane: f"{'hot: ' if one.alarm else ''}{one.cause}" for one in (document.hot.lanes if document.hot else ())
    }
    rows = [
        {
            "lane": lane,
            "shard": shards[lane] if shards else None,
            "records": records,
            "share": records / all_,
            "over_mean": records / mean,
            "why": causes.get(lane),
        }
        for lane, records in totals.items()
    ]
    many = numbers.count(len(totals)) + (f" of {numbers.count(len(known))}" if len(totals) < len(known) else "")
    fullest = f", the fullest {_LANES}" if len(totals) > _LANES else ""
    title = f"{many} lanes (partitions){fullest}, of all {numbers.plural(sum(totals.values()), 'record')} in them"
    forms, tones = {"share": numbers.share, "over_mean": numbers.times}, {"why": _tone}
    shard = ("shard",) if shards else ()
    return Section(("lane", *shard, "records", "share", "over_mean", "why"), rows, title, forms, tones=tones)


def _tone(why: str | None) -> Literal["bad"] | None:
    return "bad" if why is not None and why.startswith("hot") else None


def as_result(document: ProfileDocument, *, show_keys: bool, page: str | None = None) -> Result:
    """Heavy keys, lanes, windows, and in words what to know of them."""
    windows = document.windows
    columns = ["rank", "key", "records", "share"]
    columns += ["bytes"] if any(one.bytes is not None for one in document.heavy) else []
    columns += ["error"] if document.approximate else []
    heavy = Section(tuple(columns), document.heavy, "heavy keys", {"share": numbers.share, "bytes": numbers.size})
    columns_of = ("window", "from", "records", "keys", "new_keys")
    held, of = sum(windows.records), document.without_key
    keyed = " with a key" if held == document.records - of.null - of.empty - of.malformed else ""
    title = f"windows, by {windows.kind}, of {numbers.plural(held, 'record')}{keyed}"
    parts = Section(columns_of, _window_rows(windows), title)
    lanes = lanes_table(document)
    sections = [heavy, *([lanes] if lanes else []), parts]
    lines = list(_lines(document, show_keys=show_keys))
    lines += [f"page: {page}"] if page else []
    return Result(document, sections, lines, answer=list(_answer(document)))


#: A table lists windows of no shorter time, in seconds: what a second looks like in 24 parts helps nobody.
_SHORT: Final = 60.0


def _window_rows(windows: ProfileWindows) -> list[dict[str, Any]]:
    """The windows, those without records that follow each other as one row; none of less than a minute in all."""
    if 0 < _seconds(windows) < _SHORT:
        return []
    rows: list[dict[str, Any]] = []
    figures = zip(windows.edges, windows.records, windows.distinct_keys, windows.new_keys, strict=False)
    for n, (edge, records, keys, new) in enumerate(figures, 1):
        if rows and records == rows[-1]["records"] == 0:
            rows[-1]["window"] = f"{str(rows[-1]['window']).partition(' ')[0]} to {n}"
        else:
            rows.append({"window": n, "from": edge, "records": records, "keys": keys, "new_keys": new})
    return rows


def _seconds(windows: ProfileWindows) -> float:
    """The time from the first edge to the last; 0 where windows are of positions."""
    from datetime import datetime

    if windows.kind != "time":
        return 0.0
    first, last = (datetime.fromisoformat(str(edge)) for edge in (windows.edges[0], windows.edges[-1]))
    return (last - first).total_seconds()


def _answer(document: ProfileDocument) -> Iterator[str]:
    """What there is to know first: two writers where there are two, how heavy keys are, and why a lane is full."""
    from keylane.profile.document import heat_text, keys_verdict, misplaced_text, writers_text

    about = "about " if document.approximate else ""
    if document.writers and document.writers.verdict == "mixed":
        yield f"mixed writers: {writers_text(document.writers)}"
        yield "  keylane identify names them, with the setting of each"
    elif odd := misplaced_text(document):
        yield f"misplaced: {odd}"
        yield "  keylane identify names who placed them, with the setting of each"
    top = document.heavy[0].share
    keys = numbers.plural(document.distinct_keys, "key")
    text = f"{numbers.plural(document.records, 'record')} of {about}{keys}"
    yield f"{text}; the heaviest has {numbers.share(top)}{_share_of_first(document)}"
    if not document.hot:
        yield f"  {keys_verdict(document)}"
    if document.writers and document.writers.verdict != "mixed":
        yield f"  {writers_text(document.writers)}"
    if document.hot:
        yield f"  {heat_text(document, document.hot)}"


def _lines(document: ProfileDocument, *, show_keys: bool) -> Iterator[str]:
    from keylane.profile.document import profile_notes

    if document.hot and document.hot.lanes and document.lanes:
        rare = f"a fair hash gives this in fewer than {document.hot.alpha:g} of cases, or a second writer does"
        yield f"  WHY: what fills a lane above the mean; `hot` where {rare}"
    yield from (f"  {note}" for note in profile_notes(document))
    if 0 < (seconds := _seconds(document.windows)) < _SHORT:
        cut = f"{numbers.plural(len(document.windows.records), 'window')} of {numbers.duration(seconds)} in all"
        yield f"  {cut} are not listed; -o json and --report have them"
    if not show_keys:
        yield "  keys are cut and hashed; --show-keys shows them whole"
    kept = document.profile
    yield f"  saved in {kept}" if kept else "  not saved; --out F.profile saves it for plan"


def _share_of_first(document: ProfileDocument) -> str:
    """The share of the heaviest hundredth of the keys, as near as the curve tells it."""
    ranks = document.key_ranks
    wanted = max(1, ranks[-1].rank // 100)
    near = min(ranks, key=lambda one: abs(one.rank - wanted))
    return (
        f", the heaviest {numbers.count(near.rank)} of them {numbers.share(near.cumulative)}" if near.rank > 1 else ""
    )

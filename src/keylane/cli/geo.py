"""`keylane geo`: lanes by location. `geo table` builds the lane table of a contract from traffic."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.options import (
    Applies,
    Arguments,
    check_applies,
    check_sources,
    counting_options,
    grouped,
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
    written_applies,
)
from keylane.cli.output import Form, Result, Section, check_apart, check_free, output_option, write
from keylane.cli.tables import copies_tone
from keylane.cli.terminal import note
from keylane.numbers import count, distance, plural, share, spread, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.documents.geo_table import GeoFigures, GeoTableDocument
    from keylane.pipelines.geo_table import GeoTable

#: The first are of lanes that are to be even, all of them of a table for matching.
EVENNESS: Final = ("strategy", "cv", "worst_hour_cv")
COLUMNS: Final = ("strategy", "copies", "total_work", "cv", "worst_hour_cv")
_FORMS: Final[dict[str, Form]] = {"copies": "{:.2f}".format, "total_work": times, "cv": spread, "worst_hour_cv": spread}
_options: Final = grouped(
    click.option("--lat", metavar="COLUMN", help="The column of latitudes; default: the contract's, otherwise lat."),
    click.option("--lng", metavar="COLUMN", help="The column of longitudes; default: the contract's, otherwise lng."),
    click.option(
        "--place",
        metavar="LAT,LNG",
        callback=lambda *a: two_columns(a[2]),
        help="Both columns at once, as in profile.",
    ),
    scale_option(),
    time_option("Balance every hour (UTC) by this column, not only the whole.", "-t"),
    click.option("--lanes", "-n", type=click.IntRange(1, 100_000), help="The lane count; default: the contract's."),
    click.option(
        "--tau",
        type=click.FloatRange(min=0, min_open=True),
        help="Split cells above this share of a lane; default: the largest that will do.",
    ),
    click.option(
        "--strategy",
        type=click.Choice(["hours", "curve", "regions"]),
        help="Even in every hour, ranges of neighbours, or compact regions; default: with --radius the one with the "
        "least work, otherwise hours.",
    ),
    click.option("--sticky", type=click.Path(), metavar="OLD.yaml", help="Change this contract's table by few moves."),
    click.option(
        "--most-moved", type=click.FloatRange(0, 1), help="What --sticky may move of the load; default: 0.05."
    ),
    click.option("--contract", "-c", type=click.Path(), help="Keep this contract's name, streams, key and lanes."),
    click.option("--name", help="The name of a new contract; default: places."),
    click.option(
        "--stream", "streams", multiple=True, help="A stream of a new contract; repeatable; default: named as SRC."
    ),
    click.option(
        "--radius",
        "radii",
        type=click.FloatRange(min=0, min_open=True, max=50_000),
        multiple=True,
        metavar="M",
        help="Build the table for matching within this radius (m): the least work for the fullest lane, copies "
        "included. Further radii are reported.",
    ),
    click.option(
        "--copies",
        type=click.FloatRange(min=1),
        metavar="N",
        help="With --radius: at most this many copies of a record on average; exit code 4 where no table has so few.",
    ),
    click.option("--write", "written", type=click.Path(), metavar="CONTRACT.yaml", help="Write the contract here."),
    click.option("--report", type=click.Path(), metavar="FILE", help="Write a page with a map to look at."),
    click.option("--force", is_flag=True, help="Replace existing files."),
    counting_options,
    range_options,
    profiling_options,
    output_option,
)


@click.group(short_help="Lanes by location: the lane table of cells, from traffic.")
def geo() -> None:
    """Lanes by location."""


@geo.command(short_help="Build a lane table from the locations of a source.")
@click.argument("source", metavar="SRC")
@_options
def table(
    source: str, written: str | None, report: str | None, force: bool, output: str, **options: Any
) -> tuple[Result, str]:
    """Build the lane table of a contract from SRC: which lane (partition) each H3 cell of the map is in.

    SRC is a file or folder of Parquet, JSON lines or CSV, or a topic. Cells are split where load is heavy. With
    --radius the table is for matching: a request is copied to every lane within the radius, and the table with the
    least work for its fullest lane is taken, copies included. Without it lanes are made even in every hour. Figures are
    of a table fitted on one half of the records and scored on the other; the table itself is fitted on all.

    \b
    keylane geo table pings/ --time ts:ms --lanes 12 --radius 1000 --write places.yaml
    keylane geo table pings/ --time ts:ms --sticky places.yaml --write places-2.yaml

    Exit codes: 0 done, 1 the source cannot be read, 2 usage or invalid contract, 4 more copies than --copies.
    """
    check_apart(written, report, options["sticky"] or options["contract"])
    for path in (written, report):
        check_free(path, force=force)
    check_sources(source)
    check_applies(
        Applies(("most_moved",), options["sticky"] is not None, "--sticky: a new table moves everything"),
        Applies(("copies",), bool(options["radii"]), "--radius"),
        written_applies(written, report, options="--write or --report"),
        *spark_applies(options["engine"]),
        *reading_applies(source, kind=options["kind"]),
    )
    made = _made(source, options)
    if made.kept:
        write(written, made.contract)
    if report:
        from keylane.report.geo_pages import geo_table_page

        write(report, geo_table_page(made.document))
    return as_result(made.document, written, report), output


def _made(source: str, options: Arguments) -> GeoTable:
    if (options["name"] or options["streams"]) and (options["sticky"] or options["contract"]):
        raise click.UsageError("--name and --stream are for a new contract; leave them out")
    from keylane.cli.progress import counted, spark_progress
    from keylane.contract.parse import load_contract

    old, base = (load_contract(options[name]) if options[name] else None for name in ("sticky", "contract"))
    kafka = replace(profiling_from(options), read_range=range_from(options, time.time()))
    from keylane.pipelines.geo_table import TableWish, geo_table
    from keylane.pipelines.profile import Options

    wanted = {name: options[name] for name in ("name", "streams", "most_moved", "radii", "copies") if options[name]}
    wish = TableWish(options["lanes"], options["tau"], options["strategy"], old, base, **wanted)
    given = Options(
        kafka=kafka,
        conf=settings_from(options["settings"]),
        configured=spark_is_configured(),
        **{name: options[name] for name in ("time", "scale", "engine", "kind", "master")},
    )
    if options["place"] and (options["lat"] or options["lng"]):
        raise click.UsageError("--place is --lat and --lng at once; hint: leave one of them out")
    lat, lng = options["place"] or (options["lat"], options["lng"])
    with spark_progress("geo table"):
        return geo_table(
            source,
            lat,
            lng,
            wish=wish,
            options=given,
            say=lambda text: note(f"geo table: {text}"),
            watch=lambda batches: counted(batches, "geo table"),
        )


def as_result(document: GeoTableDocument, written: str | None, page: str | None = None) -> Result:
    """The table beside other strategies, and in words what to know of it; copies only where a radius was given."""
    held = document.balance.held_out
    figures = (held or document.balance).as_json()
    this = {"strategy": f"this table ({document.strategy})", **{name: figures[name] for name in COLUMNS[1:]}}
    about = f"on {'records that the table was not fitted on' if held else 'the records that it was fitted on'}"
    section = Section(
        COLUMNS if _for_matching(document) else EVENNESS,
        [this, *document.beside],
        about,
        forms=_FORMS,
        tones={"copies": copies_tone},
    )
    lines = [*_lines(document), *_written(document, written), *([f"page: {page}"] if page else [])]
    return Result(document, [section], lines, 0 if _kept(document) else 4, answer=list(_answer(document)))


def _for_matching(document: GeoTableDocument) -> bool:
    return document.decided_by == "work"


def _kept(document: GeoTableDocument) -> bool:
    return document.limit is None or document.limit.kept


def _answer(document: GeoTableDocument) -> Iterator[str]:
    balance = document.balance
    held = balance.held_out or balance
    locations, cells = plural(document.records, "location"), plural(document.leaves, "cell")
    yield f"{locations} on {document.lanes} lanes (partitions), in {cells}"
    more = max(0.0, held.max_over_mean - 1)
    yield f"  the fullest lane carries {share(more)} more than the average{_in_hours(document)}"
    if _for_matching(document):
        yield f"  {_copied(document, held)}"
        yield f"  {_worked(document, held)}"


def _lines(document: GeoTableDocument) -> Iterator[str]:
    if document.moved:
        yield f"  {share(document.moved.share)} of the load changes lane, with {plural(document.moved.leaves, 'cell')}"
    if document.dead:
        yield "  no location: " + ", ".join(f"{count(records)} {reason}" for reason, records in document.dead.items())
    yield from (f"  {note}" for note in document.notes)


def _written(document: GeoTableDocument, written: str | None) -> Iterator[str]:
    if written and _kept(document):
        yield f"contract: {written}, epoch {document.epoch}"
    elif written:
        yield f"contract not written: {written}"


def _in_hours(document: GeoTableDocument) -> str:
    held = document.balance.held_out or document.balance
    hour = "" if held.worst_hour_cv is None else f", in the worst hour (UTC) {spread(held.worst_hour_cv)}"
    return f" (CV {spread(held.cv)}{hour}; chance alone {spread(held.noise_floor)})"


def _copied(document: GeoTableDocument, held: GeoFigures) -> str:
    """What a request costs: on how many lanes there may be a driver for it."""
    radii = list(document.copies_per_rider.items())[1:]
    further = [f"{copies:.2f} within {distance(float(radius))}" for radius, copies in radii]
    more = f" ({', '.join(further)})" if further else ""
    least = f"round regions of equal load would need about {document.round_copies:.2f}"
    near = f"a request for drivers within {distance(document.radius_m)}"
    return f"{near} goes to {held.copies:.2f} lanes on average{more}; {least}"


def _worked(document: GeoTableDocument, held: GeoFigures) -> str:
    """The work in a form that compares across lane counts."""
    alike = document.lanes / max(held.total_work, 1.0)
    return (
        f"{document.lanes} lanes do the work of {alike:.1f}: "
        f"the fullest, copies included, does {times(held.total_work)} the mean load"
    )

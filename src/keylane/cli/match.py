"""`keylane match`: every available driver within a radius of a rider, exactly."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.options import (
    LANE_COUNT,
    RANGE,
    TIME_COLUMN,
    Applies,
    Arguments,
    check_applies,
    grouped,
    profiling_from,
    profiling_options,
    range_from,
    range_options,
    reading_applies,
    scale_option,
    settings_from,
    spark_options,
    time_of,
    written_applies,
)
from keylane.cli.output import Result, Section, check_free, output_option, write
from keylane.cli.terminal import note
from keylane.numbers import agree, count, duration, percent, plural, share, spread, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.model import Contract
    from keylane.documents.match import MatchDocument
    from keylane.pipelines.match.follow import Following
    from keylane.pipelines.match.options import Columns, Options

# The options of `match`: declared once, and turned into what `pipelines.match` takes.

#: Names of columns, and their defaults.
_COLUMNS: Final = {"id": "id", "time": "ts", "lat": "lat", "lng": "lng"}
match_options: Final = grouped(
    click.option("--drivers", metavar="SRC", help="Driver pings: file, folder or kafka://host:port/topic."),
    click.option("--riders", metavar="SRC", help="Rider requests: file, folder or kafka://host:port/topic."),
    click.option(
        "--from", "both", multiple=True, metavar="SRC", help="Give twice: routed drivers, then routed riders."
    ),
    click.option("--to", "target", required=True, metavar="DST", help="A new folder, or a topic."),
    click.option(
        *("--radius",),
        type=click.FloatRange(min=0, min_open=True, max=50_000),
        required=True,
        metavar="METRES",
        help="Largest distance between driver and rider.",
    ),
    click.option("--nearest", type=click.IntRange(min=1), metavar="K", help="The nearest K only; default: all."),
    click.option("--expire", type=float, metavar="SECONDS", help="Ignore pings older than this."),
    click.option(
        "--contract",
        "-c",
        type=click.Path(),
        help="Lanes by this contract; default: a table for the radius, with --follow hashed cells.",
    ),
    click.option("--lanes", "-n", type=LANE_COUNT, help="The lane count, where the contract has none; default: 12."),
    click.option("--assign", type=click.Choice(["greedy", "optimal"]), help="Offer each driver to one rider at most."),
    click.option(
        "--window",
        type=float,
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="Collect requests for this many seconds before assigning.",
    ),
    click.option(
        "--offer-for",
        type=float,
        default=15.0,
        show_default=True,
        metavar="SECONDS",
        help="How long a driver is held for an offer.",
    ),
    *(
        click.option(
            *name,
            f"any_{key}",
            metavar=TIME_COLUMN if key == "time" else "COLUMN",
            callback=time_of if key == "time" else None,
            help=f"{what} of both; default: {default}.",
        )
        for name, key, what, default in (
            (("--id",), "id", "The id", "id"),
            (("--time-column", "--time"), "time", "The time", "ts"),
            (("--lat",), "lat", "The latitude", "the contract's, or lat"),
            (("--lng",), "lng", "The longitude", "the contract's, or lng"),
        )
    ),
    *(
        click.option(
            f"--{side}-{key}",
            f"{side}_{key}",
            metavar=TIME_COLUMN if key == "time" else "COLUMN",
            callback=time_of if key == "time" else None,
            help=f"The same, of {side}s only.",
        )
        for side in ("driver", "rider")
        for key in _COLUMNS
    ),
    scale_option(),
    scale_option("driver"),
    scale_option("rider"),
    click.option(
        "--available", metavar="COLUMN", help="Whether a driver may be matched; default: available, if it exists."
    ),
    spark_options,
    click.option("--follow", "-F", is_flag=True, help="Follow the sources until stopped."),
    click.option("--late", type=float, metavar="SECONDS", help="How late a ping may arrive; default: 10."),
    click.option("--keep", type=float, metavar="SECONDS", help="How long lanes remember pings, at most; default: 600."),
    click.option(
        "--ahead",
        type=float,
        metavar="SECONDS",
        help="Records further in the future are dead letters; default: a day.",
    ),
    click.option("--state", type=click.Path(), help="Where --follow keeps its state; default: DST/_state."),
    click.option(
        "--checkpoint",
        metavar="PATH",
        help="Where Spark keeps what --follow knows: a folder, or hdfs://, s3a:// and the like; default: in --state.",
    ),
    click.option("--every", metavar="TIME", help="How often --follow checks for new records; default: 1 second."),
    click.option("--max-files", type=click.IntRange(min=1), help="Files in one batch of --follow; default: 1000."),
    click.option("--create", is_flag=True, help="Create missing topics of DST."),
    range_options,
    profiling_options,
)
_FOLLOWING: Final = ("late", "keep", "ahead", "state", "checkpoint", "every", "max_files")
_PASSED_ON: Final = ("radius", "nearest", "expire", "kind", "lanes", "assign", "window", "offer_for", "master")


def sources_from(options: Arguments) -> tuple[str, str]:
    """Drivers and riders: by name, or as two co-partitioned streams."""
    drivers, riders, both = options["drivers"], options["riders"], options["both"]
    if both and (drivers or riders or len(both) != 2):
        raise click.UsageError("--from is given twice, drivers and then riders, and without --drivers and --riders")
    if both:
        return both[0], both[1]
    if not drivers or not riders:
        missing = "--riders SRC" if drivers else "--drivers SRC"
        raise click.UsageError(f"a match is of two sources; hint: {missing}, or --from DRIVERS --from RIDERS")
    return drivers, riders


def following_from(options: Arguments) -> Following | None:
    """How it follows its sources, where it does; None for a batch, for which none of these options may be given."""
    from keylane.pipelines.match.options import check_following

    known = check_following({name: options.pop(name) for name in _FOLLOWING}, follow=options["follow"])
    if not options["follow"]:
        return None
    from keylane.pipelines.match.follow import Following

    return Following(**known)


def options_from(options: Arguments, contract: Contract | None, *, verify: bool, picture: bool) -> Options:
    """What `pipelines.match` takes."""
    from dataclasses import replace

    from keylane.pipelines.match.options import Options

    kafka, read_range = profiling_from(options), range_from(options, time.time())
    kafka = replace(kafka, value=kafka.value or "json", create=options["create"], read_range=read_range)
    return Options(
        drivers=_columns(options, "driver", contract),
        riders=_columns(options, "rider", contract),
        verify=verify,
        picture=picture,
        co_partitioned=bool(options["both"]),
        conf=settings_from(options["settings"]),
        kafka=kafka,
        **{name: options[name] for name in _PASSED_ON},
    ).checked(follow=options["follow"])


def _columns(options: Arguments, side: str, contract: Contract | None) -> Columns:
    from keylane.pipelines.match.options import Columns, location_columns

    usual = {**_COLUMNS, **location_columns(contract)}
    named = {key: options[f"{side}_{key}"] or options[f"any_{key}"] or name for key, name in usual.items()}
    available = options["available"] if side == "driver" else None
    scale = options[f"{side}_scale"] or options["scale"]
    return Columns(**named, available=available, scale=scale)


@click.command(short_help="Every available driver near each rider, exactly, across lanes and borders.")
@match_options
@click.option("--verify", is_flag=True, help="Compare the result with brute force, and print the recall.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page with a map to look at.")
@click.option("--force", is_flag=True, help="Replace the page.")
@output_option
def match(
    contract: str | None,
    target: str,
    verify: bool,
    report: str | None,
    force: bool,
    output: str,
    **options: Any,
) -> tuple[Result, str]:
    """Find every available driver within --radius metres of each rider, at the rider's own moment, and write the pairs.

    \b
    keylane match --drivers pings/ --riders requests/ --radius 1000 --to matches/
    keylane match --drivers pings/ --riders requests/ --radius 1000 --nearest 5 --to near/ --verify
    keylane match --from lanes/stream=driver-locations --from lanes/stream=rider-requests \\
        --contract geo.yaml --radius 2000 --to matches/

    Both sources have id, ts, lat and lng; drivers may have available. A driver is where its newest ping not after the
    request says. Riders are sent to every lane that can hold a driver near them, so no pair is missed at a border.
    DST gets matches/, and _dead/ with the records that have no location, no id or no time.
    Exit codes: 0 done, 1 failed, or the result is not what brute force finds, 2 usage or invalid contract.
    """
    check_free(report, force=force)
    drivers, riders = sources_from(options)
    from keylane.contract.parse import load_contract

    loaded = load_contract(contract) if contract else None
    check_applies(*_applies(options, loaded, target, report, (drivers, riders)))
    following = following_from(options)
    given = options_from(options, loaded, verify=verify, picture=report is not None)
    if following is None:
        from keylane.cli.progress import spark_progress
        from keylane.pipelines.match.batch import match as run

        with spark_progress("match"):
            matched = run(drivers, riders, target, given, contract=loaded, say=_say)
        document, picture = matched.document, matched.picture
    else:
        document, picture = _followed(drivers, riders, target, given, loaded, following), None
    if report is not None:
        from keylane.report.geo_pages import match_page

        write(report, match_page(document, picture))
    return as_result(document), output


def _applies(
    options: Arguments, contract: Contract | None, target: str, report: str | None, sides: tuple[str, str]
) -> Iterator[Applies]:
    from keylane.systems.endpoint import open_endpoint

    follow = options["follow"]
    yield Applies(_FOLLOWING, follow, "--follow")
    whole = not follow, "a match of what is there: without --follow"
    yield Applies(RANGE, *whole)
    yield Applies(("window", "offer_for"), options["assign"] is not None, "--assign")
    yield Applies(("create",), lambda: open_endpoint(target).messages, "a target that is a topic")
    live = contract is None or contract.spec.lanes == "live"
    yield Applies(("lanes",), live, "no --contract, or one of `lanes: live`")
    for key in _COLUMNS:
        both = options[f"driver_{key}"] and options[f"rider_{key}"]
        yield Applies((f"any_{key}",), not both, "a side that has no option of its own")
    yield Applies(("scale",), not (options["driver_scale"] and options["rider_scale"]), "a side without its own")
    yield written_applies(report, options="--report")
    yield from reading_applies(*sides, into=(target,), kind=options["kind"])


def _followed(
    drivers: str, riders: str, target: str, given: Options, loaded: Contract | None, following: Following
) -> MatchDocument:
    from functools import partial

    from keylane.cli.progress import RouteProgress
    from keylane.cli.route import Stopping, listen

    stopping, progress = Stopping("match"), RouteProgress(drivers, "match", follow=True)

    from keylane.pipelines.match.follow import follow

    try:
        return follow(
            drivers,
            riders,
            target,
            given,
            following,
            contract=loaded,
            stop_asked=stopping.asked,
            ready=partial(listen, stopping, progress),
            tell=lambda figures: progress.reached(figures.total["pings"] + figures.total["asked"]),
            say=_say,
        )
    finally:
        stopping.restore()
        progress.clear()


def _say(text: str) -> None:
    note(f"match: {text}")


def as_result(document: MatchDocument) -> Result:
    """What came of it; then lanes with their loads, and what else there is to know."""
    mean = sum(document.lane_loads) / len(document.lane_loads)
    rows = [
        {"lane": lane, "pings": pings, "of_mean": pings / mean if mean else 0.0}
        for lane, pings in enumerate(document.lane_loads)
    ]
    lanes = Section(("lane", "pings", "of_mean"), rows, forms={"of_mean": times})
    wrong = document.verified is not None and bool(document.verified.missing or document.verified.extra)
    return Result(document, [lanes], list(_lines(document)), int(wrong), answer=list(_answer(document)))


def _answer(document: MatchDocument) -> Iterator[str]:
    """Who has a driver, how near, what it cost, and how sure that is."""
    served, asked = document.riders_with_a_match, document.riders
    of_all = f" ({share(served / asked)})" if asked else ""
    near = "" if document.median_m is None else f"; the nearest is {count(document.median_m)} m away at the median"
    yield f"{count(served)} of {count(asked)} requests{of_all} have a driver within {count(document.radius_m)} m{near}"
    if waiting := document.metrics.pending:
        which = f"{plural(waiting, 'more request')} {agree(waiting, 'waits', 'wait')} for an answer"
        yield f"  {which}, until a ping is --late seconds past {agree(waiting, 'it', 'them')}"
    went = f"each request went to {document.copies_per_rider:.2f} of {document.lanes} lanes (partitions) on average"
    yield f"  {went}; {share(document.metrics.border_share)} are within the radius of another lane"
    if document.verified is not None and document.recall is not None:
        judged = document.verified
        yield f"  recall {percent(document.recall, 4)}: brute force finds {count(judged.pairs)} pairs"
        missing, extra = (count(number) if number else "none" for number in (judged.missing, judged.extra))
        yield f"  {missing} missing, {extra} extra"
    if document.offers is not None:
        offers = document.offers
        far = "" if offers.mean_distance_m is None else f", {count(offers.mean_distance_m)} m away on average"
        yield f"  {count(offers.granted)} offers{far}; {count(offers.refused)} requests with a driver near got none"


def _lines(document: MatchDocument) -> Iterator[str]:
    found = f"{plural(document.pairs, 'pair')} of {plural(document.riders, 'request')}"
    yield f"{found} and {plural(document.pings, 'ping')}, {duration(document.seconds)}"
    fullest = f"the fullest lane holds {share(_fullest(document.lane_loads))} more pings than the average"
    yield f"{fullest} (CV {spread(document.metrics.lane_cv)}; chance alone {spread(document.metrics.noise_floor)})"
    if document.metrics.ghosts_dropped:
        gone = count(document.metrics.ghosts_dropped)
        yield f"{gone} stale positions of drivers that had moved to another lane were dropped"
    for side, reasons in (("drivers", document.dead.drivers), ("riders", document.dead.riders)):
        if reasons:
            listed = ", ".join(f"{count(number)} {reason}" for reason, number in reasons.items())
            yield f"dead letters of {side}: {listed}"
    yield from document.notes
    from keylane.plan.geo_work import COSTLY_COPIES

    if document.copies_per_rider > COSTLY_COPIES:
        table = f"build a table for this radius (keylane geo table --radius {document.radius_m:g})"
        dear = f"more than {COSTLY_COPIES:g} lanes per request is expensive"
        yield f"{dear}; use fewer lanes, a smaller radius, or {table}"


def _fullest(loads: list[int]) -> float:
    mean = sum(loads) / len(loads)
    return max(loads) / mean - 1 if mean else 0.0

"""`keylane match`: every available driver within so many metres of a rider, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from keylane.cli.match_options import following_from, match_options, options_from, sources_from
from keylane.cli.output import Result, Section, output_option
from keylane.cli.written_files import check_free

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.model import Contract
    from keylane.pipelines.match.options import Options

__all__ = ["match"]


@click.command(short_help="Every available driver near each rider, exactly, across lanes and borders.")
@match_options
@click.option("--verify", is_flag=True, help="Hold the result against brute force, and print the recall.")
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
    DST gets matches/, and _dead/ with the records that have no place, no id or no time.
    Exit codes: 0 done, 1 failed, or the result is not what brute force finds, 2 usage or invalid contract.
    """
    check_free(report, force=force)
    drivers, riders = sources_from(options)
    following = following_from(options)
    if following is not None and verify:
        raise click.UsageError("--verify is of a batch: match what was followed once more, without --follow")
    given = options_from(options, verify=verify, picture=report is not None)

    from keylane.contract.parse import load_contract

    loaded = load_contract(contract) if contract else None
    run = _matched if following is None else _followed
    document = run(drivers, riders, target, given, loaded, following or {})
    if report is not None:
        from keylane.report.match import write_match

        write_match(document, report)
    return as_result(document), output


def _matched(
    drivers: str, riders: str, target: str, given: Options, loaded: Contract | None, _said: dict[str, Any]
) -> dict[str, Any]:
    from keylane.cli.progress import spark_progress
    from keylane.pipelines.match.batch import match as run

    with spark_progress("match"):
        return run(drivers, riders, target, given, contract=loaded, say=_say)


def _followed(
    drivers: str, riders: str, target: str, given: Options, loaded: Contract | None, said: dict[str, Any]
) -> dict[str, Any]:
    from keylane.cli.route import Stopping
    from keylane.pipelines.match.stream import Following, follow

    stopping = Stopping("match")
    try:
        return follow(
            drivers,
            riders,
            target,
            given,
            Following(**said),
            contract=loaded,
            stop_asked=stopping.asked,
            ready=stopping.listen,
            say=_say,
        )
    finally:
        stopping.restore()


def _say(text: str) -> None:
    click.echo(f"match: {text}", err=True)


def as_result(document: dict[str, Any]) -> Result:
    """Lanes with their loads, and in words what came of it."""
    shown = {name: value for name, value in document.items() if name != "picture"}
    rows = [{"lane": lane, "pings": pings} for lane, pings in enumerate(document["lane_loads"])]
    judged = document["verified"]
    wrong = judged is not None and bool(judged["missing"] or judged["extra"])
    return Result(shown, [Section(("lane", "pings"), rows)], list(_lines(document)), int(wrong))


def _lines(document: dict[str, Any]) -> Iterator[str]:
    with_match, riders = document["riders_with_a_match"], document["riders"]
    found = f"{document['pairs']:,} pairs of {riders:,} requests and {document['pings']:,} pings"
    yield f"{found}, {document['seconds']:.1f} s"
    yield f"{with_match:,} requests have a driver within {document['radius_m']:,.0f} m"
    yield from _metrics(document["copies_per_rider"], document["metrics"])
    if document["verified"] is not None:
        judged = document["verified"]
        yield f"recall {document['recall']:.6f}: brute force finds {judged['pairs']:,} pairs"
        yield f"  {judged['missing']:,} of them are missing, and {judged['extra']:,} were found that it does not find"
    if document["offers"] is not None:
        offers = document["offers"]
        far = "" if offers["mean_distance_m"] is None else f", {offers['mean_distance_m']:,.0f} m away on average"
        yield f"{offers['granted']:,} offers{far}; {offers['refused']:,} requests with a driver near got none"
    for side, reasons in document["dead"].items():
        if reasons:
            yield f"dead letters of {side}: " + ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
    yield from document["notes"]


def _metrics(copies: float, metrics: dict[str, Any]) -> Iterator[str]:
    yield f"{copies:.3f} copies per request; {metrics['border_share'] or 0:.1%} of requests are near a border"
    yield f"{metrics['ghosts_dropped'] or 0:,} ghosts dropped"
    yield f"lanes' CV {metrics['lane_cv']:.1%}; chance alone gives {metrics['noise_floor']:.1%}"

"""`keylane plan`: which strategy and how many lanes, what that would gain, move and break, before anything is done."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.output import Result, Section, output_option
from keylane.cli.plan_options import demand_options, plan_options, question_of
from keylane.cli.profile_options import SEED, kept_in, profile_options, profiled
from keylane.cli.written_files import check_apart, check_free, write

if TYPE_CHECKING:
    from keylane.measure.profile import Profile

__all__ = ["plan"]

CHANGES: Final = 3
UNMET: Final = 4
COLUMNS: Final = (
    *("strategy", "lanes", "order_scope", "max_over_mean", "fitted", "cv", "worst_window"),
    *("overrides", "moved_keys", "moved_traffic", "because"),
)
#: Rows of candidates in a table; all of them are in the document.
SHOWN: Final = 16


@click.command(short_help="Which strategy and how many lanes; what a change would gain, move and break.")
@click.argument("source", metavar="SRC")
@plan_options
@demand_options
@profile_options
@click.option("--write", "written", type=click.Path(), metavar="FILE", help="Write the chosen contract, for route.")
@click.option("--out", "saved", type=click.Path(), metavar="FILE", help="Save the plan as JSON.")
@click.option("--explain", is_flag=True, help="Give the reasons, in a page of plain words.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page to look at.")
@click.option("--show-keys", is_flag=True, help="Show keys whole; else they are cut and hashed.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@output_option
def plan(
    source: str,
    written: str | None,
    saved: str | None,
    explain: bool,
    report: str | None,
    show_keys: bool,
    force: bool,
    output: str,
    **options: Any,
) -> tuple[Result, str]:
    """Compare every strategy at every lane count on the keys of SRC, and choose one.

    SRC is a profile (`keylane profile --out`), which needs no Spark, or whatever `keylane profile` reads. Strategies
    are fitted on the first three quarters of the records and scored on the last: `max_over_mean` is what held on
    records that were not fitted on. The chosen contract is fitted on all of them.

    \b
    keylane plan payments.profile --lanes 12
    keylane plan payments/ --key merchant --time paid_at --lanes 12..128 --contract today.yaml --explain
    keylane plan payments.profile --lanes 12 --write payments.yaml --out plan.json --report plan.html
    keylane plan pings/ --place lat,lng --time ts --lanes 60 --write places.yaml

    Exit codes: 0 nothing to change, or no contract to change from; 3 the chosen contract is not today's; 4 no candidate
    keeps the constraints; 1 failed; 2 usage or invalid contract.
    """
    check_apart(written, saved, report)
    for path in (written, saved, report):
        check_free(path, force=force)
    from keylane.plan.make import make_plan

    made = profiled(source, options)
    found = make_plan(made, question_of(made, options))
    document = _document(made, found, show_keys=show_keys, stored=kept_in(source))
    write(written, found.text or _today_text(options))
    write(saved, json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    if report:
        from keylane.report.plan import plan_page

        write(report, plan_page(document))
    return as_result(document, explain=explain, files={"contract": written, "plan": saved, "page": report}), output


def _today_text(options: dict[str, Any]) -> str:
    return Path(options["contract"]).read_text(encoding="utf-8")


def _document(made: Profile, found: Any, *, show_keys: bool, stored: str | None) -> dict[str, Any]:
    from keylane.measure.overview import overview
    from keylane.plan.document import document
    from keylane.plan.heat import heat_under, plainly_hashed

    stands = found.today or plainly_hashed(found)
    hot = heat_under(found.stream, stands, SEED)
    told = overview(made, salt=secrets.token_bytes(16), show_keys=show_keys, stored=stored, hot=hot)
    return document(found, told, show_keys=show_keys)


def as_result(document: dict[str, Any], *, explain: bool, files: dict[str, str | None]) -> Result:
    """The best candidates, the verdict, and where things are."""
    rows = [one for one in document["candidates"] if one["allowed"]] + [
        one for one in document["candidates"] if not one["allowed"] and one["lanes"] == document["chosen"]["lanes"]
    ]
    lines = list(_lines(document, explain=explain))
    lines += [f"{name}: {path}" for name, path in files.items() if path]
    columns = COLUMNS if document["geo"] is None else (COLUMNS[0], "resolution", *COLUMNS[1:])
    return Result(
        document, [Section(columns, rows[:SHOWN], "candidates, the chosen one first")], lines, _code(document)
    )


def _lines(document: dict[str, Any], *, explain: bool) -> Any:
    if explain:
        from keylane.plan.explained import explained

        yield from explained(document)
        return
    yield document["verdict"]
    yield from (f"  {reason}" for reason in document["chosen"]["why"])
    if document["profile"]["hot"]:
        yield f"  {document['profile']['hot']['verdict']}"
    change = document["change"]
    if change and document["changes"]:
        yield f"  {change['moved_keys']:.1%} of the keys and {change['moved_traffic']:.1%} of the records change lane"
    yield from (f"  {note}" for note in document["notes"])


def _code(document: dict[str, Any]) -> int:
    if not document["chosen"]["met"]:
        return UNMET
    return CHANGES if document["today"] and document["changes"] else 0

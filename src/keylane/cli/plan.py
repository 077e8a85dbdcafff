"""`keylane plan`: which strategy and how many lanes, what that would gain, move and break, before anything is done."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.options import Arguments, grouped
from keylane.cli.output import Result, Section, check_apart, check_free, output_option, write
from keylane.cli.profile import SEED, kept_in, profile_options, profiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.model import Contract, Window
    from keylane.documents.plan import PlanDocument
    from keylane.plan.planner import Plan, Question
    from keylane.plan.sizing import Demand
    from keylane.profile.model import Profile

# The options of `plan`: what is asked of a profile, and what the stream must carry. Turned into a `Question` here.

#: Lane counts that are compared where nothing is said: these, or today's count and up to four times it.
USUAL: Final = (8, 128)
TIMES_TODAY: Final = 4
_COUNT: Final = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?")
#: Window sizes that a contract may have, in seconds.
_SIZES: Final = {"1m": 60, "5m": 300, "15m": 900, "1h": 3_600, "6h": 21_600, "1d": 86_400, "7d": 604_800}
_DEMAND: Final = {
    "lane_mb_s": "What one lane takes, in MB/s; default: 10, an assumption.",
    "reader_mb_s": "What one reader takes, in MB/s.",
    "reader_records_s": "What one reader takes, in records a second.",
    "growth": "How many times today's peak is planned for; default: 1.",
    "headroom": "What is left free of a lane, as a share; default: 0.3.",
}

plan_options: Final = grouped(
    click.option("--lanes", "-n", metavar="N|LOW..HIGH", help="Lane counts to compare; default: today's to 4 times."),
    click.option(
        "--keep-order",
        type=click.Choice(["per-key", "per-key-and-window", "per-sub-key", "none"]),
        default="per-key",
        show_default=True,
        help="The least order that readers need.",
    ),
    click.option(
        "--max-over-mean", type=click.FloatRange(min=1), help="The fullest lane that is allowed, over the mean."
    ),
    click.option(
        "--sub-key", metavar="FIELD", help="The field that may divide a hot key: order is kept per value of it."
    ),
    click.option(
        "--today-lanes", type=click.IntRange(min=1), help="The lane count, where today's contract has `lanes: live`."
    ),
    click.option("--with", "others", multiple=True, type=click.Path(), help="A contract of a stream joined with this."),
)


#: What a stream must carry.
demand_options: Final = grouped(
    *(click.option(f"--{name.replace('_', '-')}", type=float, help=text) for name, text in _DEMAND.items()),
    click.option("--readers", type=click.IntRange(min=1), help="Number of parallel readers."),
    click.option("--service", help="Compare the lanes with a service's limits: kafka, msk-large, kinesis, ..."),
    click.option("--brokers", type=click.IntRange(min=1), help="Number of brokers."),
)


def question_of(made: Profile, options: Arguments) -> Question:
    """What the options ask of a profile."""
    from keylane.contract.parse import load_contract
    from keylane.plan.choose import Constraints
    from keylane.plan.planner import Question

    today = load_contract(options["contract"]) if options["contract"] else None
    demand, binding = _demand(made, options)
    return Question(
        _counts(options["lanes"], today, options["today_lanes"], made),
        _means(made, today, options),
        Constraints(options["keep_order"], options["max_over_mean"]),
        demand,
        binding,
        tuple(load_contract(path) for path in options["others"]),
        options["today_lanes"] or (len(made.lanes.by_window) if made.lanes else None),
    )


def _counts(text: str | None, today: Contract | None, today_lanes: int | None, made: Profile) -> tuple[int, ...]:
    from keylane.contract.names import MAX_LANES
    from keylane.plan.choose import lane_counts

    if text is not None:
        found = _COUNT.fullmatch(text)
        if found is None:
            raise click.UsageError(f"--lanes takes a count or a range, 12 or 12..128, got {text!r}")
        return lane_counts(int(found[1]), int(found[2] or found[1]))
    seen = len(made.lanes.by_window) if made.lanes else None
    now = today_lanes or seen if today is None or today.spec.lanes == "live" else today.spec.lanes
    return lane_counts(now, max(now, min(MAX_LANES, now * TIMES_TODAY))) if now else lane_counts(*USUAL)


def _means(made: Profile, today: Contract | None, options: Arguments) -> Any:
    from keylane.errors import UsageError
    from keylane.plan.contract_text import Means

    if options["sub_key"] in made.key.fields:
        hint = "a field that differs within one key"
        raise UsageError.of("the key itself divides nothing", got=f"--sub-key {options['sub_key']}", hint=hint)
    if today is not None:
        return Means(today.metadata.name, today.spec.streams, options["sub_key"], _window(made), today)
    name = _name(made.source)
    return Means(name, (name,), options["sub_key"], _window(made))


def _name(source: str) -> str:
    """A stream's name from its address: the last part, with nothing that a name may not have."""
    last = source.rstrip("/").rpartition("/")[2].removesuffix(".profile").split(".parquet")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.") or "stream"


def _window(made: Profile) -> Window | None:
    """The window that a key may have: the longest usual size that is no longer than the profile's own windows."""
    from keylane.contract.model import Window

    told = made.known
    field, unit = told.get("time"), told.get("unit")
    if made.windows.kind != "time" or not field:
        return None
    seconds = (made.windows.edges[-1] - made.windows.edges[0]) / 1e6 / len(made.windows)
    size = max((one for one in _SIZES if _SIZES[one] <= seconds), key=_SIZES.__getitem__, default="1m")
    return Window(field=field, size=size, **({"unit": unit} if unit else {}))


def _demand(made: Profile, options: Arguments) -> tuple[Demand | None, bool]:
    """The peak window of the profile as a demand; whether the user said what it has to fit."""
    from keylane.plan.sizing import Demand

    names = (*_DEMAND, "readers", "service", "brokers")
    said = {name: options[name] for name in names if options[name] is not None}
    if made.windows.kind != "time" or made.size is None:
        if said:
            raise click.UsageError("lanes for a throughput need times and bytes: profile with --time and --bytes")
        return None, False
    seconds = max(1e-6, (made.windows.edges[1] - made.windows.edges[0]) / 1e6)
    records = float(made.by_window.sum(axis=0).max()) / seconds
    each = float(made.size.sum()) / max(1, int(made.by_window.sum()))
    return Demand(peak_mb_s=records * each / 1e6, peak_records_s=records, **said), bool(said)


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
@click.option("--explain", is_flag=True, help="Print the reasons as plain text.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page to look at.")
@click.option("--show-keys", is_flag=True, help="Show whole keys; otherwise they are cut and hashed.")
@click.option("--force", is_flag=True, help="Replace existing files.")
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
    from keylane.plan.planner import make_plan

    made = profiled(source, options)
    found = make_plan(made, question_of(made, options))
    document = _document(made, found, show_keys=show_keys, stored=kept_in(source))
    write(written, found.text or _today_text(options))
    write(saved, json.dumps(document.as_json(), ensure_ascii=False, indent=1) + "\n")
    if report:
        from keylane.report.plan_page import plan_page

        write(report, plan_page(document))
    return as_result(document, explain=explain, files={"contract": written, "plan": saved, "page": report}), output


def _today_text(options: Arguments) -> str:
    return Path(options["contract"]).read_text(encoding="utf-8")


def _document(made: Profile, found: Plan, *, show_keys: bool, stored: str | None) -> PlanDocument:
    from keylane.plan.document import document
    from keylane.plan.planner import heat_under, plainly_hashed
    from keylane.profile.document import overview

    stands = found.today or plainly_hashed(found)
    hot = heat_under(found.stream, stands, SEED)
    told = overview(made, salt=secrets.token_bytes(16), show_keys=show_keys, stored=stored, hot=hot)
    return document(found, told, show_keys=show_keys)


def as_result(document: PlanDocument, *, explain: bool, files: dict[str, str | None]) -> Result:
    """The best candidates, the verdict, and where things are."""
    rows = [one for one in document.candidates if one.allowed] + [
        one for one in document.candidates if not one.allowed and one.lanes == document.chosen.lanes
    ]
    lines = list(_lines(document, explain=explain))
    lines += [f"{name}: {path}" for name, path in files.items() if path]
    columns = COLUMNS if document.geo is None else (COLUMNS[0], "resolution", *COLUMNS[1:])
    return Result(
        document, [Section(columns, rows[:SHOWN], "candidates, the chosen one first")], lines, _code(document)
    )


def _lines(document: PlanDocument, *, explain: bool) -> Iterator[str]:
    if explain:
        from keylane.plan.text import explained

        yield from explained(document)
        return
    yield document.verdict
    yield from (f"  {reason}" for reason in document.chosen.why)
    if document.profile.hot:
        yield f"  {document.profile.hot.verdict}"
    change = document.change
    if change and document.changes:
        yield f"  {change.moved_keys:.1%} of the keys and {change.moved_traffic:.1%} of the records change lane"
    yield from (f"  {note}" for note in document.notes)


def _code(document: PlanDocument) -> int:
    if not document.chosen.met:
        return UNMET
    return CHANGES if document.today and document.changes else 0

"""`keylane plan`: which strategy and how many lanes, what that would gain, move and break, before anything is done."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from keylane.cli.aggregate import has_delivered, plan_of
from keylane.cli.options import (
    LANE_COUNT,
    Applies,
    Arguments,
    check_applies,
    grouped,
    properties_from,
    typed_among,
    written_applies,
)
from keylane.cli.output import Result, Section, check_apart, check_free, output_option, write
from keylane.cli.profile import check_profiled, profile_options, profiled
from keylane.cli.tables import copies_tone
from keylane.contract.names import MAX_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.model import Contract
    from keylane.documents.apply import BoundSource
    from keylane.documents.plan import AgainstToday, CandidateRow, PlanDocument
    from keylane.pipelines.plan import PlanRequest
    from keylane.plan.planner import Plan
    from keylane.profile.model import Profile

# The options of `plan`: what is asked of a profile, and what the stream must carry. Turned into a `PlanRequest` here.

_COUNT: Final = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?")
_DEMAND: Final = {
    "lane_mb_s": "Capacity of one lane, in MB/s; default: 10, an assumption.",
    "lane_records_s": "Capacity of one lane, in records per second.",
    "reader_mb_s": "Capacity of one reader, in MB/s.",
    "reader_records_s": "Capacity of one reader, in records per second.",
    "growth": "Plan for this multiple of today's peak; default: 1.",
    "headroom": "Share of a lane's capacity to keep free; default: 0.3.",
}

plan_options: Final = grouped(
    click.option(
        "--lanes", "-n", metavar="N|LOW..HIGH", help="Lane counts to compare; default: today's, unless more are needed."
    ),
    click.option(
        "--keep-order",
        type=click.Choice(["per-key", "per-key-and-window", "per-sub-key", "none"]),
        help="The least order that readers need; default: per-key, or what today's contract keeps.",
    ),
    click.option(
        "--max-over-mean", type=click.FloatRange(min=1), help="The fullest lane that is allowed, over the mean."
    ),
    click.option(
        "--sub-key", metavar="FIELD", help="The field that may divide a hot key: order is kept per value of it."
    ),
    click.option("--today-lanes", type=LANE_COUNT, help="The lane count, where today's contract has `lanes: live`."),
    click.option(
        "--radius",
        type=click.FloatRange(min=0, min_open=True, max=50_000),
        metavar="M",
        help="Of --place: locations are matched within this radius (m), so copies count; adds compact regions.",
    ),
    click.option(
        "--with",
        "others",
        multiple=True,
        type=click.Path(),
        help="The contract of a stream that is joined with this one; repeatable.",
    ),
)


#: What a stream must carry.
demand_options: Final = grouped(
    *(click.option(f"--{name.replace('_', '-')}", type=float, help=text) for name, text in _DEMAND.items()),
    click.option("--readers", type=click.IntRange(min=1), help="Number of parallel readers."),
    click.option("--service", help="Compare the lanes with a service's limits: kafka, msk-large, kinesis, ..."),
    click.option("--brokers", type=click.IntRange(min=1), help="Number of brokers."),
)


def request_of(options: Arguments) -> PlanRequest:
    """What the options ask for."""
    from keylane.contract.given import contract_from, text_of
    from keylane.contract.parse import load_contract
    from keylane.pipelines.plan import DEMANDS, PlanRequest

    return PlanRequest(
        load_contract(options["contract"]) if options["contract"] else None,
        _counts(options["lanes"]),
        options["keep_order"],
        options["max_over_mean"],
        options["sub_key"],
        options["today_lanes"],
        tuple(contract_from(path) for path in options["others"]),
        {name: options[name] for name in DEMANDS if options[name] is not None},
        options["radius"],
        text_of(options["contract"]) if options["contract"] else "",
    )


def _counts(text: str | None) -> tuple[int, int] | None:
    """The lowest and the highest count of `--lanes`; None where it was not given."""
    if text is None:
        return None
    found = _COUNT.fullmatch(text)
    if found is None:
        raise click.UsageError(f"--lanes takes a count or a range, 12 or 12..128, got {text!r}")
    low, high = int(found[1]), int(found[2] or found[1])
    if not 1 <= low <= high <= MAX_LANES:
        raise click.UsageError(f"--lanes takes LOW..HIGH from 1 to {MAX_LANES}, LOW first, got {text!r}")
    return low, high


CHANGES: Final = 3
UNMET: Final = 4
COLUMNS: Final = (
    *("strategy", "lanes", "fullest_share", "work", "score", "against_today"),
    *("moved_traffic", "overrides", "order_scope"),
)
#: Of these without a contract of today there is nothing to show.
OF_TODAY: Final = ("against_today", "moved_traffic")
REFUSED: Final = ("strategy", "lanes", "because")
#: Rows of candidates in a table; all of them are in the document.
SHOWN: Final = 8


@click.command(short_help="Is a change worth it? Which strategy, how many lanes, what would move?")
@click.argument("source", metavar="SRC")
@plan_options
@demand_options
@profile_options
@click.option("--write", "written", type=click.Path(), metavar="FILE", help="Write the chosen contract, for route.")
@click.option("--out", "saved", type=click.Path(), metavar="FILE", help="Save the plan, for keylane apply.")
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
    """Compare every strategy on the keys of SRC, and say whether a change is worth it.

    SRC is a profile (`keylane profile --out`), which needs no Spark, or whatever `keylane profile` reads. Strategies
    are fitted on the first three quarters of the records and scored on the last: the figures are those of records that
    were not fitted on. `fullest_share` is the share of all records in the fullest lane (partition); 12 lanes of which
    the fullest has 25% do the `work` of 4. The chosen contract is fitted on all records.

    Today's lane count stays, unless --lanes gives others or a need for more is given: --growth, --lane-mb-s,
    --lane-records-s, --readers and the like.

    \b
    keylane plan payments.profile --contract today.yaml
    keylane plan payments/ --key merchant --time paid_at --lanes 12..128 --contract today.yaml --explain
    keylane plan payments.profile --contract today.yaml --out plan.json
    keylane apply plan.json
    keylane plan payments.profile --lanes 12 --write payments.yaml --report plan.html
    keylane plan pings/ --place lat,lng --time ts --lanes 60 --write places.yaml
    keylane plan results/ --lanes 16..128

    SRC may also be the target or the state of `keylane aggregate`: which division of the work, on how many lanes, and
    whether what runs should change. Exit codes are the same.

    Exit codes: 0 leave it, or no contract to change from; 3 the chosen contract is not today's; 4 no candidate
    keeps the constraints; 1 failed; 2 usage or invalid contract.
    """
    check_profiled(source)
    if not (options["keys"] or options["place"] or options["contract"]) and has_delivered(source):
        return _of_aggregation(source, options), output
    check_apart(written, saved, report)
    for path in (written, saved, report):
        check_free(path, force=force)
    from keylane.pipelines.plan import document_of, question_of
    from keylane.pipelines.profile import saved_in
    from keylane.plan.planner import make_plan

    asked = request_of(options)
    today = asked.today
    check_applies(
        Applies(("today_lanes",), today is not None and today.spec.lanes == "live", "a --contract of `lanes: live`"),
        written_applies(written, saved, report, options="--write, --out or --report"),
    )
    made = profiled(source, options)
    check_applies(Applies(("radius",), "place" in made.known or _by_place(today), "--place, or a contract by place"))
    found = make_plan(made, question_of(made, asked))
    file = options["contract"] or written
    document = document_of(made, found, show_keys=show_keys, stored=saved_in(source), path=file)
    write(written, found.text or _today_text(options))
    if saved:
        _save(saved, document, made, found, options, written)
    if report:
        from keylane.report.plan_page import plan_page

        write(report, plan_page(document))
    return as_result(document, explain=explain, files={"contract": written, "plan": saved, "page": report}), output


def _by_place(contract: Contract | None) -> bool:
    return contract is not None and contract.spec.key.is_place


def _of_aggregation(source: str, options: Arguments) -> Result:
    """What an aggregation has delivered is counted already, and its division is no contract."""
    taken = {"source", "lanes", "max_over_mean", "output"}
    others = [one.name for one in click.get_current_context().command.params if one.name and one.name not in taken]
    if typed := [max(one.opts, key=len) for one in typed_among(others)]:
        hint = f"--lanes and --max-over-mean apply; leave out {', '.join(typed)}"
        raise click.UsageError(f"SRC is what an aggregation has delivered; hint: {hint}")
    return plan_of(source, _counts(options["lanes"]), options["max_over_mean"])


def _save(
    path: str, document: PlanDocument, made: Profile, found: Plan, options: Arguments, written: str | None
) -> None:
    """The plan for `keylane apply`. It names keys, so the file is for its owner alone."""
    from keylane.documents.apply import Bound, BoundContract, PlannedContract
    from keylane.plan.saved import saved_plan

    contract = Path(options["contract"] or written or f"{found.contract.metadata.name}.yaml").absolute()
    given = contract.read_bytes() if options["contract"] else None
    bound = Bound(
        contract=BoundContract(
            path=str(contract),
            digest=None if given is None else hashlib.sha256(given).hexdigest(),
            fingerprint=found.today.contract.fingerprint if found.today else None,
        ),
        source=_bound_source(made, document.profile.profile, options),
    )
    fingerprint, epoch = found.contract.fingerprint, found.contract.metadata.epoch
    planned = PlannedContract(fingerprint=fingerprint, epoch=epoch, text=found.text)
    made_plan = saved_plan(document, bound, planned if found.text else None)
    write(path, json.dumps(made_plan.as_json(), ensure_ascii=False, indent=1) + "\n", private=True)


def _bound_source(made: Profile, stored: str | None, options: Arguments) -> BoundSource:
    """The source as it was counted; its id as it is now, where the plan has just read it."""
    from keylane.documents.apply import BoundSource
    from keylane.systems.endpoint import StreamOptions, open_endpoint

    known = str(made.known.get("id", ""))
    if stored is None and not known:
        known = open_endpoint(made.source, StreamOptions(properties=properties_from(dict(options)))).identity()
    return BoundSource(
        address=made.source,
        id=known,
        lanes=len(made.lanes.by_window) if made.lanes else None,
        profile=None if stored is None else str(Path(stored).absolute()),
        profile_fingerprint=made.fingerprint,
    )


def _today_text(options: Arguments) -> str:
    return Path(options["contract"]).read_text(encoding="utf-8")


def as_result(document: PlanDocument, *, explain: bool, files: dict[str, str | None]) -> Result:
    """The best candidates, the verdict, and where things are."""
    from keylane.plan.document import basis_in_short, fix_first

    allowed = [one for one in document.candidates if one.allowed or one.rank == 1]
    shown = _shown(document, allowed)
    refused = [one for one in document.candidates if one not in allowed and one.lanes == document.chosen.lanes]
    lines = [*([] if explain else _read_as(document)), *_lines(document, explain=explain)]
    lines += [f"{name}: {path}" for name, path in files.items() if path]
    columns = tuple(name for name in COLUMNS if document.today or name not in OF_TODAY)
    columns = columns if document.geo is None else (columns[0], "resolution", *columns[1:])
    if any(one.tier_lanes for one in shown):
        lanes = columns.index("lanes") + 1
        columns = (*columns[:lanes], "tier_lanes", *columns[lanes:])
    if document.chosen.copies is not None:
        columns = (*columns[:3], "copies", "total_work", *columns[3:])
    title = f"candidates, the chosen one first; fullest and work are of {basis_in_short(document)}"
    taken = Section(
        columns,
        shown,
        title,
        _forms(),
        tones={"against_today": _tone, "copies": copies_tone},
        heads={"tier_lanes": "+ tier", "fullest_share": "fullest", "moved_traffic": "moved"},
    )
    others = [Section(REFUSED, refused, "not taken")] if explain else []

    first = fix_first(document)
    answer = [document.advice.headline, f"  {document.verdict}", f"  {document.basis.says}"] if not explain else []
    if first and not explain:
        answer = [first, "  keylane identify names them, with the setting of each", *answer]
    return Result(document, [taken, *others], lines, _code(document), answer)


def _shown(document: PlanDocument, allowed: list[CandidateRow]) -> list[CandidateRow]:
    """The chosen one, today's, and what else there is at that count; of other counts the best.

    Where today's count stays, no other was asked for.
    """
    chosen = document.chosen
    standing = [one for one in document.candidates if one.strategy == "today"]
    first = [one for one in allowed if one.rank == 1]
    same = [one for one in allowed if one.lanes == chosen.lanes and one not in (*first, *standing)]
    best = {one.lanes: one for one in reversed(allowed) if one not in (*first, *standing) and one.lanes != chosen.lanes}
    others = [] if document.today and document.today.lanes == chosen.lanes else [best[lanes] for lanes in sorted(best)]
    return [*first, *(one for one in standing if one not in first), *same, *others][:SHOWN]


def _forms() -> dict[str, Any]:
    from keylane import numbers
    from keylane.documents.plan import AGAINST_TODAY

    figures = {
        "work": "{:.1f}".format,
        "score": "{:.2f}".format,
        "copies": "{:.2f}".format,
        "total_work": numbers.times,
    }
    shares = {"fullest_share": numbers.share, "moved_traffic": numbers.share}
    return {**shares, "against_today": AGAINST_TODAY.__getitem__, **figures}


def _tone(against: AgainstToday | None) -> Literal["good", "bad"] | None:
    if against == "worse":
        return "bad"
    return "good" if against == "better" else None


def _read_as(document: PlanDocument) -> Iterator[str]:
    """The two columns that decide, and the rule, below the table that they stand in."""
    from keylane.plan.document import rule_in_short, score_in_short, work_in_short

    tiers = any(one.allowed and one.tier_lanes for one in document.candidates)
    yield f"  WORK: {work_in_short(document)}."
    yield f"  SCORE: {score_in_short(tiers=tiers)}. {rule_in_short(document)}"


def _lines(document: PlanDocument, *, explain: bool) -> Iterator[str]:
    if explain:
        from keylane.plan.text import explained

        yield from explained(document)
        return
    from keylane import numbers

    if document.holding:
        yield f"  {document.holding.says}"
    yield from (f"  {reason}" for reason in document.chosen.why)
    if document.profile.hot:
        from keylane.plan.document import hot_in_plan

        yield f"  {hot_in_plan(document, document.profile.hot)}"
    yield from _left_out(document)
    change = document.change
    if change and document.changes:
        from keylane.plan.document import all_keyed, keys_moved

        records, keys = numbers.share(change.moved_traffic or 0), keys_moved(document)
        yield f"  Cost: {records} of {all_keyed(document)} and {keys} change lane."
    if document.by_hand:
        who = ", ".join(dict.fromkeys(one.who for one in document.by_hand))
        steps = numbers.plural(len(document.by_hand), "step")
        yield f"  By hand: {steps} ({who}). keylane apply lists them."
    yield from (f"  {note}" for note in document.notes)


def _left_out(document: PlanDocument) -> Iterator[str]:
    """That strategies which name keys could not be tried: what they would gain is then not known."""
    from keylane.plan.contract_text import NOT_NAMED

    why = next((one.because for one in document.candidates if (one.because or "").startswith(NOT_NAMED)), None)
    if why is not None:
        yield f"  Strategies that name keys were left out: {why}"


def _code(document: PlanDocument) -> int:
    if not document.chosen.met:
        return UNMET
    return CHANGES if document.today and document.changes else 0

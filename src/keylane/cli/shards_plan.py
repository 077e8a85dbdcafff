"""`keylane shards plan`: the fewest splits and merges to a better layout, before anything is done."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.options import Applies, check_applies, length_of_time, written_applies
from keylane.cli.output import Form, Result, Section, check_apart, check_free, output_option, write
from keylane.numbers import amount, carried, count, duration, percent, plural, times

if TYPE_CHECKING:
    from keylane.documents.shards import ShardSide, ShardsPlanDocument

CALLS: Final = ("step", "call", "shards", "at", "makes", "shards_after")
HOT: Final = ("shard", "load", "kind", "key_load", "key", "hash_key")
UNIFORM: Final = ("shards", "calls", "max_load", "max_over_mean", "within_cap", "within_quota")
#: Calls that a table shows; all of them are in the other formats.
SHOWN: Final = 50
_NUMBERS: Final[dict[str, Form]] = {"max_over_mean": times, "load": amount, "max_load": amount, "key_load": amount}
#: Names to copy.
_NAMES: Final = ("shard", "shards", "at", "makes", "hash_key")
_NUMBERED: Final = re.compile(r"shardId-0{3,}([0-9]{1,9})")


def short_ids(given: str | list[str]) -> str:
    """Ids of shards as a narrow terminal shows them: the service's own without the zeros in them.

    >>> short_ids(["shardId-000000000004", "shardId-000000000012"]), short_ids("east-1")
    ('…4, …12', 'east-1')
    """
    ids = [given] if isinstance(given, str) else given
    return ", ".join(_NUMBERED.sub(r"…\1", one) for one in ids)


def along(hash_key: str) -> str:
    """Where a hash key lies in the key space."""
    from keylane.keyspace.hash_keys import at_share

    return percent(at_share(int(hash_key)), 4)


_SHORT: Final[dict[str, Form]] = {
    **dict.fromkeys(("shard", "shards", "makes"), short_ids),
    **dict.fromkeys(("at", "hash_key"), along),
}


@click.command(short_help="The fewest splits and merges to a better layout.")
@click.option("--layout", required=True, metavar="FILE", help="The shards of today: a file, or a stream's address.")
@click.option(
    "--cap", type=click.FloatRange(min=0, min_open=True), help="What a shard may carry, in the unit of the loads."
)
@click.option(
    "--to", type=click.Path(path_type=Path), metavar="FILE", help="The layout to change to, instead of --cap."
)
@click.option("--shards", type=click.IntRange(1, 100_000), help="With --cap: at most so many shards; cold ones merge.")
@click.option(
    "--tolerance",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="With --to: a boundary this many keys from an old one is that one.",
)
@click.option("--profile", type=click.Path(path_type=Path), metavar="DIR", help="Load by key, from a saved profile.")
@click.option("--load", type=click.Path(path_type=Path), metavar="FILE", help="Load by hash key: CSV of hash_key,load.")
@click.option(
    "--registry",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Load by account, from the weights of a registry; with --profile: their explicit hash keys.",
)
@click.option(
    "--measure",
    type=click.Choice(["read", "service"]),
    help="Measure the stream of --layout: read its records, or ask the service's metrics of each shard.",
)
@click.option(
    "--unit",
    type=click.Choice(["records", "bytes"]),
    default="records",
    show_default=True,
    help="With --measure: what loads and --cap count, of each second.",
)
@click.option(
    "--last",
    callback=length_of_time,
    metavar="TIME",
    help="With --measure: over this time; default: all that is there, and 1h of metrics.",
)
@click.option("--show-keys", is_flag=True, help="Name keys that are hot, where they are known.")
@click.option("--write", "written", type=click.Path(), metavar="FILE", help="Write the layout that is planned.")
@click.option("--out", "saved", type=click.Path(), metavar="FILE", help="Save the plan, for keylane shards apply.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page to look at.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@output_option
def plan(
    layout: str,
    cap: float | None,
    to: Path | None,
    written: str | None,
    saved: str | None,
    report: str | None,
    force: bool,
    **rest: Any,
) -> tuple[Result, str]:
    """Plan the fewest splits and merges that keep every shard under a cap, or that lead to a given layout.

    A layout is JSON: {"shards": [{"id": "a", "start": "0", "end": "340…455", "load": 1.0}, …]}, ends included. Nothing
    is changed; the calls are printed in an order that opens few shards at once. Of a stream's address its shards are
    asked for; loads then come from --measure, --profile, --load or --registry.

    \b
    keylane shards plan --layout today.json --cap 800
    keylane shards plan --layout today.json --cap 800 --shards 32 --profile day.profile --report page.html
    keylane shards plan --layout today.json --to wanted.json -o json
    keylane shards plan --layout kinesis://eu-west-1/accounts --cap 800 --measure read --last 10m

    Exit codes: 0 nothing to do; 3 there are calls to make; 4 a key is over the cap by itself, and no layout helps.
    """
    from keylane.pipelines.shards import plan_shards

    by_key = (rest["profile"], rest["registry"], rest["measure"])
    check_applies(
        Applies(("shards",), cap is not None, "--cap: a layout of --to has its number of shards"),
        Applies(("tolerance",), to is not None, "--to"),
        Applies(("unit", "last"), rest["measure"] is not None, "--measure"),
        Applies(("show_keys",), any(one is not None for one in by_key), "--profile, --registry or --measure"),
        written_applies(written, saved, report, options="--write, --out or --report"),
    )
    check_apart(written, saved, report, inputs=(Path(layout), to, rest["registry"], rest["load"], rest["profile"]))
    for path in (written, saved, report):
        check_free(path, force=force)
    names = ("shards", "tolerance", "profile", "load", "registry", "measure", "unit", "last", "show_keys")
    sources = {name: rest[name] for name in names}
    if rest["measure"]:
        from keylane.cli.progress import working

        working("reading the stream" if rest["measure"] == "read" else "asking the service")
    document = plan_shards(layout, cap=cap, to=to, **sources)
    if written:
        rows = [row.as_json() for row in document.after.layout]
        write(written, json.dumps({"shards": rows}, indent=2) + "\n")
    if saved:
        write(saved, json.dumps(document.as_json(), indent=2) + "\n")
    if report:
        from keylane.report.shards_page import shards_page

        write(report, shards_page(document))
    files = [f"{name}: {path}" for name, path in (("layout", written), ("plan", saved), ("page", report)) if path]
    return _result(document, [*files, *_next(document, saved)]), rest["output"]


def _next(document: ShardsPlanDocument, saved: str | None) -> list[str]:
    """How it is carried out."""
    if not document.calls:
        return []
    of = "" if document.stream_id else " --stream ADDRESS"
    applied = f"keylane shards apply {shlex.quote(saved or 'plan.json')}{of}"
    return [f"carry it out: {applied}" if saved else f"carry it out: add --out plan.json, then {applied}"]


def _result(document: ShardsPlanDocument, files: list[str]) -> Result:
    calls = [{"step": n, **call.as_json()} for n, call in enumerate(document.calls, 1)]
    first = f"Calls, the first {SHOWN}:"
    sections = [
        Section(CALLS, calls, "Calls, in order:", unbroken=_NAMES, for_programs=len(calls) > SHOWN, short=_SHORT),
        *([Section(CALLS, calls[:SHOWN], first, unbroken=_NAMES, short=_SHORT)] if len(calls) > SHOWN else []),
        Section(HOT, document.hot, "Shards over the cap today:", forms=_NUMBERS, unbroken=_NAMES, short=_SHORT),
        Section(UNIFORM, document.uniform, _uniform(document), forms=_NUMBERS),
    ]
    code = 4 if document.within_cap is False else 3 if document.calls else 0
    return Result(document, sections, [*document.notes, *files], code, _answer(document))


def _uniform(document: ShardsPlanDocument) -> str:
    quotas = document.quotas
    between = f"from {count(quotas.uniform_from)} to {count(quotas.uniform_to)} shards"
    return f"Equal shards instead; the quota of one uniform update is {between}:"


def _answer(document: ShardsPlanDocument) -> list[str]:
    if not document.calls:
        return [_why_no_call(document)]
    least = duration(document.quotas.least_seconds)
    of_them = f"{plural(document.splits, 'split')} and {plural(document.merges, 'merge')}"
    calls = f"{plural(len(document.calls), 'call')}, {of_them}"
    become = "becomes" if document.before.shards == 1 else "become"
    shards = f"{plural(document.before.shards, 'shard')} {become} {count(document.after.shards)}"
    lines = [
        f"proposed: {calls}; {shards}, at most {count(document.peak_shards)} on the way",
        f"one call after the other, each when the stream is active again; the rate limit alone allows them in {least}",
    ]
    if document.before.max_over_mean is not None and document.after.max_over_mean is not None:
        before, after = (_fullest(document, side) for side in (document.before, document.after))
        lines.append(f"fullest shard: {before} before, {after} after")
    if document.within_cap is False:
        lines.append(f"the cap is not kept: {_over_by_itself(document)}")
    elif document.within_cap and document.cap is not None:
        even = ", if the load inside each shard is even" if any(one.kind == "unknown" for one in document.hot) else ""
        lines.append(f"the cap is kept: no shard carries more than {carried(document.cap, document.load_unit)}{even}")
    return lines


def _why_no_call(document: ShardsPlanDocument) -> str:
    if document.within_cap is False:
        return f"no call helps: {_over_by_itself(document)}"
    return (
        "already as asked: no call to make"
        if document.cap is None
        else f"no call to make: no shard carries more than {carried(document.cap, document.load_unit)}"
    )


def _over_by_itself(document: ShardsPlanDocument) -> str:
    """What no split helps: a key, or two neighbours, which are the narrowest shard that there is."""
    many = document.hot_keys
    if not many:
        return "a shard over the cap is too narrow to split"
    return "one key is over the cap by itself" if many == 1 else f"{count(many)} keys are over the cap by themselves"


def _fullest(document: ShardsPlanDocument, side: ShardSide) -> str:
    """Its load, and beside it the share of the cap, or how often the mean of so many shards."""
    load, cap = side.max_load or 0.0, document.cap
    over = f"{times(side.max_over_mean or 0)} the mean of {count(side.shards)}"
    return f"{carried(load, document.load_unit)} ({over if cap is None else f'{percent(load / cap, 0)} of the cap'})"

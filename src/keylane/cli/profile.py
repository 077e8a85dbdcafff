"""`keylane profile`: who is heavy in a stream, and why a lane is hot, from one pass over it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.output import Result, Section, output_option
from keylane.cli.profile_options import SEED, kept_in, profile_options, profiled
from keylane.cli.written_files import check_free, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.measure.profile import Profile

__all__ = ["profile"]

#: A window with less than this share of the mean is as good as empty.
_STRAY: Final = 0.01


@click.command(short_help="Who is heavy, and why a lane is hot: every key by window, in one pass.")
@click.argument("source", metavar="SRC")
@profile_options
@click.option("--show-keys", is_flag=True, help="Show keys whole; else they are cut and hashed.")
@click.option("--out", type=click.Path(), metavar="F.profile", help="Keep the profile in this folder, for plan.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page to look at.")
@click.option("--force", is_flag=True, help="Replace what is there.")
@output_option
def profile(
    source: str, show_keys: bool, out: str | None, report: str | None, force: bool, output: str, **options: Any
) -> tuple[Result, str]:
    """Count the records of every key of SRC, by window of time: who is heavy, since when, and why a lane is hot.

    SRC is a file or folder of Parquet, JSON lines or CSV, a folder of lanes as route writes it, a topic, or a profile
    that was kept. Only key, time and length are read. Counts are exact; with --approximate they are estimates with a
    stated error.

    \b
    keylane profile payments/ --key merchant --time paid_at
    keylane profile payments/ --contract payments.yaml --time paid_at --out payments.profile --report page.html
    keylane profile kafka://broker:9092/payments --for 10m
    keylane profile pings/ --place lat,lng --time ts --out pings.profile

    Keys are personal data: they are shown cut, with a hash, unless --show-keys. With --out they are kept in a folder
    that only you can read; without it nothing is kept. Which lanes are hot, and why, needs lanes: a contract, or a
    source that has them.
    Exit codes: 0 done, 1 the source cannot be read, 2 usage.
    """
    check_free(report, force=force)
    made = profiled(source, options, out=out, force=force)
    document = _document(made, options["contract"], show_keys=show_keys, out=out or kept_in(source))
    if report:
        from keylane.report.plan import profile_page

        write(report, profile_page(document))
    return as_result(document, show_keys=show_keys), output


def _document(made: Profile, contract: str | None, *, show_keys: bool, out: str | None) -> dict[str, Any]:
    from keylane.measure.overview import overview

    # The salt is forgotten: hashes tell keys of one document apart, and lead back to none.
    salt = secrets.token_bytes(16)
    return overview(made, salt=salt, show_keys=show_keys, stored=out, hot=_hot(made, contract))


def _hot(made: Profile, contract: str | None) -> dict[str, Any] | None:
    """Why lanes are hot, by the contract; without one, by Java's hash, where the source has lanes."""
    if contract is None and (made.lanes is None or "place" in dict(made.facts)):
        return None
    from keylane.contract.parse import load_contract
    from keylane.plan.heat import assumed, heat_of

    loaded = load_contract(contract) if contract else assumed(made)
    return heat_of(made, loaded, SEED)


def as_result(document: dict[str, Any], *, show_keys: bool) -> Result:
    """Heavy keys, windows, and in words what to know of them."""
    windows = document["windows"]
    columns = ["rank", "key", "records", "share"]
    columns += ["bytes"] if any(one["bytes"] is not None for one in document["heavy"]) else []
    columns += ["error"] if document["approximate"] else []
    rows = [
        {"window": n + 1, "from": edge, "records": records, "keys": keys, "new_keys": new}
        for n, (edge, records, keys, new) in enumerate(
            zip(windows["edges"], windows["records"], windows["distinct_keys"], windows["new_keys"], strict=False)
        )
    ]
    heavy = Section(tuple(columns), document["heavy"], "heavy keys")
    parts = Section(("window", "from", "records", "keys", "new_keys"), rows, f"windows, by {windows['kind']}")
    return Result(document, [heavy, parts], list(_lines(document, show_keys=show_keys)))


def _lines(document: dict[str, Any], *, show_keys: bool) -> Iterator[str]:
    about = "about " if document["approximate"] else ""
    top = document["heavy"][0]["share"] if document["heavy"] else 0.0
    text = f"{document['records']:,} records of {about}{document['distinct_keys']:,} keys; the heaviest has {top:.2%}"
    yield f"{text}, {_share_of_first(document)}"
    if document["hot"]:
        yield f"  {document['hot']['verdict']}"
    yield from (f"  {note}" for note in notes(document))
    if not show_keys:
        yield "  keys are cut and hashed; --show-keys shows them whole"
    kept = document["profile"]
    yield f"  kept in {kept}" if kept else "  nothing is kept; --out F.profile keeps it for plan"


def _share_of_first(document: dict[str, Any]) -> str:
    """The share of the first hundredth of the keys, as near as the curve tells it."""
    ranks = document["key_ranks"]
    wanted = max(1, ranks[-1]["rank"] // 100)
    near = min(ranks, key=lambda one: abs(one["rank"] - wanted))
    return f"the first {near['rank']:,} of them {near['cumulative']:.1%}"


def notes(document: dict[str, Any]) -> Iterator[str]:
    """What a reader should know before trusting the tables."""
    without = {name: count for name, count in document["without_key"].items() if count}
    if without:
        yield "without a key: " + ", ".join(f"{count:,} {name}" for name, count in without.items())
    if "places" in document["how"]:
        yield document["how"]["places"]
    alike = document["lookalikes"]
    if alike["groups"]:
        kinds = sorted({one["kind"] for one in alike["examples"]})
        first = " = ".join(alike["examples"][0]["keys"])
        text = f"{alike['groups']:,} group(s) of keys look the same and are not ({', '.join(kinds)})"
        yield f"{text}, {alike['records']:,} records: {first}"
    yield from _window_notes(document)
    lanes = document["lanes"]
    if lanes and lanes["misplaced"]:
        yield f"{lanes['misplaced']:,} record(s) lie in another lane than the contract gives their key"
    if document["approximate"]:
        yield document["how"]["heavy"]


def _window_notes(document: dict[str, Any]) -> Iterator[str]:
    windows = document["windows"]
    records = windows["records"]
    mean = sum(records) / len(records)
    stray = [n + 1 for n, count in enumerate(records) if count < _STRAY * mean]
    if windows["kind"] == "time" and stray and len(records) > 1:
        few = f"{stray[0]} to {stray[-1]}" if stray == list(range(stray[0], stray[-1] + 1)) and len(stray) > 1 else ""
        which = few or ", ".join(map(str, stray))
        yield f"window(s) {which} hold next to nothing: the source pauses there, or a few odd times stretch it"
    if "have no time" in document["how"]["windows"]:
        yield document["how"]["windows"].split(". ", 1)[-1].strip()

"""`keylane demo shards`: accounts on shards by MD5 and by handed-out hash keys, and a hot shard split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from keylane.cli.options import check_applies, written_applies
from keylane.cli.output import Result, Section, check_free, output_option, write
from keylane.numbers import plural, times

if TYPE_CHECKING:
    from keylane.documents.shards import ShardsDemoDocument, ShardsTrialName

COLUMNS: Final = ("placement", "shards", "fullest", "emptiest", "calls", "keyed_accounts")
WORDS: Final[dict[ShardsTrialName, str]] = {
    "md5": "MD5 of the account",
    "as-they-come": "keys handed out as accounts come",
    "heaviest-first": "keys handed out, heaviest first",
    "split": "MD5, hot shards split",
    "moved-boundaries": "MD5, boundaries moved",
}
HOT: Final = ("shard", "load", "kind", "key")


@click.command(short_help="Accounts on 32 shards: MD5 against handed-out hash keys, and a hot shard split.")
@click.option("--accounts", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True, help="How many.")
@click.option("--shards", type=click.IntRange(1, 1_000), default=32, show_default=True, help="Equal shards of today.")
@click.option(
    "--skew",
    type=click.FloatRange(0, 3),
    default=0.8,
    show_default=True,
    help="How unequal accounts are: the nth has 1/n**SKEW of the volume of the first.",
)
@click.option("--seed", type=click.IntRange(min=0), default=2026, show_default=True, help="Seed of the accounts.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write the page of the splits, to look at.")
@click.option("--force", is_flag=True, help="Replace the page, if it is there.")
@output_option
def shards(
    accounts: int, shards: int, skew: float, seed: int, report: str | None, force: bool, output: str
) -> tuple[Result, str]:
    """Put accounts of unequal volume on equal shards, and show how full these are.

    By MD5, where a heavy account lands is chance. Explicit hash keys are handed out evenly, best the heaviest first.
    Splitting the hot shards, or moving boundaries, leaves every account where it is. No stream is needed, and nothing
    is started.

    \b
    keylane demo shards
    keylane demo shards --skew 1.2 --report shards.html

    Exit codes: 0 it ran; 2 usage.
    """
    check_applies(written_applies(report, options="--report"))
    check_free(report, force=force)
    from keylane import __version__
    from keylane.pipelines.shards_demo import shards_demo

    document = shards_demo(accounts, shards, skew, seed, __version__)
    if report:
        from keylane.report.shards_page import shards_page

        write(report, shards_page(document.plan))
    return as_result(document, report), output


def as_result(found: ShardsDemoDocument, page: str | None = None) -> Result:
    """The placements side by side, and what was hot."""
    rows = [
        {
            "placement": WORDS[one.name],
            "shards": one.shards,
            "fullest": times(one.max_over_mean),
            "emptiest": times(one.min_over_mean),
            "calls": one.calls,
            "keyed_accounts": one.keyed_accounts,
        }
        for one in found.trials
    ]
    by = {one.name: one for one in found.trials}
    md5, handed, split = (times(by[name].max_over_mean) for name in ("md5", "heaviest-first", "split"))
    on = f"{plural(found.accounts, 'account')} on {plural(found.shards, 'shard')}"
    after = f"{handed} with hash keys handed out, {split} after {plural(by['split'].calls, 'split')}"
    hot = [{"shard": one.shard, "load": one.load, "kind": one.kind, "key": one.key} for one in found.plan.hot[:5]]
    mean = found.plan.before.mean_load or 1.0
    forms = {"load": lambda load: times(load / mean)}
    heads = {"keyed_accounts": "accounts with a key"}
    sections = [
        Section(COLUMNS, rows, heads=heads),
        Section(HOT, hot, f"Hot shards of MD5, the first {len(hot)} of {len(found.plan.hot)}:", forms=forms),
    ]
    return Result(
        found,
        sections,
        _lines(found, page),
        answer=[f"{on}: the fullest shard carries {md5} the mean by MD5, {after}."],
    )


def _lines(found: ShardsDemoDocument, page: str | None) -> list[str]:
    heaviest = f"The heaviest account alone is {times(found.least)}: no placement is more even."
    moved = "Giving an account a hash key moves it to another shard and needs a fence; a split or a merge moves none."
    lines = [f"Fullest and emptiest are over the mean of {plural(found.shards, 'shard')}. {heaviest}", moved]
    if found.plan.hot_keys:
        lines.append(
            f"{plural(found.plan.hot_keys, 'account')} over the cap of a shard alone: a hot key, which no split helps."
        )
    return [*lines, *([f"page: {page}"] if page else [])]

"""`keylane demo fence`: why a lease does not stop a paused owner from writing and a fence does, in simulated hours."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from keylane.cli.output import Result, Section, output_option
from keylane.numbers import count, duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.documents.fence import FenceDocument, FenceName, FenceTrial
    from keylane.groups.group_simulation import GroupOutcome
    from keylane.groups.lease_simulation import LeaseOutcome

COLUMNS: Final = ("guard", "accepted", "zombie_writes", "wrong_positions", "refused", "ownerships", "longest_free")
WORDS: Final[dict[FenceName, str]] = {
    "leases": "leases alone",
    "leases-early": "leases alone, owners stop 30% earlier",
    "leases-fenced": "leases, and a fence by term",
    "sessions": "sessions of a group alone",
    "sessions-fenced": "sessions, and a fence by generation",
}
ZOMBIES, RECORDS = "no zombie writes", "every record once"
#: What an owner takes off its own view of a lease by default, and what one does that stops early.
MARGIN, EARLY = 0.1, 0.3


@click.command(short_help="Why a lease does not stop a paused owner from writing, and a fence does: simulated.")
@click.option("--hours", type=click.FloatRange(0.1, 1000), default=5.0, show_default=True, help="Simulated hours.")
@click.option("--seed", type=click.IntRange(min=0), default=2026, show_default=True, help="Seed of all that happens.")
@click.option(
    "--lease", type=click.FloatRange(1, 3600), default=10.0, show_default=True, help="Seconds of a lease or session."
)
@click.option(
    "--pause",
    type=click.FloatRange(0, 36_000),
    help="The longest pause, crash or cut, in seconds; default: four leases.",
)
@click.option(
    "--drift",
    type=click.FloatRange(0, 9),
    default=5.0,
    show_default=True,
    help="How much clocks are off at most, in percent.",
)
@output_option
def fence(hours: float, seed: int, lease: float, pause: float | None, drift: float, output: str) -> tuple[Result, str]:
    """Run owners of lanes through simulated hours of pauses, crashes, cuts and lost messages, with and without a fence.

    Three owners and a spare hold leases and write to 12 lanes; two groups of readers commit the records of 4 lanes.
    What is counted is what the store accepts. A fence is a check of the term or generation that a write carries. The
    same seed gives the same run. Nothing is started or written: a few seconds of this process.

    \b
    keylane demo fence
    keylane demo fence --lease 30 --pause 20 --hours 100

    Exit codes: 0 it ran; 1 a rule was broken in spite of the fence.
    """
    document = _simulated(hours, seed, lease, 4 * lease if pause is None else pause, drift / 100)
    return as_result(document), output


def _simulated(hours: float, seed: int, lease: float, pause: float, drift: float) -> FenceDocument:
    from keylane import __version__
    from keylane.documents.fence import FenceDocument
    from keylane.groups.assignors import assignor
    from keylane.groups.group_simulation import GroupSetup, GroupSimulation
    from keylane.groups.lease_simulation import LeaseSetup, LeaseSimulation
    from keylane.groups.ownership import Terms

    unfenced = LeaseSetup(drift=drift, longest=pause / lease, fenced=False)
    leases = unfenced.lasting(Terms(ttl=lease, drift=MARGIN))
    early = unfenced.lasting(Terms(ttl=lease, drift=EARLY))
    groups = GroupSetup(drift=drift, longest=pause / lease).lasting(lease)
    trials = []
    owned: tuple[tuple[FenceName, LeaseSetup], ...]
    owned = ("leases", leases), ("leases-early", early), ("leases-fenced", leases._replace(fenced=True))
    for name, setup in owned:
        lived = LeaseSimulation(_chance(seed), setup).run(hours)
        trials.append(_trial(name, lived, lived.terms, lease, fenced=setup.fenced))
    for fenced in (False, True):
        guard: FenceName = "sessions-fenced" if fenced else "sessions"
        read = GroupSimulation(_chance(seed), assignor("sticky"), groups._replace(fenced=fenced)).run(hours)
        trials.append(_trial(guard, read, read.generations, lease, fenced=fenced))
    return FenceDocument(
        version=__version__, seed=seed, hours=hours, lease=lease, pause=pause, drift=drift, trials=trials
    )


def _chance(seed: int) -> Callable[[], float]:
    from random import Random

    return Random(seed).random  # noqa: S311  the same seed gives the same run


def _trial(
    name: FenceName, outcome: GroupOutcome | LeaseOutcome, ownerships: int, lease: float, *, fenced: bool
) -> FenceTrial:
    from keylane.documents.fence import FenceRule, FenceTrial

    times = Counter(one.rule for one in outcome.broken)
    first = {one.rule: one for one in reversed(outcome.broken)}
    return FenceTrial(
        name=name,
        fenced=fenced,
        events=outcome.events,
        faults=outcome.faults,
        ownerships=ownerships,
        accepted=outcome.accepted,
        refused=outcome.refused,
        zombie_writes=times[ZOMBIES],
        wrong_positions=times[RECORDS],
        longest_free=round(outcome.longest_free * lease, 3),
        broken=[
            FenceRule(rule=rule, times=times[rule], first_at=round(one.at, 3), first_seen=one.seen)
            for rule, one in sorted(first.items())
        ],
    )


def as_result(found: FenceDocument) -> Result:
    """What was let through, run by run, and what the fence refused."""
    trials = {one.name: one for one in found.trials}
    alone, fenced = trials["leases"], trials["leases-fenced"]
    rows = [{"guard": WORDS[one.name], **one.as_json()} for one in found.trials]
    forms = {"longest_free": duration}
    heads = {"ownerships": "terms or generations"}
    broken = [
        f"{WORDS[one.name]}: {rule.rule}: {rule.first_seen}"
        for one in found.trials
        for rule in one.broken
        if one.fenced
    ]
    answer = (
        f"Leases alone let {plural(alone.zombie_writes, 'write')} of former owners through, "
        f"with owners that stop earlier {count(trials['leases-early'].zombie_writes)}; "
        f"with a fence {count(fenced.zombie_writes)}: it refused {count(fenced.refused)}."
    )
    table = Section(COLUMNS, rows, forms=forms, heads=heads)
    return Result(found, [table], [*_lines(found), *broken], 1 if broken else 0, answer=[answer])


def _lines(found: FenceDocument) -> list[str]:
    """What was simulated, and what the columns mean."""
    faults = plural(sum(found.trials[0].faults.values()), "fault")
    run = f"Each run: {found.hours:g} simulated hours, {count(sum(one.events for one in found.trials))} events in all"
    leases = f"a lease or session lives {duration(found.lease)}, a fault lasts {duration(found.pause)} at most"
    clocks = f"clocks are off by {percent(found.drift)} at most"
    zombie = "one of a former owner, accepted after one of its successor"
    why = "It looked at its lease, was paused or its message was late, and wrote: no lease can see that"
    return [
        f"{run}, {faults} in the first; {leases}; {clocks}.",
        f"A zombie write is {zombie}. {why}. A fence compares terms where the write arrives.",
        "Longest free: how long a lane was without an owner since the last fault; at most two leases are expected.",
    ]

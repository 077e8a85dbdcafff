"""Which candidate to take, under the user's own constraints.

What a stream can carry is lanes / (max/mean), in lanes: the fullest lane is the first that cannot follow. In other
words it is one over the share of all records in the fullest lane, which compares across lane counts. The rule:

1. Today's contract is always a candidate, whatever its strategy and whatever order it keeps: readers live with it. It
   stays where nothing is hot, and against all that does not improve on it.
   Only what was asked for can rule it out: a figure that it misses, an order that it does not keep, other lane counts.
   Then what is clearly worse than today is taken only where nothing else is left.
2. Today's lane count, while it is enough; of a range that was asked for, the smallest count that carries four fifths
   of what the best one does.
3. At that count the candidates in the order of what they ask for: today's contract first, then what asks least of
   readers, moves least, adds the fewest lanes, names the fewest keys; of equals the one with the higher score; of
   those with the same score the simpler rule, which is the first in the order of `strategies.STRATEGIES`. One that asks
   for more is taken only where it improves on the one before. What places every key as today's contract does is no
   change; where there is such a candidate, today's contract was planned from records like these, and another has to
   improve on its score on records that it was not fitted on, too.

One candidate improves on another when on records that neither had seen its fullest lane was lower by more than a
twentieth, or the noise of so many records, under the newest cut of the time and over all cuts, and higher by that under
none. Less is luck (`candidates.improves`).

Worked example: a key with 8.3 % of all records. 12 lanes at 1.0 carry 12 lanes' worth; 64 lanes at 5.3 carry 12 too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from keylane.contract.answers import OrderScope, answers, keeps_order, weakest
from keylane.contract.names import MAX_LANES
from keylane.errors import ContractError, UsageError
from keylane.plan.candidates import clearly_beats, improves
from keylane.plan.contract_text import NAMING, Means, could_be, unable
from keylane.plan.current import Today, moved_from
from keylane.plan.sizing import Demand, carried

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.contract.model import Contract
    from keylane.documents.plan import AgainstToday
    from keylane.plan.candidates import Candidate
    from keylane.plan.cost import MovedShares
    from keylane.plan.hashed_keys import ProfiledStream

#: As good as the best, for a lane count.
ENOUGH: Final = 0.8
MOST_COUNTS: Final = 8
#: What was asked for and is missed.
Misses: TypeAlias = Literal["order", "throughput", "balance"]


@dataclass(frozen=True, slots=True)
class Constraints:
    """What the user holds the answer to; `demand` is what its lanes must carry, `least_lanes` what that needs.

    `keep_order` is None where no order was asked for: then a new contract keeps it per key, and today's what it keeps.
    `keep_lanes` is the lane count to stay at while it is enough; None where a range was asked for.
    """

    keep_order: OrderScope | None = None
    max_over_mean: float | None = None
    least_lanes: int = 1
    demand: Demand | None = None
    keep_lanes: int | None = None

    @property
    def order(self) -> OrderScope:
        """What a new contract has to keep in order."""
        return self.keep_order or "per-key"


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with its contract's answers, what it would move, and why it is not allowed, if it is not."""

    candidate: Candidate
    order_scope: OrderScope
    lanes_per_key: int | None
    readers_merge: bool
    moved: MovedShares | None
    because: str | None
    #: Which of what was asked for it misses, where it could be written.
    misses: Misses | None = None
    #: None where there is no contract of today.
    against_today: AgainstToday | None = None

    @property
    def falls_short(self) -> bool:
        """Whether all that stands against it is a figure."""
        return self.misses in ("throughput", "balance")


@dataclass(frozen=True, slots=True)
class Choice:
    """What was taken, and whether it keeps every constraint: if none does, it is the best of the rest."""

    chosen: Judged
    met: bool


def lane_counts(low: int, high: int) -> tuple[int, ...]:
    """Sensible counts in a range: its ends, doublings of its low end, and powers of two; at most eight.

    >>> lane_counts(12, 128)
    (12, 16, 24, 32, 48, 64, 96, 128)
    >>> lane_counts(12, 12)
    (12,)
    """
    if not 1 <= low <= high <= MAX_LANES:
        allowed = f"LOW..HIGH, 1 to {MAX_LANES}, LOW first"
        raise UsageError.of("not a range of lane counts", got=f"{low}..{high}", allowed=allowed)
    doublings = {low << k for k in range(high.bit_length()) if low << k <= high}
    powers = {1 << k for k in range(high.bit_length()) if low <= 1 << k <= high}
    counts = sorted({low, high} | doublings | powers)
    step = -(-len(counts) // MOST_COUNTS)
    return tuple(sorted({*counts[::step], high}))


def judge(
    candidate: Candidate, stream: ProfiledStream, means: Means, constraints: Constraints, today: Today | None
) -> Judged:
    """Ask the candidate's contract, and hold it against the constraints."""
    moved = moved_from(today, stream, candidate) if today else None
    contract, ruled_out = _possible(candidate, stream, means)
    given = answers(contract) if contract else ()
    scope: OrderScope = weakest(given) if given else "none"
    widths = [one.lanes_per_key for one in given if one.lanes_per_key is not None]
    merge = any(one.readers_merge for one in given)
    misses, because = _missed(candidate, scope, constraints)
    unwritable = None if candidate.strategy == "today" else unable(candidate.strategy, stream.profile, means)
    if refused := unwritable or ruled_out or (None if misses == "order" else _refused(candidate)):
        misses, because = None, refused
    return Judged(candidate, scope, max(widths, default=None), merge, moved, because, misses)


def _possible(candidate: Candidate, stream: ProfiledStream, means: Means) -> tuple[Contract | None, str | None]:
    """The contract that a candidate would be, or why today's rules out that there is one."""
    if candidate.strategy == "today":
        return means.today, None
    try:
        return could_be(candidate, stream.profile, means), None
    except ContractError as error:
        found = error.findings[0] if error.findings else None
        because = f"{found.where}: {found.message}" if found else str(error)
        return None, f"today's contract rules it out: {because}"


def _refused(candidate: Candidate) -> str | None:
    """What no figure can make good."""
    if candidate.strategy in NAMING and not candidate.listed:
        return "no key is heavy enough to be named: it is the hash"
    if candidate.strategy.startswith("hash-"):
        return "a different hash only re-rolls the dice, and every producer would have to be reconfigured"
    return None


def _missed(candidate: Candidate, scope: OrderScope, wanted: Constraints) -> tuple[Misses | None, str | None]:
    """What of all that was asked for a candidate misses, and in words.

    Readers live with the order that today's contract keeps: it misses one only where one was asked for.
    """
    order = wanted.keep_order if candidate.strategy == "today" else wanted.order
    if order is not None and not keeps_order(scope, order):
        return "order", f"keeps order {scope}, wanted {order}"
    if candidate.strategy == "window" and order not in ("per-key-and-window", "none"):
        return "order", f"moves every key with each window, wanted {order}; --keep-order per-key-and-window allows it"
    if candidate.lanes < wanted.least_lanes:
        return "throughput", f"the throughput needs {wanted.least_lanes} lanes"
    if wanted.demand is not None and not carried(wanted.demand, candidate.all_lanes, candidate.max_over_mean):
        return "throughput", "its fullest lane, or the count of its lanes, is not enough for the required throughput"
    if wanted.max_over_mean is not None and candidate.max_over_mean > wanted.max_over_mean:
        return "balance", f"max/mean {candidate.max_over_mean:.2f}, wanted at most {wanted.max_over_mean:g}"
    return None, None


def compared(one: Candidate, today: Candidate, moved: MovedShares | None = None) -> AgainstToday:
    """Whether a candidate is clearly better than today's contract, or clearly worse; or, by `moved`, is the same."""
    if moved is not None and not moved.keys and (one.lanes, one.all_lanes) == (today.lanes, today.all_lanes):
        return "identical"
    if clearly_beats(one, today):
        return "better"
    return "worse" if clearly_beats(today, one) else "same"


def choose(judged: Sequence[Judged], wanted: Constraints, stands: Judged | None = None, *, hot: bool = True) -> Choice:
    """Take one; where none keeps every constraint, the best of those that fall short of a figure only.

    `stands` is today's contract, where its lane count is among those asked for; it stays when no lane of it is `hot`.
    """
    everything = [*judged, *([stands] if stands else [])]
    allowed = [one for one in everything if one.because is None]
    if stands is not None and stands.because is None and not hot:
        return Choice(stands, met=True)
    pool = allowed or [one for one in everything if one.falls_short]
    if not pool:
        got = "; ".join(sorted({one.because or "" for one in judged}))
        raise UsageError.of(f"no strategy keeps order {wanted.order} here", got=got, hint="--keep-order none")
    if stands is not None and any(one is stands for one in pool):
        again = [stands, *(one for one in judged if one.against_today == "identical")]
        pool = [one for one in pool if one is stands or all(improves(one.candidate, old.candidate) for old in again)]
    elif stands is not None:
        pool = [one for one in pool if not clearly_beats(stands.candidate, one.candidate)] or pool
    else:
        pool = [one for one in pool if one.against_today != "worse"] or pool
    lanes = _count(pool, wanted)
    return Choice(_worth_the_effort([one for one in pool if one.candidate.lanes == lanes]), met=bool(allowed))


def _count(pool: Sequence[Judged], wanted: Constraints) -> int:
    """The lane count: the one to stay at, where it is enough; otherwise the fewest that are."""
    counts = sorted({one.candidate.lanes for one in pool})
    if wanted.keep_lanes is not None:
        return wanted.keep_lanes if wanted.keep_lanes in counts else counts[0]
    enough = ENOUGH * max(one.candidate.deciding for one in pool)
    return min(one.candidate.lanes for one in pool if one.candidate.deciding >= enough)


def _worth_the_effort(pool: Sequence[Judged]) -> Judged:
    """The one that asks least; one that asks for more only where it clearly beats what asks for less."""
    taken, *others = sorted(pool, key=lambda one: (effort(one), -round(one.candidate.deciding, 2)))
    for one in others:
        if improves(one.candidate, taken.candidate):
            taken = one
    return taken


class Effort(NamedTuple):
    """What a candidate asks for, what counts most first: nothing at all if it is today's.

    Records that move count in hundredths of them all.
    """

    changes: bool
    readers_merge: bool
    moved: float
    lanes: int
    names: int


def effort(one: Judged) -> Effort:
    """What a candidate asks of producers, readers and whoever keeps the contract."""
    candidate = one.candidate
    moved = round(one.moved.traffic, 2) if one.moved else 0.0
    return Effort(candidate.strategy != "today", one.readers_merge, moved, candidate.all_lanes, candidate.listed)

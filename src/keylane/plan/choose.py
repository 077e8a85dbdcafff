"""Which candidate to take, under the user's own constraints.

What a stream can carry is lanes / (max/mean), in lanes: the fullest lane is the first that cannot follow. So more
lanes are worth it only while that grows. The rule:

1. Of the candidates that keep the order asked for, and the balance asked for, the smallest lane count that carries
   four fifths of what the best one does.
2. At that count: today's contract if it carries nearly as much as the best; otherwise, of those, the one that
   asks least of readers, then of the contract, then moves least.

Worked example: a key with 8.3 % of all records. 12 lanes at 1.0 carry 12 lanes' worth; 64 lanes at 5.3 carry 12 too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from keylane.contract.answers import OrderScope, answers, keeps_order, weakest
from keylane.contract.names import MAX_LANES
from keylane.errors import UsageError
from keylane.plan.contract_text import Means, could_be, unable
from keylane.plan.current import Today, moved_from
from keylane.plan.sizing import Demand, carried

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.plan.candidates import Candidate
    from keylane.plan.cost import MovedShares
    from keylane.plan.hashed_keys import ProfiledStream

#: As good as the best, for a lane count; and for a strategy.
ENOUGH: Final = 0.8
NEARLY: Final = 0.95
MOST_COUNTS: Final = 8


@dataclass(frozen=True, slots=True)
class Constraints:
    """What the user holds the answer to; `demand` is what its lanes must carry, `least_lanes` what that needs."""

    keep_order: OrderScope = "per-key"
    max_over_mean: float | None = None
    least_lanes: int = 1
    demand: Demand | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with its contract's answers, what it would move, and why it is not allowed, if it is not."""

    candidate: Candidate
    order_scope: OrderScope
    lanes_per_key: int | None
    readers_merge: bool
    moved: MovedShares | None
    because: str | None
    #: Whether all that stands against it is a figure.
    falls_short: bool = False

    @property
    def carries(self) -> float:
        """How many lanes' worth the stream takes before its fullest is full; that a tier has lanes is no gain yet."""
        return self.candidate.lanes / max(self.candidate.on_average, 1e-9)


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
    contract = means.today if candidate.strategy == "today" else could_be(candidate, stream.profile, means)
    given = answers(contract) if contract else ()
    scope: OrderScope = weakest(given) if given else "none"
    widths = [one.lanes_per_key for one in given if one.lanes_per_key is not None]
    merge = any(one.readers_merge for one in given)
    refused = unable(candidate.strategy, stream.profile, means) or _refused(candidate, scope, constraints)
    short = None if refused else _short(candidate, constraints)
    return Judged(candidate, scope, max(widths, default=None), merge, moved, refused or short, falls_short=bool(short))


def _refused(candidate: Candidate, scope: OrderScope, wanted: Constraints) -> str | None:
    """What no figure can make good."""
    if not keeps_order(scope, wanted.keep_order):
        return f"keeps order {scope}, wanted {wanted.keep_order}"
    if candidate.strategy.startswith("hash-"):
        return "a different hash is only another random draw, and every producer would have to change its client"
    return None


def _short(candidate: Candidate, wanted: Constraints) -> str | None:
    """Where a candidate falls short of a figure that was asked for."""
    if candidate.lanes < wanted.least_lanes:
        return f"the throughput needs {wanted.least_lanes} lanes"
    if wanted.demand is not None and not carried(wanted.demand, candidate.all_lanes, candidate.max_over_mean):
        return "its fullest lane, or the count of its lanes, is not enough for the required throughput"
    if wanted.max_over_mean is not None and candidate.max_over_mean > wanted.max_over_mean:
        return f"max/mean {candidate.max_over_mean:.2f}, wanted at most {wanted.max_over_mean:g}"
    return None


def choose(judged: Sequence[Judged], wanted: Constraints) -> Choice:
    """Take one; where none keeps every constraint, the best of those that fall short of a figure only."""
    allowed = [one for one in judged if one.because is None]
    pool = allowed or [one for one in judged if one.falls_short]
    if not pool:
        got = "; ".join(sorted({one.because or "" for one in judged}))
        raise UsageError.of(f"no strategy keeps order {wanted.keep_order} here", got=got, hint="--keep-order none")
    enough = ENOUGH * max(one.carries for one in pool)
    lanes = min(one.candidate.lanes for one in pool if one.carries >= enough)
    there = [one for one in pool if one.candidate.lanes == lanes]
    nearly = NEARLY * max(one.carries for one in there)
    return Choice(min((one for one in there if one.carries >= nearly), key=_effort), met=bool(allowed))


def _effort(one: Judged) -> tuple[bool, bool, bool, float, int]:
    """What a candidate asks for: nothing at all if it is today's."""
    candidate = one.candidate
    moved = one.moved.traffic if one.moved else 0.0
    changes = candidate.strategy != "today"
    return changes, one.readers_merge, bool(candidate.listed), moved, candidate.listed

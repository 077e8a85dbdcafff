"""What a plan comes to, for a person who has to decide: worth it, leave it, only for more throughput, worse than today.

The figures compare across lane counts: the share of all records in the fullest lane, and the work that the lanes do,
which is one over that share. They are of records that the strategy had not seen. Which candidate is taken: `choose`.
The reasons for it and the whole document: `document`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from keylane import numbers
from keylane.plan.bounds import floor
from keylane.plan.contract_text import NOT_NAMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from keylane.documents.plan import Answer, LeaveReason
    from keylane.plan.candidates import Candidate, FoldScore
    from keylane.plan.choose import Judged
    from keylane.plan.planner import Plan
    from keylane.profile.model import Windows

#: A fit has to look better than today's contract by this, for its failure on later records to be worth a word.
LOOKS_BETTER: Final = 0.95
#: No placement of whole keys helps where the heaviest key alone makes up so much of the fullest lane.
ALONE: Final = 0.9
#: It would not hold where less than this part of what it gained when fitted is left under some cut of the time.
KEPT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer in a word and in a line; `leave` is why today's contract stays."""

    answer: Answer
    headline: str
    leave: LeaveReason | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """Whether what was fitted on earlier records was as even on later ones under every cut, and when to plan again.

    `held_for` is one length of time: the shortest under any cut that was not as even, which is `plan_again` too;
    otherwise all of the later records.
    """

    as_even: bool
    fitted_share: float
    later_share: float
    held_windows: int
    windows: int
    held_for: str
    plan_again: str | None
    says: str


def advice(plan: Plan) -> Advice:
    """What to do, and what it does to the fullest lane, in words that a reader needs no table for."""
    chosen, stands = plan.choice.chosen.candidate, plan.standing
    missed = None if plan.choice.met else not_met(plan)
    if stands is None:
        text = _first(plan, chosen)
        return Advice("not-met", f"{missed} {text}") if missed else Advice("first-contract", text)
    today = stands.candidate
    if not plan.changes:
        as_it_is = f"{_does(today)}, and the fullest has {numbers.share(today.fullest_share)}."
        if missed:
            return Advice("not-met", f"{missed} Leave it, as nothing comes clearly nearer: {as_it_is}")
        reason = _why_stay(plan, today)
        opening = LEAVE[reason].format(heaviest=numbers.share(plan.stream.hottest))
        if reason in ("would-not-hold", "within-noise") and unnamed(plan):
            opening = UNNAMED
        return Advice("leave-it", f"{opening} {as_it_is}", reason)
    if missed:
        return Advice("not-met", f"{missed} The best of the rest: {_from_to(today, chosen)}.")
    answer = _answer(plan, today, chosen)
    opening = OPENING.get(answer) or _needed(stands, plan.choice.chosen)
    return Advice(answer, f"{opening}: {_from_to(today, chosen)}.")


def not_met(plan: Plan) -> str:
    """Which of what was asked for no candidate keeps, and what stands against it."""
    wanted, best = plan.question.constraints, plan.choice.chosen
    if best.misses == "throughput" and plan.sizing is not None:
        binding = next(need for need in plan.sizing.needs if need.reason == plan.sizing.binding)
        return f"Not possible: {binding.says}."
    limit = wanted.max_over_mean or 1.0
    least = min(floor(plan.stream.counted, lanes).max_over_mean for lanes in plan.question.counts)
    why = f"; no placement of whole keys goes below {least:.2f}" if least > limit else ""
    return f"Not possible: no candidate keeps the fullest lane at {limit:g} times the mean{why}."


def unnamed(plan: Plan) -> str | None:
    """Why strategies that name keys could not be tried; what they would gain is then not known."""
    return next((one.because for one in plan.judged if (one.because or "").startswith(NOT_NAMED)), None)


#: Where the strategies that could have helped were left out, nobody knows that no change would.
UNNAMED: Final = "Leave it for now: keys cannot be named under this contract, and nothing else is clearly better."
LEAVE: Final[dict[LeaveReason, str]] = {
    "nothing-hot": "Leave it: nothing is hot.",
    "one-key": "Leave it, or divide a key: one has {heaviest} of the records, and no placement of whole keys helps.",
    "would-not-hold": "Leave it: a change would not hold on later records.",
    "within-noise": "Leave it: no change is clearly better than today.",
}


def _why_stay(plan: Plan, today: Candidate) -> LeaveReason:
    if plan.hot is False:
        return "nothing-hot"
    if not today.works and plan.stream.hottest >= ALONE * today.fullest_share:
        return "one-key"
    best = _best_fit(plan)
    if best is None or best.fitted_share >= LOOKS_BETTER * today.fitted_share:
        return "within-noise"
    fitted = 1 - best.fitted_share / max(today.fitted_share, 1e-9)
    later = min(1 - own / max(other, 1e-9) for own, other in zip(best.shares, today.shares, strict=True))
    return "would-not-hold" if later < KEPT * fitted else "within-noise"


def _best_fit(plan: Plan) -> Candidate | None:
    """What is most even on the records that it was fitted on, with every key that it would name."""
    allowed = (one.candidate.with_all or one.candidate for one in plan.judged if one.because is None)
    return min(allowed, key=lambda one: one.fitted_share, default=None)


def tempting(plan: Plan) -> Candidate | None:
    """What looked best when it was fitted, where today's contract stays because that would not hold."""
    return _best_fit(plan) if advice(plan).leave == "would-not-hold" else None


OPENING: Final[dict[Answer, str]] = {
    "worth-it": "Worth it",
    "only-for-throughput": "Only if you need more throughput",
    "no-better": "Not worth it: no better than today",
    "worse-than-today": "Worse than today",
}


def _answer(plan: Plan, today: Candidate, chosen: Candidate) -> Answer:
    against = plan.choice.chosen.against_today
    missed = plan.standing.misses if plan.standing and plan.choice.met else None
    if missed == "throughput" or (missed and against != "better"):
        return "needed"
    if against == "worse":
        return "worse-than-today"
    if against == "same":
        return "no-better"
    return "only-for-throughput" if chosen.lanes > today.lanes else "worth-it"


def _needed(stands: Judged, chosen: Judged) -> str:
    """Which of what was asked for today's contract does not keep; a loss is called one all the same."""
    worse = ", and worse than today" if chosen.against_today == "worse" else ""
    return f"Needed for the {stands.misses} that was asked for{worse}"


def _from_to(today: Candidate, chosen: Candidate) -> str:
    """Both in one sentence: lanes, the work that they do, and the share of the fullest; of places matched, copies."""
    same = today.lanes == chosen.lanes
    subject = "this plan makes them" if same else f"{numbers.count(chosen.lanes)} would"
    tier = f" with {chosen.fitted.tier_lanes} more in a tier," if chosen.fitted.tier_lanes else ""
    after = f"{subject}{',' * bool(tier)}{tier} do the work of {chosen.work:.1f}"
    both = f"{_lanes(today.lanes)} do the work of {today.work:.1f} today; {after}"
    if chosen.works and today.works:
        return f"{both}. A request goes to {chosen.works[0].copies:.1f} lanes instead of {today.works[0].copies:.1f}"
    fullest = f"from {numbers.share(today.fullest_share)} to {numbers.share(chosen.fullest_share)} of the records"
    return f"{both}. The fullest lane goes {fullest}"


def _does(today: Candidate) -> str:
    return f"{_lanes(today.lanes)} do the work of {today.work:.1f}"


def _lanes(count: int) -> str:
    """The count at its first use in an output: readers come from Kafka."""
    return "1 lane (partition)" if count == 1 else f"{numbers.count(count)} lanes (partitions)"


def _first(plan: Plan, chosen: Candidate) -> str:
    """Without a contract of today, the plain hash is what there is to compare with."""
    tier = f" and {chosen.fitted.tier_lanes} of a tier" if chosen.fitted.tier_lanes else ""
    text = f"{_lanes(chosen.lanes)}{tier} do the work of {chosen.work:.1f} with this plan"
    hashed = plan.best_hash
    if hashed is not None and hashed.strategy != chosen.strategy:
        text += f", and of {hashed.work:.1f} with {'a plain hash' if hashed.by_place is None else hashed.title}"
    return f"{text}. The fullest lane has {numbers.share(chosen.fullest_share)} of the records."


def holding(plan: Plan) -> Holding | None:
    """Of a strategy that learned something: how long what it learned was of use; None where there was nothing to learn.

    It is no second verdict: a change is proposed only where it beat today's contract on later records under every cut.
    """
    chosen = plan.choice.chosen.candidate
    if not chosen.folds or not chosen.listed or not plan.changes:
        return None
    first, windows = chosen.folds[0], plan.stream.profile.windows
    broken = min((fold for fold in chosen.folds if not fold.holds), key=lambda fold: fold.held, default=None)
    shown = broken or first
    held = max(1, shown.held)
    length = length_of(windows, plan.stream.window_totals, shown.cut, shown.cut + held)
    timed = windows.kind == "time" and not loaded_at_once(windows)
    return Holding(
        broken is None,
        first.fitted_share,
        first.share,
        shown.held,
        shown.end - shown.cut,
        length,
        length if broken is not None and timed else None,
        _holding_says(first, length, as_even=broken is None, timed=timed, divide=plan.question.means.sub_key is None),
    )


def _holding_says(first: FoldScore, length: str, *, as_even: bool, timed: bool, divide: bool) -> str:
    """One length of time: of the later part where it is as even, otherwise the shortest that a fit lasted.

    Where records have no times of use, nobody can be told when to plan again. To `divide` keys is advised where that
    was not tried.
    """
    if as_even:
        return f"It holds: fitted on earlier records, it stayed as even for all of the later ones ({length})."
    parted = (
        f"The fullest lane had {numbers.share(first.fitted_share)} of the records that it was fitted on, and "
        f"{numbers.share(first.share)} of the later ones."
    )
    if not timed:
        divided = "Divide the hot keys (--sub-key FIELD), or plan" if divide else "Plan"
        return (
            f"It does not stay as even as fitted: under one cut for no longer than {length}. {parted} {divided} from "
            "records with times (--time) to see how long a plan lasts."
        )
    divided = ", or divide the hot keys (--sub-key FIELD)" if divide else ""
    return (
        f"Plan again every {length}{divided}: under one cut of the time the lanes were as even as fitted for no longer "
        f"than that. {parted}"
    )


# What the figures stand on: the same records for today's contract, the chosen one and every other.


@dataclass(frozen=True, slots=True)
class Basis:
    """The records that every figure of a plan is counted on, unless another is named beside it."""

    records: int
    of: int
    later: bool
    without_key: int
    says: str


def basis(plan: Plan) -> Basis:
    """Later records that nothing was fitted on; all of them where there is but one window."""
    stream, profile = plan.stream, plan.stream.profile
    newest = stream.folds[0].score if stream.folds else stream.whole
    records = round(float(stream.window_totals[newest.first : newest.last].sum()))
    without, of = profile.without_key.records, stream.total
    missing = f"; the {numbers.count(without)} without one are in no lane" if without else ""
    if stream.folds:
        counted = f"the newest {numbers.count(records)} of {numbers.count(of)} records with a key"
        why = ", which no candidate was fitted on"
    else:
        counted = f"all {numbers.count(of)} records with a key"
        why = ", in one window, so that nothing later could be counted"
    return Basis(records, of, bool(stream.folds), without, f"Figures: {counted}{why}{missing}.")


#: Records that span less than this were loaded at once: their times tell nothing about how long a plan lasts.
LOADED_AT_ONCE: Final = timedelta(minutes=2)


def loaded_at_once(windows: Windows) -> bool:
    """Whether the times of records are those of one load."""
    return timedelta(microseconds=windows.edges[-1] - windows.edges[0]) < LOADED_AT_ONCE


def length_of(windows: Windows, records: Sequence[float] | NDArray[np.float64], first: int, last: int) -> str:
    """The windows from one up to another, as people say how long that is; of what was loaded at once, in records.

    >>> from keylane.profile.model import Windows
    >>> day = 86_400_000_000
    >>> length_of(Windows("time", (0, day, 2 * day)), [700, 800], 0, 2)
    '2 days'
    >>> length_of(Windows("position", (0, 5_000, 10_000)), [5_000, 5_000], 0, 1)
    '5,000 records'
    >>> length_of(Windows("time", (0, 400_000, 800_000)), [700, 800], 1, 2)
    '800 records'
    """
    size = windows.edges[last] - windows.edges[first]
    if windows.kind == "position":
        return f"{numbers.count(size)} records"
    if loaded_at_once(windows):
        return numbers.plural(round(sum(records[first:last])), "record")
    return duration(timedelta(microseconds=size))


def duration(time: timedelta) -> str:
    """A length of time in its largest unit that leaves two or more of it.

    >>> duration(timedelta(days=61)), duration(timedelta(hours=36)), duration(timedelta(seconds=90))
    ('61 days', '36 hours', '90 seconds')
    """
    seconds = time.total_seconds()
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size or (seconds >= size and seconds % size == 0):
            count = round(seconds / size)
            return f"{numbers.count(count)} {unit}{'s' * (count != 1)}"
    return f"{seconds:.3g} seconds"

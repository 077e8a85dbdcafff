"""A plan from a profile: every candidate, the one to take, its contract, and what the change costs.

    stream, seen        the keys under their hash; what was seen, and what came later
    strategies          what each strategy moves           candidates   all of them, scored
    geo_strategies      the lanes of places, likewise      possible     what their cells can do on lanes
    choose              the one to take                    written      its contract
    today, cost         what the change moves and breaks   sizing       lanes that the throughput needs

As a document: `document`. In plain words: `explained`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.contract.partitioners import FACTS
from keylane.errors import DataError, UsageError
from keylane.plan.candidates import candidates, standing
from keylane.plan.choose import Choice, Constraints, Judged, choose, judge
from keylane.plan.cost import Cost, cost
from keylane.plan.geo_strategies import geo_candidates, geo_standing
from keylane.plan.sizing import Demand, Sizing, lanes_for
from keylane.plan.stream import Stream
from keylane.plan.today import Today, today_of
from keylane.plan.written import Means, contract_text, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.contract.model import Contract
    from keylane.measure.profile import Profile
    from keylane.plan.candidates import Candidate

__all__ = ["Plan", "Question", "make_plan"]

#: Strategies that leave every key whole, on one lane.
WHOLE_KEYS: Final = ("hash", "pin", "table", "geo-hash", "geo-table", "geo-curve")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a profile: which lane counts, under which constraints, with which means.

    `demand` is what the stream must carry; only a `binding` one keeps lane counts out. `others` are contracts of
    streams that are joined with this one. `today_lanes` is the lane count where today's contract says `live`.
    """

    counts: tuple[int, ...]
    means: Means
    constraints: Constraints = field(default_factory=Constraints)
    demand: Demand | None = None
    binding: bool = False
    others: tuple[Contract, ...] = ()
    today_lanes: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer."""

    question: Question
    stream: Stream
    judged: tuple[Judged, ...]
    choice: Choice
    contract: Contract
    text: str
    today: Today | None
    standing: Judged | None
    cost: Cost
    sizing: Sizing | None

    @property
    def changes(self) -> bool:
        """Whether something is to be done: the chosen contract is not today's."""
        return self.today is None or self.contract is not self.today.contract


def make_plan(profile: Profile, question: Question) -> Plan:
    """Compare every strategy at every lane count, and choose."""
    if not profile.keys.num_rows:
        raise DataError.of("the profile has no keys", got=f"{profile.total} records", hint="name another key")
    stream, means = Stream(profile, question.counts), question.means
    today = _today(stream, question)
    found = list(_candidates(stream, means, question.counts))
    sizing = _sizing(question, found, stream)
    wanted = _wanted(question, sizing)
    judged = [judge(one, stream, means, wanted, today) for one in found]
    stands = _stands(stream, today, means, wanted)
    choice = choose([*judged, *([stands] if stands else [])], wanted)
    contract, text = _contract(choice, stream, means)
    priced = _cost(stream, today, contract, choice, question.others)
    return Plan(question, stream, tuple(judged), choice, contract, text, today, stands, priced, sizing)


def _candidates(stream: Stream, means: Means, counts: tuple[int, ...]) -> Iterator[Candidate]:
    base = _base(means.today)
    if stream.places is None:
        return candidates(stream, base, counts)
    return geo_candidates(stream, stream.places, base, counts)


def _base(today: Contract | None) -> str:
    """The partitioner whose hash the tail keeps: today's, where that looks at keys."""
    name = today.spec.partitioner if today else "kafka-java"
    return "kafka-java" if FACTS[name].fold == "keyless" else name


def _today(stream: Stream, question: Question) -> Today | None:
    contract = question.means.today
    if contract is None:
        return None
    if contract.spec.geo is not None and stream.places is None:
        hint = "plan the cells alone: a source without the others"
        raise UsageError.of(
            "today's lanes are by place, and not all keys are cells",
            got=f"keys of {contract.spec.key.fields[0]}",
            hint=hint,
        )
    lanes = question.today_lanes if contract.spec.lanes == "live" else contract.spec.lanes
    if lanes is None:
        raise UsageError.of("today's contract leaves its lane count open", got="lanes: live", hint="--today-lanes N")
    return today_of(stream, contract, lanes)


def _stands(stream: Stream, today: Today | None, means: Means, wanted: Constraints) -> Judged | None:
    if today is None:
        return None
    if stream.places is not None and today.by_place is not None:
        stands = geo_standing(stream, stream.places, today.by_place)
    else:
        stands = standing(stream, today.contract, today.lanes, today.fitted)
    return judge(stands, stream, means, wanted, today)


def _sizing(question: Question, found: Sequence[Candidate], stream: Stream) -> Sizing | None:
    """Lanes for the throughput, at the best balance that the strategies with whole keys reach at each count."""
    if question.demand is None:
        return None
    skew = {
        lanes: min(one.max_over_mean for one in found if one.lanes == lanes and one.strategy in WHOLE_KEYS)
        for lanes in question.counts
    }
    records = stream.records
    return lanes_for(question.demand, skew, hottest_share=float(records[0] / records.sum()))


def _wanted(question: Question, sizing: Sizing | None) -> Constraints:
    demand = question.demand if sizing and question.binding else None
    return replace(question.constraints, demand=demand, least_lanes=(sizing.lanes or 1) if demand and sizing else 1)


def _contract(choice: Choice, stream: Stream, means: Means) -> tuple[Contract, str]:
    """The chosen contract and its text; no text where it is today's, which has its own."""
    chosen = choice.chosen.candidate
    if chosen.strategy == "today" and means.today is not None:
        return means.today, ""
    text = contract_text(chosen, stream.profile, means)
    contract = parsed(text, means)
    return contract, "" if contract is means.today else text


def _cost(stream: Stream, today: Today | None, contract: Contract, choice: Choice, others: Sequence[Contract]) -> Cost:
    chosen = choice.chosen.candidate
    new = _lanes_after(stream, choice) if today else np.zeros(0, np.int32)
    old = today.home if today else new
    counts = (today.lanes if today else chosen.lanes, chosen.lanes)
    before = today.contract if today else None
    priced = cost(before, contract, old, new, stream.records, counts=counts, others=others)
    # One count for one thing: a key with several lanes counts by the part that stays, here as in every row.
    return replace(priced, moved=choice.chosen.moved)


def _lanes_after(stream: Stream, choice: Choice) -> NDArray[np.int32]:
    """The lane of each key under what was chosen; -1 where it has several, or goes to a tier."""
    chosen = choice.chosen.candidate
    if chosen.strategy in ("window", "keyless"):
        return np.full(len(stream.records), -1, np.int32)
    lanes = chosen.home(stream).copy()
    for rank, to in chosen.fitted.moves.items():
        lanes[rank] = to[0] if len(to) == 1 and to[0] < chosen.lanes else -1
    return lanes

"""A plan from a profile: every candidate, the one to take, its contract, and what the change costs.

    hashed_keys         the keys under their hash; what was seen, and what came later
    strategies          what each strategy moves           candidates   all of them, scored
    geo_strategies      the lanes of locations, likewise   bounds       what their cells can do on lanes
    choose              the one to take                    contract_text  its text
    current, cost       what the change moves and breaks   sizing       lanes that the throughput needs

As a document: `document`. In plain words: `text`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane import numbers
from keylane.contract.edit import edited_text
from keylane.contract.model import Contract
from keylane.contract.parse import parse_contract
from keylane.contract.partitioners import FACTS
from keylane.documents.profile import Hot, HotLaneEvidence
from keylane.errors import DataError, UsageError
from keylane.measure.hot_lanes import WORTH, why_hot
from keylane.measure.self_test import still_golden
from keylane.plan.candidates import HASHES, candidates, standing
from keylane.plan.choose import Choice, Constraints, Judged, choose, compared, judge
from keylane.plan.contract_text import Means, contract_text, parsed
from keylane.plan.cost import Cost, cost
from keylane.plan.current import Today, today_of
from keylane.plan.geo_strategies import geo_candidates, geo_standing
from keylane.plan.hashed_keys import ProfiledStream, moved_loads
from keylane.plan.sizing import Demand, Sizing, carried, lanes_for
from keylane.profile.writers import identified

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.measure.hot_lanes import Heat
    from keylane.plan.candidates import Candidate
    from keylane.profile.model import Profile


#: The fullest lane over the mean that users live with: where no lane is hot on the whole, later ones may be so full.
LIVED_WITH: Final = 1.3
#: Strategies that leave every key whole, on one lane.
WHOLE_KEYS: Final = ("hash", "pin", "table", "geo-hash", "geo-table", "geo-curve", "geo-regions")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a profile: which lane counts, under which constraints, with which means.

    `demand` is what the stream must carry; only a `binding` one keeps lane counts out. `others` are contracts of
    streams that are joined with this one. `today_lanes` is the lane count where today's contract has `live`. From
    `seed` fair hashes are drawn, to say what chance gives. `radius` is the metres that locations are matched within:
    with it, copies count.
    """

    counts: tuple[int, ...]
    means: Means
    constraints: Constraints = field(default_factory=Constraints)
    demand: Demand | None = None
    binding: bool = False
    others: tuple[Contract, ...] = ()
    today_lanes: int | None = None
    seed: int = 0
    radius: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer."""

    question: Question
    stream: ProfiledStream
    judged: tuple[Judged, ...]
    choice: Choice
    contract: Contract
    text: str
    today: Today | None
    standing: Judged | None
    cost: Cost
    sizing: Sizing | None
    #: Which lanes are hot today, and why; None where there is no contract.
    heat: Hot | None = None
    #: Whether today's lanes are full enough to do something about; None where there is no contract.
    hot: bool | None = None
    #: Where more lanes than today's were taken from a range: what to do at today's count.
    otherwise: Judged | None = None

    @property
    def changes(self) -> bool:
        """Whether something is to be done: the chosen contract is not today's."""
        return self.today is None or self.contract is not self.today.contract

    @property
    def best_hash(self) -> Candidate | None:
        """The hash alone on the chosen lane count; of locations at the resolution that made lanes most even."""
        lanes = self.choice.chosen.candidate.lanes
        plain = [one.candidate for one in self.judged if one.candidate.strategy in HASHES]
        return max((one for one in plain if one.lanes == lanes), key=lambda one: one.deciding, default=None)


def make_plan(profile: Profile, question: Question) -> Plan:
    """Compare every strategy at every lane count, and choose."""
    if not profile.keys.num_rows:
        raise DataError.of("the profile has no keys", got=f"{profile.total} records", hint="choose another key")
    stream, means = ProfiledStream(profile, question.counts), question.means
    today = _today(stream, question)
    if question.radius is not None and stream.places is None:
        raise UsageError.of("a radius is of locations", got=f"--radius {question.radius:g}", hint="--place LAT,LNG")
    tiers = today.fitted.tier_lanes if today else 0
    found = [replace(one, tier_today=tiers) for one in _candidates(stream, means, question, today)]
    sizing = _sizing(question, found, stream)
    wanted = _wanted(question, sizing)
    judged = [judge(one, stream, means, wanted, today) for one in found]
    stands = _stands(stream, today, means, wanted, question.radius)
    if stands is not None:
        stood = stands.candidate
        judged = [replace(one, against_today=compared(one.candidate, stood, one.moved)) for one in judged]
    heat = heat_under(stream, today, question.seed) if today else None
    stays = stands if stands is not None and _in_range(stands.candidate.lanes, question.counts) else None
    hot = _is_hot(stands.candidate, heat, wanted) or _is_dear(stands.candidate, found) if stands else None
    choice = choose(judged, wanted, stays, hot=hot is not False)
    contract, text = _contract(choice, stream, means)
    priced = _cost(stream, today, contract, choice, question.others)
    otherwise = _at_todays_count(judged, wanted, stays, choice, hot=hot is not False)
    found_plan = (question, stream, tuple(judged), choice, contract, text, today, stands, priced, sizing, heat, hot)
    return Plan(*found_plan, otherwise)


def _at_todays_count(
    judged: Sequence[Judged], wanted: Constraints, stands: Judged | None, choice: Choice, *, hot: bool
) -> Judged | None:
    """What would be taken without more lanes; None where none are, or where today's count cannot be kept."""
    if stands is None or stands.because is not None or choice.chosen.candidate.lanes <= stands.candidate.lanes:
        return None
    same = [one for one in judged if one.candidate.lanes == stands.candidate.lanes]
    return choose(same, wanted, stands, hot=hot).chosen


def _in_range(lanes: int, counts: Sequence[int]) -> bool:
    """Whether today's count is one of those asked for: of a range only some counts are compared, and it is another."""
    return min(counts) <= lanes <= max(counts)


def _is_hot(today: Candidate, heat: Hot | None, wanted: Constraints) -> bool:
    """Whether something is to be done about today's lanes: by the limit that was given, or by what is called hot."""
    if wanted.max_over_mean is not None:
        return today.max_over_mean > wanted.max_over_mean
    if heat is None:
        return today.max_over_mean >= WORTH
    return bool(heat.lanes) or today.max_over_mean > LIVED_WITH


def _is_dear(today: Candidate, found: Sequence[Candidate]) -> bool:
    """Whether today's lanes have far more to do than they need, where records are matched and copied for that."""
    same = [one.deciding for one in found if one.lanes == today.lanes and one.works]
    return bool(today.works) and max(same, default=0.0) > WORTH * today.deciding


def _candidates(stream: ProfiledStream, means: Means, question: Question, today: Today | None) -> Iterator[Candidate]:
    base = _base(means.today, stream.profile)
    if stream.places is None:
        moves = (today.lanes, today.fitted.moves) if today else None
        return candidates(stream, base, question.counts, partial(_enough, question), moves)
    return geo_candidates(stream, stream.places, base, question.counts, question.radius)


def _enough(question: Question, one: Candidate) -> bool:
    """Whether a candidate keeps the figures that were asked for."""
    limit, demand = question.constraints.max_over_mean, question.demand if question.binding else None
    kept = limit is None or one.max_over_mean <= limit
    return kept and (demand is None or carried(demand, one.all_lanes, one.max_over_mean))


def _base(today: Contract | None, profile: Profile) -> str:
    """The partitioner whose hash the tail keeps: today's, where that looks at keys, or the usual one."""
    name = today.spec.partitioner if today else _usual(profile)
    return "kafka-java" if FACTS[name].fold == "keyless" else name


def _today(stream: ProfiledStream, question: Question) -> Today | None:
    contract = question.means.today
    if contract is None:
        return None
    if contract.spec.geo is not None and stream.places is None:
        hint = "plan a source that holds cells only"
        raise UsageError.of(
            "today's lanes are by location, and not all keys are cells",
            got=f"keys of {contract.spec.key.fields[0]}",
            hint=hint,
        )
    lanes = question.today_lanes if contract.spec.lanes == "live" else contract.spec.lanes
    if lanes is None:
        raise UsageError.of("today's contract leaves its lane count open", got="lanes: live", hint="--today-lanes N")
    return today_of(stream, contract, lanes)


def _stands(
    stream: ProfiledStream, today: Today | None, means: Means, wanted: Constraints, radius: float | None
) -> Judged | None:
    if today is None:
        return None
    if stream.places is not None and today.by_place is not None:
        stands = geo_standing(stream, stream.places, today.by_place, radius)
    else:
        stands = standing(stream, today.contract, today.lanes, today.fitted)
    return judge(replace(stands, tier_today=today.fitted.tier_lanes), stream, means, wanted, today)


def _sizing(question: Question, found: Sequence[Candidate], stream: ProfiledStream) -> Sizing | None:
    """Lanes for the throughput, at the best balance that the strategies with whole keys reach at each count."""
    if question.demand is None:
        return None
    skew = {
        lanes: min(one.max_over_mean for one in found if one.lanes == lanes and one.strategy in WHOLE_KEYS)
        for lanes in question.counts
    }
    return lanes_for(question.demand, skew, hottest_share=stream.hottest)


def _wanted(question: Question, sizing: Sizing | None) -> Constraints:
    demand = question.demand if sizing and question.binding else None
    return replace(question.constraints, demand=demand, least_lanes=(sizing.lanes or 1) if demand and sizing else 1)


def _contract(choice: Choice, stream: ProfiledStream, means: Means) -> tuple[Contract, str]:
    """The chosen contract and its text; no text where it is today's, which has its own."""
    chosen = choice.chosen.candidate
    if chosen.strategy == "today" and means.today is not None:
        return means.today, ""
    text = contract_text(chosen, stream.profile, means)
    contract = parsed(text, means)
    if contract is means.today:
        return contract, ""
    if means.today is None or not means.today_text:
        return contract, text
    text = edited_text(means.today_text, means.today, text, still_golden(means.today.spec.golden, contract))
    return parse_contract(text, means.name), text


def _cost(
    stream: ProfiledStream, today: Today | None, contract: Contract, choice: Choice, others: Sequence[Contract]
) -> Cost:
    chosen = choice.chosen.candidate
    old = today.home if today else np.zeros(0, np.int32)
    new = _lanes_after(stream, choice) if today and chosen.strategy != "today" else old
    counts = (today.lanes if today else chosen.lanes, chosen.lanes)
    before = today.contract if today else None
    priced = cost(before, contract, old, new, stream.records, counts=counts, others=others)
    # One count for one thing: a key with several lanes counts by the part that stays, here as in every row.
    return replace(priced, moved=choice.chosen.moved)


def _lanes_after(stream: ProfiledStream, choice: Choice) -> NDArray[np.int32]:
    """The lane of each key under what was chosen; -1 where it has several, or goes to a tier."""
    chosen = choice.chosen.candidate
    if chosen.strategy in ("window", "keyless"):
        return np.full(len(stream.records), -1, np.int32)
    lanes = chosen.home(stream).copy()
    for rank, to in chosen.fitted.moves.items():
        lanes[rank] = to[0] if len(to) == 1 and to[0] < chosen.lanes else -1
    return lanes


# Hot lanes of a profile under a contract, as a document: `measure.hot_lanes` with the lanes of the keys.


def heat_of(profile: Profile, contract: Contract, seed: int) -> Hot | None:
    """The heat of a profile's lanes; None where there are not two lanes, or their number is not known."""
    lanes = _lanes(profile, contract)
    if lanes is None or lanes < 2:
        return None
    stream = ProfiledStream(profile)
    return heat_under(stream, today_of(stream, contract, lanes), seed)


def assumed(profile: Profile) -> Contract:
    """What is taken for the contract of a source that has lanes and none: its main writer's hash, otherwise Java's."""
    found = identified(profile, 1)
    main = found.writers[0].partitioner if found is not None and found.writers else None
    known = main if main is not None and FACTS[main].fold != "keyless" else _usual(profile)
    key = profile.key.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    spec = {"streams": ["stream"], "lanes": "live", "key": key, "partitioner": known}
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "stream"}, "spec": spec}
    return Contract.model_validate(document)


def _usual(profile: Profile) -> str:
    """What is taken for the partitioner where nobody names one: for lanes that are ranges, theirs."""
    if profile.key_space is None:
        return "kafka-java"
    return next(name for name, facts in FACTS.items() if facts.fold == "ranges")


def plainly_hashed(plan: Plan) -> Today:
    """The keys of a plan under their hash alone, at the chosen lane count: what there is to explain without a today.

    Of locations it is the hash that the plan compares itself with: cells of the resolution that made lanes most even.
    """
    candidate, best = plan.choice.chosen.candidate, plan.best_hash
    geo = plan.contract.spec.geo and plan.contract.spec.geo.model_copy(update={"leaves": (), "checksum": None})
    plain = {"hot_keys": (), "table": None, "geo": geo, "partitioner": _keyed(candidate)}
    spec = plan.contract.spec.model_copy(update=plain)
    made = today_of(plan.stream, plan.contract.model_copy(update={"spec": spec}), candidate.lanes)
    if best is None or best.by_place is None:
        return made
    return replace(made, by_place=best.by_place, home=best.home(plan.stream))


def _keyed(candidate: Candidate) -> str:
    return "kafka-java" if FACTS[candidate.partitioner].fold == "keyless" else candidate.partitioner


def _lanes(profile: Profile, contract: Contract) -> int | None:
    if contract.spec.lanes != "live":
        return contract.spec.lanes
    return None if profile.lanes is None else len(profile.lanes.by_window)


def heat_under(stream: ProfiledStream, today: Today, seed: int) -> Hot | None:
    """The same for keys that are placed already; None where no key has one lane."""
    if today.lanes < 2 or not (today.home >= 0).any():
        return None
    mine, home, records = _placed(stream, today)
    seen, rng = _observed(stream.profile, today.lanes), np.random.default_rng(seed)
    exact = stream.profile.approximate is None
    writers = identified(stream.profile, today.lanes)
    found = why_hot(
        mine,
        home,
        records,
        today.lanes,
        rng=rng,
        observed=seen,
        same_records=exact,
        writers=writers,
        widths=today.widths,
    )
    return Hot(
        verdict=found.verdict.says,
        mixed=found.verdict.mixed,
        as_seen=found.verdict.as_seen,
        cause=found.verdict.cause,
        alarm=found.verdict.alarm,
        alpha=found.alpha,
        chance=found.verdict.chance,
        lanes=[
            HotLaneEvidence(
                lane=one.lane,
                share=one.share,
                over_mean=one.over_mean,
                cause=one.cause,
                evidence=one.evidence,
                chance=one.chance,
                alarm=one.chance < found.alpha or one.cause == "mixed-writer",
            )
            for one in found.hot
        ],
        basis=_basis(found, exact=exact),
    )


def _basis(found: Heat, *, exact: bool) -> str:
    """The records that the heat is of: those of keys, under the contract; of mixed writers, those in the lanes."""
    records = numbers.plural(found.records, "record")
    if found.verdict.as_seen:
        return f"all {records} in the lanes where they are" if exact else "the records in the lanes where they are"
    return f"all {records} with a key" if exact else f"the {records} of the keys that were kept"


def _placed(stream: ProfiledStream, today: Today) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any]]:
    """Records of each lane; and lane and records of what has one lane each: a key, or of locations a leaf or cell."""
    if today.by_place is not None and stream.places is not None:
        lanes, records = stream.places.units(today.by_place)
        return np.bincount(lanes, records, minlength=today.lanes), lanes, records
    hashed = stream.hashed(today.contract.spec.partitioner, today.lanes)
    loads = moved_loads(hashed, today.fitted.moves, stream.profile.by_window, today.fitted.tier_lanes)
    return loads.sum(axis=1)[: today.lanes], today.home, stream.records


def _observed(profile: Profile, lanes: int) -> Any:
    """What really stands in each lane, where the source has as many as the contract."""
    if profile.lanes is None or len(profile.lanes.by_window) != lanes:
        return None
    return profile.lanes.by_window.sum(axis=1)

"""A plan as the document that `plan -o json` prints, `--out` saves and the page draws: schema `keylane.plan/2`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from keylane import numbers
from keylane.documents.plan import (
    CandidateRow,
    CellsPossible,
    CellSteps,
    ChangeCost,
    ChangeReason,
    ChosenRow,
    FoldRow,
    LanesOverTime,
    LeftOut,
    OverTime,
    PlanAdvice,
    PlanBasis,
    PlanConstraints,
    PlanDocument,
    PlanFloor,
    PlanGeo,
    PlanHolding,
    PlanSizing,
    SizingLimit,
    SizingReason,
    StrategyRow,
    TodayRow,
    UsefulLanes,
    WaitsFor,
)
from keylane.plan.advice import advice, basis, holding
from keylane.plan.bounds import ceiling, floor, says
from keylane.plan.hashed_keys import fields_of_place
from keylane.plan.reasons import counted_on, names_keys, notes, possible_of, strategies_left_out, verdict, why
from keylane.plan.saved import by_hand, streams_of
from keylane.profile.document import heat_text, misplaced_text, writers_text

if TYPE_CHECKING:
    from keylane.contract.evolve import Change
    from keylane.documents.plan import StrategyName
    from keylane.documents.profile import Edge, Hot, ProfileDocument
    from keylane.plan.choose import Judged
    from keylane.plan.cost import Cost
    from keylane.plan.planner import Plan
    from keylane.plan.sizing import Sizing


#: What the user can live with, by default.
USUAL: Final = 1.3
#: How each figure was obtained, for the reader.
HOW: Final = {
    "basis": "candidates are fitted on the first three quarters of the records, and all are counted on the last",
    "fullest_share": "records in the fullest lane as a share of them all",
    "work": "one over that share, which is lanes over max/mean: as many evenly filled lanes would carry as much",
    "score": "work on records that were not fitted on, over three cuts of the time, for as many lanes as the stream "
    "has: a tier's own lanes are no gain. The highest does not win by itself. A change has to be better than today: "
    "the fullest lane lower by more than a twentieth, and by more than the noise of so many records, under the newest "
    "cut of the time and over all of them, and higher by more than a twentieth under no cut. Candidates that are not "
    "better than each other by that rule are within the noise of each other. Of those the one is taken that changes "
    "least: today's contract before any other, then what needs no readers that merge, moves the fewest records (in "
    "whole percent), needs the fewest lanes, names the fewest keys; of equals the one with the higher score, "
    "and of those with the same score the simpler rule: hash, pin, table, spread, tier, in this order",
    "max_over_mean": "the fullest lane over the mean",
    "fitted": "the same, fitted and counted on all records of the profile; the contract is fitted on all of them",
    "cv": "the standard deviation of the lanes over their mean, all records of the profile",
    "p99": "the lane at the 99th percentile over the mean lane, all records of the profile",
    "worst_window": "the fullest lane over the mean in the window where that is worst",
    "hottest_key_share": "the largest share of all records with a key that one key puts on one lane",
    "moved_keys": "keys of the profile whose lane changes; a key with several lanes counts by the part that stays",
    "moved_traffic": "the same, weighted by records",
    "floor": "the lower bound of every placement with each key on one lane, given the records of each key; of all "
    "records of the profile, where it stands beside figures of all records",
    "ceiling": "one over the share of the heaviest key, of the records that figures are counted on",
    "noise_cv": "the CV that chance alone gives as many records on as many lanes",
    "holding": "as even as fitted: the fullest lane is at most a quarter fuller than when it was fitted, beyond what "
    "chance gives so few records; the time is the shortest under any of the three cuts",
    "choice": "Today's contract where nothing is hot; otherwise today's lane count while it is enough, and of a range "
    "the fewest lanes that carry four fifths of the best",
}


def work_in_short(document: PlanDocument) -> str:
    """What the column of that name holds."""
    if document.chosen.copies is not None:
        return "how many evenly filled lanes would do the same, copies included"
    return "how many evenly filled lanes would carry the same traffic; 1 / the share of the fullest lane"


def score_in_short(*, tiers: bool) -> str:
    """What the column of that name holds; `HOW` has it in full."""
    return f"the work over three cuts of the time{'; lanes that a tier adds are no gain' if tiers else ''}"


def rule_in_short(document: PlanDocument) -> str:
    """Why the highest score does not win by itself."""
    least = "changes least" if document.today else "asks for least: the fewest lanes, then the fewest named keys"
    beaten = "Only what clearly beats today is taken; of" if document.today else "Of"
    return f"{beaten} candidates within the noise of each other, the one that {least}."


#: How figures of some strategies were obtained: for plans that have them.
HOW_OF: Final = {
    "window": ("window", "a draw for each key and window instead of the client's hash of both; light keys evenly"),
    "spread": ("spread", "a spread key counts evenly on its lanes: no sub-key is assumed to be heavy"),
    "tier": ("tier", "the lanes of a tier count with those of the stream"),
    "geo-table": (
        "geo_table",
        (
            "cells are split above 0.3 of a lane's fair share, and packed by the hours of the day that windows lie in; "
            "by the windows themselves where they are longer than three hours or not of time"
        ),
    ),
    "geo-regions": (
        "geo_regions",
        (
            "a request is copied to every lane within the radius, counted at 2,000 cells; the score is lanes over what "
            "the fullest lane has to do in its busiest hour, copies included"
        ),
    ),
}


def how(plan: Plan) -> dict[str, str]:
    """How each figure was obtained: what the plan has, and nothing else."""
    allowed = {one.candidate.strategy for one in plan.judged if one.because is None}
    names = allowed | {one.removesuffix("-spread").removesuffix("-by-position") for one in allowed}
    held = {} if holding(plan) else {"holding": ""}
    moved = {} if plan.today else {"moved_keys": "", "moved_traffic": ""}
    some = dict(HOW_OF[name] for name in HOW_OF if name in names)
    return {name: text for name, text in {**HOW, **some, **held, **moved}.items() if text}


def keys_moved(document: PlanDocument) -> str:
    """The keys that change lane: few of them as a count."""
    profile, moved = document.profile, document.change.moved_keys if document.change else None
    return numbers.among(moved or 0.0, None if profile.approximate else profile.distinct_keys, "key")


def hot_in_plan(document: PlanDocument, hot: Hot) -> str:
    """The verdict on hot lanes as it stands in a plan, whose other figures may be of other records.

    Without a contract of today it is of the keys under their hash alone; of lanes that differ from the contract's it is
    of those that the records were found in.
    """
    how = ", as they were found" if hot.as_seen else "" if document.today else f", by {_hash_alone(document)} alone"
    return heat_text(document.profile, hot, how)


def basis_in_short(document: PlanDocument) -> str:
    """The records that the figures of a plan are counted on, in a few words."""
    found = document.basis
    return f"the newest {numbers.count(found.records)} records" if found.later else all_keyed(document)


def all_keyed(document: PlanDocument) -> str:
    """What is of all records of the profile is of those with a key."""
    return f"all {numbers.count(document.basis.of)} records with a key"


def _hash_alone(document: PlanDocument) -> str:
    """The hash that a plan without a contract of today is compared with; of locations at the best resolution."""
    lanes = document.chosen.lanes
    cells = [one for one in document.candidates if one.strategy == "geo-hash" and one.lanes == lanes]
    best = max(cells, key=lambda one: one.score, default=None)
    return "the hash" if best is None else f"the hash of cells of resolution {best.resolution}"


def fix_first(document: PlanDocument) -> str | None:
    """What comes before any plan: records that were not placed by one rule. They count where they belong."""
    profile = document.profile
    if profile.writers and profile.writers.verdict == "mixed":
        found = writers_text(profile.writers)
    elif odd := misplaced_text(profile):
        found = f"{odd}."
    else:
        return None
    return f"Fix the writers first: {found} The plan counts every record in the lane of its contract."


def document(plan: Plan, overview: ProfileDocument, *, show_keys: bool, path: str | None = None) -> PlanDocument:
    """The whole plan; `overview` is the document of its profile, `path` the file that its contract is in or goes to.

    Keys are personal data: unless they are to be shown, the contract that names some is left out, and its file alone
    has them.
    """
    made = _document(plan, overview, show_keys=show_keys)
    if not plan.changes:
        return made
    file = path or f"{plan.contract.metadata.name}.yaml"
    return made.model_copy(update={"by_hand": by_hand(made, plan.contract, file, streams_of(plan.contract))})


def _document(plan: Plan, overview: ProfileDocument, *, show_keys: bool) -> PlanDocument:
    chosen, asked, advised = plan.choice.chosen, plan.question.constraints, advice(plan)
    return PlanDocument(
        profile=overview,
        constraints=PlanConstraints(
            keep_order=asked.order, max_over_mean=asked.max_over_mean, lanes=list(plan.question.counts)
        ),
        today=_today(plan),
        chosen=ChosenRow(**dict(_row(chosen)), met=plan.choice.met, why=why(plan)),
        advice=PlanAdvice(answer=advised.answer, leave=advised.leave, headline=advised.headline),
        verdict=verdict(plan),
        basis=PlanBasis(**asdict(basis(plan))),
        holding=_holding(plan),
        candidates=_candidates(plan),
        floor=_floors(plan),
        ceiling=_ceiling(plan),
        geo=_geo(plan),
        sizing=_sizing(plan.sizing) if plan.sizing else None,
        change=_change(plan.cost, show_keys=show_keys) if plan.today else None,
        folds=_folds(plan, overview.windows.edges),
        over_time=OverTime(
            before=_over_time(plan.standing, "today") if plan.standing else None,
            after=_over_time(chosen, "chosen" if plan.changes else "today"),
        ),
        how=how(plan),
        notes=notes(plan, show_keys=show_keys),
        contract=plan.text if plan.text and (show_keys or not names_keys(plan)) else None,
        contract_fingerprint=plan.contract.fingerprint,
        changes=plan.changes,
    )


def _holding(plan: Plan) -> PlanHolding | None:
    found = holding(plan)
    if found is None:
        return None
    shares = {"fitted_share": _figure(found.fitted_share), "later_share": _figure(found.later_share)}
    return PlanHolding(**{**asdict(found), **shares})


def _row(one: Judged) -> StrategyRow:
    candidate, score = one.candidate, one.candidate.score
    return StrategyRow(
        strategy=cast("StrategyName", candidate.strategy),
        title=candidate.title,
        partitioner=candidate.partitioner,
        lanes=candidate.lanes,
        tier_lanes=candidate.fitted.tier_lanes,
        resolution=candidate.by_place.resolution if candidate.by_place else None,
        order_scope=one.order_scope,
        lanes_per_key=one.lanes_per_key,
        readers_merge=one.readers_merge,
        overrides=candidate.listed,
        fullest_share=_figure(candidate.fullest_share),
        work=_figure(candidate.work),
        copies=_figure(candidate.works[0].copies) if candidate.works else None,
        total_work=_figure(candidate.works[0].fullest) if candidate.works else None,
        score=_figure(candidate.deciding),
        against_today=one.against_today,
        max_over_mean=_figure(candidate.max_over_mean),
        fitted=_figure(score.max_over_mean),
        cv=_figure(score.cv),
        p99=_figure(score.p99),
        worst_window=_figure(score.worst_window),
        idle_lanes=score.idle_lanes,
        hottest_key_share=_figure(candidate.hottest_key_share),
        moved_keys=_figure(one.moved.keys) if one.moved else None,
        moved_traffic=_figure(one.moved.traffic) if one.moved else None,
        allowed=one.because is None,
        because=one.because,
    )


def _figure(value: float) -> float:
    return round(float(value), 6)


def _candidates(plan: Plan) -> list[CandidateRow]:
    """The chosen one first, then what is allowed, the best first, then what is not; the allowed have a rank."""
    chosen = plan.choice.chosen
    all_of_them = [*([plan.standing] if plan.standing else []), *plan.judged]
    ranked = sorted(all_of_them, key=lambda one: (one is not chosen, one.because is not None, -one.candidate.deciding))
    return [
        CandidateRow(**dict(_row(one)), rank=rank if one is chosen or one.because is None else None)
        for rank, one in enumerate(ranked, 1)
    ]


def _today(plan: Plan) -> TodayRow | None:
    if plan.today is None or plan.standing is None:
        return None
    contract = plan.today.contract
    name, epoch = contract.metadata.name, contract.metadata.epoch
    return TodayRow(name=name, epoch=epoch, fingerprint=contract.fingerprint, **dict(_row(plan.standing)))


def _floors(plan: Plan) -> dict[str, PlanFloor]:
    return {
        str(one.lanes): PlanFloor(
            max_over_mean=_figure(one.max_over_mean),
            cv=_figure(one.cv),
            noise_cv=_figure(one.noise_cv),
            held_by=one.held_by,
        )
        for one in (floor(plan.stream.records, lanes) for lanes in plan.question.counts)
    }


def _ceiling(plan: Plan) -> UsefulLanes:
    allowed = plan.question.constraints.max_over_mean or USUAL
    found = ceiling(plan.stream.hottest, plan.choice.chosen.candidate.lanes, allowed, counted_on(plan))
    return UsefulLanes(**asdict(found))


def _geo(plan: Plan) -> PlanGeo | None:
    """Of keys that are locations: the cells, and what they can do on the lanes that were chosen."""
    places = plan.stream.places
    if places is None:
        return None
    fields = fields_of_place(plan.stream.profile)
    found = possible_of(plan, places)
    return PlanGeo(
        place=None if fields is None else list(fields),
        no_place=dict(plan.stream.profile.known.get("no_place") or {}),
        home_resolution=places.resolution,
        home_cells=len(places.cells),
        possible=CellsPossible(
            lanes=found.lanes,
            allowed=found.allowed,
            steps=[
                CellSteps(**{**asdict(one), "cv": _figure(one.cv), "max_over_mean": _figure(one.max_over_mean)})
                for one in found.steps
            ],
            enough_at=found.enough.resolution if found.enough else None,
            even_lanes=found.even_lanes,
            even_lanes_home=found.even_lanes_home,
            says=says(found),
        ),
        left_out=[LeftOut(strategies=list(names), because=why) for why, names in strategies_left_out(plan).items()],
    )


def _folds(plan: Plan, edges: list[Edge]) -> list[FoldRow]:
    return [
        FoldRow(
            fitted_until=edges[fold.cut],
            scored_until=edges[fold.end],
            fitted=_figure(fold.fitted),
            scored=_figure(fold.scored),
            fitted_share=_figure(fold.fitted_share),
            share=_figure(fold.share),
            held_windows=fold.held,
        )
        for fold in plan.choice.chosen.candidate.folds
    ]


def _sizing(sizing: Sizing) -> PlanSizing:
    assumed = [f"assumed: {text}" for text in sizing.assumptions]
    return PlanSizing(
        lanes=sizing.suggested,
        fewest=sizing.lanes,
        binding=sizing.binding,
        reasons=[SizingReason(reason=need.reason, lanes=need.lanes, says=need.says) for need in sizing.needs],
        parallelism=sizing.parallelism and _figure(sizing.parallelism),
        useful_readers=sizing.useful_readers,
        fullest_lane_mb_s=sizing.fullest_lane_mb_s and _figure(sizing.fullest_lane_mb_s),
        limits=[SizingLimit(says=one.says, broken=one.broken) for one in sizing.limits],
        says=[sizing.says, *assumed, *(one.says for one in sizing.broken)],
    )


def _change(cost: Cost, *, show_keys: bool) -> ChangeCost:
    drain = cost.drain
    parents = drain.readable_parents if drain else None
    return ChangeCost(
        moved_keys=_figure(cost.moved.keys) if cost.moved else None,
        moved_traffic=_figure(cost.moved.traffic) if cost.moved else None,
        expected=cost.expected_keys,
        old_lanes=drain.old_lanes if drain else None,
        fan_in=drain.fan_in if drain else None,
        waits_for=None
        if parents is None
        else [WaitsFor(lane=lane, for_=list(old)) for lane, old in enumerate(parents)],
        kinds=[ChangeReason(kind=one.kind, message=_message(one, show_keys=show_keys)) for one in cost.changes],
        possible=cost.possible,
        epoch_to_raise=cost.epoch_to_raise,
        says=[cost.state] if cost.state else [],
    )


def _message(change: Change, *, show_keys: bool) -> str:
    """What a change does; the keys that `evolve` names stand behind a colon."""
    named = change.where == "spec.hot_keys" and not show_keys
    return change.message.partition(": ")[0] if named else change.message


def _over_time(one: Judged, name: str) -> LanesOverTime:
    loads = one.candidate.loads
    return LanesOverTime(
        title=f"{name}: {one.candidate.title}, {numbers.count(one.candidate.lanes)} lanes",
        lanes=len(loads),
        cells=np.rint(loads).astype(np.int64).tolist(),
        totals=np.rint(loads.sum(axis=1)).astype(np.int64).tolist(),
    )

"""A plan as the document that `plan -o json` prints, `--out` saves and the page draws: schema `keylane.plan/1`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final, cast

import numpy as np

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
    PlanConstraints,
    PlanDocument,
    PlanFloor,
    PlanGeo,
    PlanSizing,
    SizingLimit,
    SizingReason,
    StrategyRow,
    TodayRow,
    UsefulLanes,
    WaitsFor,
)
from keylane.geo.bits import resolution
from keylane.geo.lane_tables import COARSEST
from keylane.plan.bounds import Possible, ceiling, floor, possible, says
from keylane.plan.geo_strategies import LEFT_OUT
from keylane.plan.geo_work import leaves_of
from keylane.plan.hashed_keys import fields_of_place

if TYPE_CHECKING:
    from keylane.contract.evolve import Change
    from keylane.documents.plan import StrategyName
    from keylane.documents.profile import Edge, ProfileDocument
    from keylane.plan.candidates import Candidate
    from keylane.plan.choose import Judged
    from keylane.plan.cost import Cost
    from keylane.plan.hashed_keys import Places
    from keylane.plan.planner import Plan
    from keylane.plan.sizing import Sizing

# The verdict of a plan, its reasons and its notes, a sentence each. The whole plan in plain text: `text`.


def verdict(plan: Plan) -> str:
    """What to do, in two sentences at most."""
    chosen, standing = plan.choice.chosen, plan.standing
    what, promise = _named(chosen.candidate), f"{chosen.candidate.max_over_mean:.2f} times the mean"
    unmet = "" if plan.choice.met else " No candidate keeps every constraint; this is the best of the rest."
    if not plan.changes:
        on = "the last quarter of the records" if plan.stream.folds else "all records"
        return f"Keep the current contract: {what}. Its fullest lane had {promise} on {on}.{unmet}"
    before = f"; today's contract had {standing.candidate.max_over_mean:.2f}" if standing else ""
    on = "records it had not seen" if plan.stream.folds else "the records it was fitted on"
    return f"Use {what}. On {on} its fullest lane had {promise}{before}.{unmet}"


def _named(candidate: Candidate) -> str:
    tier = f" and {candidate.fitted.tier_lanes} of a tier" if candidate.fitted.tier_lanes else ""
    return f"`{candidate.strategy}` ({candidate.title}) on {candidate.lanes} lanes{tier}"


def why(plan: Plan) -> list[str]:
    """The reasons for what was chosen."""
    chosen, wanted = plan.choice.chosen, plan.question.constraints
    candidate = chosen.candidate
    seen, least = candidate.score.max_over_mean, floor(plan.stream.records, candidate.lanes).max_over_mean
    out = [
        f"it keeps order {chosen.order_scope}; {wanted.keep_order} was required",
        f"on all records its fullest lane is {seen:.2f} times the mean; the floor for whole keys is {least:.2f}",
        *_against_hash(plan, candidate),
    ]
    if candidate.by_place is not None:
        out.append(_by_place(candidate))
    if candidate.fitted.moves:
        out.append(f"{len(candidate.fitted.moves):,} key(s) are named in the contract; the others stay hashed")
    if not plan.choice.met:
        out.append("no candidate keeps every constraint, so it is the best of those that keep the order")
    return out


def _against_hash(plan: Plan, chosen: Candidate) -> list[str]:
    """What the plain hash would do at the same lane count."""
    found = [one.candidate for one in plan.judged if one.candidate.strategy == "hash" != chosen.strategy]
    plain = [one for one in found if one.lanes == chosen.lanes]
    hashed = [one.candidate for one in plan.judged if one.candidate.strategy == "geo-hash" != chosen.strategy]
    best = min((one for one in hashed if one.lanes == chosen.lanes), key=lambda one: one.on_average, default=None)
    if best is not None:
        return [f"the best hash, {best.title}, promises {best.max_over_mean:.2f}"]
    return [
        f"the hash alone promises {one.max_over_mean:.2f}, and has {one.score.max_over_mean:.2f} on all records"
        for one in plain
    ]


def _by_place(candidate: Candidate) -> str:
    assert candidate.by_place is not None
    rest = f"the hash of its ancestor at resolution {candidate.by_place.resolution}"
    if not candidate.listed:
        return f"no table is needed: a cell has the lane of {rest}"
    return f"the lane table has {candidate.listed:,} leaves; a cell in none of them has the lane of {rest}"


def _left_behind(plan: Plan) -> list[str]:
    """What of today's rules the plan does not know."""
    if plan.today is None:
        return []
    spec, unseen = plan.today.contract.spec, plan.today.unseen
    out = []
    if unseen and plan.changes:
        out.append(f"{unseen:,} key(s) that today's contract names were not seen, and the new one does not name them")
    if spec.key.window and (spec.hot_keys or spec.table):
        out.append("today's contract has a window and rules for keys: its figures are those of the window alone")
    return out


def names_keys(plan: Plan) -> bool:
    """Whether the chosen contract names keys."""
    chosen, places = plan.choice.chosen.candidate, plan.stream.places
    if chosen.by_place is None or places is None:
        return bool(chosen.fitted.moves)
    leaves = leaves_of(chosen.by_place)
    # A leaf that is split no further is a key; coarser ones are areas that many keys share.
    return bool((resolution(leaves) >= places.resolution).any())


def geo_notes(plan: Plan) -> list[str]:
    """Of locations: what this many cells can and cannot do, and which strategies are left out."""
    places, profile = plan.stream.places, plan.stream.profile
    if places is None:
        return []
    out = says(possible_of(plan, places))
    dead = profile.known.get("no_place") or {}
    if dead:
        out.append("not locations: " + ", ".join(f"{count:,} {reason}" for reason, count in dead.items()))
    strangers = int(plan.stream.records[places.row < 0].sum())
    if strangers:
        out.append(f"{strangers:,} records have a key that is not a cell, and are not counted in any lane")
    return [*out, *(f"not compared for locations: {', '.join(names)}: {why}" for why, names in LEFT_OUT.items())]


def possible_of(plan: Plan, places: Places) -> Possible:
    """What the cells can do on the lanes that were chosen, from the resolution that today's contract hashes at."""
    geo = plan.today.contract.spec.geo if plan.today else None
    routing = COARSEST if geo is None else geo.resolution
    return possible(places, plan.choice.chosen.candidate.lanes, routing, plan.question.constraints.max_over_mean)


def notes(plan: Plan, *, show_keys: bool) -> list[str]:
    """What a reader of the figures has to know."""
    profile, out = plan.stream.profile, []
    if profile.without_key.records:
        out.append(f"{profile.without_key.records:,} records have no key and are not counted in any lane")
    out += geo_notes(plan)
    if profile.approximate is not None:
        out.append("the profile is approximate: only the keys that its sketch kept are placed")
    if names_keys(plan) and plan.changes and not show_keys:
        out.append("the contract names keys and is left out here: --write FILE writes it, --show-keys shows it")
    out += _left_behind(plan)
    if plan.today and plan.changes and plan.today.contract.spec.golden:
        out.append("the golden examples of today's contract are not in the new one: some of them may move")
    if not plan.stream.folds:
        out.append("all records lie in one window: nothing could be scored on later records")
    return out


#: What the user can live with, by default.
USUAL: Final = 1.3
#: How each figure was obtained, for the reader.
HOW: Final = {
    "max_over_mean": "the fullest lane over the mean: fitted on three quarters of the records, counted on the last",
    "fitted": "the same, fitted and counted on all records of the profile; the contract is fitted on all of them",
    "cv": "the standard deviation of the lanes over their mean, all records of the profile",
    "p99": "the lane at the 99th percentile over the mean lane, all records of the profile",
    "worst_window": "the fullest lane over the mean in the window where that is worst",
    "hottest_key_share": "the largest share of all records that one key puts on one lane",
    "moved_keys": "keys of the profile whose lane changes; a key with several lanes counts by the part that stays",
    "moved_traffic": "the same, weighted by records",
    "floor": "the lower bound of every placement with each key on one lane, given the records of each key",
    "noise_cv": "the CV that chance alone gives as many records on as many lanes",
    "window": "a draw for each key and window instead of the client's hash of both; light keys evenly",
    "spread": "a spread key counts evenly on its lanes: no sub-key is assumed to be heavy",
    "geo_table": "cells are split above 0.3 of a lane's fair share, and packed by the hours of the day that windows "
    "lie in; by the windows themselves where they are longer than three hours or not of time",
    "tier": "the lanes of a tier count with those of the stream",
    "choice": "the fewest lanes that carry four fifths of the best, as lanes over max/mean, the mean of all folds and "
    "all records; there, of what carries nearly as much as the best, today's contract, otherwise what changes least",
}


def document(plan: Plan, overview: ProfileDocument, *, show_keys: bool) -> PlanDocument:
    """The whole plan; `overview` is the document of its profile.

    Keys are personal data: unless they are to be shown, the contract that names some is left out, and its file alone
    has them.
    """
    chosen, asked = plan.choice.chosen, plan.question.constraints
    return PlanDocument(
        profile=overview,
        constraints=PlanConstraints(
            keep_order=asked.keep_order, max_over_mean=asked.max_over_mean, lanes=list(plan.question.counts)
        ),
        today=_today(plan),
        chosen=ChosenRow(**dict(_row(chosen)), met=plan.choice.met, why=why(plan)),
        verdict=verdict(plan),
        candidates=_candidates(plan),
        floor=_floors(plan),
        ceiling=_ceiling(plan),
        geo=_geo(plan),
        sizing=_sizing(plan.sizing) if plan.sizing else None,
        change=_change(plan.cost, show_keys=show_keys) if plan.today else None,
        folds=_folds(plan, overview.windows.edges),
        over_time=OverTime(
            before=_over_time(plan.standing, "today") if plan.standing else None, after=_over_time(chosen, "chosen")
        ),
        how=HOW,
        notes=notes(plan, show_keys=show_keys),
        contract=plan.text if plan.text and (show_keys or not names_keys(plan)) else None,
        contract_fingerprint=plan.contract.fingerprint,
        changes=plan.changes,
    )


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
    ranked = sorted(all_of_them, key=lambda one: (one is not chosen, one.because is not None, -one.carries))
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
    records = plan.stream.records
    allowed = plan.question.constraints.max_over_mean or USUAL
    found = ceiling(float(records[0] / records.sum()), plan.choice.chosen.candidate.lanes, allowed)
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
        left_out=[LeftOut(strategies=list(names), because=why) for why, names in LEFT_OUT.items()],
    )


def _folds(plan: Plan, edges: list[Edge]) -> list[FoldRow]:
    return [
        FoldRow(
            fitted_until=edges[fold.cut],
            scored_until=edges[fold.end],
            fitted=_figure(fold.fitted),
            scored=_figure(fold.scored),
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
        title=f"{name}: {one.candidate.title}, {one.candidate.lanes} lanes",
        lanes=len(loads),
        cells=np.rint(loads).astype(np.int64).tolist(),
        totals=np.rint(loads.sum(axis=1)).astype(np.int64).tolist(),
    )

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
from keylane.geo.bits import resolution
from keylane.geo.lane_tables import COARSEST
from keylane.measure.balance import useful_lanes
from keylane.plan.advice import advice, basis, holding, tempting
from keylane.plan.bounds import Possible, ceiling, floor, possible, says
from keylane.plan.candidates import CLEARLY, clearly_beats, margin
from keylane.plan.choose import effort
from keylane.plan.geo_strategies import LEFT_OUT, WITHOUT_RADIUS
from keylane.plan.geo_work import leaves_of
from keylane.plan.hashed_keys import fields_of_place
from keylane.plan.saved import by_hand, streams_of
from keylane.plan.sizing import carried_text
from keylane.profile.document import heat_text, misplaced_text, writers_text

if TYPE_CHECKING:
    from keylane.contract.evolve import Change
    from keylane.documents.plan import StrategyName
    from keylane.documents.profile import Edge, Hot, ProfileDocument
    from keylane.plan.candidates import Candidate
    from keylane.plan.choose import Constraints, Judged
    from keylane.plan.cost import Cost
    from keylane.plan.hashed_keys import Places
    from keylane.plan.planner import Plan
    from keylane.plan.sizing import Sizing

# The verdict of a plan, its reasons and its notes, a sentence each. In one line: `advice`; in plain text: `text`.


def verdict(plan: Plan) -> str:
    """What to do, in a sentence or two."""
    chosen = plan.choice.chosen.candidate
    if not plan.changes:
        return f"Keep the current contract on {numbers.count(chosen.lanes)} lanes."
    answer = advice(plan).answer
    if answer in ("no-better", "worse-than-today"):
        return f"Of what was asked for, take {_named(chosen)}."
    return f"Use {_named(chosen)}.{_otherwise(plan) if answer == 'only-for-throughput' else ''}"


def _otherwise(plan: Plan) -> str:
    """What to do where no more throughput is needed than today's lanes could give."""
    if plan.today is None:
        return ""
    at = f"{numbers.count(plan.today.lanes)} lanes"
    if plan.otherwise is None:
        return f" Otherwise stay at {at}: keylane plan without --lanes says what these can do."
    if plan.otherwise.candidate.strategy == "today":
        return f" Otherwise leave it at {at}."
    one = plan.otherwise.candidate
    return f" Otherwise use {_named(one)}, which does the work of {one.work:.1f}."


def _named(candidate: Candidate) -> str:
    tier = f" and {candidate.fitted.tier_lanes} of a tier" if candidate.fitted.tier_lanes else ""
    return f"`{candidate.strategy}` ({candidate.title}) on {numbers.count(candidate.lanes)} lanes{tier}"


def why(plan: Plan) -> list[str]:
    """The reasons for what was chosen."""
    chosen, wanted = plan.choice.chosen, plan.question.constraints
    candidate, least = chosen.candidate, floor(plan.stream.counted, chosen.candidate.lanes)
    bound = f"no placement of whole keys goes below {least.max_over_mean:.2f}x on {_these(plan)}"
    out = [
        _order(chosen.order_scope, wanted, stays=not plan.changes),
        _lanes_why(plan),
        f"Fullest lane: {_over(candidate)}; {bound}.",
        *_against_hash(plan, candidate),
        *_looked_better(plan),
    ]
    if candidate.by_place is not None:
        out.append(_by_place(candidate))
    if candidate.fitted.moves and plan.changes:
        count = len(candidate.fitted.moves)
        out.append(f"The contract names {numbers.count(count)} key{'s' * (count != 1)}; the others stay hashed.")
    out += _preferred(plan)
    return out


def _order(kept: str, wanted: Constraints, *, stays: bool) -> str:
    scope, asked = kept.replace("-", " "), wanted.order.replace("-", " ")
    if stays and wanted.keep_order is None:
        return f"Order: {scope}, as today."
    return f"Order: {scope}, as requested." if kept == wanted.order else f"Order: {scope}; {asked} was enough."


def _over(candidate: Candidate) -> str:
    return f"{candidate.max_over_mean:.2f}x the mean"


def _these(plan: Plan) -> str:
    """The records that figures, floor and ceiling are counted on."""
    counted = basis(plan)
    return f"the newest {numbers.count(counted.records)} records" if counted.later else "all records"


def _lanes_why(plan: Plan) -> str:
    """Why this lane count: today's, the source's, what was asked for, or what that comes to."""
    chosen, counts, keep = plan.choice.chosen.candidate, plan.question.counts, plan.question.constraints.keep_lanes
    lanes, observed = chosen.lanes, plan.stream.profile.lanes
    shown, need = f"Lanes: {numbers.count(lanes)}", _need(plan)
    if plan.today is not None and plan.today.lanes == lanes:
        return f"{shown}, as today{f', which is enough: {need}' if need else ''}."
    if plan.today is None and observed is not None and keep == lanes == len(observed.by_window):
        return f"{shown}, as the source has{f', which is enough: {need}' if need else ''}."
    if len(counts) == 1:
        return f"{shown}, as requested{f', which is enough: {need}' if need else ''}."
    if keep is not None and need:
        return f"{shown}, the fewest of those compared that are enough: {need}."
    compared = f"{numbers.count(min(counts))} to {numbers.count(max(counts))}"
    enough = f" and are enough: {need}" if need else ""
    return f"{shown}, the fewest of {compared} that do at least four fifths of the work of the best{enough}."


def _need(plan: Plan) -> str | None:
    """What decides whether the lanes carry what was asked for; None where nothing was, or where they do not."""
    demand, chosen = plan.question.demand, plan.choice.chosen.candidate
    if demand is None or not plan.question.binding or not plan.choice.met:
        return None
    return carried_text(demand, chosen.all_lanes, chosen.max_over_mean)


def _looked_better(plan: Plan) -> list[str]:
    """Where a change would not hold: what the best one promised, and what came of it."""
    best, stands = tempting(plan), plan.standing
    if best is None or stands is None or not best.folds:
        return []
    today = stands.candidate.shares
    # The cut that decides is the one under which least was left of what it gained.
    worst = max(range(len(best.folds)), key=lambda n: best.shares[n] / max(today[n], 1e-9))
    fitted, later, theirs = map(numbers.share, (best.folds[worst].fitted_share, best.shares[worst], today[worst]))
    looked = f"`{best.strategy}` ({best.title}) looked better: its fullest lane had {fitted} of the records fitted on"
    cut = " under one cut of the time" if worst else ""
    return [f"{looked}{cut}, but {later} of the later ones; today's had {theirs} of these."]


def _against_hash(plan: Plan, chosen: Candidate) -> list[str]:
    """What the plain hash would do at the same lane count; with today's contract as the hash, nothing new."""
    if not plan.changes:
        return []
    names = ("hash", "geo-hash")
    plain = [one.candidate for one in plan.judged if one.candidate.strategy in names and chosen.strategy not in names]
    best = max((one for one in plain if one.lanes == chosen.lanes), key=lambda one: one.deciding, default=None)
    if best is None:
        return []
    what = "Plain hashing" if best.by_place is None else f"The best hash ({best.title})"
    where, fullest = f"{what} on {numbers.count(best.lanes)} lanes", numbers.share(best.fullest_share)
    return [f"{where}: {_over(best)}; {fullest} of the records."]


def _preferred(plan: Plan) -> list[str]:
    """What the chosen one was preferred to, and why: all that scored higher; otherwise what came next.

    Where nothing is hot, nothing was compared: today's contract stays.
    """
    chosen = plan.choice.chosen
    if plan.hot is False and not plan.changes:
        return []
    others = [
        one
        for one in plan.judged
        if one.because is None
        and one is not chosen
        and one.candidate.lanes == chosen.candidate.lanes
        and one.against_today != "identical"
    ]
    rivals = sorted(others, key=lambda one: -one.candidate.deciding)
    above = [one for one in rivals if _score(one) > _score(chosen)]
    reasons: dict[str, list[str]] = {}
    for one in above or rivals[:1]:
        reasons.setdefault(_because(chosen, one), []).append(_rival(one))
    return [f"Preferred to {' and '.join(names)}: {because}." for because, names in reasons.items()]


def _score(one: Judged) -> float:
    """As it is shown, and as it decides between candidates that ask for as much."""
    return round(one.candidate.deciding, 2)


def _rival(one: Judged) -> str:
    by_place = one.candidate.by_place if one.candidate.strategy == "geo-hash" else None
    place = f" of resolution {by_place.resolution}" if by_place is not None else ""
    return f"`{one.candidate.strategy}`{place} (score {_score(one):.2f})"


def _because(chosen: Judged, other: Judged) -> str:
    """Why one was preferred to another: it is clearly better; or within the noise and asks for less."""
    ours, theirs = chosen.candidate, other.candidate
    own, other_ = (_fullest(one) for one in (ours, theirs))
    figures = f"{own} in the fullest lane against {other_}" if own != other_ else f"both {own} in the fullest lane"
    if ours.works and theirs.works:
        figures = f"the work of {ours.work:.1f} lanes against {theirs.work:.1f}"
    if clearly_beats(ours, theirs):
        return f"clearly better, {figures}"
    if clearly_beats(theirs, ours):
        return "that was worse by more than a twentieth under one cut of the time"
    noise = margin(ours, theirs)
    few = f"; with so few records less than {numbers.percent(noise, 0)} is noise" if noise > CLEARLY else ""
    return f"within the noise of each other ({figures}{few}), and this one {_asks_less(chosen, other)}"


def _fullest(one: Candidate) -> str:
    """The share of the fullest lane; of a tier also what it would be if the tier added no lanes, which is compared."""
    shown, counts = numbers.share(one.fullest_share), numbers.share(one.compared[0])
    return shown if shown == counts else f"{counts}, the lanes of its tier not counted as a gain ({shown} with them)"


def _asks_less(chosen: Judged, other: Judged) -> str:
    """The first of what counts in which they differ."""
    ours, theirs = effort(chosen), effort(other)
    what = "leaves" if chosen.candidate.by_place is not None else "keys"
    moved, more = (numbers.share(one.moved.traffic) if one.moved else "" for one in (chosen, other))
    says = {
        "changes": "changes nothing",
        "readers_merge": "needs no readers that merge",
        "moved": f"moves less: {moved} of the records against {more}",
        "lanes": f"needs fewer lanes: {_all_lanes(chosen)} against {_all_lanes(other)}",
        "names": f"names fewer {what}: {numbers.count(ours.names)} against {numbers.count(theirs.names)}",
    }
    for name, own, their in zip(ours._fields, ours, theirs, strict=True):
        if own != their:
            return says[name] if own < their else "improves on what asks for less, which the other does not"
    return "has the higher score; both ask for as much" if _score(chosen) > _score(other) else "is the simpler rule"


def _all_lanes(one: Judged) -> str:
    """The lanes of the stream as the table of candidates has them, and those that a tier adds."""
    candidate = one.candidate
    more = candidate.all_lanes - candidate.lanes
    return f"{numbers.count(candidate.lanes)}{f' + {numbers.count(more)} of a tier' if more else ''}"


def _by_place(candidate: Candidate) -> str:
    assert candidate.by_place is not None
    rest = f"the hash of its ancestor at resolution {candidate.by_place.resolution}"
    if not candidate.listed:
        return f"No table is needed: a cell has the lane of {rest}."
    return (
        f"The lane table has {numbers.count(candidate.listed)} leaves; a cell in none of them has the lane of {rest}."
    )


def _left_behind(plan: Plan) -> list[str]:
    """What of today's rules the plan does not know."""
    if plan.today is None:
        return []
    spec, unseen = plan.today.contract.spec, plan.today.unseen
    out = []
    if unseen and plan.changes:
        out.append(
            f"the new contract leaves out {numbers.plural(unseen, 'key')} of today's without a record in the data"
        )
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
        out.append("not locations: " + ", ".join(f"{numbers.count(count)} {reason}" for reason, count in dead.items()))
    strangers = int(plan.stream.records[places.row < 0].sum())
    if strangers:
        out.append(f"{numbers.count(strangers)} records have a key that is not a cell, and are not counted in any lane")
    return [*out, *(f"not compared for locations: {', '.join(names)}: {why}" for why, names in _left_out(plan).items())]


def _left_out(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Strategies that are not compared for locations, by the reason."""
    return LEFT_OUT if plan.question.radius is not None else {**LEFT_OUT, **WITHOUT_RADIUS}


def possible_of(plan: Plan, places: Places) -> Possible:
    """What the cells can do on the lanes that were chosen, from the resolution that today's contract hashes at."""
    geo = plan.today.contract.spec.geo if plan.today else None
    routing = COARSEST if geo is None else geo.resolution
    return possible(places, plan.choice.chosen.candidate.lanes, routing, plan.question.constraints.max_over_mean)


def notes(plan: Plan, *, show_keys: bool) -> list[str]:
    """What a reader of the figures has to know."""
    profile, out = plan.stream.profile, geo_notes(plan)
    if profile.approximate is not None:
        out.append("the profile is approximate: only the keys that its sketch kept are placed")
    if names_keys(plan) and plan.changes and not show_keys:
        out.append("the contract names keys and is left out here: --write FILE writes it, --show-keys shows it")
    out += [*_held_up(plan), *_left_behind(plan), *_came_to_today(plan), *_by_sub_key(plan)]
    if plan.today and plan.changes and plan.today.contract.spec.golden:
        out.append("the golden examples of today's contract are not in the new one: some of them may move")
    return out


def _came_to_today(plan: Plan) -> list[str]:
    """Why a row that comes to today's contract has other figures than the row of today's."""
    if plan.standing is None:
        return []
    today = plan.standing.candidate.shares
    same = [one.candidate for one in plan.judged if one.against_today == "identical" and one.because is None]
    names = ", ".join(f"`{one.strategy}`" for one in same if one.shares != today)
    if not names:
        return []
    why = "its figures are those of what was fitted before the records that are counted"
    return [f"{names}: fitted on all records it comes to today's contract; {why}"]


def _by_sub_key(plan: Plan) -> list[str]:
    """How a spread by a field that the profile did not count was scored."""
    field, key = plan.question.means.sub_key, plan.stream.profile.key.fields
    used = [one.candidate.strategy for one in plan.judged if one.because is None and one.order_scope == "per-sub-key"]
    if field is None or not used:
        return []
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(used))
    fields = " ".join(f"--key {name}" for name in (*key, field))
    scored = f"a spread key is scored as if {field} divided it evenly over its lanes"
    see = f"keylane profile {fields} shows whether one {field} is heavy"
    return [f"{names}: the profile did not count {field}, so {scored}; {see}"]


def _held_up(plan: Plan) -> list[str]:
    """Where more lanes were taken, or are there, than the heaviest key leaves of use."""
    chosen, share = plan.choice.chosen.candidate, plan.stream.hottest
    more = plan.today is None or chosen.lanes > plan.today.lanes
    stuck = advice(plan).leave == "one-key"
    if not stuck and (not plan.changes or not more or chosen.lanes <= useful_lanes(share)):
        return []
    alone = f"the heaviest key alone has {numbers.share(share)} of {_these(plan)}"
    useful = f"; about {numbers.plural(useful_lanes(share), 'lane')} would do as much" if stuck else ""
    divided = "no number of lanes brings the fullest below that, unless that key is divided (--sub-key)"
    return [f"{alone}: {divided}{useful}"]


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
    "hottest_key_share": "the largest share of all records that one key puts on one lane",
    "moved_keys": "keys of the profile whose lane changes; a key with several lanes counts by the part that stays",
    "moved_traffic": "the same, weighted by records",
    "floor": "the lower bound of every placement with each key on one lane, given the records of each key; of all "
    "records of the profile, where it stands beside figures of all records",
    "ceiling": "one over the share of the heaviest key, of the records that figures are counted on",
    "noise_cv": "the CV that chance alone gives as many records on as many lanes",
    "holding": "as even as fitted: the fullest lane is at most a quarter fuller than when it was fitted, beyond what "
    "chance gives so few records; the time is the shortest under any of the three cuts",
    "choice": "today's contract where nothing is hot; otherwise today's lane count while it is enough, and of a range "
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


def on_all_records(document: PlanDocument, hot: Hot) -> str:
    """The verdict on hot lanes as it stands in a plan, whose other figures are of other records.

    Without a contract of today it is of the keys under their hash alone.
    """
    how = "" if document.today else " by the hash alone,"
    says = heat_text(document.profile, hot)
    return f"On all records,{how} {says[:1].lower()}{says[1:]}"


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
    found = ceiling(plan.stream.hottest, plan.choice.chosen.candidate.lanes, allowed, _these(plan))
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
        left_out=[LeftOut(strategies=list(names), because=why) for why, names in _left_out(plan).items()],
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

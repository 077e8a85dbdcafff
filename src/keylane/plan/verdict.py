"""A plan's verdict, its reasons and its notes, a sentence each. The whole page in plain words: `explained`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.geo.bits import resolution
from keylane.geo.split import COARSEST
from keylane.plan.ceiling import floor
from keylane.plan.geo_strategies import LEFT_OUT
from keylane.plan.lane_tables import leaves_of
from keylane.plan.possible import Possible, possible, says

if TYPE_CHECKING:
    from keylane.plan.candidates import Candidate
    from keylane.plan.make import Plan
    from keylane.plan.places import Places

__all__ = ["names_keys", "notes", "possible_of", "verdict", "why"]


def verdict(plan: Plan) -> str:
    """What to do, in two sentences at most."""
    chosen, standing = plan.choice.chosen, plan.standing
    what, promise = _named(chosen.candidate), f"{chosen.candidate.max_over_mean:.2f} times the mean"
    unmet = "" if plan.choice.met else " No candidate keeps every constraint; this is the best of the rest."
    if not plan.changes:
        on = "the last quarter of the records" if plan.stream.folds else "all records"
        return f"Leave it as it is: {what}. Its fullest lane had {promise} on {on}.{unmet}"
    before = f"; today's contract had {standing.candidate.max_over_mean:.2f}" if standing else ""
    on = "records it had not seen" if plan.stream.folds else "the records it was fitted on"
    return f"Take {what}. On {on} its fullest lane had {promise}{before}.{unmet}"


def _named(candidate: Candidate) -> str:
    tier = f" and {candidate.fitted.tier_lanes} of a tier" if candidate.fitted.tier_lanes else ""
    return f"`{candidate.strategy}` ({candidate.title}) on {candidate.lanes} lanes{tier}"


def why(plan: Plan) -> list[str]:
    """The reasons for what was chosen."""
    chosen, wanted = plan.choice.chosen, plan.question.constraints
    candidate = chosen.candidate
    seen, least = candidate.score.max_over_mean, floor(plan.stream.records, candidate.lanes).max_over_mean
    out = [
        f"it keeps order {chosen.order_scope}; {wanted.keep_order} was asked for",
        f"on all that was seen its fullest lane is {seen:.2f} times the mean; the floor for whole keys is {least:.2f}",
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
        f"the hash alone promises {one.max_over_mean:.2f}, and has {one.score.max_over_mean:.2f} on all that was seen"
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
    """Of places: what so many cells can and cannot do, and which strategies are left out."""
    places, profile = plan.stream.places, plan.stream.profile
    if places is None:
        return []
    out = says(possible_of(plan, places))
    dead = dict(profile.facts).get("no_place") or {}
    if dead:
        out.append("no places: " + ", ".join(f"{count:,} {reason}" for reason, count in dead.items()))
    strangers = int(plan.stream.records[places.row < 0].sum())
    if strangers:
        out.append(f"{strangers:,} records have a key that is no cell, and are in no figure of a lane")
    return [*out, *(f"not compared for places: {', '.join(names)}: {why}" for why, names in LEFT_OUT.items())]


def possible_of(plan: Plan, places: Places) -> Possible:
    """What the cells can do on the lanes that were chosen, from the resolution that today's contract hashes at."""
    geo = plan.today.contract.spec.geo if plan.today else None
    routing = COARSEST if geo is None else geo.resolution
    return possible(places, plan.choice.chosen.candidate.lanes, routing, plan.question.constraints.max_over_mean)


def notes(plan: Plan, *, show_keys: bool) -> list[str]:
    """What a reader of the figures has to know."""
    profile, out = plan.stream.profile, []
    if profile.without_key.records:
        out.append(f"{profile.without_key.records:,} records have no key and are in no figure of a lane")
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

"""The verdict of a plan, its reasons and its notes, a sentence each.

The answer in one line: `advice`. The document that all of it stands in: `document`. The same as plain text: `text`.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from keylane import numbers
from keylane.geo.bits import resolution
from keylane.geo.lane_tables import COARSEST
from keylane.measure.balance import useful_lanes
from keylane.plan.advice import advice, basis, tempting
from keylane.plan.bounds import Possible, floor, possible, says
from keylane.plan.candidates import CLEARLY, HASHES, clearly_beats, margin
from keylane.plan.choose import effort
from keylane.plan.geo_strategies import LEFT_OUT, WITHOUT_RADIUS
from keylane.plan.geo_work import leaves_of
from keylane.plan.sizing import carried_text

if TYPE_CHECKING:
    from keylane.plan.candidates import Candidate
    from keylane.plan.choose import Constraints, Judged
    from keylane.plan.hashed_keys import Places
    from keylane.plan.planner import Plan


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
    bound = f"no placement of whole keys goes below {least.max_over_mean:.2f}x on {counted_on(plan)}"
    out = [
        _order(chosen.order_scope, wanted, stays=not plan.changes),
        _lanes_why(plan),
        *_fewer_keys(plan),
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


def counted_on(plan: Plan) -> str:
    """The records that figures, floor and ceiling are counted on."""
    counted = basis(plan)
    if counted.later:
        return f"the newest {numbers.count(counted.records)} records"
    return f"all {numbers.count(counted.of)} records with a key"


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


def _fewer_keys(plan: Plan) -> list[str]:
    """That lanes stay empty whatever is planned, where there are fewer keys than lanes and each stays whole."""
    keys, chosen = plan.stream.profile.keys.num_rows, plan.choice.chosen
    lanes = chosen.candidate.lanes
    if plan.stream.profile.approximate is not None or chosen.order_scope != "per-key" or keys >= lanes:
        return []
    empty, are = lanes - keys, numbers.agree(keys, "is", "are")
    stay = f"{numbers.count(empty)} of {numbers.count(lanes)} lanes {numbers.agree(empty, 'stays', 'stay')} empty"
    why = f"there {are} {numbers.plural(keys, 'key')}, each on one lane"
    return [f"At least {stay} whatever is planned: {why}. More lanes need a finer key, or a sub-key."]


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
    best = plan.best_hash
    if best is None or chosen.strategy in HASHES:
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
    return [
        *out,
        *(f"not compared for locations: {', '.join(names)}: {why}" for why, names in strategies_left_out(plan).items()),
    ]


def strategies_left_out(plan: Plan) -> dict[str, tuple[str, ...]]:
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
    before = plan.today.contract.spec.golden if plan.today and plan.changes else ()
    if gone := len(before) - len(plan.contract.spec.golden) if before else 0:
        examples, are = numbers.plural(len(before), "golden example"), numbers.agree(gone, "is", "are")
        out.append(f"{gone} of {examples} of today's contract {are} left out: the lane is another")
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
    fields = " ".join(f"--key {quote(name)}" for name in (*key, field))
    scored = f"a spread key is scored as if {field} divided it evenly over its lanes"
    source = quote(plan.stream.profile.source)
    see = f"keylane profile {source} {fields} shows whether one {field} is heavy"
    return [f"{names}: the profile did not count {field}, so {scored}; {see}"]


def _held_up(plan: Plan) -> list[str]:
    """Where more lanes were taken, or are there, than the heaviest key leaves of use."""
    chosen, share = plan.choice.chosen.candidate, plan.stream.hottest
    more = plan.today is None or chosen.lanes > plan.today.lanes
    stuck = advice(plan).leave == "one-key"
    if not stuck and (not plan.changes or not more or chosen.lanes <= useful_lanes(share)):
        return []
    alone = f"the heaviest key alone has {numbers.share(share)} of {counted_on(plan)}"
    useful = f"; about {numbers.plural(useful_lanes(share), 'lane')} would do as much" if stuck else ""
    divided = "no number of lanes brings the fullest below that, unless that key is divided (--sub-key)"
    return [f"{alone}: {divided}{useful}"]

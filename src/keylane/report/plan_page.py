"""The pages of `keylane plan --report` and `keylane profile --report`, from the documents those commands print.

The verdict comes first, then what it rests on. A section whose part of the document is null is left out. The sections:
`plan_sections`; what they are built from: `sections`. Charts for notebooks: `charts`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from keylane.documents.plan import AGAINST_TODAY, LanesOverTime
from keylane.errors import visible
from keylane.measure.balance import useful_lanes
from keylane.numbers import agree, count, plural, share, times
from keylane.plan.document import basis_in_short, fix_first, hot_in_plan
from keylane.plan.geo_work import COSTLY_COPIES
from keylane.profile.document import heat_text, keys_verdict, misplaced_text, window_notes, writers_text
from keylane.report.charts import lane_counts
from keylane.report.html import Markup, join, tag
from keylane.report.plan_sections import (
    balance_section,
    change_line,
    change_section,
    folds_section,
    hot_section,
    keys_section,
    lanes_section,
    maps_data,
    ranks_section,
    sizing_section,
)
from keylane.report.sections import (
    aside,
    bullets,
    chart,
    fact,
    facts,
    intro_of,
    named,
    prose,
    section,
    sentence,
    table,
    whole_page,
    words,
)
from keylane.report.svg_charts import TODAY, drawing, strategies

if TYPE_CHECKING:
    from keylane.documents.plan import CandidateRow, PlanConstraints, PlanDocument, StrategyRow
    from keylane.documents.profile import Hot, LanesSeen, ProfileDocument
    from keylane.report.html import Child

# Strategies compared: the chart of all candidates, and the same as a table that sorts.

#: Columns of the table: title, what they mean in full, and whether narrow pages have them too.
COLUMNS: Final = (
    ("#", "rank: the chosen one, then by score; refused ones have none", False),
    ("Strategy", "", True),
    ("Lanes", "", True),
    ("Fullest lane", "its share of the records that figures are counted on", True),
    ("Work of", "as many evenly filled lanes would carry as much", False),
    ("Score", "the work over three cuts of the time; of those within the noise of each other, what moves least", True),
    ("Against today", "better or worse by more than the noise, under the newest cut and over all", True),
    ("Order kept", "what a reader finds in order", False),
    ("Keys named", "keys that the contract names", False),
    ("Records moved", "share of records that change lane", False),
)
#: Where records are matched within a radius: after the work.
COPIED: Final = (
    ("Copies", "lanes that a request goes to, on average", True),
    ("Total work", "what the fullest lane has to do, copies included, over the mean load", False),
)
_AFTER_WORK: Final = 5
#: Candidates that are shown at first; the others on request.
FIRST_SHOWN: Final = 4


#: Up to so many lane counts can be looked at one by one.
MOST_COUNTS = 8


def strategies_section(document: PlanDocument) -> Markup | None:
    """The chart with what it takes to read it, then the table; None where nothing was compared."""
    if not document.candidates:
        return None
    drawn = chart(partial(strategies, document), 820)
    title = f"All {count(len(document.candidates))} candidates as a chart: balance against order kept"
    return section(
        "strategies",
        intro_of("strategies", "intro" if document.today else "intro_alone"),
        bullets([prose(sentence(why)) for why in document.chosen.why], "says"),
        _switch(document),
        _table(document),
        tag("details", tag("summary", title), tag("div", drawn, _beside(document), class_="with-aside")),
    )


def _beside(document: PlanDocument) -> Markup:
    return join(
        tag(
            "div",
            aside("Asked for", bullets(_asked(document.constraints))),
            aside("To read the chart", _legend(document)),
        )
    )


def _asked(constraints: PlanConstraints) -> list[str]:
    limit, lanes = constraints.max_over_mean, constraints.lanes
    return [
        *([f"order {named('order', constraints.keep_order)}"] if constraints.keep_order else []),
        *([f"fullest lane at most {limit:g}× the mean"] if limit is not None else []),
        *([f"{', '.join(map(count, lanes))} lanes"] if lanes else []),
    ]


def _legend(document: PlanDocument) -> Markup:
    looks = [
        (tag("circle", cx="10", cy="10", r="6", class_="sample"), "a candidate; the larger, the more lanes"),
        (tag("circle", cx="10", cy="10", r="6", class_="sample refused"), "refused: point at it for the reason"),
        (tag("circle", cx="10", cy="10", r="7.5", class_="ring"), "the chosen one"),
        *([(tag("path", d="M10 2l8 8l-8 8l-8 -8Z", class_="today"), "today")] if document.today else []),
    ]
    lines = [tag("li", drawing("", 20, 20, shape, kind="look"), tag("span", text)) for shape, text in looks]
    return tag("ul", *lines, class_="looks")


def _which(one: StrategyRow) -> tuple[str, int, int | None]:
    """What tells a candidate from the others: one strategy may hash cells of several resolutions."""
    return one.strategy, one.lanes, one.resolution


def _table(document: PlanDocument) -> Markup:
    chosen = _which(document.chosen)
    rows = sorted(document.candidates, key=lambda one: one.rank is None)
    others = [one for one in rows if _which(one) != chosen and one.strategy != TODAY]
    first = {_which(one) for one in others[: _first_shown(document) - 1 - bool(document.today)]}
    return table(
        [_head(i, *column) for i, column in enumerate(_columns(document))],
        (_row(one, chosen=_which(one) == chosen, first=_which(one) in first) for one in rows),
        "Candidates",
        "candidates sorts",
    )


def _columns(document: PlanDocument) -> tuple[tuple[str, str, bool], ...]:
    """Copies are shown where they were counted."""
    copied = COPIED if document.chosen.copies is not None else ()
    return (*COLUMNS[:_AFTER_WORK], *copied, *COLUMNS[_AFTER_WORK:])


def _copied(one: CandidateRow) -> list[Markup]:
    if one.copies is None or one.total_work is None:
        return []
    kinds = "n bad" if one.copies > COSTLY_COPIES else "n"
    return [
        tag("td", f"{one.copies:.2f}", class_=kinds, data_value=f"{one.copies:.9g}"),
        _cell(one.total_work, times(one.total_work), more=True),
    ]


def _first_shown(document: PlanDocument) -> int:
    """How many candidates are shown at first: one more where a single one, or a single allowed one, would be hidden."""
    allowed = sum(one.allowed for one in document.candidates)
    return FIRST_SHOWN + (FIRST_SHOWN + 1 in (allowed, len(document.candidates)))


def _switch(document: PlanDocument) -> Markup | None:
    """What is shown: at first the best few, then those of a lane count, or all."""
    shown = _first_shown(document)
    if len(document.candidates) <= shown:
        return None
    lanes, chosen = sorted({one.lanes for one in document.candidates}), document.chosen.lanes
    each = [] if len(lanes) == 1 else lanes if len(lanes) <= MOST_COUNTS else [chosen]
    options = [
        ("best", f"the best {shown}"),
        *((str(n), f"{count(n)} lanes") for n in each),
        ("all", f"all {count(len(document.candidates))}"),
    ]
    labels = [
        tag(
            "label",
            tag("input", type="radio", name="candidates", value=value, checked=value == "best"),
            tag("span", text),
        )
        for value, text in options
    ]
    return tag("fieldset", tag("legend", "Candidates"), *labels, class_="switch")


def _head(at: int, title: str, meaning: str, narrow: bool) -> Markup:
    button = tag("button", title, tag("span", class_="arrow", aria_hidden="true"), type="button", title=meaning or None)
    first = "ascending" if at == 0 else None
    kinds = [*([] if title in ("Strategy", "Order kept", "Against today") else ["n"]), *([] if narrow else ["more"])]
    return tag("th", button, scope="col", aria_sort=first, class_=" ".join(kinds) or None)


def _row(one: CandidateRow, *, chosen: bool, first: bool) -> Markup:
    kinds = ["chosen"] * chosen + ["refused"] * (not one.allowed)
    badge = tag("span", "chosen", class_="badge") if chosen else None
    because = tag("small", f"refused: {one.because or 'breaks a constraint'}") if not one.allowed else None
    name = join(tag("b", one.strategy), badge, tag("small", one.title), because)
    keys = "1 lane a key" if one.lanes_per_key == 1 else f"up to {count(one.lanes_per_key or one.lanes)} lanes a key"
    merge = "; readers merge" if one.readers_merge else ""
    order = join(named("order", one.order_scope), tag("small", f"{keys}{merge}"))
    against = one.against_today or ""
    return tag(
        "tr",
        _cell(one.rank, "–" if one.rank is None else count(one.rank), more=True),
        tag("th", name, scope="row", data_value=one.strategy),
        _cell(one.lanes, count(one.lanes)),
        _cell(one.fullest_share, share(one.fullest_share)),
        _cell(one.work, f"{one.work:.1f}", more=True),
        *_copied(one),
        _cell(one.score, f"{one.score:.2f}"),
        tag("td", AGAINST_TODAY.get(against, "–"), data_value=against, class_=against or None),
        tag("td", order, data_value=_strength(one.order_scope), class_="more"),
        _cell(one.overrides, count(one.overrides), more=True),
        _cell(one.moved_traffic, _share(one.moved_traffic), more=True),
        class_=" ".join(kinds) or None,
        data_lanes=None if chosen or one.strategy == TODAY else one.lanes,
        data_best="yes" if first else None,
    )


def _share(value: float | None) -> str:
    return "–" if value is None else share(value)


def _cell(value: float | None, shown: str, *, more: bool = False) -> Markup:
    return tag("td", shown, class_="n more" if more else "n", data_value="" if value is None else f"{value:.9g}")


def _strength(scope: str) -> int:
    scopes = ("per-key", "per-key-and-window", "per-sub-key", "none")
    return scopes.index(scope) if scope in scopes else len(scopes)


def plan_page(document: PlanDocument) -> str:
    """The whole file of a plan: a document of schema keylane.plan/2."""
    profile, sides = document.profile, document.over_time.sides
    stays = document.today is not None and not document.changes
    if stays:
        sides = {"after": document.over_time.after}
    sections = {
        "lanes": lanes_section(sides, profile.windows),
        "ranks": ranks_section(profile, lane_counts(document), document.ceiling),
        "strategies": strategies_section(document),
        "before-after": None if stays else balance_section(document),
        "hot": hot_section(profile, hot_in_plan(document, profile.hot) if profile.hot else None),
        "keys": keys_section(profile, document.chosen.lanes),
        "change": change_section(document),
        "sizing": sizing_section(document),
        "folds": folds_section(document),
        "how": _how({**profile.how, **document.how}, _notes(document), _prints(document)),
        "contract": _contract(document.contract, document.chosen.overrides),
    }
    return _page("plan", profile, _plan_top(document), sections, maps_data(sides, profile.windows))


def _notes(document: PlanDocument) -> list[str]:
    return [*document.notes, *map(visible, window_notes(document.profile))]


def profile_page(document: ProfileDocument) -> str:
    """The whole file of a profile: a document of schema keylane.profile/1."""
    sides = {"seen": _observed(document.lanes)} if document.lanes else {}
    lanes = document.lanes.count if document.lanes else None
    sections = {
        "lanes": lanes_section(sides, document.windows),
        "ranks": ranks_section(document, lane_counts(document)),
        "hot": hot_section(document),
        "keys": keys_section(document, lanes),
        "how": _how(document.how, list(map(visible, window_notes(document))), [("Profile", document.fingerprint)]),
    }
    return _page("profile", document, _profile_top(document), sections, maps_data(sides, document.windows))


def _observed(lanes: LanesSeen) -> LanesOverTime:
    cells = lanes.by_window
    title = f"{count(len(cells))} lanes, as they are"
    return LanesOverTime(title=title, lanes=len(cells), cells=cells, totals=[sum(lane) for lane in cells])


def _page(
    kind: str, profile: ProfileDocument, top: Markup, sections: dict[str, Markup | None], data: dict[str, object]
) -> str:
    where = visible(f"{profile.source} by {', '.join(profile.key)}")
    return whole_page(f"keylane {kind}: {where}", f"{kind} of", where, top, sections, data)


def _plan_top(document: PlanDocument) -> Markup:
    """What to do and what it does, first; the colours are those of the figures, not of before and after."""
    cost = change_line(document)
    chosen, tone = document.chosen, _tone(document)
    opening, colon, rest = document.advice.headline.partition(": ")
    headline, _, more = (rest if colon else opening).partition(". ")
    first = [tag("em", opening, class_=tone), ": "] if colon else []
    answer = tag("h1", *first, f"{headline.removesuffix('.')}.")
    if before := fix_first(document):
        # What is wrong comes before what could be better: the answer is that of a stream which is put right.
        wrong, _, why = before.partition(": ")
        answer = join(
            tag("h1", tag("em", wrong, class_="worse"), f": {why.partition('. ')[0]}."),
            tag("p", *first, f"{headline.removesuffix('.')}. {why.partition('. ')[2]}", class_="sub"),
        )
    held = document.holding.says if document.holding else ""
    return tag(
        "div",
        answer,
        tag("p", prose(" ".join(part for part in (more, document.verdict) if part)), class_="sub"),
        tag("p", document.basis.says, class_="fine"),
        tag("p", held, class_="sub") if held else None,
        facts(
            # Where copies count, a fuller lane may be the better one: its share is then neither good nor bad news.
            fact(
                "Fullest lane",
                share(chosen.fullest_share),
                *_beside_promise(document),
                kind=tone if chosen.copies is None else "same",
            ),
            fact("The lanes do the work of", f"{chosen.work:.1f}", *_beside_work(document), kind=tone),
            fact("Lanes", count(chosen.lanes), *_beside_lanes(document)),
            fact("Order kept", named("order", chosen.order_scope), _order_says(chosen)),
            fact("Cost of the change", *cost),
        ),
        class_=f"answer {tone}",
    )


def _tone(document: PlanDocument) -> str:
    """Better, worse or neither: by the figures; what helps only those who need more throughput is neither."""
    against = document.chosen.against_today if document.changes else None
    if document.advice.answer == "only-for-throughput":
        return "same"
    return {"better": "better", "worse": "worse"}.get(against or "", "same")


def _beside_work(document: PlanDocument) -> list[str]:
    today = [f"today {document.today.work:.1f}"] if document.today and document.changes else []
    copies = document.chosen.copies
    copied = [] if copies is None else [f"each request goes to {copies:.2f} lanes, which is counted"]
    return [*today, f"of {count(document.chosen.lanes + document.chosen.tier_lanes)} that there are", *copied]


def _capital(words_: str) -> str:
    return words_[:1].upper() + words_[1:]


def _beside_promise(document: PlanDocument) -> list[str]:
    chosen, limit = document.chosen, document.constraints.max_over_mean
    today = [f"today {share(document.today.fullest_share)}"] if document.today and document.changes else []
    missed = [f"misses the {limit:g}× that was asked for"] if limit is not None and chosen.max_over_mean > limit else []
    return [*today, f"of {basis_in_short(document)}: {times(chosen.max_over_mean)} the mean lane", *missed]


def _beside_lanes(document: PlanDocument) -> list[str]:
    chosen, today = document.chosen, document.today
    tier = [f"and {count(chosen.tier_lanes)} of a tier"] if chosen.tier_lanes else []
    if today is None:
        return tier
    same = today.lanes == chosen.lanes
    return [*tier, "as today" if same else f"today {count(today.lanes)}"]


def _order_says(chosen: StrategyRow) -> str:
    where = "each key on one lane" if chosen.lanes_per_key == 1 else f"a key on up to {plural(_reach(chosen), 'lane')}"
    return f"{where}; readers {'merge' if chosen.readers_merge else 'need not merge'}"


def _reach(one: StrategyRow) -> int:
    """Lanes that a key can be on; where nobody knows, all of them."""
    return one.lanes_per_key or one.lanes


def _profile_top(document: ProfileDocument) -> Markup:
    hot, writers = document.hot, document.writers
    without = document.without_key.null + document.without_key.empty + document.without_key.malformed
    mixed = writers is not None and writers.verdict == "mixed"
    headline: list[Child] = [_hot_headline(hot) if hot else keys_verdict(document)]
    cause = heat_text(document, hot) if hot and hot.lanes else None
    if writers is not None and mixed:
        who, _, rest = writers_text(writers).partition(" place ")
        headline = [tag("em", who, class_="before"), f" place {rest}"]
    elif odd := misplaced_text(document):
        how_many, of, rest = odd.partition(" of the records ")
        headline = [tag("em", how_many, class_="before"), f"{of}{rest}."]
    verdict = tag("p", sentence(cause), class_="sub") if cause else None
    heaviest = document.heavy[0].share
    return join(
        tag("h1", *headline),
        verdict,
        facts(
            fact("Records", count(document.records), "all, with and without a key"),
            fact("Distinct keys", count(document.distinct_keys)),
            fact("Heaviest key", share(heaviest), "of all records"),
            fact("Lanes it allows", count(useful_lanes(heaviest)), "before it fills more than one, of all records"),
            fact("Without a key", count(without), "null, empty or unreadable"),
        ),
    )


def _hot_headline(hot: Hot) -> str:
    """The fullest of the lanes above the mean and its cause; without one, the sentence instead."""
    if not hot.lanes:
        return sentence(hot.verdict)
    first, more = hot.lanes[0], sum(one.alarm for one in hot.lanes[1:])
    others = f", and {plural(more, 'more lane')} {agree(more, 'is', 'are')} hot" if more else ""
    what = "is hot, with" if first.alarm else "holds"
    cause = named("causes", first.cause)
    return f"Lane (partition) {first.lane} {what} {times(first.over_mean)} the mean: {cause}{others}."


def _prints(document: PlanDocument) -> list[tuple[str, str]]:
    found = [("Profile", document.profile.fingerprint), ("Chosen contract", document.contract_fingerprint)]
    return [*found, *([("Today's contract", document.today.fingerprint)] if document.today else [])]


def _how(how: dict[str, str], notes: list[str], prints: list[tuple[str, str]]) -> Markup:
    """How figures were obtained: in the document's words, then in the page's own; then the fingerprints."""
    texts = {**{_capital(named("figures", name)): sentence(text) for name, text in how.items()}, **words("own")}
    items = [join(tag("dt", title), tag("dd", text)) for title, text in texts.items()]
    rows = [join(tag("dt", title), tag("dd", tag("code", value))) for title, value in prints if value]
    listed = bullets([sentence(note) for note in notes])
    return section(
        "how",
        None,
        tag("dl", *items, class_="how"),
        join(tag("h3", "Notes"), listed) if listed else None,
        tag("h3", "Fingerprints"),
        tag("dl", *rows, class_="how prints"),
    )


def _contract(text: str | None, overrides: int) -> Markup | None:
    """The contract to copy. It has to name keys as they are, and the page warns of that."""
    if not text:
        return None
    intro = intro_of("contract")
    warning = f" It names {count(overrides)} keys as they are: mind who gets this page." if overrides else ""
    copy = tag("button", "Copy", type="button", class_="copy", data_copies="contract-text")
    shown = tag("pre", tag("code", text, id="contract-text"), tabindex=0)
    return section("contract", f"{intro}{warning}", tag("div", copy, shown, class_="copied"))

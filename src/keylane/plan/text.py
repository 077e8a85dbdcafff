"""A plan in a page of plain words, from its document: what was seen, what to do, why, and what it costs."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Final

from keylane.numbers import count, plural, share
from keylane.plan.document import all_keyed, fix_first, hot_in_plan, keys_moved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.documents.plan import PlanDocument, PlanGeo

WIDTH: Final = 100


def explained(document: PlanDocument) -> list[str]:
    """The page, line by line."""
    blocks = [*_seen(document), "", *_answer(document), "", *_others(document), "", *_price(document)]
    return [line for block in blocks for line in (_wrapped(block) if block else [""])]


def _wrapped(text: str) -> list[str]:
    indent = "  " if text.startswith("- ") else ""
    return fill(text, WIDTH, subsequent_indent=indent).splitlines()


def _seen(document: PlanDocument) -> Iterator[str]:
    profile, ceiling = document.profile, document.ceiling
    yield f"PROFILE of {profile.source}"
    yield (
        f"{plural(profile.records, 'record')} of {plural(profile.distinct_keys, 'key')} "
        f"({', '.join(profile.key)}), in {len(profile.windows.records)} windows."
    )
    yield f"Useful lanes: {ceiling.says}."
    if profile.hot:
        yield hot_in_plan(document, profile.hot)
    if document.geo:
        yield from _cells(document.geo)


def _cells(geo: PlanGeo) -> Iterator[str]:
    yield f"The keys are locations: {count(geo.home_cells)} home cells of resolution {geo.home_resolution}."
    yield from (f"- {text}" for text in geo.possible.says)


def _answer(document: PlanDocument) -> Iterator[str]:
    yield "RECOMMENDATION"
    if first := fix_first(document):
        yield first
    yield document.advice.headline
    yield document.verdict
    yield document.basis.says
    for reason in document.chosen.why:
        yield f"- {reason}"
    if document.holding:
        yield f"- {document.holding.says}"
    for fold in document.folds[1:]:
        fitted, later = share(fold.fitted_share), share(fold.share)
        yield f"- Another cut of the time: fullest lane {fitted} when fitted, {later} later."
    yield f"Score: {document.how['score']}."


def _others(document: PlanDocument) -> Iterator[str]:
    """The next best of each strategy, and why what is not allowed is not."""
    yield "ALTERNATIVES"
    chosen, shown = document.chosen, {document.chosen.strategy}
    for row in document.candidates:
        if row.strategy in shown or row.lanes != chosen.lanes:
            continue
        shown.add(row.strategy)
        # The rows are sorted: of the resolutions of one strategy this is the best.
        refused = f"; not taken: {row.because}" if row.because else ""
        worse = "; worse than today" if row.against_today == "worse" else ""
        figures = (
            f"fullest lane {share(row.fullest_share)}, score {row.score:.2f}, order {row.order_scope.replace('-', ' ')}"
        )
        yield f"- {row.title}, {row.lanes} lanes: {figures}{worse}{refused}"


def _price(document: PlanDocument) -> Iterator[str]:
    yield "COST OF THE CHANGE"
    change = document.change
    if change is None:
        yield "No current contract was given; pass --contract to see what would move."
        return
    if not document.changes:
        yield "Nothing: today's contract stays."
        return
    yield f"{keys_moved(document)} and {share(change.moved_traffic or 0)} of {all_keyed(document)} change lane."
    if change.fan_in:
        yield f"A new lane waits for at most {change.fan_in} of the {change.old_lanes} old ones to be drained."
    for one in change.kinds:
        yield f"- {one.kind}: {one.message}"
    if document.by_hand:
        yield f"By hand, {plural(len(document.by_hand), 'step')}, which keylane apply lists:"
    for step in document.by_hand:
        yield f"- {step.who}: {step.what}"

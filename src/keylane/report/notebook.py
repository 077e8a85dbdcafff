"""Documents in a notebook: a sentence, the main chart, the main table. No script, and nothing is fetched.

Whole pages are `plan_page` and `geo_pages`; single charts as objects: `charts`.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Final

from keylane.documents.check import CheckedData, CheckedFindings
from keylane.documents.explain import ExplainedByClient, ExplainedByContract, ExplainedUnplaced
from keylane.documents.identify import IdentifyDocument, InitDocument
from keylane.documents.match import MatchDocument
from keylane.documents.model import Document
from keylane.documents.plan import AGAINST_TODAY, PlanDocument
from keylane.documents.profile import ProfileDocument
from keylane.documents.route import DryRunDocument, RouteDocument
from keylane.documents.verify import VerifyDocument
from keylane.errors import visible
from keylane.numbers import count, plural, share
from keylane.plan.document import fix_first
from keylane.profile.document import heat_text, keys_verdict, writers_text
from keylane.report import charts, svg_charts
from keylane.report.html import Markup, join, tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from keylane.documents.plan import CandidateRow

#: Rows of a table; the document has all of them.
MOST: Final = 12
_CELL: Final = "text-align:left;padding:2px 10px 2px 0"


def html_of(document: object) -> str:
    """A document, or a part of one, as HTML."""
    return tag("div", _shown(document), class_="keylane")


@singledispatch
def _shown(document: object) -> Markup:
    """Any other document: its fields that are no lists."""
    given = document.as_json() if isinstance(document, Document) else {"": repr(document)}
    rows = [(name, str(value)) for name, value in given.items() if not isinstance(value, list | dict)]
    return join(_table(("field", "value"), rows))


@_shown.register
def _(document: ProfileDocument) -> Markup:
    text = f"{plural(document.records, 'record')} of {plural(document.distinct_keys, 'key')}"
    rows = [(one.key, count(one.records), share(one.share)) for one in document.heavy]
    writers = document.writers
    mixed = [_says(f"Mixed writers: {writers_text(writers)}")] if writers and writers.verdict == "mixed" else []
    verdict = heat_text(document, document.hot) if document.hot else keys_verdict(document)
    shown = (_chart(charts.key_ranks(document)), _table(("key", "records", "share"), rows))
    return join(*mixed, _says(text), _note(verdict), *shown)


@_shown.register
def _(document: PlanDocument) -> Markup:
    listed = [one for one in document.candidates if one.allowed or one.rank == 1 or one.strategy == "today"]
    rows = [_candidate(one) for one in sorted(listed, key=lambda one: (one.rank != 1, one.strategy != "today"))]
    heads = ("strategy", "lanes", "fullest lane", "work", "score", "against today", "moved", "order kept")
    first = fix_first(document)
    notes = (document.verdict, document.basis.says, *([document.holding.says] if document.holding else ()))
    return join(
        *([_says(first)] if first else []),
        _says(document.advice.headline),
        *map(_note, notes),
        _chart(charts.strategies(document)),
        _table(heads, rows),
    )


def _candidate(one: CandidateRow) -> tuple[object, ...]:
    """A candidate by the figures that decide, which compare across lane counts."""
    lanes = f"{one.lanes} + {one.tier_lanes} of a tier" if one.tier_lanes else count(one.lanes)
    against = AGAINST_TODAY.get(one.against_today or "", "-")
    moved = "-" if one.moved_traffic is None else share(one.moved_traffic)
    figures = (share(one.fullest_share), f"{one.work:.1f}", f"{one.score:.2f}")
    return (one.strategy, lanes, *figures, against, moved, one.order_scope)


@_shown.register
def _(document: RouteDocument) -> Markup:
    text = f"{count(document.in_)} records in, {count(document.out)} out, {count(document.dead)} dead letters"
    rows = [(one.stream, one.lane, count(one.records)) for one in document.lanes]
    return join(
        _says(text), _loads([one.records for one in document.lanes]), _table(("stream", "lane", "records"), rows)
    )


@_shown.register
def _(document: DryRunDocument) -> Markup:
    creates = ", ".join(document.creates) or "nothing"
    rows = [(one.stream, one.lane, count(one.records)) for one in document.lanes]
    return join(
        _says(f"Nothing is written. The lanes of {document.sample} of {document.source}"),
        _note(f"would create: {creates}; would write: {', '.join(document.writes)}"),
        _loads([one.records for one in document.lanes]),
        _table(("stream", "lane", "records"), rows),
    )


@_shown.register
def _(document: InitDocument) -> Markup:
    text = f"{document.contract}: {document.partitioner}, {document.partitioner_from}"
    rows = [("lanes", document.lanes), ("key", document.key), ("encoding", document.encoding)]
    return join(_says(text), _table(("field", "value"), rows), *map(_note, document.next))


@_shown.register
def _(document: MatchDocument) -> Markup:
    found = f"{count(document.riders_with_a_match)} of {count(document.riders)} requests have a driver"
    text = f"{found} within {count(document.radius_m)} m; {count(document.pairs)} pairs"
    return join(_says(text), _loads(document.lane_loads))


@_shown.register
def _(document: VerifyDocument) -> Markup:
    text = f"{document.verdict}: {count(document.records)} records in lanes, {count(document.dead)} dead letters"
    rows = [(one.rule, one.stream or "", _dash(one.lane), one.detail) for one in document.violations]
    unproven = [(one.rule, "", "", one.why) for one in document.unproven]
    return join(_says(text), _table(("rule", "stream", "lane", "what"), [*rows, *unproven]))


@_shown.register
def _(document: IdentifyDocument) -> Markup:
    text = f"{document.verdict}: {count(document.keyed_rows)} keyed rows on {document.lanes} lanes"
    rows = [(one.name, share(one.share), one.encoding or "") for one in document.writers]
    examples = [
        (one.name, example.key, example.lane, _dash(example.expected))
        for one in document.writers
        for example in one.examples
    ]
    fixes = [_note(f"{fix.client}: {fix.action}") for one in document.writers for fix in one.fixes]
    return join(
        _says(text),
        _table(("partitioner", "share", "encoding"), rows),
        _table(("partitioner", "key", "lane", "expected"), examples),
        *fixes,
        *map(_note, document.notes),
    )


@_shown.register
def _(document: CheckedFindings) -> Markup:
    rows = [(one.severity, one.where, _dash(one.line), one.message) for one in document.findings]
    lanes = [_loads([one.records for one in document.data.lanes])] if isinstance(document, CheckedData) else []
    return join(_says(document.verdict.replace("-", " ")), *lanes, _table(("severity", "where", "line", "what"), rows))


@_shown.register
def _(document: ExplainedByClient) -> Markup:
    text = "All clients agree" if document.agree else f"The clients disagree: {len(document.groups)} different lanes"
    mine = document.contract if isinstance(document, ExplainedByContract) else None
    own = [_note(f"{mine.name}: lane {_dash(mine.lane)}")] if mine else []
    rows = [(group.lane, ", ".join(group.partitioners)) for group in document.groups]
    return join(_says(text), *own, _table(("lane", "partitioners"), rows))


@_shown.register
def _(document: ExplainedUnplaced) -> Markup:
    return join(_says(f"no lane: {document.contract.reason}"), *map(_note, document.contract.why))


def _dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _says(text: str) -> Markup:
    return tag("p", tag("strong", visible(text)))


def _note(text: str) -> Markup:
    return tag("p", visible(text))


def _chart(chart: charts.Chart) -> Markup:
    return Markup(chart.svg)


def _loads(totals: Sequence[int]) -> Markup | None:
    """Lanes from the fullest to the emptiest; none where there is nothing in them."""
    if not totals or not sum(totals):
        return None
    return _chart(charts.standing_alone(svg_charts.lane_loads(totals)))


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup | None:
    """The first rows, and how many more there are."""
    every = list(rows)
    if not every:
        return None
    head = tag("tr", *(tag("th", name, style=_CELL) for name in heads))
    body = [tag("tr", *(tag("td", visible(str(cell)), style=_CELL) for cell in row)) for row in every[:MOST]]
    more = tag("p", f"and {count(len(every) - MOST)} more") if len(every) > MOST else None
    return join(tag("table", tag("thead", head), tag("tbody", *body)), more)

"""The page of `keylane aggregate explain --report`: which queries are hot, late or failing, and the load of lanes.

From a document of schema keylane.aggregate-explain/1, which `pipelines.aggregate.explain` makes of what an aggregation
has delivered so far; written again while it runs, the page follows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keylane.errors import visible
from keylane.numbers import agree, count, duration, percent, plural, times
from keylane.report.html import Markup, join, tag
from keylane.report.sections import chart, fact, facts, intro_of, section, sentence, whole_page
from keylane.report.shards_page import stacked
from keylane.report.svg_charts import lane_loads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.documents.aggregate import AggregateExplainDocument, DivisionLoad, QueryFigures

#: Pixels of a chart that has a row to itself.
WHOLE: Final = 1160
_NAMES: Final = {
    "query": "By query",
    "query-window": "By query and window",
    "query-window-partial": "By query and window, with partial aggregates",
}


def aggregate_page(document: AggregateExplainDocument) -> str:
    """The whole file."""
    sections = {
        "hot-queries": _hot(document),
        "late-queries": _late(document.late),
        "failing-queries": _failing(document.failing),
        "divisions": _divisions(document),
    }
    where = visible(document.target)
    return whole_page(f"keylane aggregate: {where}", "aggregate explain:", where, _top(document), sections)


def _top(document: AggregateExplainDocument) -> Markup:
    hot = plural(document.queries_with_90_percent, "query")
    have = agree(document.queries_with_90_percent, "has", "have")
    headline = f"{hot} of {count(document.queries)} {have} 90% of {count(document.events)} matched events"
    state = document.state
    late, failing = len(document.late), len(document.failing)
    return join(
        tag("h1", headline),
        tag("p", sentence(document.advice), class_="sub"),
        facts(
            fact("Delivered", plural(document.windows, "result"), f"of {plural(document.queries, 'query')}"),
            fact("Late", plural(late, "query"), "with events after their windows") if late else None,
            fact("Failing", plural(failing, "query"), "that fail on events, or do not fit them") if failing else None,
            fact("Open", plural(state.open_windows, "window"), f"{count(state.state_bytes)} bytes of state")
            if state
            else None,
            fact("Lag", duration(state.longest_lag), "of event time, of the query farthest behind") if state else None,
        ),
    )


def _hot(document: AggregateExplainDocument) -> Markup:
    heads = {"query": "", "events": "n", "of all": "n"}
    rows = [(visible(one.query_id), count(one.events), percent(one.share)) for one in document.hottest]
    return section("hot-queries", intro_of("hot-queries"), stacked(heads, rows, "Hot queries"))


def _late(queries: Sequence[QueryFigures]) -> Markup | None:
    if not queries:
        return None
    heads = {"query": "", "events in windows": "n", "dropped": "n", "in corrections": "n"}
    rows = [
        (visible(one.query_id), *(count(number) for number in (one.events, one.dropped, one.corrected)))
        for one in queries
    ]
    return section("late-queries", intro_of("late-queries"), stacked(heads, rows, "Late queries"))


def _failing(queries: Sequence[QueryFigures]) -> Markup | None:
    if not queries:
        return None
    heads = {"query": "", "events in windows": "n", "errors": "n", "last error": ""}
    rows = [(visible(one.query_id), count(one.events), count(one.errors), visible(one.error or "")) for one in queries]
    return section("failing-queries", intro_of("failing-queries"), stacked(heads, rows, "Failing queries"))


def _divisions(document: AggregateExplainDocument) -> Markup:
    highest = max(one.max_over_mean for one in document.divisions)
    drawn = [_division(one, highest) for one in document.divisions]
    return section("divisions", intro_of("divisions"), *drawn)


def _division(one: DivisionLoad, highest: float) -> Markup:
    what = "partial aggregate" if one.division == "query-window-partial" else "event"
    received = f"the fullest lane receives {plural(max(one.loads), what)}, {times(one.max_over_mean)} the mean"
    heading = f"{_NAMES[one.division]}: {received}"
    return join(tag("h3", heading), chart(lambda width: lane_loads(one.loads, "after", width, highest), WHOLE))

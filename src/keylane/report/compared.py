"""Strategies compared: the chart of all candidates, and the same as a table that sorts."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from keylane.report.axes import drawing
from keylane.report.dots import TODAY, strategies
from keylane.report.markup import Markup, join, tag
from keylane.report.parts import aside, bullets, chart, intro_of, named, section, sentence, table
from keylane.report.words import count, percent, times

__all__ = ["strategies_section"]

Document = dict[str, Any]

#: Columns of the table: title, what they mean in full.
COLUMNS: Final = (
    ("#", "rank: the chosen one, then what carries most; refused ones have none"),
    ("Strategy", ""),
    ("Lanes", ""),
    ("Order kept", "what a reader finds in order"),
    ("Fullest lane", "over the mean, out of sample"),
    ("Fitted", "the same, on all that was seen"),
    ("CV", "standard deviation of the lanes over their mean"),
    ("p99", "99th percentile of the lanes over their mean"),
    ("Worst window", "fullest lane over the mean, in the worst window"),
    ("Hottest key", "its share of all records"),
    ("Overrides", "keys that the contract names"),
    ("Keys moved", "share of keys that change lane"),
    ("Traffic moved", "share of records that change lane"),
)


#: Up to so many lane counts can be looked at one by one.
MOST_COUNTS = 8


def strategies_section(document: Document) -> Markup | None:
    """The chart with what it takes to read it, then the table; None where nothing was compared."""
    if not any(one["max_over_mean"] is not None for one in document["candidates"]):
        return None
    drawn = chart(partial(strategies, document), 820)
    return section(
        "strategies",
        intro_of("strategies"),
        _switch(document),
        tag("div", drawn, _beside(document), class_="with-aside"),
        _table(document),
    )


def _beside(document: Document) -> Markup:
    return join(
        tag(
            "div",
            aside("Why this one", bullets([sentence(why) for why in document["chosen"]["why"]])),
            aside("Asked for", bullets(_asked(document["constraints"]))),
            aside("To read the chart", _legend(document)),
        )
    )


def _asked(constraints: Document) -> list[str]:
    limit, lanes = constraints["max_over_mean"], constraints["lanes"]
    return [
        *([f"order {named('order', constraints['keep_order'])}"] if constraints["keep_order"] else []),
        *([f"fullest lane at most {limit:g}× the mean"] if limit is not None else []),
        *([f"{', '.join(map(count, lanes))} lanes"] if lanes else []),
    ]


def _legend(document: Document) -> Markup:
    looks = [
        (tag("circle", cx="10", cy="10", r="6", class_="sample"), "a candidate; the larger, the more lanes"),
        (tag("circle", cx="10", cy="10", r="6", class_="sample refused"), "refused: point at it for the reason"),
        (tag("circle", cx="10", cy="10", r="7.5", class_="ring"), "the chosen one"),
        *([(tag("path", d="M10 2l8 8l-8 8l-8 -8Z", class_="today"), "today")] if document["today"] else []),
    ]
    lines = [tag("li", drawing("", 20, 20, shape, kind="look"), tag("span", text)) for shape, text in looks]
    return tag("ul", *lines, class_="looks")


def _which(one: Document) -> tuple[Any, ...]:
    """What tells a candidate from the others: one strategy may hash cells of several resolutions."""
    return one["strategy"], one["lanes"], one.get("resolution")


def _table(document: Document) -> Markup:
    chosen = _which(document["chosen"])
    rows = sorted(document["candidates"], key=lambda one: one["rank"] is None)
    made = table(
        [_head(i, *column) for i, column in enumerate(COLUMNS)],
        (_row(one, chosen=_which(one) == chosen) for one in rows),
        "Candidates",
        "candidates sorts",
    )
    return join(tag("h3", "The candidates in figures"), made)


def _switch(document: Document) -> Markup | None:
    """What is shown: at first the lane count of the chosen one, so that strategies are compared like for like."""
    lanes, chosen = sorted({one["lanes"] for one in document["candidates"]}), document["chosen"]["lanes"]
    if len(lanes) == 1:
        return None
    each = lanes if len(lanes) <= MOST_COUNTS else [chosen]
    options = [*((str(n), f"{count(n)} lanes") for n in each), ("all", f"all {count(len(document['candidates']))}")]
    labels = [
        tag(
            "label",
            tag("input", type="radio", name="candidates", value=value, checked=value == str(chosen)),
            tag("span", text),
        )
        for value, text in options
    ]
    return tag("fieldset", tag("legend", "Candidates with"), *labels, class_="switch")


def _head(at: int, title: str, meaning: str) -> Markup:
    button = tag("button", title, tag("span", class_="arrow", aria_hidden="true"), type="button", title=meaning or None)
    first = "ascending" if at == 0 else None
    return tag("th", button, scope="col", aria_sort=first, class_=None if title in ("Strategy", "Order kept") else "n")


def _row(one: Document, *, chosen: bool) -> Markup:
    kinds = ["chosen"] * chosen + ["refused"] * (not one["allowed"])
    badge = tag("span", "chosen", class_="badge") if chosen else None
    because = tag("small", f"refused: {one['because'] or 'breaks a constraint'}") if not one["allowed"] else None
    name = join(tag("b", one["strategy"]), badge, tag("small", one["title"]), because)
    keys = (
        "1 lane a key"
        if one["lanes_per_key"] == 1
        else f"up to {count(one['lanes_per_key'] or one['lanes'])} lanes a key"
    )
    merge = "; readers merge" if one["readers_merge"] else ""
    order = join(named("order", one["order_scope"]), tag("small", f"{keys}{merge}"))
    return tag(
        "tr",
        _cell(one["rank"], "–" if one["rank"] is None else count(one["rank"])),
        tag("th", name, scope="row", data_value=one["strategy"]),
        _cell(one["lanes"], count(one["lanes"])),
        tag("td", order, data_value=_strength(one["order_scope"])),
        *_figures(one),
        class_=" ".join(kinds) or None,
        data_lanes=None if chosen or one["strategy"] == TODAY else one["lanes"],
    )


def _figures(one: Document) -> list[Markup]:
    shown = (("max_over_mean", times), ("fitted", times), ("cv", _cv), ("p99", times), ("worst_window", times))
    shares = ("moved_keys", "moved_traffic")
    return [
        *(_cell(one[name], "–" if one[name] is None else form(one[name])) for name, form in shown),
        _cell(one["hottest_key_share"], _share(one["hottest_key_share"])),
        _cell(one["overrides"], count(one["overrides"])),
        *(_cell(one[name], _share(one[name])) for name in shares),
    ]


def _cv(value: float) -> str:
    return percent(value)


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


def _cell(value: float | None, shown: str) -> Markup:
    return tag("td", shown, class_="n", data_value="" if value is None else f"{value:.9g}")


def _strength(scope: str) -> int:
    scopes = ("per-key", "per-key-and-window", "per-sub-key", "none")
    return scopes.index(scope) if scope in scopes else len(scopes)

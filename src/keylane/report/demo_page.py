"""The page of `keylane demo`, made from its figures: verdict, each stream, standing queries, drift, and how."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from keylane.numbers import count, lanes, percent, times
from keylane.profile.document import masked
from keylane.report.html import Markup, join, page, tag, texts
from keylane.report.svg_charts import POWER, bar, lane_profile, legend, stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.documents.demo import (
        DemoCase,
        DemoFigures,
        DemoTrial,
        LaneDrift,
        OrderKept,
        Parted,
        StandingDivision,
        StandingQueries,
        StandingQuery,
    )

# The part of the demo's page that is about one stream: its lanes over time, its contracts, hot keys, order.

#: What a stream's things are called: a part of `assets/demo.toml`.
Words = dict[str, str]

#: Classes of the order scopes: from kept to given up.
KINDS: Final = {"per-key": "kept", "per-key-and-window": "window", "per-sub-key": "sub", "none": "none"}


def case_section(case: DemoCase, at: int, salt: bytes) -> Markup:
    """Everything about one stream."""
    words = texts("demo")[case.name]
    return tag(
        "section",
        tag("p", words["title"], class_="eyebrow"),
        tag("h2", words["heading"]),
        tag("p", words["intro"].format(**facts(case)), class_="intro"),
        _maps(case, at),
        _contracts(case, words),
        tag("div", _hot_keys(case, words, salt), _order(case, words), class_="pair"),
        id=case.name,
    )


def facts(case: DemoCase) -> dict[str, str]:
    """Figures that an introduction may name: of the heaviest key, of the first contract, and of the second."""
    top, first, second = case.hot_keys[0], case.trials[0], case.trials[1]
    parted = second.sub_keys or second.keys
    return {
        "keys": count(case.distinct_keys),
        "top_share": percent(top.share),
        "top_lanes": f"{top.mean_lanes:.1f}",
        "weakest_keys": count(_weakest(case.trials[case.chosen]).keys),
        "lanes": count(first.lanes),
        "reached": count(first.lanes - first.idle_lanes),
        "idle": count(first.idle_lanes),
        "parted": count(parted.parted),
        "groups": count(parted.groups),
        "moved": percent(second.moved, 0),
        "fullest_share": percent(second.fullest_share),
    }


def _maps(case: DemoCase, at: int) -> Markup:
    before, others = case.trials[0], list(enumerate(case.trials))[1:]
    cells = [cell for trial in case.trials for row in trial.cells for cell in row]
    mean = before.records / sum(len(row) for row in before.cells)
    buttons = [tag("label", _radio(at, i, checked=i == case.chosen), tag("span", trial.title)) for i, trial in others]
    switch = tag("fieldset", tag("legend", "After"), *buttons, class_="switch")
    return tag(
        "div",
        tag(
            "div", _map(at, 0, before.title, tag("p", tag("b", "Before"), before.title, class_="which")), class_="side"
        ),
        tag("div", _map(at, case.chosen, case.trials[case.chosen].title, switch), class_="side"),
        legend(mean, max(cells), f"scale-{at}"),
        class_="maps",
    )


def _radio(at: int, i: int, *, checked: bool) -> Markup:
    return tag("input", type="radio", name=f"after-{at}", value=i, checked=checked)


#: What stands below a map of the day.
HOURS: Final = ("00:00", "06:00", "12:00", "18:00", "24:00")


def _map(at: int, i: int, title: str, head: Markup, clock: Sequence[str] = HOURS, *, noon: bool = True) -> Markup:
    """A heat map's place; the script draws into it, and rewrites its sentence when another contract is chosen."""
    hours = [tag("span", text) for text in clock]
    return tag(
        "figure",
        head,
        tag(
            "div",
            tag("span", "lane 0", class_="first"),
            tag("span", class_="last"),
            tag("canvas", tabindex=0, role="img", aria_label=f"Lanes over time: {title}"),
            tag("svg", class_="totals", aria_hidden="true", preserveAspectRatio="none"),
            tag("i", class_="noon", aria_hidden="true") if noon else None,
            tag("i", class_="cursor", hidden=True),
            class_="plot",
        ),
        tag("div", *hours, class_="hours", aria_hidden="true"),
        tag("figcaption", class_="said"),
        class_="map",
        data_case=at,
        data_trial=i,
    )


def _contracts(case: DemoCase, words: Words) -> Markup:
    worst = max(max(trial.before_noon, trial.after_noon) for trial in case.trials)
    fullness = ("Fullest lane, before noon", "Fullest lane, after noon", "Fullest half hour")
    heads = ("Contract", "Rules", *fullness, "Idle lanes", "Records on a new lane", "Order")
    rows = [_contract_row(trial, worst, chosen=i == case.chosen, words=words) for i, trial in enumerate(case.trials)]
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="scroll", tabindex=0)


def _contract_row(trial: DemoTrial, worst: float, *, chosen: bool, words: Words) -> Markup:
    learned = trial.source == "morning"
    name = join(tag("b", trial.title), tag("small", f"{trial.name}.yaml · {trial.lanes} lanes"))
    kind = "after" if chosen else "before" if trial.name.endswith("naive") else "other"
    return tag(
        "tr",
        tag("th", name, scope="row", class_="name"),
        tag("td", texts("demo")["sources"][trial.source]),
        _fullness(trial.before_noon, worst, kind, "in sample" if learned else ""),
        _fullness(trial.after_noon, worst, kind, "out of sample" if learned else ""),
        tag("td", times(trial.fullest_half_hour, 1), class_="n"),
        tag("td", count(trial.idle_lanes), class_="n"),
        tag("td", percent(trial.moved) if trial.moved else "–", class_="n"),
        tag("td", order_line(trial, words)),
        class_="chosen" if chosen else None,
    )


def _fullness(value: float, worst: float, kind: str, sample: str) -> Markup:
    note = tag("small", sample) if sample else None
    return tag("td", tag("span", times(value), class_="n"), bar(value / worst, times(value), kind=kind), note)


def _hot_keys(case: DemoCase, words: Words, salt: bytes) -> Markup:
    heaviest = case.hot_keys[0].share
    rows = [
        tag(
            "tr",
            tag("th", masked(hot.key, salt) if case.private else hot.key, scope="row", class_="key"),
            tag("td", percent(hot.share), class_="n"),
            tag("td", bar(hot.share / heaviest, f"{hot.mean_lanes:.1f} mean lanes", kind="heat"), class_="wide"),
            tag("td", lanes(hot.before)),
            tag("td", lanes(hot.after)),
        )
        for hot in case.hot_keys
    ]
    heads = (("Share", None), ("", "wide"), ("Lane before", None), ("Lanes after", None))
    cells = [tag("th", text, scope="col", class_=kind) for text, kind in ((words["key"].capitalize(), None), *heads)]
    head = tag("tr", *cells)
    title = tag("h3", f"The heaviest {words['keys']}")
    return tag("div", title, tag("table", tag("thead", head), tag("tbody", *rows), class_="keys"))


def _order(case: DemoCase, words: Words) -> Markup:
    """Order kept or given up: the contract's own answer as a bar, and what the data says beside it."""
    rows = [_order_row(trial, words) for trial in case.trials]
    return tag("div", tag("h3", "Order kept, and given up"), tag("dl", *rows, class_="order"))


def _order_row(trial: DemoTrial, words: Words) -> Markup:
    parts = [(scope.share, KINDS[scope.order_scope]) for scope in trial.order]
    line = order_line(trial, words)
    seen = f"seen on more than one lane: {_seen(trial.keys, words['keys'])}"
    if trial.sub_keys:
        seen += f"; {_seen(trial.sub_keys, words['sub_keys'])}"
    return join(
        tag("dt", trial.title),
        tag("dd", stacked(parts, line), tag("span", line), tag("small", seen)),
    )


def _seen(parted: Parted, what: str) -> str:
    return f"{count(parted.parted)} of {count(parted.groups)} {what}"


def _weakest(trial: DemoTrial) -> OrderKept:
    return max(trial.order, key=lambda scope: list(KINDS).index(scope.order_scope))


def order_line(trial: DemoTrial, words: Words) -> str:
    """What is kept in order under a contract, in one line, from its own answers."""
    weakest = _weakest(trial)
    if weakest.order_scope == "per-key":
        return f"kept for every {words['key']}"
    units = {"per-sub-key": words["sub_key"], "per-key-and-window": f"{words['key']} and minute", "none": "nothing"}
    unit = units[weakest.order_scope]
    if len(trial.order) == 1:
        return f"kept per {unit}, given up per {words['key']}"
    some = f"{count(weakest.keys)} of them ({percent(weakest.share)} of records)"
    return f"kept per {words['key']}; for {some} per {unit} only"


# The part about standing queries: three ways to divide the work of one aggregation, and its results in order.


def standing_section(found: StandingQueries, at: int, salt: bytes) -> Markup:
    """Everything about the aggregation."""
    words = texts("demo")["standing"]
    by_query, by_window, partial = found.divisions
    named = {
        "queries": count(found.queries),
        "hot": count(found.queries_with_90_percent),
        "events": count(found.events),
        "lanes": count(found.lanes),
        "by_query": times(by_query.max_over_mean, 1),
        "by_window": times(by_window.max_over_mean),
        "fullest": count(by_window.fullest),
        "partial": count(partial.fullest),
    }
    return tag(
        "section",
        *_heading(words),
        tag("p", words["intro"].format(**named), class_="intro"),
        _standing_maps(found, at),
        _divisions(found),
        _arrived(found, salt),
        id="standing",
    )


def _standing_maps(found: StandingQueries, at: int) -> Markup:
    words, cells = texts("demo")["standing"]["divisions"], [one.cells for one in found.divisions]
    begins = _minutes(found.begins)
    clock = [_clock(begins + found.minutes * quarter // 4) for quarter in range(5)]
    sides = [
        tag(
            "div",
            _map(at, i, words[one.division], tag("p", words[one.division], class_="which"), clock, noon=False),
            class_="side",
        )
        for i, one in enumerate(found.divisions)
    ]
    mean = found.divisions[0].received / max(1, found.lanes * found.minutes)
    most = max(cell for one in cells for row in one for cell in row)
    scale = legend(mean, most, f"scale-{at}", what="events", span="minute", whole="hour")
    return tag("div", *sides, scale, class_="maps three")


def _standing_drawn(found: StandingQueries) -> dict[str, object]:
    words = texts("demo")["standing"]["divisions"]
    return {
        "trials": [
            {
                "title": words[one.division],
                "cells": one.cells,
                "maxOverMean": times(one.max_over_mean),
                "idle": one.idle_lanes,
                "learned": False,
                "what": _received(one),
            }
            for one in found.divisions
        ],
        "begin": _minutes(found.begins),
        "step": 1,
        "over": "the hour",
    }


def _received(one: StandingDivision) -> str:
    return "partial aggregates" if one.division == "query-window-partial" else "events"


def _minutes(clock: str) -> int:
    hours, _, minutes = clock.partition(":")
    return 60 * int(hours) + int(minutes)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _divisions(found: StandingQueries) -> Markup:
    words, worst = texts("demo")["standing"]["divisions"], max(one.max_over_mean for one in found.divisions)
    most = max(one.fullest for one in found.divisions)
    heads = (
        "Work divided by",
        "Lanes receive",
        "Fullest lane",
        "Fullest lane receives",
        "Most of one lane in a minute",
    )
    rows = [
        tag(
            "tr",
            tag("th", tag("b", words[one.division]), scope="row", class_="name"),
            tag("td", count(one.received), tag("small", _received(one))),
            _fullness(one.max_over_mean, worst, kind, ""),
            tag(
                "td",
                tag("span", count(one.fullest), class_="n"),
                bar(one.fullest / most, count(one.fullest), kind=kind),
            ),
            tag("td", count(one.fullest_minute), class_="n"),
        )
        for one, kind in zip(found.divisions, ("before", "other", "after"), strict=True)
    ]
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="scroll", tabindex=0)


def _arrived(found: StandingQueries, salt: bytes) -> Markup:
    """The hottest queries, with the sequences of their results batch by batch."""
    words = texts("demo")["standing"]
    heads = ("Query", "Events", "Lanes it moves through", "Results, by the batch that delivered them")
    rows = [
        tag(
            "tr",
            tag("th", masked(one.query_id, salt), scope="row", class_="key"),
            tag("td", percent(one.share), class_="n"),
            tag("td", f"{len(one.lanes)} of {found.lanes}"),
            tag("td", _sequences(one), class_="arrived"),
        )
        for one in found.hottest
    ]
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    wrong = found.out_of_order + found.missing + found.twice
    verdict = (
        f"{count(found.results)} results of {count(found.queries)} queries in {count(found.batches)} batches: "
        + (
            "all in order, none missing, none twice."
            if not wrong
            else f"{count(wrong)} out of order, missing or twice."
        )
    )
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="arrivals")
    return join(
        tag("h3", words["arrivals"], class_="apart"),
        tag("p", tag("b", verdict), " ", words["verified"], class_="intro"),
        tag("div", table, class_="scroll", tabindex=0),
    )


def _sequences(one: StandingQuery) -> Markup:
    total = sum(arrival.last - arrival.first + 1 for arrival in one.arrivals)
    sizes = [(arrival.last - arrival.first + 1) / total for arrival in one.arrivals]
    text = " · ".join(_range(arrival.first, arrival.last) for arrival in one.arrivals)
    kinds = ("kept", "sub")
    return join(stacked([(size, kinds[i % 2]) for i, size in enumerate(sizes)], text), tag("small", text))


def _range(first: int, last: int) -> str:
    """Two sequences as a range.

    >>> _range(0, 13), _range(59, 59)
    ('0–13', '59')
    """
    return str(first) if first == last else f"{first}–{last}"


def demo_page(document: DemoFigures, salt: bytes | None = None) -> str:
    """The whole file. `salt` goes into the hashes of keys; left out, it is drawn and forgotten."""
    salt = secrets.token_bytes(16) if salt is None else salt
    words = texts("demo")["page"]
    body = join(
        _top(document),
        tag(
            "main",
            *(case_section(case, i, salt) for i, case in enumerate(document.cases)),
            standing_section(document.standing, len(document.cases), salt),
            _drift(document),
            _how(document),
        ),
        tag("div", id="tip", role="status", hidden=True),
        tag("noscript", tag("p", words["no_script"])),
    )
    return page(words["title"], body, _drawn(document), "demo")


def _drawn(document: DemoFigures) -> dict[str, object]:
    """What the script draws: cells, and the words around them. Keys stay out."""
    return {
        "power": POWER,
        "cases": [
            {
                "trials": [
                    {
                        "title": trial.title,
                        "cells": trial.cells,
                        "maxOverMean": times(trial.max_over_mean),
                        "idle": trial.idle_lanes,
                        "learned": trial.source == "morning",
                        "what": "records",
                    }
                    for trial in case.trials
                ],
                "begin": 0,
                "step": 30,
                "over": "the day",
            }
            for case in document.cases
        ]
        + [_standing_drawn(document.standing)],
    }


def _top(document: DemoFigures) -> Markup:
    cases, words = document.cases, texts("demo")["page"]
    before = times(max(case.trials[0].after_noon for case in cases), 1)
    after = times(max(case.trials[case.chosen].after_noon for case in cases), 1)
    gains = [_gain(case) for case in cases]
    return tag(
        "header",
        tag("p", tag("b", "keylane"), " demo", class_="brand"),
        tag(
            "h1",
            "The same lanes (partitions) carry ",
            tag("em", f"{_between(min(gains), max(gains))} times", class_="after"),
            " the records before the fullest is full.",
        ),
        tag(
            "p",
            "The fullest lane held up to ",
            tag("b", before, class_="before"),
            " the mean, and now holds at most ",
            tag("b", after, class_="after"),
            ".",
            class_="sub",
        ),
        tag("p", words["sub"].format(**_sums(cases)), class_="sub"),
        tag("nav", *(_card(case) for case in cases), class_="cards", aria_label="Streams"),
        tag(
            "p",
            words["small_pictures"],
            tag("b", "Before", class_="before"),
            " is the area, ",
            tag("b", "after", class_="after"),
            " the line, dots the mean.",
            class_="key-line",
        ),
    )


def _sums(cases: list[DemoCase]) -> dict[str, str]:
    unplaced = sum(trial.unplaced for case in cases for trial in case.trials)
    return {
        "records": count(sum(case.records for case in cases)),
        "streams": count(len(cases)),
        "contracts": count(sum(len(case.trials) for case in cases)),
        "accounted": f"{count(unplaced)} placements found no lane." if unplaced else "Every one of them got a lane.",
    }


def _card(case: DemoCase) -> Markup:
    words, before, after = texts("demo")[case.name], case.trials[0], case.trials[case.chosen]
    return tag(
        "a",
        tag("h3", words["title"], tag("small", f"by {words['key']}")),
        tag(
            "p",
            tag("span", times(before.after_noon, 1), class_="before"),
            tag("span", "→", class_="arrow", aria_label="to"),
            tag("span", times(after.after_noon, 1), class_="after"),
            class_="big",
        ),
        tag(
            "p",
            f"fullest lane over the mean, after noon: {_gain(case):.1f} times the room",
            class_="unit",
        ),
        lane_profile(_totals(before), _totals(after)),
        tag("p", tag("b", "Cost "), f"{percent(after.moved)} of the records are on another lane", class_="kept"),
        tag("p", tag("b", "Order "), order_line(after, words), class_="kept"),
        href=f"#{case.name}",
        class_="card",
    )


def _between(low: float, high: float) -> str:
    """Two figures as a range, or as one where they read alike.

    >>> _between(1.24, 3.3), _between(1.01, 1.04)
    ('1.2 to 3.3', '1.0')
    """
    return f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"


def _gain(case: DemoCase) -> float:
    """How many times the records fit into the same lanes before the fullest is full: before over after."""
    return case.trials[0].after_noon / (case.trials[case.chosen].after_noon or 1.0)


def _totals(trial: DemoTrial) -> list[int]:
    return [sum(row) for row in trial.cells]


def _drift(document: DemoFigures) -> Markup:
    words = texts("demo")["drift"]
    rows = [_drift_row(row) for row in document.drift]
    heads = (
        "Lanes",
        "Rule of thumb, 1 − n/m",
        "Keys that move",
        "",
        "Keys moved",
        "Formula",
        "Records of the day",
    )
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    return tag(
        "section",
        *_heading(words),
        tag("p", words["intro"].format(**dict(document)), class_="intro"),
        tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="drift"), class_="scroll", tabindex=0),
        id="drift",
    )


def _drift_row(row: LaneDrift) -> Markup:
    label = f"{percent(row.keys, 2)} of keys move; the rule of thumb says {percent(row.expected, 1)}"
    return tag(
        "tr",
        tag("th", f"{row.old} → {row.new}", scope="row"),
        tag("td", percent(row.expected)),
        tag("td", percent(row.keys, 2), tag("small", _times_expected(row)), class_="n"),
        tag("td", bar(row.keys, label, kind="before", mark=row.expected), class_="wide"),
        tag("td", count(row.moved)),
        tag("td", percent(row.formula, 2)),
        tag("td", percent(row.records, 2)),
    )


def _times_expected(row: LaneDrift) -> str:
    ratio = row.keys / row.expected
    return "as the rule says" if round(ratio, 1) == 1 else f"{ratio:.0f} times that"


def _how(document: DemoFigures) -> Markup:
    words = texts("demo")["how"]
    items = [join(tag("dt", title), tag("dd", text.format(**dict(document)))) for title, text in words["items"].items()]
    prints = [
        tag("li", f"{trial.name}.yaml ", tag("code", trial.fingerprint[:16]))
        for case in document.cases
        for trial in case.trials
    ]
    return tag(
        "section",
        *_heading(words),
        tag("dl", *items, class_="how"),
        tag("p", words["again"]),
        tag("pre", tag("code", "\n".join(_commands(document)))),
        tag("p", words["contracts"]),
        tag("ul", *prints, class_="prints"),
        id="how",
    )


def _commands(document: DemoFigures) -> list[str]:
    """What to ask next, in the folder of the page."""
    case = document.cases[0]
    chosen = f"contracts/{case.trials[case.chosen].name}.yaml"
    return [
        f"keylane demo --seed {document.seed} --scale {document.scale:g} --to again",
        f"keylane check contracts/{case.trials[0].name}.yaml --data source/{case.name}",
        f"keylane check {chosen} --data source/{case.name}",
        f"keylane route {chosen} --from source/{case.name} --to streams",
        "keylane aggregate verify aggregate/results",
        "keylane aggregate explain aggregate/results --lanes 64",
    ]


def _heading(words: Words) -> tuple[Markup, Markup]:
    return tag("p", words["title"], class_="eyebrow"), tag("h2", words["heading"])

"""The page of `keylane demo`, made from its figures: verdict first, then each stream, drift, and how."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from keylane.numbers import count, lanes, percent, times
from keylane.profile.document import masked
from keylane.report.html import Markup, join, page, tag, texts
from keylane.report.svg_charts import POWER, bar, lane_profile, legend, stacked

if TYPE_CHECKING:
    from keylane.documents.demo import DemoCase, DemoFigures, DemoTrial, LaneDrift, OrderKept, Parted

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
        tag("div", _map(at, 0, before, tag("p", tag("b", "Before"), before.title, class_="which")), class_="side"),
        tag("div", _map(at, case.chosen, case.trials[case.chosen], switch), class_="side"),
        legend(mean, max(cells), f"scale-{at}"),
        class_="maps",
    )


def _radio(at: int, i: int, *, checked: bool) -> Markup:
    return tag("input", type="radio", name=f"after-{at}", value=i, checked=checked)


def _map(at: int, i: int, trial: DemoTrial, head: Markup) -> Markup:
    """A heat map's place; the script draws into it, and rewrites its sentence when another contract is chosen."""
    hours = [tag("span", f"{hour:02}:00") for hour in (0, 6, 12, 18, 24)]
    return tag(
        "figure",
        head,
        tag(
            "div",
            tag("span", "lane 0", class_="first"),
            tag("span", class_="last"),
            tag("canvas", tabindex=0, role="img", aria_label=f"Lanes over time: {trial.title}"),
            tag("svg", class_="totals", aria_hidden="true", preserveAspectRatio="none"),
            tag("i", class_="noon", aria_hidden="true"),
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


def demo_page(document: DemoFigures, salt: bytes | None = None) -> str:
    """The whole file. `salt` goes into the hashes of keys; left out, it is drawn and forgotten."""
    salt = secrets.token_bytes(16) if salt is None else salt
    words = texts("demo")["page"]
    body = join(
        _top(document),
        tag(
            "main",
            *(case_section(case, i, salt) for i, case in enumerate(document.cases)),
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
                    }
                    for trial in case.trials
                ]
            }
            for case in document.cases
        ],
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
    ]


def _heading(words: Words) -> tuple[Markup, Markup]:
    return tag("p", words["title"], class_="eyebrow"), tag("h2", words["heading"])

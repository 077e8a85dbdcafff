"""The page of `keylane demo`, made from its figures as plain data: verdict first, then each stream, drift, and how."""

from __future__ import annotations

import secrets
from typing import Any

from keylane.report.case import case_section, order_line
from keylane.report.draw import POWER, bar, lane_profile
from keylane.report.markup import Markup, join, tag
from keylane.report.page import page, said
from keylane.report.words import count, percent, times

__all__ = ["demo_page"]

Document = dict[str, Any]


def demo_page(document: Document, salt: bytes | None = None) -> str:
    """The whole file. `salt` goes into the hashes of keys; left out, it is drawn and forgotten."""
    salt = secrets.token_bytes(16) if salt is None else salt
    words = said("demo")["page"]
    body = join(
        _top(document),
        tag(
            "main",
            *(case_section(case, i, salt) for i, case in enumerate(document["cases"])),
            _drift(document),
            _how(document),
        ),
        tag("div", id="tip", role="status", hidden=True),
        tag("noscript", tag("p", words["no_script"])),
    )
    return page(words["title"], body, _drawn(document), "demo")


def _drawn(document: Document) -> Document:
    """What the script draws: cells, and the words around them. Keys stay out."""
    return {
        "power": POWER,
        "cases": [
            {
                "trials": [
                    {
                        "title": trial["title"],
                        "cells": trial["cells"],
                        "maxOverMean": times(trial["max_over_mean"]),
                        "idle": trial["idle_lanes"],
                        "learned": trial["source"] == "morning",
                    }
                    for trial in case["trials"]
                ]
            }
            for case in document["cases"]
        ],
    }


def _top(document: Document) -> Markup:
    cases, words = document["cases"], said("demo")["page"]
    before = times(max(case["trials"][0]["after_noon"] for case in cases), 1)
    after = times(max(case["trials"][case["chosen"]]["after_noon"] for case in cases), 1)
    return tag(
        "header",
        tag("p", tag("b", "keylane"), " demo", class_="brand"),
        tag(
            "h1",
            "Same records, same lanes: the fullest lane held up to ",
            tag("em", before, class_="before"),
            " the mean, and now holds at most ",
            tag("em", after, class_="after"),
            ".",
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


def _sums(cases: list[Document]) -> dict[str, str]:
    unplaced = sum(trial["unplaced"] for case in cases for trial in case["trials"])
    return {
        "records": count(sum(case["records"] for case in cases)),
        "streams": count(len(cases)),
        "contracts": count(sum(len(case["trials"]) for case in cases)),
        "accounted": f"{count(unplaced)} placements found no lane." if unplaced else "Every one of them got a lane.",
    }


def _card(case: Document) -> Markup:
    words, before, after = said("demo")[case["name"]], case["trials"][0], case["trials"][case["chosen"]]
    return tag(
        "a",
        tag("h3", words["title"], tag("small", f"by {words['key']}")),
        tag(
            "p",
            tag("span", times(before["after_noon"], 1), class_="before"),
            tag("span", "→", class_="arrow", aria_label="to"),
            tag("span", times(after["after_noon"], 1), class_="after"),
            class_="big",
        ),
        tag("p", "fullest lane over mean lane, after noon", class_="unit"),
        lane_profile(_totals(before), _totals(after)),
        tag("p", tag("b", "Order "), order_line(after, words), class_="kept"),
        href=f"#{case['name']}",
        class_="card",
    )


def _totals(trial: Document) -> list[int]:
    return [sum(row) for row in trial["cells"]]


def _drift(document: Document) -> Markup:
    words = said("demo")["drift"]
    rows = [_drift_row(row) for row in document["drift"]]
    heads = ("Lanes", "Often expected", "Keys that really move", "", "Their number", "Formula", "Records of the day")
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    return tag(
        "section",
        *_heading(words),
        tag("p", words["intro"].format(**document), class_="intro"),
        tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="drift"), class_="scroll", tabindex=0),
        id="drift",
    )


def _drift_row(row: Document) -> Markup:
    label = f"{percent(row['keys'], 2)} of keys move, {percent(row['expected'], 1)} are often expected to"
    return tag(
        "tr",
        tag("th", f"{row['old']} → {row['new']}", scope="row"),
        tag("td", percent(row["expected"])),
        tag("td", percent(row["keys"], 2), tag("small", _times_expected(row)), class_="n"),
        tag("td", bar(row["keys"], label, kind="before", mark=row["expected"]), class_="wide"),
        tag("td", count(row["moved"])),
        tag("td", percent(row["formula"], 2)),
        tag("td", percent(row["records"], 2)),
    )


def _times_expected(row: Document) -> str:
    ratio = row["keys"] / row["expected"]
    return "as expected" if round(ratio, 1) == 1 else f"{ratio:.0f} times that"


def _how(document: Document) -> Markup:
    words = said("demo")["how"]
    items = [join(tag("dt", title), tag("dd", text.format(**document))) for title, text in words["items"].items()]
    prints = [
        tag("li", f"{trial['name']}.yaml ", tag("code", trial["fingerprint"][:16]))
        for case in document["cases"]
        for trial in case["trials"]
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


def _commands(document: Document) -> list[str]:
    """What to ask next, in the folder of the page."""
    case = document["cases"][0]
    chosen = f"contracts/{case['trials'][case['chosen']]['name']}.yaml"
    return [
        f"keylane demo --seed {document['seed']} --scale {document['scale']:g} --to again",
        f"keylane check contracts/{case['trials'][0]['name']}.yaml --data source/{case['name']}",
        f"keylane check {chosen} --data source/{case['name']}",
        f"keylane route {chosen} --from source/{case['name']} --to streams",
    ]


def _heading(words: Document) -> tuple[Markup, Markup]:
    return tag("p", words["title"], class_="eyebrow"), tag("h2", words["heading"])

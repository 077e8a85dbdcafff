"""The pages of `keylane plan --report` and `keylane profile --report`, from the documents those commands print.

The verdict comes first, then what it rests on. A section whose part of the document is null is left out. The sections:
`lanes`, `traffic`, `compared`, `balance`, `cost`; what they are built from: `parts`. Charts for notebooks: `charts`.
"""

from __future__ import annotations

from typing import Any

from keylane.report.balance import balance_section
from keylane.report.charts import lane_counts
from keylane.report.compared import strategies_section
from keylane.report.cost import change_line, change_section, folds_section, sizing_section
from keylane.report.lanes import lanes_section, maps_data
from keylane.report.markup import Markup, join, tag
from keylane.report.page import page
from keylane.report.parts import bullets, fact, facts, heading_of, intro_of, named, prose, section, sentence, words
from keylane.report.traffic import hot_section, keys_section, ranks_section
from keylane.report.words import count, share, times, visible

__all__ = ["plan_page", "profile_page"]

Document = dict[str, Any]


def plan_page(document: Document) -> str:
    """The whole file of a plan: a document of schema keylane.plan/1."""
    profile, over_time = document["profile"], document["over_time"]
    sides = {name: over_time[name] for name in ("before", "after") if over_time[name]}
    sections = {
        "lanes": lanes_section(sides, profile["windows"]),
        "ranks": ranks_section(profile, lane_counts(document), document["ceiling"]),
        "strategies": strategies_section(document),
        "before-after": balance_section(document),
        "hot": hot_section(profile),
        "keys": keys_section(profile, document["chosen"]["lanes"]),
        "change": change_section(document),
        "sizing": sizing_section(document),
        "folds": folds_section(document),
        "how": _how({**profile["how"], **document["how"]}, document["notes"], _prints(document)),
        "contract": _contract(document["contract"], document["chosen"]["overrides"]),
    }
    return _page("plan", profile, _plan_top(document), sections, maps_data(sides, profile["windows"]))


def profile_page(document: Document) -> str:
    """The whole file of a profile: a document of schema keylane.profile/1."""
    sides = {"seen": _observed(document["lanes"])} if document["lanes"] else {}
    lanes = document["lanes"]["count"] if document["lanes"] else None
    sections = {
        "lanes": lanes_section(sides, document["windows"]),
        "ranks": ranks_section(document, lane_counts(document)),
        "hot": hot_section(document),
        "keys": keys_section(document, lanes),
        "how": _how(document["how"], [], [("Profile", document["fingerprint"])]),
    }
    return _page("profile", document, _profile_top(document), sections, maps_data(sides, document["windows"]))


def _observed(lanes: Document) -> Document:
    cells = lanes["by_window"]
    return {"title": f"{count(len(cells))} lanes, as they are", "lanes": len(cells), "cells": cells}


def _page(kind: str, profile: Document, top: Markup, sections: dict[str, Markup | None], data: Document) -> str:
    found = {name: made for name, made in sections.items() if made is not None}
    links = [tag("a", heading_of(name), href=f"#{name}") for name in found]
    where = visible(f"{profile['source']} by {', '.join(profile['key'])}")
    body = join(
        tag("header", tag("p", tag("b", "keylane"), f" {kind} of ", tag("bdi", where), class_="brand"), top),
        tag("nav", *links, aria_label="Sections"),
        tag("main", *found.values()),
        tag("div", id="tip", role="status", hidden=True),
        tag("noscript", tag("p", words("page")["no_script"])),
    )
    return page(f"keylane {kind}: {where}", body, data, "plan", ("charts", "plan"), ("tip", "plan"))


def _plan_top(document: Document) -> Markup:
    cost = change_line(document["change"], changes=document["changes"])
    return join(
        tag("h1", *_headline(document)),
        tag("p", prose(document["verdict"]), class_="sub"),
        facts(
            fact(
                "Fullest lane, promised",
                times(document["chosen"]["max_over_mean"]),
                *_beside_promise(document),
                kind="after",
            ),
            fact("Lanes", count(document["chosen"]["lanes"]), *_beside_lanes(document)),
            fact("Order kept", named("order", document["chosen"]["order_scope"]), _order_says(document["chosen"])),
            fact("Cost of the change", *cost),
        ),
    )


def _headline(document: Document) -> list[str | Markup]:
    """What to do, and what it does to the fullest lane, in one sentence."""
    chosen, today = document["chosen"], document["today"]
    after = tag("em", times(chosen["max_over_mean"]), class_="after")
    what = f"{_capital(chosen['title'])}, on {_lanes(chosen['lanes'])}"
    if today is None:
        return [f"{what}: the fullest lane holds ", after, " the mean."]
    if not document["changes"]:
        return ["Keep today's contract: the fullest lane holds ", after, " the mean."]
    before = tag("em", times(today["max_over_mean"]), class_="before")
    return [f"{what}: the fullest lane goes from ", before, " to ", after, " the mean."]


def _capital(words_: str) -> str:
    return words_[:1].upper() + words_[1:]


def _lanes(number: int) -> str:
    return "1 lane" if number == 1 else f"{count(number)} lanes"


def _beside_promise(document: Document) -> list[str]:
    chosen, floor = document["chosen"], document["floor"].get(str(document["chosen"]["lanes"]))
    today = f"today {times(document['today']['max_over_mean'])}; " if document["today"] else ""
    least = f"; floor {times(floor['max_over_mean'])}" if floor else ""
    limit = document["constraints"]["max_over_mean"]
    missed = (
        [f"misses the {limit:g}× that was asked for"] if limit is not None and chosen["max_over_mean"] > limit else []
    )
    return [f"{today}on what was seen {times(chosen['fitted'])}{least}", *missed]


def _beside_lanes(document: Document) -> list[str]:
    chosen, today = document["chosen"], document["today"]
    tier = [f"and {count(chosen['tier_lanes'])} of a tier"] if chosen["tier_lanes"] else []
    if today is None:
        return tier
    same = today["lanes"] == chosen["lanes"]
    return [*tier, "as today" if same else f"today {count(today['lanes'])}"]


def _order_says(chosen: Document) -> str:
    where = "each key on one lane" if chosen["lanes_per_key"] == 1 else f"a key on up to {_lanes(_reach(chosen))}"
    return f"{where}; readers {'merge' if chosen['readers_merge'] else 'need not merge'}"


def _reach(one: Document) -> int:
    """Lanes that a key can be on; where nobody knows, all of them."""
    return int(one["lanes_per_key"] or one["lanes"])


def _profile_top(document: Document) -> Markup:
    heavy = document["heavy"][0] if document["heavy"] else None
    hot = document["hot"]
    headline = _hot_headline(hot) if hot else _keys_headline(document)
    verdict = tag("p", sentence(hot["verdict"]), class_="sub") if hot and hot["lanes"] else None
    without = sum(document["without_key"].values())
    return join(
        tag("h1", headline),
        verdict,
        facts(
            fact("Records", count(document["records"])),
            fact("Distinct keys", count(document["distinct_keys"])),
            fact("Heaviest key", share(heavy["share"]), "of the records") if heavy else None,
            fact("Without a key", count(without), "null, empty or unreadable"),
        ),
    )


def _hot_headline(hot: Document) -> str:
    """The fullest of the hot lanes and its cause; without one, what is said instead."""
    if not hot["lanes"]:
        return sentence(hot["verdict"])
    first, more = hot["lanes"][0], len(hot["lanes"]) - 1
    others = f", and {count(more)} more {'lane is' if more == 1 else 'lanes are'} hot" if more else ""
    return (
        f"Lane {first['lane']} holds {times(first['over_mean'])} the mean: {named('causes', first['cause'])}{others}."
    )


def _keys_headline(document: Document) -> str:
    if not document["heavy"]:
        return "No record has a key."
    top = document["heavy"][0]["share"]
    return f"The heaviest of {count(document['distinct_keys'])} keys has {share(top)} of the records."


def _prints(document: Document) -> list[tuple[str, str]]:
    found = [("Profile", document["profile"]["fingerprint"]), ("Chosen contract", document["contract_fingerprint"])]
    return [*found, *([("Today's contract", document["today"]["fingerprint"])] if document["today"] else [])]


def _how(how: dict[str, str], notes: list[str], prints: list[tuple[str, str]]) -> Markup:
    """How figures were obtained: in the document's words, then in the page's own; then the fingerprints."""
    said = {**{_capital(named("figures", name)): sentence(text) for name, text in how.items()}, **words("own")}
    items = [join(tag("dt", title), tag("dd", text)) for title, text in said.items()]
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
    """The contract to copy. It has to name keys as they are, so whoever shows the page to others is told."""
    if not text:
        return None
    intro = intro_of("contract")
    warning = f" It names {count(overrides)} keys as they are: mind who gets this page." if overrides else ""
    copy = tag("button", "Copy", type="button", class_="copy", data_copies="contract-text")
    shown = tag("pre", tag("code", text, id="contract-text"), tabindex=0)
    return section("contract", f"{intro}{warning}", tag("div", copy, shown, class_="copied"))

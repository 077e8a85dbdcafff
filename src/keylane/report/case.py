"""The part of the demo's page that is about one stream: its lanes over time, its contracts, hot keys, order."""

from __future__ import annotations

from typing import Any, Final

from keylane.measure.masking import masked
from keylane.report.draw import bar, legend, stacked
from keylane.report.markup import Markup, join, tag
from keylane.report.page import said
from keylane.report.words import count, lanes, percent, times

__all__ = ["case_section", "facts", "order_line"]

Case = dict[str, Any]
#: What a stream's things are called: a part of `assets/demo.toml`.
Words = dict[str, str]

#: Classes of the order scopes: from kept to given up.
KINDS: Final = {"per-key": "kept", "per-key-and-window": "window", "per-sub-key": "sub", "none": "none"}


def case_section(case: Case, at: int, salt: bytes) -> Markup:
    """Everything about one stream."""
    words = said("demo")[case["name"]]
    return tag(
        "section",
        tag("p", words["title"], class_="eyebrow"),
        tag("h2", words["heading"]),
        tag("p", words["intro"].format(**facts(case)), class_="intro"),
        _maps(case, at),
        _contracts(case, words),
        tag("div", _hot_keys(case, words, salt), _order(case, words), class_="pair"),
        id=case["name"],
    )


def facts(case: Case) -> dict[str, str]:
    """Figures that an introduction may name: of the heaviest key, of the first contract, and of the second."""
    top, first, second = case["hot_keys"][0], case["trials"][0], case["trials"][1]
    parted = second["sub_keys"] or second["keys"]
    return {
        "keys": count(case["distinct_keys"]),
        "top_share": percent(top["share"]),
        "top_lanes": f"{top['mean_lanes']:.1f}",
        "weakest_keys": count(_weakest(case["trials"][case["chosen"]])["keys"]),
        "lanes": count(first["lanes"]),
        "reached": count(first["lanes"] - first["idle_lanes"]),
        "idle": count(first["idle_lanes"]),
        "parted": count(parted["parted"]),
        "groups": count(parted["groups"]),
        "moved": percent(second["moved"], 0),
        "fullest_share": percent(second["fullest_share"]),
    }


def _maps(case: Case, at: int) -> Markup:
    before, others = case["trials"][0], list(enumerate(case["trials"]))[1:]
    cells = [cell for trial in case["trials"] for row in trial["cells"] for cell in row]
    mean = before["records"] / sum(len(row) for row in before["cells"])
    buttons = [
        tag("label", _radio(at, i, checked=i == case["chosen"]), tag("span", trial["title"])) for i, trial in others
    ]
    switch = tag("fieldset", tag("legend", "After"), *buttons, class_="switch")
    return tag(
        "div",
        tag("div", _map(at, 0, before, tag("p", tag("b", "Before"), before["title"], class_="which")), class_="side"),
        tag("div", _map(at, case["chosen"], case["trials"][case["chosen"]], switch), class_="side"),
        legend(mean, max(cells), f"scale-{at}"),
        class_="maps",
    )


def _radio(at: int, i: int, *, checked: bool) -> Markup:
    return tag("input", type="radio", name=f"after-{at}", value=i, checked=checked)


def _map(at: int, i: int, trial: dict[str, Any], head: Markup) -> Markup:
    """A heat map's place; the script draws into it, and writes its sentence anew when another contract is chosen."""
    hours = [tag("span", f"{hour:02}:00") for hour in (0, 6, 12, 18, 24)]
    return tag(
        "figure",
        head,
        tag(
            "div",
            tag("span", "lane 0", class_="first"),
            tag("span", class_="last"),
            tag("canvas", tabindex=0, role="img", aria_label=f"Lanes over time: {trial['title']}"),
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


def _contracts(case: Case, words: Words) -> Markup:
    worst = max(max(trial["before_noon"], trial["after_noon"]) for trial in case["trials"])
    fullness = ("Fullest lane, before noon", "Fullest lane, after noon", "Fullest half hour")
    heads = ("Contract", "Rules", *fullness, "Idle lanes", "Records on a new lane", "Order")
    rows = [
        _contract_row(trial, worst, chosen=i == case["chosen"], words=words) for i, trial in enumerate(case["trials"])
    ]
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="scroll", tabindex=0)


def _contract_row(trial: dict[str, Any], worst: float, *, chosen: bool, words: Words) -> Markup:
    learned = trial["source"] == "morning"
    name = join(tag("b", trial["title"]), tag("small", f"{trial['name']}.yaml · {trial['lanes']} lanes"))
    kind = "after" if chosen else "before" if trial["name"].endswith("naive") else "other"
    return tag(
        "tr",
        tag("th", name, scope="row", class_="name"),
        tag("td", said("demo")["sources"][trial["source"]]),
        _fullness(trial["before_noon"], worst, kind, "in sample" if learned else ""),
        _fullness(trial["after_noon"], worst, kind, "out of sample" if learned else ""),
        tag("td", times(trial["fullest_half_hour"], 1), class_="n"),
        tag("td", count(trial["idle_lanes"]), class_="n"),
        tag("td", percent(trial["moved"]) if trial["moved"] else "–", class_="n"),
        tag("td", order_line(trial, words)),
        class_="chosen" if chosen else None,
    )


def _fullness(value: float, worst: float, kind: str, sample: str) -> Markup:
    note = tag("small", sample) if sample else None
    return tag("td", tag("span", times(value), class_="n"), bar(value / worst, times(value), kind=kind), note)


def _hot_keys(case: Case, words: Words, salt: bytes) -> Markup:
    heaviest = case["hot_keys"][0]["share"]
    rows = [
        tag(
            "tr",
            tag("th", masked(hot["key"], salt) if case["private"] else hot["key"], scope="row", class_="key"),
            tag("td", percent(hot["share"]), class_="n"),
            tag("td", bar(hot["share"] / heaviest, f"{hot['mean_lanes']:.1f} mean lanes", kind="heat"), class_="wide"),
            tag("td", lanes(hot["before"])),
            tag("td", lanes(hot["after"])),
        )
        for hot in case["hot_keys"]
    ]
    heads = (("Share", None), ("", "wide"), ("Lane before", None), ("Lanes after", None))
    cells = [tag("th", text, scope="col", class_=kind) for text, kind in ((words["key"].capitalize(), None), *heads)]
    head = tag("tr", *cells)
    title = tag("h3", f"The heaviest {words['keys']}")
    return tag("div", title, tag("table", tag("thead", head), tag("tbody", *rows), class_="keys"))


def _order(case: Case, words: Words) -> Markup:
    """Order kept or given up: the contract's own answer as a bar, and what the data says beside it."""
    rows = [_order_row(trial, words) for trial in case["trials"]]
    return tag("div", tag("h3", "Order kept, and given up"), tag("dl", *rows, class_="order"))


def _order_row(trial: dict[str, Any], words: Words) -> Markup:
    parts = [(scope["share"], KINDS[scope["order_scope"]]) for scope in trial["order"]]
    line = order_line(trial, words)
    seen = f"seen on more than one lane: {_seen(trial['keys'], words['keys'])}"
    if trial["sub_keys"]:
        seen += f"; {_seen(trial['sub_keys'], words['sub_keys'])}"
    return join(
        tag("dt", trial["title"]),
        tag("dd", stacked(parts, line), tag("span", line), tag("small", seen)),
    )


def _seen(parted: dict[str, int], what: str) -> str:
    return f"{count(parted['parted'])} of {count(parted['groups'])} {what}"


def _weakest(trial: dict[str, Any]) -> dict[str, Any]:
    scopes: list[dict[str, Any]] = trial["order"]
    return max(scopes, key=lambda scope: list(KINDS).index(scope["order_scope"]))


def order_line(trial: dict[str, Any], words: Words) -> str:
    """What is kept in order under a contract, in one line, from its own answers."""
    weakest = _weakest(trial)
    if weakest["order_scope"] == "per-key":
        return f"kept for every {words['key']}"
    units = {"per-sub-key": words["sub_key"], "per-key-and-window": f"{words['key']} and minute", "none": "nothing"}
    unit = units[weakest["order_scope"]]
    if len(trial["order"]) == 1:
        return f"kept per {unit}, given up per {words['key']}"
    some = f"{count(weakest['keys'])} of them ({percent(weakest['share'])} of records)"
    return f"kept per {words['key']}; for {some} per {unit} only"

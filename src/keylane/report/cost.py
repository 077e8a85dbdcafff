"""What a change costs and whether it holds: keys and traffic moved, lanes that wait, lane counts by reason, folds."""

from __future__ import annotations

from typing import Any

from keylane.report.draw import bar
from keylane.report.markup import Markup, join, tag
from keylane.report.matrix import waits_for
from keylane.report.parts import aside, bullets, fact, facts, intro_of, named, read_by_keys, section, sentence, table
from keylane.report.when import edge_name
from keylane.report.words import count, lanes, percent, times

__all__ = ["change_line", "change_section", "folds_section", "sizing_section"]

Document = dict[str, Any]
#: Up to so many lanes, what each waits for is also written out.
MOST_LISTED = 128


def change_line(change: Document | None, *, changes: bool) -> tuple[str, str]:
    """The cost of the change in a figure and a line."""
    if change is None:
        return "not compared", "there is no contract of today"
    if not changes:
        return "nothing", "the contract stays as it is"
    care = len(_care(change))
    also = f"; {count(care)} {'thing' if care == 1 else 'things'} to see to" if care else ""
    return (
        f"{percent(change['moved_traffic'])} moves",
        f"of the traffic, {percent(change['moved_keys'])} of the keys{also}",
    )


def change_section(document: Document) -> Markup | None:
    """Shares that move, what breaks, and which old lanes each new lane waits for; None where nothing changes."""
    change = document["change"]
    if change is None or not document["changes"]:
        return None
    return section(
        "change",
        None if change["possible"] else "This change cannot be made in place.",
        facts(
            fact("Keys moved", percent(change["moved_keys"]), _expected(change["expected"])),
            fact("Traffic moved", percent(change["moved_traffic"]), "weighed with the records of each key"),
            *_waiting(change),
        ),
        tag("div", _broken(_care(change)), _waits(change), class_="pair"),
    )


def _expected(expected: float | None) -> str | None:
    return None if expected is None else f"{percent(expected)} by the formula for hashed keys"


def _waiting(change: Document) -> list[Markup]:
    if change["fan_in"] is None:
        return []
    waits = [len(row["for"]) for row in change["waits_for"] or []]
    mean = f"; {sum(waits) / len(waits):.1f} in the mean" if waits else ""
    return [
        fact(
            "A new lane waits for at most", count(change["fan_in"]), f"of {count(change['old_lanes'])} old lanes{mean}"
        )
    ]


def _care(change: Document) -> list[tuple[str, str]]:
    """What breaks or needs care: a kind and a sentence each. What is safe is none of it."""
    kinds = [(named("kinds", one["kind"]), one["message"]) for one in change["kinds"] if one["kind"] != "safe"]
    epoch = change["epoch_to_raise"]
    raised = [("Epoch", f"the new contract has epoch {epoch}")] if epoch is not None else []
    return [*kinds, *(("To see to", says) for says in change["says"]), *raised]


def _broken(care: list[tuple[str, str]]) -> Markup | None:
    if not care:
        return None
    rows = [join(tag("dt", kind), tag("dd", sentence(message))) for kind, message in care]
    return aside("What breaks, or needs care", tag("dl", *rows, class_="kinds"))


def _waits(change: Document) -> Markup | None:
    """The picture of what waits for what; a document leaves it out where every lane waits for very many."""
    parents = [row["for"] for row in change["waits_for"] or []]
    if not any(parents):
        return None
    drawn = tag("div", read_by_keys(waits_for(parents, change["old_lanes"])), class_="chart square")
    return tag("figure", tag("h3", "Old lanes that a new lane waits for"), drawn, _listed(parents))


def _listed(parents: list[list[int]]) -> Markup | None:
    if len(parents) > MOST_LISTED:
        return None
    items = [
        tag("li", tag("b", f"{lane} "), f"waits for {lanes(old, 40) or 'none'}") for lane, old in enumerate(parents)
    ]
    return tag("details", tag("summary", "As a list"), tag("ul", *items, class_="waits"))


def sizing_section(document: Document) -> Markup | None:
    """Lane counts by each reason as bars, what they come to, and what was assumed."""
    sizing = document["sizing"]
    if sizing is None:
        return None
    return section(
        "sizing",
        None,
        facts(*_sized(sizing)),
        _reasons(sizing, document["chosen"]["lanes"]) if sizing["reasons"] else None,
        bullets([sentence(line) for line in sizing["says"]], "says"),
    )


def _sized(sizing: Document) -> list[Markup]:
    """The figures of a sizing that there are."""
    shown = (
        ("Fewest lanes", "fewest", count, "that carry it"),
        ("Suggested", "lanes", count, "so that doublings move the fewest keys"),
        ("Fullest lane", "fullest_lane_mb_s", _rate, "at the peak"),
        ("Readers of use", "useful_readers", count, "side by side"),
        ("Faster than one reader", "parallelism", times, "held up by the fullest lane"),
    )
    return [fact(title, form(sizing[name]), note) for title, name, form, note in shown if sizing[name] is not None]


def _rate(value: float) -> str:
    return f"{value:.1f} MB/s"


def _reasons(sizing: Document, chosen: int) -> Markup:
    most = max([chosen, *(row["lanes"] or 0 for row in sizing["reasons"])])
    heads = ("Reason", tag("th", "Lanes", scope="col", class_="n"), f"Mark: the {count(chosen)} chosen", "Because")
    rows = (_reason(row, most, chosen, decides=row["reason"] == sizing["binding"]) for row in sizing["reasons"])
    return table(heads, rows, "Lanes by each reason", "reasons")


def _reason(row: Document, most: int, chosen: int, *, decides: bool) -> Markup:
    found = "none is enough" if row["lanes"] is None else count(row["lanes"])
    drawn = bar((row["lanes"] or most) / most, f"lanes: {found}", kind="after", mark=chosen / most)
    return tag(
        "tr",
        tag("th", named("reasons", row["reason"]), tag("small", "decides") if decides else None, scope="row"),
        tag("td", found, class_="n"),
        tag("td", drawn, class_="wide"),
        tag("td", sentence(row["says"]), class_="long"),
    )


def folds_section(document: Document) -> Markup | None:
    """Each cut in time: fitted before it, scored after it; the one that the promise is from is marked."""
    folds, windows = document["folds"], document["profile"]["windows"]
    if not folds:
        return None
    most = max(max(fold["fitted"], fold["scored"]) for fold in folds)
    promise = document["chosen"]["max_over_mean"]
    right = [tag("th", title, scope="col", class_="n") for title in ("Fitted", "Scored")]
    heads = ("Fitted until", "Scored until", *right, f"From fitted to scored, 1× to {times(most)}")
    rows = (_fold(fold, windows, most, promised=fold["scored"] == promise) for fold in folds)
    return section("folds", intro_of("folds"), table(heads, rows, "Folds", "folds"))


def _fold(fold: Document, windows: Document, most: float, *, promised: bool) -> Markup:
    says = f"fitted {times(fold['fitted'])}, scored {times(fold['scored'])}"
    cut, end = (edge_name(fold[name], windows) for name in ("fitted_until", "scored_until"))
    what = "record " if windows["kind"] == "position" else ""
    return tag(
        "tr",
        tag("th", f"{what}{cut}", tag("small", "what is promised") if promised else None, scope="row"),
        tag("td", f"{what}{end}"),
        tag("td", times(fold["fitted"]), class_="n"),
        tag("td", times(fold["scored"]), class_="n"),
        tag("td", _from_to(fold["fitted"], fold["scored"], most, says), class_="wide"),
    )


def _from_to(fitted: float, scored: float, most: float, says: str) -> Markup:
    """A line from the hollow dot of what was fitted to the full one of what held, from 1 to the worst of all folds."""
    start, end = (f"{4 + 92 * (value - 1) / (most - 1 or 1):.2f}%" for value in (fitted, scored))
    return tag(
        "svg",
        tag("title", says),
        tag("line", x1=start, x2=end, y1="50%", y2="50%", class_="way"),
        tag("circle", cx=start, cy="50%", r="4", class_="fitted"),
        tag("circle", cx=end, cy="50%", r="5", class_="scored"),
        class_="from-to",
        role="img",
        aria_label=says,
    )

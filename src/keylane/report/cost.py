"""What a change costs and whether it holds: keys and traffic moved, lanes that wait, lane counts by reason, folds."""

from __future__ import annotations

from typing import Any

from keylane.report.draw import bar
from keylane.report.markup import Markup, join, tag
from keylane.report.matrix import waits_for
from keylane.report.parts import aside, bullets, fact, facts, intro_of, named, section, table
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
    broken = len(change["kinds"])
    also = f"; {count(broken)} things to see to" if broken > 1 else "; 1 thing to see to" if broken else ""
    return (
        f"{percent(change['moved_traffic'])} moves",
        f"of the traffic, {percent(change['moved_keys'])} of the keys{also}",
    )


def change_section(document: Document) -> Markup | None:
    """Shares that move, what breaks, and which old lanes each new lane waits for; None without a contract of today."""
    change = document["change"]
    if change is None:
        return None
    return section(
        "change",
        " ".join(change["says"]) or None,
        facts(
            fact("Keys moved", percent(change["moved_keys"]), _expected(change["expected"])),
            fact("Traffic moved", percent(change["moved_traffic"]), "weighed with the records of each key"),
            *_waiting(change["waits_for"]),
        ),
        tag("div", _broken(change["kinds"]), _waits(document), class_="pair"),
    )


def _expected(expected: float | None) -> str | None:
    return None if expected is None else f"{percent(expected)} from the lane counts alone"


def _waiting(rows: list[Document]) -> list[Markup]:
    if not rows:
        return []
    waits = [len(row["for"]) for row in rows]
    span = count(waits[0]) if min(waits) == max(waits) else f"{count(min(waits))} to {count(max(waits))}"
    return [fact("A new lane waits for", span, f"old lanes; {sum(waits) / len(waits):.1f} in the mean")]


def _broken(kinds: list[Document]) -> Markup | None:
    if not kinds:
        return None
    rows = [join(tag("dt", named("kinds", one["kind"])), tag("dd", one["message"])) for one in kinds]
    return aside("What breaks, or needs care", tag("dl", *rows, class_="kinds"))


def _waits(document: Document) -> Markup | None:
    rows = document["change"]["waits_for"]
    if not any(row["for"] for row in rows):
        return None
    old = document["today"]["lanes"] if document["today"] else 1 + max(lane for row in rows for lane in row["for"])
    drawn = tag("div", tag("div", waits_for(rows, old), tabindex=0), class_="chart square")
    return tag("figure", tag("h3", "Old lanes that a new lane waits for"), drawn, _listed(rows))


def _listed(rows: list[Document]) -> Markup | None:
    if len(rows) > MOST_LISTED:
        return None
    items = [tag("li", tag("b", f"{row['lane']} "), f"waits for {lanes(row['for'], 40) or 'none'}") for row in rows]
    return tag("details", tag("summary", "As a list"), tag("ul", *items, class_="waits"))


def sizing_section(document: Document) -> Markup | None:
    """Lane counts by each reason as bars; whatever else the document says of it as figures."""
    sizing = document["sizing"]
    if not sizing:
        return None
    reasons = sizing.get("reasons") or []
    others = {name: value for name, value in sizing.items() if name not in ("reasons", "says") and _plain(value)}
    rows = [
        fact(_title(name), f"{value:,}" if isinstance(value, int) else str(value)) for name, value in others.items()
    ]
    return section(
        "sizing",
        None,
        facts(*rows) if rows else None,
        _reasons(reasons, document["chosen"]["lanes"]) if reasons else None,
        bullets(sizing.get("says") or [], "says"),
    )


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _title(name: str) -> str:
    return named("figures", name).capitalize()


def _reasons(reasons: list[Document], chosen: int) -> Markup:
    most = max([chosen, *(row["lanes"] for row in reasons)])
    heads = ("Reason", tag("th", "Lanes", scope="col", class_="n"), f"Mark: the {count(chosen)} chosen", "Because")
    return table(heads, (_reason(row, most, chosen) for row in reasons), "Lanes by each reason", "reasons")


def _reason(row: Document, most: int, chosen: int) -> Markup:
    drawn = bar(row["lanes"] / most, f"{count(row['lanes'])} lanes", kind="after", mark=chosen / most)
    return tag(
        "tr",
        tag("th", row["reason"], scope="row"),
        tag("td", count(row["lanes"]), class_="n"),
        tag("td", drawn, class_="wide"),
        tag("td", row.get("says") or "", class_="long"),
    )


def folds_section(document: Document) -> Markup | None:
    """Each cut in time: fitted before it, scored after it."""
    folds = document["folds"]
    if not folds:
        return None
    windows = document["profile"]["windows"]
    most = max(max(fold["fitted"], fold["scored"]) for fold in folds)
    right = [tag("th", title, scope="col", class_="n") for title in ("Fitted", "Scored")]
    heads = ("Fitted until", "Scored until", *right, f"From fitted to scored, 1× to {times(most)}")
    return section(
        "folds", intro_of("folds"), table(heads, (_fold(fold, windows, most) for fold in folds), "Folds", "folds")
    )


def _fold(fold: Document, windows: Document, most: float) -> Markup:
    says = f"fitted {times(fold['fitted'])}, scored {times(fold['scored'])}"
    return tag(
        "tr",
        tag("th", edge_name(fold["fitted_until"], windows), scope="row"),
        tag("td", edge_name(fold["scored_until"], windows)),
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

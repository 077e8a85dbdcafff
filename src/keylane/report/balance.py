"""Before and after: the same figures of both sides with what bounds them from below, and the lanes by load."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from keylane.measure.balance import max_over_mean
from keylane.report.curves import lane_loads
from keylane.report.markup import Markup, tag
from keylane.report.parts import chart, intro_of, section, side_title, table
from keylane.report.words import count, percent, times

if TYPE_CHECKING:
    from keylane.report.markup import Child

__all__ = ["balance_section"]

Document = dict[str, Any]
Side = dict[str, Any]


def balance_section(document: Document) -> Markup:
    """The table of figures, and one chart of lanes for each side on one scale."""
    over_time = document["over_time"]
    sides = {name: over_time[name] for name in ("before", "after") if over_time[name]}
    top = max(max_over_mean(side["totals"]) for side in sides.values())
    loads = [_loads(name, sides, top) for name in sides]
    return section(
        "before-after",
        intro_of("before-after", "intro" if "before" in sides else "intro_alone"),
        _table(document),
        tag("div", *loads, class_=f"pair of-{len(loads)}"),
    )


def _loads(name: str, sides: dict[str, Side], top: float) -> Markup:
    caption = tag("figcaption", side_title(name, sides[name], alone=len(sides) == 1), class_="which")
    return tag("figure", caption, chart(partial(_drawn, sides[name]["totals"], name, top)))


def _drawn(totals: list[int], kind: str, top: float, width: int) -> Markup:
    return lane_loads(totals, kind, width, top)


def _table(document: Document) -> Markup:
    rows = {"before": document["today"], "after": document["chosen"]}
    found = {name: row for name, row in rows.items() if row is not None}
    names = {"before": "Today", "after": "Chosen"}
    heads = ("", *(tag("th", names[name], scope="col", class_=f"n {name}") for name in found), "Read it with")
    figures = (
        ("Fullest lane, out of sample", "max_over_mean", times, _asked(document)),
        ("Fullest lane, all that was seen", "fitted", times, _floor(document)),
        ("CV of the lanes", "cv", percent, _cv_floors(document)),
        ("Fullest lane in its worst window", "worst_window", times, ""),
        ("Idle lanes", "idle_lanes", count, ""),
        ("Lanes", "lanes", count, ""),
    )
    made = (_row(title, [form(row[name]) for row in found.values()], note) for title, name, form, note in figures)
    return table(heads, made, "Before and after", "figures")


def _row(title: str, values: list[str], note: Child) -> Markup:
    cells = [tag("td", value, class_="n") for value in values]
    return tag("tr", tag("th", title, scope="row"), *cells, tag("td", note, class_="note"))


def _asked(document: Document) -> str:
    limit = document["constraints"]["max_over_mean"]
    return f"what is promised; asked for: at most {limit:g}×" if limit is not None else "what is promised"


def _bounds(document: Document) -> Document:
    found: Document = document["floor"].get(str(document["chosen"]["lanes"]), {})
    return found


def _floor(document: Document) -> str:
    bounds = _bounds(document)
    if not bounds:
        return ""
    return f"floor {times(bounds['max_over_mean'])}: no placement with one lane a key goes below"


def _cv_floors(document: Document) -> str:
    bounds = _bounds(document)
    if not bounds:
        return ""
    least = bounds["cv"] if bounds["cv"] > 1e-9 else 0.0  # what rounding leaves of nothing is nothing
    return f"floor {percent(least)}; noise of the sample {percent(bounds['noise_cv'])}"

"""Candidates as dots: how full the fullest lane gets, against what is kept in order. One row a strategy."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, Final

from keylane.report.axes import NARROW, Box, Scale, drawing, mark, spaced, steps, text
from keylane.report.markup import Markup, join, tag
from keylane.report.words import count, percent, times

__all__ = ["ORDER", "TODAY", "candidate_says", "strategies"]

#: What is kept in order, strongest first.
ORDER: Final = {
    "per-key": "order kept per key",
    "per-key-and-window": "order kept per key and window",
    "per-sub-key": "order kept per sub-key",
    "none": "no order kept",
}
#: The strategy of a contract as it stands; its mark is another one than that of candidates.
TODAY: Final = "today"
Candidate = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A strategy with its candidates, and where it is drawn."""

    name: str
    y: float
    candidates: list[Candidate]
    chosen: bool


def strategies(document: dict[str, Any], width: int = 820) -> Markup:
    """Every candidate: its order scope and strategy from top to bottom, max/mean from left to right."""
    found = [one for one in document["candidates"] if one["max_over_mean"] is not None]
    narrow = width <= NARROW
    rows, heads, bottom = _laid_out(found, document["chosen"]["strategy"], narrow=narrow)
    box = Box(12 if narrow else 150, 18, width - 18, bottom)
    x = Scale(1, max(1.1, *(one["max_over_mean"] for one in found)) * 1.04, box.left, box.right, log=True)
    label = f"{count(len(found))} candidates: max/mean against what is kept in order. The table below says the same."
    return drawing(
        label,
        width,
        bottom + (68 if narrow else 48),
        *_grid(box, x),
        *(text(ORDER.get(scope, scope), 0, y, kind="scope said") for scope, y in heads),
        _limits(document, box, x),
        *(_row(row, box, x, _sizes(found), narrow=narrow) for row in rows),
        _today(document, rows, x),
        _chosen(document, rows, x, _sizes(found)),
        _key(found, bottom + (58 if narrow else 36)),
        kind="strategies",
    )


def _laid_out(found: list[Candidate], chosen: str, *, narrow: bool) -> tuple[list[Row], list[tuple[str, float]], float]:
    """Rows under the headings of their order scopes; of a scope, the strategy with the best candidate first.

    The chosen strategy has room for a line above its dots.
    """
    rows, heads, y = [], [], 16.0
    for scope in [*ORDER, *sorted({one["order_scope"] for one in found} - set(ORDER))]:
        inside = [one for one in found if one["order_scope"] == scope]
        if inside:
            heads.append((scope, y + 20))
            y += 26
        for name in sorted({one["strategy"] for one in inside}, key=lambda name: (_best(inside, name), name)):
            y += (40 if narrow else 27) + (19 if name == chosen else 0)
            rows.append(Row(name, y - 13, [one for one in inside if one["strategy"] == name], name == chosen))
        y += 10 if inside else 0
    return rows, heads, y


def _best(candidates: list[Candidate], name: str) -> float:
    return min(float(one["max_over_mean"]) for one in candidates if one["strategy"] == name)


def _grid(box: Box, x: Scale) -> list[Markup]:
    values = steps(1, x.high, 9 if box.right - box.left > 400 else 5)
    labelled = spaced([x.at(value) for value in values], 30)
    lines = []
    for value, said in zip(values, labelled, strict=True):
        at = f"{x.at(value):g}"
        lines.append(tag("line", x1=at, x2=at, y1=f"{box.top:g}", y2=f"{box.bottom:g}", class_="grid"))
        if said:
            lines.append(text(f"{value:g}×", x.at(value), box.bottom + 17, anchor="middle"))
    return [*lines, text("fullest lane over the mean, out of sample", box.right, box.bottom + 36, anchor="end")]


def _limits(document: dict[str, Any], box: Box, x: Scale) -> Markup | None:
    """The fullest lane that was asked for, as a line: what is left of it keeps the constraint."""
    limit = document["constraints"]["max_over_mean"]
    if limit is None or limit > x.high:
        return None
    at = f"{x.at(limit):g}"
    line = tag("line", x1=at, x2=at, y1=f"{box.top:g}", y2=f"{box.bottom:g}", class_="limit")
    return join(line, text(f"asked: {limit:g}×", x.at(limit), box.top - 6, kind="said", anchor="middle"))


def _row(row: Row, box: Box, x: Scale, sizes: dict[int, float], *, narrow: bool) -> Markup:
    refused = not any(one["allowed"] for one in row.candidates)
    name = (0, row.y - (32 if row.chosen else 14), "start") if narrow else (box.left - 14, row.y + 4, "end")
    ends = [x.at(one["max_over_mean"]) for one in row.candidates]
    line = tag("line", x1=f"{min(ends):g}", x2=f"{max(ends):g}", y1=f"{row.y:g}", y2=f"{row.y:g}", class_="span")
    ordered = sorted(row.candidates, key=lambda one: -int(one["lanes"]))
    drawn = [one for one in ordered if one["strategy"] != TODAY]
    dots = [_dot(one, x.at(one["max_over_mean"]), row.y, sizes[one["lanes"]]) for one in drawn]
    label = text(row.name, name[0], name[1], kind="said name refused" if refused else "said name", anchor=name[2])
    return tag("g", label, line, *dots)


def _dot(one: Candidate, x: float, y: float, radius: float) -> Markup:
    circle = tag("circle", cx=f"{x:g}", cy=f"{y:g}", r=f"{radius:g}")
    return mark(candidate_says(one), circle, kind="dot" if one["allowed"] else "dot refused", data_lanes=one["lanes"])


def candidate_says(one: Candidate) -> str:
    """A candidate in a few lines: what it is, how full, what it moves, and why it is refused."""
    lines = [
        f"{one['strategy']}, {count(one['lanes'])} lanes",
        f"fullest lane {times(one['max_over_mean'])} out of sample, {times(one['fitted'])} on what was seen",
    ]
    if one["moved_traffic"] is not None:
        lines.append(f"moves {percent(one['moved_traffic'])} of the traffic")
    if not one["allowed"]:
        lines.append(f"refused: {one['because'] or 'it breaks a constraint'}")
    return "\n".join(lines)


def _sizes(found: list[Candidate]) -> dict[int, float]:
    """Radius by lane count: each doubling adds the same."""
    lanes = sorted({one["lanes"] for one in found})
    width = log(lanes[-1] / lanes[0]) or 1
    return {n: round(4 + 5 * log(n / lanes[0]) / width, 1) if len(lanes) > 1 else 6 for n in lanes}


def _today(document: dict[str, Any], rows: list[Row], x: Scale) -> Markup | None:
    today = document["today"]
    row = next((row for row in rows if today and row.name == today["strategy"]), None)
    if row is None:
        return None
    at, y = x.at(today["max_over_mean"]), row.y
    says = f"today, {count(today['lanes'])} lanes\nfullest lane {times(today['max_over_mean'])} out of sample"
    diamond = tag("path", d=f"M{at:g} {y - 9:g}l9 9l-9 9l-9 -9Z")
    return mark(says, diamond, kind="today")


def _chosen(document: dict[str, Any], rows: list[Row], x: Scale, sizes: dict[int, float]) -> Markup | None:
    chosen = document["chosen"]
    row = next((row for row in rows if row.name == chosen["strategy"]), None)
    if row is None:
        return None
    at, radius = x.at(chosen["max_over_mean"]), sizes.get(chosen["lanes"], 6) + 3.5
    ring = tag("circle", cx=f"{at:g}", cy=f"{row.y:g}", r=f"{radius:g}", class_="ring")
    words = f"chosen: {count(chosen['lanes'])} lanes, {times(chosen['max_over_mean'])}"
    left = at > (x.start + x.end) / 2
    place = (at + radius, "end") if left else (at - radius, "start")
    label = text(words, place[0], row.y - radius - 5, kind="said strong", anchor=place[1])
    return tag("g", ring, label, class_="chosen")


def _key(found: list[Candidate], y: float) -> Markup:
    """What the size of a dot means, and its look."""
    x, parts = 40.0, [text("lanes", 0, y + 4)]
    for lanes, radius in _thinned(_sizes(found)):
        parts.append(tag("circle", cx=f"{x + radius:g}", cy=f"{y:g}", r=f"{radius:g}", class_="sample"))
        parts.append(text(count(lanes), x + 2 * radius + 4, y + 4))
        x += 2 * radius + 14 + 7 * len(count(lanes))
    return tag("g", *parts, class_="key")


def _thinned(sizes: dict[int, float]) -> list[tuple[int, float]]:
    found = list(sizes.items())
    return found if len(found) <= 5 else [found[0], found[len(found) // 2], found[-1]]

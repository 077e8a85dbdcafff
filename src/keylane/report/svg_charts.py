"""Charts as SVG: scales, ticks and frames, and the curves, bars, dots and tables that are drawn in them.

Colours and fonts are classes of `assets/charts.css`. Lanes over time: `heatmap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log, log10
from typing import TYPE_CHECKING, Final

from keylane.measure.balance import max_over_mean
from keylane.numbers import count, length, percent, share, short_count, times
from keylane.report.html import Markup, join, tag
from keylane.report.windows import edge_names, window_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from keylane.documents.plan import CandidateRow, PlanDocument
    from keylane.documents.profile import KeyRank, ProfileWindows
    from keylane.report.html import Child

#: Steps of an axis that ends shortly above its beginning.
FINE = (*(1 + i / 50 for i in range(10)), 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 7)
#: Every chart is drawn for a wide and for a narrow place: the same words in the same size, not the same picture shrunk.
WIDE, NARROW = 600, 340


@dataclass(frozen=True, slots=True)
class Box:
    """Where the plot lies within its drawing, in pixels."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels: `low` is drawn at `start` and `high` at `end`.

    >>> Scale(1, 100, 0, 200, log=True).at(10)
    100.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value; one outside the scale is drawn at its end."""
        held = min(max(value, self.low), self.high)
        if self.log:
            share = log10(held / self.low) / (log10(self.high / self.low) or 1)
        else:
            share = (held - self.low) / ((self.high - self.low) or 1)
        return round(self.start + share * (self.end - self.start), 2)


def decades(low: float, high: float) -> list[float]:
    """The powers of ten between two values.

    >>> decades(0.002, 20)
    [0.01, 0.1, 1.0, 10.0]
    """
    return [10.0**power for power in range(ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9) + 1)]


def steps(low: float, high: float, most: int = 8) -> list[float]:
    """Round values for a logarithmic axis: as fine as `most` of them allow.

    >>> steps(1, 3), steps(1, 60)
    ([1, 1.2, 1.5, 2, 3], [1, 2, 5, 10, 20, 50])
    """
    for within in (
        FINE,
        (1, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 7),
        (1, 1.2, 1.5, 2, 3, 5, 7),
        (1, 1.5, 2, 3, 5),
        (1, 2, 5),
    ):
        found = {_plain(base * part) for base in decades(low / 10, high) for part in within}
        kept = sorted(value for value in found if low <= value <= high)
        if len(kept) <= most:
            return kept
    return [_plain(value) for value in decades(low, high)]


def _plain(value: float) -> float:
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def whole_steps(high: float, most: int = 5) -> list[float]:
    """Round values from 0 for an even axis.

    >>> whole_steps(2.4), whole_steps(1_900)
    ([0, 0.5, 1, 1.5, 2], [0, 500, 1000, 1500])
    """
    rough = max(high, 1e-9) / most
    base = 10.0 ** floor(log10(rough))
    step = next(base * part for part in (1, 2, 2.5, 5, 10) if base * part >= rough)
    return [_plain(step * i) for i in range(int(high / step + 1e-9) + 1)]


def drawing(label: str, width: float, height: float, *children: Child, kind: str = "") -> Markup:
    """The frame of a chart: what it shows in words, and its size, which a page scales to the place it has."""
    return tag(
        "svg",
        *children,
        class_=f"keylane-chart {kind}".strip(),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=label,
    )


def text(words: Child, x: float, y: float, *, kind: str | None = None, anchor: str | None = None) -> Markup:
    """Words in a drawing; `anchor` is middle or end where they do not begin at x."""
    return tag("text", words, x=f"{x:g}", y=f"{y:g}", class_=kind, text_anchor=anchor)


def mark(says: str, *children: Child, kind: str = "", **attributes: Child) -> Markup:
    """Something that can be pointed at: its first line is a heading, the others say more."""
    return tag("g", tag("title", says), *children, class_=f"mark {kind}".strip(), **attributes)


def polyline(points: Iterable[tuple[float, float]], kind: str) -> Markup:
    """A line through points."""
    path = "L".join(f"{x:g} {y:g}" for x, y in points)
    return tag("path", d=f"M{path}", class_=kind)


def across(box: Box, y: float, label: str, kind: str = "grid") -> Markup:
    """A line of the grid with its label left of it."""
    line = tag("line", x1=f"{box.left:g}", x2=f"{box.right:g}", y1=f"{y:g}", y2=f"{y:g}", class_=kind)
    return join(line, text(label, box.left - 7, y + 4, anchor="end"))


def upright(box: Box, x: float, label: str, kind: str = "grid") -> Markup:
    """A line of the grid with its label below it."""
    line = tag("line", x1=f"{x:g}", x2=f"{x:g}", y1=f"{box.top:g}", y2=f"{box.bottom:g}", class_=kind)
    return join(line, text(label, x, box.bottom + 17, anchor="middle"))


def spaced(places: Sequence[float], least: float) -> list[bool]:
    """Which of places in a row may have a label, so that two labels are at least so many pixels apart."""
    kept, last = [], float("-inf")
    for place in places:
        kept.append(place - last >= least)
        last = place if kept[-1] else last
    return kept


# Curves and bars: keys by rank, lanes by load, distinct keys over time, one key over time.

#: Above so many lanes, their bars are one outline: each alone would be thinner than a pixel.
MOST_BARS = 200


def key_ranks(ranks: Sequence[KeyRank], lanes: Sequence[int] = (), width: int = WIDE) -> Markup:
    """The share of each key by its rank, both logarithmic, with a line where a key fills a lane on its own."""
    shares = [row.share for row in ranks] + [1 / n for n in lanes]
    low = min(shares) / 1.3
    box = Box(26 + 7 * _digits(low), 20, width - 14, 262)
    x = Scale(1, max(2, ranks[-1].rank), box.left, box.right, log=True)
    y = Scale(low, min(1, max(shares) * 1.5), box.bottom, box.top, log=True)
    points = [(x.at(row.rank), y.at(row.share)) for row in ranks]
    top = ranks[0]
    label = f"Keys by rank: the heaviest has {share(top.share)} of the records, the last of {count(ranks[-1].rank)} "
    return drawing(
        f"{label}has {share(ranks[-1].share)}.",
        width,
        306,
        *(across(box, y.at(value), percent(value, _digits(value))) for value in decades(y.low, y.high)),
        *(upright(box, x.at(value), short_count(value)) for value in decades(1, x.high)),
        text("rank of the key", (box.left + box.right) / 2, 300, anchor="middle"),
        text("share of the records", box.left, 10, kind="axis"),
        _lane_lines(lanes, box, y),
        polyline(points, "curve"),
        *(_rank(row, *at) for row, at in zip(ranks, points, strict=True)),
        kind="ranks",
    )


def _digits(value: float) -> int:
    """Digits that a power of ten takes in percent."""
    return max(0, -2 - floor(log10(value) + 1e-9))


def _rank(row: KeyRank, x: float, y: float) -> Markup:
    says = f"rank {count(row.rank)}\n{share(row.share)} of the records; "
    says += f"{percent(row.cumulative)} with all heavier ones"
    dot = tag("circle", cx=f"{x:g}", cy=f"{y:g}", r="2.5", class_="dot")
    return mark(says, tag("circle", cx=f"{x:g}", cy=f"{y:g}", r="9", class_="reach"), dot)


def _lane_lines(lanes: Sequence[int], box: Box, y: Scale) -> Markup:
    """Lines at 1/lanes. Labels are at the right end, where the curve is low: one above its line, another below its."""
    lines = []
    for i, n in enumerate(sorted(set(lanes))):
        at, below = y.at(1 / n), i > 0
        says = f"1/{count(n)}: fills one of {count(n)} lanes"
        lines.append(tag("line", x1=f"{box.left:g}", x2=f"{box.right:g}", y1=f"{at:g}", y2=f"{at:g}", class_="limit"))
        lines.append(text(says, box.right, at + (15 if below else -6), kind="said", anchor="end"))
    return join(*lines)


def lane_loads(totals: Sequence[int], kind: str = "after", width: int = WIDE, top: float | None = None) -> Markup:
    """Lanes from the fullest to the emptiest, in mean lanes; `top` is the end of a scale that charts share."""
    fullest = max_over_mean(totals)
    box, end = Box(46, 16, width - 6, 176), max(top or 0, fullest, 1.0) * 1.06
    y = Scale(0, end, box.bottom, box.top)
    mean = y.at(1)
    return drawing(
        f"Lanes by load: the fullest of {count(len(totals))} holds {times(fullest)} the mean, {_idle(totals)}.",
        width,
        200,
        *(across(box, y.at(value), f"{value:g}×") for value in whole_steps(end)),
        _bars(totals, box, y, kind),
        tag("line", x1=f"{box.left:g}", x2=f"{box.right:g}", y1=f"{mean:g}", y2=f"{mean:g}", class_="mean"),
        text("fullest", box.left, 194),
        text(f"emptiest of {count(len(totals))} lanes", box.right, 194, anchor="end"),
        kind="loads",
    )


def _idle(totals: Sequence[int]) -> str:
    idle = sum(total == 0 for total in totals)
    return f"{count(idle)} get no record" if idle else "none is idle"


def _bars(totals: Sequence[int], box: Box, y: Scale, kind: str) -> Markup:
    mean = sum(totals) / len(totals) or 1
    order = sorted(range(len(totals)), key=lambda lane: -totals[lane])
    step = (box.right - box.left) / len(totals)
    if len(totals) > MOST_BARS:
        tops = [f"V{y.at(totals[lane] / mean):g}H{box.left + (i + 1) * step:.2f}" for i, lane in enumerate(order)]
        return tag("path", d=f"M{box.left:g} {box.bottom:g}{''.join(tops)}V{box.bottom:g}Z", class_=f"{kind} bars")
    bars = [_lane_bar(lane, totals[lane], mean, box.left + i * step, step, box, y) for i, lane in enumerate(order)]
    return tag("g", *bars, class_=f"{kind} bars")


def _lane_bar(lane: int, total: int, mean: float, x: float, step: float, box: Box, y: Scale) -> Markup:
    over, top = total / mean, y.at(total / mean)
    says = f"lane {lane}\n{count(total)} records, {times(over)} the mean"
    width = step * 0.84 if step > 3 else step
    bar = tag("rect", x=f"{x:.2f}", width=f"{width:.2f}", y=f"{top:g}", height=f"{box.bottom - top:.2f}")
    return mark(says, bar)


def distinct_keys(windows: ProfileWindows, width: int = WIDE) -> Markup:
    """Distinct keys of each window as bars, and in them, darker, those not seen in an earlier window."""
    rows = list(zip(window_names(windows), windows.distinct_keys, windows.new_keys, strict=True))
    return _over_time(
        windows, windows.distinct_keys, "keys", width, lambda i, x, step, box, y: _distinct(rows[i], x, step, box, y)
    )


def records_over_time(windows: ProfileWindows, width: int = WIDE) -> Markup:
    """Records of each window as bars."""
    names = window_names(windows)

    def bar_of(i: int, x: float, step: float, box: Box, y: Scale) -> Markup:
        top = y.at(windows.records[i])
        place = {"x": f"{x:.2f}", "width": f"{step * 0.84:.2f}", "y": f"{top:g}", "height": f"{box.bottom - top:.2f}"}
        return mark(f"{names[i]}\n{count(windows.records[i])} records", tag("rect", **place, class_="new"))

    return _over_time(windows, windows.records, "records", width, bar_of)


def _over_time(
    windows: ProfileWindows,
    figures: Sequence[int],
    what: str,
    width: int,
    bar_of: Callable[[int, float, float, Box, Scale], Markup],
) -> Markup:
    """A bar for each window; `bar_of` draws it from its number, its left edge and its width."""
    box, most = Box(54, 20, width - 6, 166), max([1, *figures])
    y, step = Scale(0, most * 1.04, box.bottom, box.top), (box.right - box.left) / len(windows.records)
    edges, title = edge_names(windows), {"keys": "Distinct keys", "records": "Records"}[what]
    return drawing(
        f"{title} over time: {count(min(figures))} to {count(most)} in a window.",
        width,
        190,
        *(across(box, y.at(value), short_count(value)) for value in whole_steps(most * 1.04, 4)),
        *(bar_of(i, box.left + i * step, step, box, y) for i in range(len(windows.records))),
        text(f"{what} in a window", box.left, 11, kind="axis"),
        text(edges[0], box.left, 184),
        text(edges[-1], box.right, 184, anchor="end"),
        kind="distinct",
    )


def _distinct(row: tuple[str, int, int], x: float, step: float, box: Box, y: Scale) -> Markup:
    name, distinct, new = row

    def bar(value: int, kind: str) -> Markup:
        top = y.at(value)
        return tag(
            "rect",
            x=f"{x:.2f}",
            width=f"{step * 0.84:.2f}",
            y=f"{top:g}",
            height=f"{box.bottom - top:.2f}",
            class_=kind,
        )

    says = f"{name}\n{count(distinct)} distinct keys, {count(new)} of them for the first time"
    return mark(says, bar(distinct, "all"), bar(new, "new"))


def spark(values: Sequence[int], label: str) -> Markup:
    """One key over time, as small as a word."""
    most, step = max([1, *values]), 100 / max(1, len(values))
    tops = [f"V{20 - 19 * value / most:.1f}H{(i + 1) * step:.1f}" for i, value in enumerate(values)]
    path = tag("path", d=f"M0 20{''.join(tops)}V20Z")
    return tag(
        "svg",
        tag("title", label),
        path,
        class_="spark",
        viewBox="0 0 100 20",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


# Small pictures as SVG: bars, stacked bars, sorted lanes, the colour scale. Colours are classes: `assets/demo.css`.

STOPS = 9
#: The colour of a cell is its share of the fullest one to this power: below 1, so that the eye sees the low end too.
POWER = 0.75


def bar(share: float, label: str, *, kind: str = "after", mark: float | None = None) -> Markup:
    """A horizontal bar of a share from 0 to 1, with a mark where something else says it should end."""
    marked = tag("line", x1=_at(mark), x2=_at(mark), y1="0", y2="100%", class_="mark") if mark is not None else None
    full = tag("rect", width="100%", height="100%", class_="track", rx="3")
    drawn = tag("rect", width=_at(share), height="100%", class_=kind, rx="3")
    return tag("svg", tag("title", label), full, drawn, marked, class_="bar", role="img", aria_label=label)


def stacked(parts: Sequence[tuple[float, str]], label: str) -> Markup:
    """Shares side by side, each with its own class."""
    drawn, at = [], 0.0
    for part, kind in parts:
        drawn.append(tag("rect", x=_at(at), width=_at(part), height="100%", class_=kind))
        at += part
    return tag("svg", tag("title", label), *drawn, class_="bar stacked", role="img", aria_label=label)


def _at(share: float | None) -> str:
    return length(min(1.0, max(0.0, share or 0.0)))


def lane_profile(before: Sequence[int], after: Sequence[int]) -> Markup:
    """Lanes from the fullest to the emptiest, before as an area, after as a line; both in mean lanes."""
    first, second = _sorted_over_mean(before), _sorted_over_mean(after)
    top = max(first[0], second[0], 1.0)
    label = f"Lanes sorted by load. Before: from {times(first[0])} to {times(first[-1])} of the mean. "
    label += f"After: from {times(second[0])} to {times(second[-1])}."
    mean = f"{(1 - 1 / top) * 100:.2f}"
    return tag(
        "svg",
        tag("title", label),
        tag("path", d=f"{_steps(first, top)}V100H0Z", class_="area"),
        tag("line", x1="0", x2="100", y1=mean, y2=mean, class_="mean"),
        tag("path", d=_steps(second, top), class_="line"),
        class_="profile",
        viewBox="0 0 100 100",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _sorted_over_mean(lanes: Sequence[int]) -> list[float]:
    mean = sum(lanes) / len(lanes) or 1
    return sorted((lane / mean for lane in lanes), reverse=True)


def _steps(values: list[float], top: float) -> str:
    width = 100 / len(values)
    steps = [f"V{(1 - value / top) * 100:.2f}H{(i + 1) * width:.2f}" for i, value in enumerate(values)]
    return f"M0 {(1 - values[0] / top) * 100:.2f}{''.join(steps)}"


def legend(
    mean: float, most: int, name: str, *, what: str = "records", span: str = "half hour", whole: str = "day"
) -> Markup:
    """The colour scale, from no record to the fullest cell of any map; a cell is `what` of one lane and `span`."""
    stops = [tag("stop", offset=length(i / (STOPS - 1)), class_=f"h{i}") for i in range(STOPS)]
    gradient = tag("defs", tag("linearGradient", *stops, id=name))
    marks = [_tick((value * mean / most) ** POWER, f"{value}×") for value in _ticks(mean, most)]
    return tag(
        "figure",
        tag(
            "svg",
            gradient,
            tag("rect", width="100%", height="10", rx="3", fill=f"url(#{name})"),
            join(*marks),
            _tick(1, times(most / mean, 1), last=True),
            role="img",
            aria_label=f"Colour scale: 1× is {count(round(mean))} {what} a lane and {span}.",
        ),
        tag(
            "figcaption",
            f"1× = {count(round(mean))} {what} in one lane and {span}, the mean. ",
            f"Bars beside a map: each lane's whole {whole}; the dashed line is their mean.",
        ),
        class_="legend",
    )


def _ticks(mean: float, most: int) -> list[int]:
    """0, and doublings of the mean, from the top down, as far as their labels do not touch."""
    kept, above = [], 1.0
    for value in (1 << power for power in reversed(range(20))):
        at = (value * mean / most) ** POWER
        if 0.07 < at < above - 0.1:
            kept.append(value)
            above = at
    return [0, *reversed(kept)]


def _tick(share: float, text: str, *, last: bool = False) -> Markup:
    anchor = "end" if last else "start" if share == 0 else "middle"
    return tag("text", text, x=_at(share), y="24", text_anchor=anchor)


# Candidates as dots: how full the fullest lane gets, against what is kept in order. One row a strategy.

#: What is kept in order, strongest first.
ORDER: Final = {
    "per-key": "order kept per key",
    "per-key-and-window": "order kept per key and window",
    "per-sub-key": "order kept per sub-key",
    "none": "no order kept",
}
#: The strategy of a contract as it stands; its mark is another one than that of candidates.
TODAY: Final = "today"


@dataclass(frozen=True, slots=True)
class Row:
    """A strategy with its candidates, and where it is drawn."""

    name: str
    y: float
    candidates: list[CandidateRow]
    chosen: bool


def strategies(document: PlanDocument, width: int = 820) -> Markup:
    """Every candidate: its order scope and strategy from top to bottom, the fullest lane from left to right."""
    found = document.candidates
    narrow = width <= NARROW
    rows, heads, bottom = _laid_out(found, document.chosen.strategy, narrow=narrow)
    box = Box(12 if narrow else 150, 18, width - 18, bottom)
    today = [document.today.fullest_share] if document.today else []
    x = Scale(0, max([*today, *(one.fullest_share for one in found)]) * 1.04, box.left, box.right)
    label = f"{count(len(found))} candidates: the fullest lane against what is kept in order. The table says the same."
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


def _laid_out(
    found: list[CandidateRow], chosen: str, *, narrow: bool
) -> tuple[list[Row], list[tuple[str, float]], float]:
    """Rows under the headings of their order scopes; of a scope, the strategy with the best candidate first.

    The chosen strategy has room for a line above its dots.
    """
    rows, heads, y = [], [], 16.0
    for scope in [*ORDER, *sorted({one.order_scope for one in found} - set(ORDER))]:
        inside = [one for one in found if one.order_scope == scope]
        if inside:
            heads.append((scope, y + 20))
            y += 26
        for name in sorted({one.strategy for one in inside}, key=lambda name: (_best(inside, name), name)):
            y += (40 if narrow else 27) + (19 if name == chosen else 0)
            rows.append(Row(name, y - 13, [one for one in inside if one.strategy == name], name == chosen))
        y += 10 if inside else 0
    return rows, heads, y


def _best(candidates: list[CandidateRow], name: str) -> float:
    return min(one.fullest_share for one in candidates if one.strategy == name)


def _grid(box: Box, x: Scale) -> list[Markup]:
    values = _even_steps(x.high, 9 if box.right - box.left > 400 else 5)
    labelled = spaced([x.at(value) for value in values], 30)
    lines = []
    for value, said in zip(values, labelled, strict=True):
        at = f"{x.at(value):g}"
        lines.append(tag("line", x1=at, x2=at, y1=f"{box.top:g}", y2=f"{box.bottom:g}", class_="grid"))
        if said:
            lines.append(text(share(value), x.at(value), box.bottom + 17, anchor="middle"))
    words = "the fullest lane's share of later records: the less, the more lanes' work is done"
    return [*lines, text(words, box.right, box.bottom + 36, anchor="end")]


def _even_steps(high: float, most: int) -> list[float]:
    """Round shares from 0 on: as fine as `most` of them allow.

    >>> _even_steps(0.27, 9)
    [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]
    """
    power = 10.0 ** floor(log10(high) - 1)
    width = next(one * power for one in (1, 2, 5, 10, 20, 50, 100) if high / (one * power) < most)
    return [round(number * width, 9) for number in range(floor(high / width + 1e-9) + 1)]


def _limits(document: PlanDocument, box: Box, x: Scale) -> Markup | None:
    """The fullest lane that was asked for, as a line: what is left of it keeps the constraint."""
    limit, lanes = document.constraints.max_over_mean, {one.lanes for one in document.candidates}
    # Over the mean it is one line for one lane count only.
    if limit is None or len(lanes) > 1 or limit / min(lanes) > x.high:
        return None
    asked = limit / min(lanes)
    at = f"{x.at(asked):g}"
    line = tag("line", x1=at, x2=at, y1=f"{box.top:g}", y2=f"{box.bottom:g}", class_="limit")
    return join(line, text(f"asked: {share(asked)}", x.at(asked), box.top - 6, kind="said", anchor="middle"))


def _row(row: Row, box: Box, x: Scale, sizes: dict[int, float], *, narrow: bool) -> Markup:
    refused = not any(one.allowed for one in row.candidates)
    name = (0, row.y - (32 if row.chosen else 14), "start") if narrow else (box.left - 14, row.y + 4, "end")
    ends = [x.at(one.fullest_share) for one in row.candidates]
    line = tag("line", x1=f"{min(ends):g}", x2=f"{max(ends):g}", y1=f"{row.y:g}", y2=f"{row.y:g}", class_="span")
    ordered = sorted(row.candidates, key=lambda one: -one.lanes)
    drawn = [one for one in ordered if one.strategy != TODAY]
    dots = [_dot(one, x.at(one.fullest_share), row.y, sizes[one.lanes]) for one in drawn]
    label = text(row.name, name[0], name[1], kind="said name refused" if refused else "said name", anchor=name[2])
    return tag("g", label, line, *dots)


def _dot(one: CandidateRow, x: float, y: float, radius: float) -> Markup:
    circle = tag("circle", cx=f"{x:g}", cy=f"{y:g}", r=f"{radius:g}")
    return mark(candidate_says(one), circle, kind="dot" if one.allowed else "dot refused", data_lanes=one.lanes)


def candidate_says(one: CandidateRow) -> str:
    """A candidate in a few lines: what it is, how full, what it moves, and why it is refused."""
    lines = [
        f"{one.strategy}, {count(one.lanes)} lanes",
        f"fullest lane {share(one.fullest_share)} of the records counted, {times(one.max_over_mean)} the mean",
        f"the lanes do the work of {one.work:.1f}",
    ]
    if one.moved_traffic is not None:
        lines.append(f"moves {percent(one.moved_traffic)} of the traffic")
    if not one.allowed:
        lines.append(f"refused: {one.because or 'it breaks a constraint'}")
    return "\n".join(lines)


def _sizes(found: list[CandidateRow]) -> dict[int, float]:
    """Radius by lane count: each doubling adds the same."""
    lanes = sorted({one.lanes for one in found})
    width = log(lanes[-1] / lanes[0]) or 1
    return {n: round(4 + 5 * log(n / lanes[0]) / width, 1) if len(lanes) > 1 else 6 for n in lanes}


def _today(document: PlanDocument, rows: list[Row], x: Scale) -> Markup | None:
    today = document.today
    row = next((row for row in rows if today and row.name == today.strategy), None)
    if row is None or today is None:
        return None
    at, y = x.at(today.fullest_share), row.y
    says = f"today, {count(today.lanes)} lanes\nfullest lane {share(today.fullest_share)} of the records counted"
    diamond = tag("path", d=f"M{at:g} {y - 9:g}l9 9l-9 9l-9 -9Z")
    return mark(says, diamond, kind="today")


def _chosen(document: PlanDocument, rows: list[Row], x: Scale, sizes: dict[int, float]) -> Markup | None:
    chosen = document.chosen
    row = next((row for row in rows if row.name == chosen.strategy), None)
    if row is None:
        return None
    at, radius = x.at(chosen.fullest_share), sizes.get(chosen.lanes, 6) + 3.5
    ring = tag("circle", cx=f"{at:g}", cy=f"{row.y:g}", r=f"{radius:g}", class_="ring")
    words = f"chosen: {count(chosen.lanes)} lanes, {share(chosen.fullest_share)}"
    left = at > (x.start + x.end) / 2
    place = (at + radius, "end") if left else (at - radius, "start")
    label = text(words, place[0], row.y - radius - 5, kind="said strong", anchor=place[1])
    return tag("g", ring, label, class_="chosen")


def _key(found: list[CandidateRow], y: float) -> Markup:
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

"""Curves and bars: keys by rank, lanes by load, distinct keys over time, one key over time."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING, Any

from keylane.measure.balance import max_over_mean
from keylane.report.axes import WIDE, Box, Scale, across, decades, drawing, mark, polyline, text, upright
from keylane.report.axes import whole_steps as even
from keylane.report.markup import Markup, join, tag
from keylane.report.when import edge_names, window_names
from keylane.report.words import count, percent, share, short_count, times

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["distinct_keys", "key_ranks", "lane_loads", "spark"]

#: Above so many lanes, their bars are one outline: each alone would be thinner than a pixel.
MOST_BARS = 200


def key_ranks(ranks: Sequence[dict[str, Any]], lanes: Sequence[int] = (), width: int = WIDE) -> Markup:
    """The share of each key by its rank, both logarithmic, with a line where a key fills a lane on its own."""
    shares = [row["share"] for row in ranks] + [1 / n for n in lanes]
    low = min(shares) / 1.3
    box = Box(26 + 7 * _digits(low), 14, width - 14, 262)
    x = Scale(1, max(2, ranks[-1]["rank"]), box.left, box.right, log=True)
    y = Scale(low, min(1, max(shares) * 1.5), box.bottom, box.top, log=True)
    points = [(x.at(row["rank"]), y.at(row["share"])) for row in ranks]
    top = ranks[0]
    label = (
        f"Keys by rank: the heaviest has {share(top['share'])} of the records, the last of {count(ranks[-1]['rank'])} "
    )
    return drawing(
        f"{label}has {share(ranks[-1]['share'])}.",
        width,
        306,
        *(across(box, y.at(value), percent(value, _digits(value))) for value in decades(y.low, y.high)),
        *(upright(box, x.at(value), short_count(value)) for value in decades(1, x.high)),
        text("rank of the key", (box.left + box.right) / 2, 300, anchor="middle"),
        _lane_lines(lanes, box, y),
        polyline(points, "curve"),
        *(_rank(row, *at) for row, at in zip(ranks, points, strict=True)),
        kind="ranks",
    )


def _digits(value: float) -> int:
    """Digits that a power of ten takes in percent."""
    return max(0, -2 - floor(log10(value) + 1e-9))


def _rank(row: dict[str, Any], x: float, y: float) -> Markup:
    says = f"rank {count(row['rank'])}\n{share(row['share'])} of the records; "
    says += f"{percent(row['cumulative'])} with all heavier ones"
    dot = tag("circle", cx=f"{x:g}", cy=f"{y:g}", r="2.5", class_="dot")
    return mark(says, tag("circle", cx=f"{x:g}", cy=f"{y:g}", r="9", class_="reach"), dot)


def _lane_lines(lanes: Sequence[int], box: Box, y: Scale) -> Markup:
    """Lines at 1/lanes. Labels are at the right end, where the curve is low: one above its line, another below its."""
    lines = []
    for i, n in enumerate(sorted(set(lanes))):
        at, below = y.at(1 / n), i > 0
        says = f"1/{n}: fills one of {count(n)} lanes"
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
        *(across(box, y.at(value), f"{value:g}×") for value in even(end)),
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


def distinct_keys(windows: dict[str, Any], width: int = WIDE) -> Markup:
    """Distinct keys of each window as bars, and in them, darker, those not seen in an earlier window."""
    box, most = Box(54, 12, width - 6, 166), max([1, *windows["distinct_keys"]])
    y, step = Scale(0, most * 1.04, box.bottom, box.top), (box.right - box.left) / len(windows["records"])
    names, edges = window_names(windows), edge_names(windows)
    rows = zip(names, windows["distinct_keys"], windows["new_keys"], strict=True)
    return drawing(
        f"Distinct keys over time: {count(min(windows['distinct_keys']))} to {count(most)} in a window.",
        width,
        190,
        *(across(box, y.at(value), short_count(value)) for value in even(most * 1.04, 4)),
        *(_distinct(row, box.left + i * step, step, box, y) for i, row in enumerate(rows)),
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

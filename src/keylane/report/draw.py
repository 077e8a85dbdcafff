"""Small pictures as SVG: bars, stacked bars, sorted lanes, the colour scale. Colours are classes: `assets/demo.css`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.report.markup import Markup, join, tag
from keylane.report.words import count, times

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["POWER", "bar", "lane_profile", "legend", "stacked"]

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
    for share, kind in parts:
        drawn.append(tag("rect", x=_at(at), width=_at(share), height="100%", class_=kind))
        at += share
    return tag("svg", tag("title", label), *drawn, class_="bar stacked", role="img", aria_label=label)


def _at(share: float | None) -> str:
    return f"{min(1.0, max(0.0, share or 0.0)) * 100:.2f}%"


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


def legend(mean: float, most: int, name: str) -> Markup:
    """The colour scale, from no record to the fullest cell of any contract."""
    stops = [tag("stop", offset=f"{i / (STOPS - 1) * 100:.1f}%", class_=f"h{i}") for i in range(STOPS)]
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
            aria_label=f"Colour scale: 1× is {count(round(mean))} records a lane and half hour.",
        ),
        tag(
            "figcaption",
            f"1× = {count(round(mean))} records in one lane and half hour, the mean. ",
            "Bars beside a map: each lane's whole day; the dashed line is their mean.",
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

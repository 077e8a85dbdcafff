"""What charts are made of: a scale from values to pixels, its ticks, and the frame that a drawing stands in.

Colours and fonts are classes of `assets/charts.css`. The drawings themselves: `curves`, `dots`, `heat`, `matrix`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from keylane.report.markup import Markup, join, tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from keylane.report.markup import Child

__all__ = ["NARROW", "WIDE", "Box", "Scale", "decades", "drawing", "mark", "polyline", "steps", "text", "whole_steps"]

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

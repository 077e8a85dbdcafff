"""Which old lanes each new lane waits for, as a picture that stays small for a thousand lanes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from keylane.report.axes import drawing, mark, text
from keylane.report.markup import Markup, tag
from keylane.report.words import count, lanes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["waits_for"]

#: At most so many squares each way; above it, a square stands for several lanes.
MOST = 64
SIDE, LEFT, TOP = 330, 44, 30


def waits_for(rows: Sequence[Sequence[int]], old: int) -> Markup:
    """New lanes from top to bottom, old ones from left to right: a square where the new one waits for the old one."""
    each = -(-max(len(rows), old) // MOST)
    size = SIDE / -(-max(len(rows), old) // each)
    right, bottom = LEFT + size * -(-old // each), TOP + size * -(-len(rows) // each)
    waits = [len(row) for row in rows]
    return drawing(
        f"New lanes by the old lanes they wait for: each for {count(min(waits))} to {count(max(waits))}.",
        LEFT + SIDE + 8,
        bottom + 8,
        text("old lane", (LEFT + right) / 2, 10, anchor="middle"),
        text("0", LEFT, 22),
        text(count(old - 1), right, 22, anchor="end"),
        tag("text", "new lane", transform=f"translate(12 {(TOP + bottom) / 2:g}) rotate(-90)", text_anchor="middle"),
        text("0", LEFT - 6, TOP + 10, anchor="end"),
        text(count(len(rows) - 1), LEFT - 6, bottom, anchor="end"),
        tag("rect", x=LEFT, y=TOP, width=f"{right - LEFT:.2f}", height=f"{bottom - TOP:.2f}", class_="track"),
        *(_line(at, row, size, each) for at, row in enumerate(_squares(rows, each))),
        kind="matrix",
    )


def _squares(rows: Sequence[Sequence[int]], each: int) -> list[Counter[int]]:
    """For each line of the picture: its squares, and how many pairs of lanes each stands for."""
    lines = [Counter[int]() for _ in range(-(-len(rows) // each))]
    for at, row in enumerate(rows):
        lines[at // each].update(lane // each for lane in row)
    return lines


def _line(at: int, squares: Counter[int], size: float, each: int) -> Markup:
    """A line of squares: the more of the lanes in a square wait for each other, the stronger its colour."""
    side = f"{size - (1 if size > 5 else 0):.2f}"
    drawn = [
        tag(
            "rect",
            x=f"{LEFT + square * size:.2f}",
            y=f"{TOP + at * size:.2f}",
            width=side,
            height=side,
            fill_opacity=f"{0.45 + 0.55 * found / each**2:.2f}",
        )
        for square, found in sorted(squares.items())
    ]
    old = lanes([lane for square in squares for lane in range(square * each, square * each + each)], 12)
    new = lanes(list(range(at * each, at * each + each)))
    return mark(f"new lane {new}\nwaits for old lane {old or 'none'}", *drawn)

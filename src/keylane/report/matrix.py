"""Which old lanes each new lane waits for, as a picture that stays small for a thousand lanes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from keylane.report.axes import Box, drawing, mark, text
from keylane.report.markup import Markup, tag
from keylane.report.words import count, lanes

__all__ = ["waits_for"]

#: At most so many squares each way; above it, a square stands for several lanes.
MOST = 64
SIDE = 330


def waits_for(rows: list[dict[str, Any]], old: int) -> Markup:
    """New lanes from top to bottom, old ones from left to right: a square where the new one waits for the old one."""
    each = max(1, -(-max(len(rows), old) // MOST))
    box = Box(44, 30, 44 + SIDE, 30 + SIDE)
    size = SIDE / -(-max(len(rows), old) // each)
    squares = Counter((row["lane"] // each, lane // each) for row in rows for lane in row["for"])
    waits = [len(row["for"]) for row in rows]
    label = f"New lanes by the old lanes they wait for: each for {count(min(waits))} to {count(max(waits))}."
    ends = (text(count(old - 1), box.left + size * -(-old // each), 22, anchor="end"), text("0", box.left, 22))
    last = box.top + size * -(-len(rows) // each)
    return drawing(
        label,
        box.right + 8,
        last + 8,
        text("old lane", (box.left + box.right) / 2, 10, anchor="middle"),
        *ends,
        text("new", 8, box.top + 26),
        text("0", box.left - 6, box.top + 10, anchor="end"),
        text(count(len(rows) - 1), box.left - 6, last, anchor="end"),
        tag("rect", x=box.left, y=box.top, width=f"{size * -(-old // each):.2f}", height=f"{last - box.top:.2f}", class_="track"),
        *(_line(i, [(at, squares[i, at]) for j, at in sorted(squares) if j == i], box, size, each) for i in sorted({j for j, _ in squares})),
        kind="matrix",
    )


def _line(row: int, squares: list[tuple[int, int]], box: Box, size: float, each: int) -> Markup:
    """A row of squares: the more of the lanes in a square wait for each other, the darker it is."""
    gap = 1 if size > 5 else 0
    drawn = [
        tag(
            "rect",
            x=f"{box.left + at * size:.2f}",
            y=f"{box.top + row * size:.2f}",
            width=f"{size - gap:.2f}",
            height=f"{size - gap:.2f}",
            fill_opacity=f"{0.3 + 0.7 * found / each**2:.2f}",
        )
        for at, found in squares
    ]
    new, old = _range(row, each), lanes([lane for at, _ in squares for lane in range(at * each, at * each + each)], 12)
    return mark(f"new lane {new}\nwaits for old lane {old}", *drawn)


def _range(row: int, each: int) -> str:
    return str(row) if each == 1 else f"{row * each}–{row * each + each - 1}"

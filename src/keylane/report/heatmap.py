"""Lanes over time as a heat map: the colours, their legend, and the map as a picture for where no script runs.

A page draws its maps on a canvas, from the same numbers: `plan_sections.lanes_section` and `assets/plan.js`.
"""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from itertools import chain
from struct import pack
from typing import TYPE_CHECKING

from keylane.numbers import count, lanes, short_count
from keylane.report.html import Markup, tag
from keylane.report.svg_charts import POWER, STOPS, Box, drawing, mark, text
from keylane.report.windows import edge_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.documents.plan import LanesOverTime
    from keylane.documents.profile import ProfileWindows

#: The light palette of `assets/charts.css`, where a picture cannot follow a style sheet: empty cells, then the stops.
EMPTY = (0xE7, 0xEB, 0xEE)
HEAT = ("fff5e8", "fee5c6", "fdcb97", "fbaa6b", "f5834d", "e25a33", "c0331f", "8d151d", "4c0719")
#: Colours of a picture: one for empty cells, the others from the palest to the darkest.
SHADES = 255


def heat_map(side: LanesOverTime, windows: ProfileWindows | None = None, width: int = 640) -> Markup:
    """One row a lane, one column a window; above 400 lanes neighbours share a row, which shows the fullest of them."""
    cells, box = side.cells, Box(54, 28, width - 10, 340)
    most = max(chain([1], *cells))
    return drawing(
        f"Lanes over time: {side.title}.",
        width,
        392,
        text(side.title, box.left, 18, kind="strong"),
        _picture(_rows(cells), most, box),
        text("lane 0", box.left - 7, box.top + 10, anchor="end"),
        text(count(len(cells) - 1), box.left - 7, box.bottom, anchor="end"),
        *_times(windows, box),
        *_scale(most, box),
        kind="heat",
    )


def _rows(cells: Sequence[Sequence[int]], most: int = 400) -> list[list[int]]:
    each = -(-len(cells) // most)
    return [[max(column) for column in zip(*cells[i : i + each], strict=True)] for i in range(0, len(cells), each)]


def _picture(rows: list[list[int]], most: int, box: Box) -> Markup:
    encoded = base64.b64encode(png(rows, most)).decode()
    return tag(
        "image",
        href=f"data:image/png;base64,{encoded}",
        x=f"{box.left:g}",
        y=f"{box.top:g}",
        width=f"{box.right - box.left:g}",
        height=f"{box.bottom - box.top:g}",
        preserveAspectRatio="none",
        class_="cells",
    )


def png(rows: list[list[int]], most: int) -> bytes:
    """A picture with one pixel a cell: colours by number, so that a thousand lanes take a few kilobytes."""
    palette = bytes(chain(EMPTY, *(shade((i + 1) / SHADES) for i in range(SHADES))))
    lines = b"".join(b"\0" + bytes(_number(cell, most) for cell in row) for row in rows)
    header = pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    chunks = (b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + name + data + pack(">I", zlib.crc32(name + data))


def _number(cell: int, most: int) -> int:
    return max(1, round((cell / most) ** POWER * SHADES)) if cell else 0


def shade(share: float) -> tuple[int, int, int]:
    """The colour at a share of the scale, after its low end was drawn out.

    >>> shade(0.0), shade(1.0)
    ((255, 245, 232), (76, 7, 25))
    """
    at = share * (STOPS - 1)
    i = min(STOPS - 2, int(at))
    low, high = (tuple(bytes.fromhex(HEAT[stop])) for stop in (i, i + 1))
    red, green, blue = (round(a + (b - a) * (at - i)) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _times(windows: ProfileWindows | None, box: Box) -> list[Markup]:
    if windows is None:
        return []
    names = edge_names(windows)
    first, last = text(names[0], box.left, 356), text(names[-1], box.right, 356, anchor="end")
    return [first, last]


def _scale(most: int, box: Box) -> list[Markup]:
    """The colours as steps, from no record to the fullest cell."""
    steps = [
        tag("rect", x=f"{box.left + i * 5:g}", y=370, width="5.5", height=9, fill=_hex(shade(i / 27)))
        for i in range(28)
    ]
    says = f"0 to {count(most)} records in a lane and window"
    return [*steps, text(says, box.left + 150, 379)]


def _hex(colour: tuple[int, int, int]) -> str:
    return f"#{bytes(colour).hex()}"


def scale_ticks(most: int) -> list[tuple[float, str]]:
    """Where round numbers of records lie on the scale, and what to write there; far enough apart to be read."""
    rounds = (base * 10**power for power in reversed(range(10)) for base in (5, 2, 1))
    kept, above = [(1.0, short_count(most) if most < 1000 else _rounded(most))], 1.0
    for value in rounds:
        at = (value / most) ** POWER
        if 0.06 < at < above - 0.13:
            kept.append((at, short_count(value)))
            above = at
    return [(0.0, "0"), *reversed(kept)]


def _rounded(most: int) -> str:
    size = 10 ** (len(str(most)) - 3)
    return short_count(round(most / size) * size)


# Which old lanes each new lane waits for, as a picture that stays small for a thousand lanes.

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

"""Make the land outlines that the maps of the pages are drawn on: `src/keylane/report/assets/land.txt`.

    python scripts/land.py land-110m.json land-50m.json land-10m.json

The three files are Natural Earth's land (public domain) at 1:110, 1:50 and 1:10 million as TopoJSON, as the npm package
`world-atlas` has them. Outlines are put on a grid, points that a map would not show are left out, and steps from point
to point are kept as 16-bit numbers, packed. `keylane.report.land` reads them.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src/keylane/report/assets/land.txt"
#: Name, degrees of one unit of the grid, how far in degrees an outline may be off.
LEVELS = (("world", 0.01, 0.0), ("near", 0.01, 0.01), ("fine", 0.004, 0.005))
HEADER = """\
# Land outlines for the maps of keylane's pages. Made by scripts/land.py; do not edit.
# Source: Natural Earth (naturalearthdata.com), land at 1:110, 1:50 and 1:10 million, version 4.1. Public domain.
# Taken from the TopoJSON of the npm package world-atlas 2.0.2, (c) 2013-2019 Michael Bostock, ISC licence.
# Each line: name, degrees per unit, rings, points; then base85 of zlib of 16-bit little-endian numbers.
"""
Point = tuple[float, float]
Step = tuple[int, int]
FURTHEST = 32_000


def main(files: list[str]) -> None:
    """Write the asset from the three files."""
    lines = [level(file, *how) for file, how in zip(files, LEVELS, strict=True)]
    TARGET.write_text(HEADER + "".join(lines), encoding="ascii")


def level(file: str, name: str, unit: float, off: float) -> str:
    """One line of the asset."""
    found = rings(json.loads(Path(file).read_text(encoding="utf-8")))
    made = [on_grid(simpler(unrolled(ring), off), unit) for ring in found if not is_null_island(ring)]
    kept = [ring for ring in made if len(ring) > 2]
    return f"{name} {unit} {len(kept)} {sum(map(len, kept))} {packed(kept)}\n"


def rings(topology: dict[str, Any]) -> list[list[Point]]:
    """Every ring of every polygon; holes are rings like others, for the map fills by the even-odd rule."""
    arcs = [points(arc, topology["transform"]) for arc in topology["arcs"]]
    shapes = [
        polygon
        for shape in topology["objects"]["land"]["geometries"]
        for polygon in (shape["arcs"] if shape["type"] == "MultiPolygon" else [shape["arcs"]])
    ]
    return [joined(ring, arcs) for polygon in shapes for ring in polygon]


def points(arc: list[list[int]], transform: dict[str, list[float]]) -> list[Point]:
    """An arc of the file in degrees."""
    x = y = 0
    (sx, sy), (tx, ty) = transform["scale"], transform["translate"]
    made = []
    for dx, dy in arc:
        x, y = x + dx, y + dy
        made.append((x * sx + tx, y * sy + ty))
    return made


def joined(ring: list[int], arcs: list[list[Point]]) -> list[Point]:
    """The arcs of a ring as one; those with a negative number run backwards."""
    parts = [arcs[number] if number >= 0 else arcs[~number][::-1] for number in ring]
    return [point for part in parts for point in part[:-1]]


def is_null_island(ring: list[Point]) -> bool:
    """The islet that Natural Earth's authors put where both coordinates are zero."""
    return all(abs(x) < 0.1 and abs(y) < 0.1 for x, y in ring)


def unrolled(ring: list[Point]) -> list[Point]:
    """Longitudes that never jump: over the 180th meridian an outline goes on past 180; Antarctica ends at the pole."""
    made = [ring[0]]
    for x, y in ring[1:]:
        made.append((x + 360 * round((made[-1][0] - x) / 360), y))
    end = ring[0][0] + 360 * round((made[-1][0] - ring[0][0]) / 360)
    if end != ring[0][0]:
        made += [(end, ring[0][1]), (end, -90.0), (ring[0][0], -90.0)]
    middle = (min(x for x, _ in made) + max(x for x, _ in made)) / 2
    return [(x - 360 * round(middle / 360), y) for x, y in made]


def simpler(ring: list[Point], off: float) -> list[Point]:
    """Douglas and Peucker, from the first point to the one that is furthest from it and back."""
    if off == 0 or len(ring) < 8:
        return ring
    x, y = ring[0]
    middle = max(range(len(ring)), key=lambda i: (ring[i][0] - x) ** 2 + (ring[i][1] - y) ** 2)
    kept, closed = {0, middle, len(ring)}, [*ring, ring[0]]
    spans = [(0, middle), (middle, len(ring))]
    while spans:
        start, end = spans.pop()
        far, at = max(((away(closed[i], closed[start], closed[end]), i) for i in range(start + 1, end)), default=(0, 0))
        if far > off:
            kept.add(at)
            spans += [(start, at), (at, end)]
    return [closed[i] for i in sorted(kept)[:-1]]


def away(point: Point, start: Point, end: Point) -> float:
    """How far a point is from the line between two others, in degrees."""
    (x, y), (ax, ay), (bx, by) = point, start, end
    dx, dy = bx - ax, by - ay
    length = dx * dx + dy * dy
    share = max(0.0, min(1.0, ((x - ax) * dx + (y - ay) * dy) / length)) if length else 0.0
    return float(((x - ax - share * dx) ** 2 + (y - ay - share * dy) ** 2) ** 0.5)


def on_grid(ring: list[Point], unit: float) -> list[Step]:
    """Whole units, no point twice in a row, no step too long."""
    found = [(round(x / unit), round(y / unit)) for x, y in ring]
    kept = [one for one, after in zip(found, [*found[1:], found[0]], strict=True) if one != after]
    return [kept[0], *(part for pair in pairwise(kept) for part in walked(*pair))] if kept else []


def walked(start: Step, end: Step) -> list[Step]:
    """The end of a step, with stops on the way where it is longer than 16 bits can say."""
    furthest = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    stops = furthest // FURTHEST + 1
    return [
        (start[0] + (end[0] - start[0]) * i // stops, start[1] + (end[1] - start[1]) * i // stops)
        for i in range(1, stops + 1)
    ]


def packed(found: list[list[Step]]) -> str:
    """Lengths and first points as two halves each, then all steps east, then all steps north."""
    heads = [number for ring in found for value in (len(ring), *ring[0]) for number in halves(value)]
    steps = [(after[i] - before[i]) for i in (0, 1) for ring in found for before, after in pairwise(ring)]
    numbers = array("h", [*heads, *steps])
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b85encode(zlib.compress(numbers.tobytes(), 9)).decode("ascii")


def halves(value: int) -> tuple[int, int]:
    """A number as a multiple of 2**15 and the rest."""
    return value >> 15, value & 0x7FFF


if __name__ == "__main__":
    main(sys.argv[1:])

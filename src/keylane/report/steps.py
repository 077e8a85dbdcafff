"""Places as short text for a page: whole numbers of a grid, from point to point, 5 bits a character.

Each number is doubled, its sign in the lowest bit, and written from its low end on, 5 bits a character; the sixth bit
says that more follow. `assets/map.js` reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LETTERS", "numbers_text", "ring_text"]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def ring_text(points: Iterable[tuple[float, float]], unit: float) -> str:
    """An outline: how many points it has, then the steps, x before y. Points of a page are (longitude, latitude).

    >>> ring_text([(1.0, 2.0), (1.5, 2.0), (1.5, 1.0)], 0.5)
    'GEICAAD'
    """
    found = [(round(x / unit), round(y / unit)) for x, y in points]
    before = [(0, 0), *found]
    steps = (step for (ax, ay), (bx, by) in zip(before, found, strict=False) for step in (bx - ax, by - ay))
    return numbers_text([len(found), *steps])


def numbers_text(numbers: Iterable[int]) -> str:
    """Whole numbers one after the other.

    >>> numbers_text([0, -1, 15, 16])
    'ABegB'
    """
    made = []
    for number in numbers:
        rest = number << 1 if number >= 0 else (~number << 1) | 1
        while rest > 31:
            made.append(LETTERS[32 | rest & 31])
            rest >>= 5
        made.append(LETTERS[rest])
    return "".join(made)

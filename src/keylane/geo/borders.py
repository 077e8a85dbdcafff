"""Where lanes meet in a lane table, and about how many copies cross there.

Rule: two leaves share a border when a side of the finer one lies against the coarser one, and their lanes differ. Of
each leaf, the records within `radius_m` of the side are taken to be its mean density times the strip along the side,
and never more than the leaf has: each of them is a guest copy in the other lane. It is an estimate: records crowd
within a leaf, and a record near two borders of the same lane is copied once. Where a match counted them: `counted`.

A change of lanes changes the borders around the leaves that moved, and no others. To know which lanes a single place
needs, take the cover of its disk (`keylane.matching`), never this.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from keylane.geo.bits import ancestor, resolution
from keylane.geo.shapes import area_km2, side_km, sides

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from keylane.geo.shapes import Side

__all__ = ["Border", "Leaf", "beside_finer", "borders", "counted"]


class Leaf(NamedTuple):
    """What stands in a lane table for a cell: its lane, and the records that were seen there."""

    lane: int
    records: int


class Border(NamedTuple):
    """A side of `cell` beyond which `other` has another lane; `first` and `corners` are of the outline of `cell`."""

    cell: int
    other: int
    first: int
    corners: int
    copies: float


def borders(leaves: Mapping[int, Leaf], radius_m: float) -> list[Border]:
    """Every border, each once, the one with the most copies first."""
    areas = {cell: area_km2(cell) for cell in leaves}
    coarsest = min((resolution(cell) for cell in leaves), default=0)
    found = [
        Border(cell, other, side.first, side.corners, _copies((cell, other), leaves, areas, radius_m / 1000))
        for cell in leaves
        for side, other in _beyond(cell, leaves, coarsest)
        if leaves[other].lane != leaves[cell].lane
    ]
    return sorted(found, key=lambda border: (-border.copies, border.cell, border.other))


def counted(found: Iterable[Border], copies: Mapping[int, int]) -> list[Border]:
    """The same borders with what was counted: the copies of a cell, shared out evenly over its borders.

    >>> [border.copies for border in counted([Border(1, 2, 0, 2, 9.0), Border(1, 3, 1, 2, 9.0)], {1: 4, 3: 1})]
    [3.0, 2.0]
    """
    listed = list(found)
    sides = Counter(cell for border in listed for cell in (border.cell, border.other))
    each = {cell: copies.get(cell, 0) / number for cell, number in sides.items()}
    made = [border._replace(copies=each[border.cell] + each[border.other]) for border in listed]
    return sorted(made, key=lambda border: (-border.copies, border.cell, border.other))


def beside_finer(leaves: Mapping[int, Leaf]) -> dict[int, int]:
    """Leaves that lie beside finer ones, with the resolution of the finest of those."""
    coarsest = min((resolution(cell) for cell in leaves), default=0)
    found: dict[int, int] = {}
    for cell in leaves:
        for _, other in _beyond(cell, leaves, coarsest):
            if resolution(other) < resolution(cell):
                found[other] = max(found.get(other, 0), resolution(cell))
    return found


def _beyond(cell: int, leaves: Mapping[int, Leaf], coarsest: int) -> Iterator[tuple[Side, int]]:
    """The sides of a leaf with the leaf beyond each, where that is coarser, or equal and not looked at from there."""
    for side in sides(cell):
        other = next((one for one in _ancestors(side.neighbour, coarsest) if one in leaves), None)
        if other is not None and (other != side.neighbour or cell < other):
            yield side, other


def _ancestors(cell: int, coarsest: int) -> Iterable[int]:
    return (ancestor(cell, at) for at in range(resolution(cell), coarsest - 1, -1))


def _copies(pair: tuple[int, int], leaves: Mapping[int, Leaf], areas: Mapping[int, float], radius_km: float) -> float:
    strip = side_km(resolution(pair[0])) * radius_km
    return sum(leaves[cell].records * min(1.0, strip / areas[cell]) for cell in pair)

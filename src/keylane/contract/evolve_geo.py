"""What a change of lanes by place does: another lane table, resolution or region. Part of `evolve`.

A leaf moves when some of its cells were on another lane by the old table. How much of the load that is, only traffic
can say; so leaves are counted here, and no share of keys is claimed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from keylane.contract.leaves import leaf_lanes
from keylane.geo.bits import curve_end, curve_start, homes_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.contract.model import Contract, Geo

__all__ = ["MovedLeaves", "geo_changes", "moved_leaves"]


class Stretch(NamedTuple):
    """A leaf as its stretch of the curve, its lane, and the home cells in it."""

    start: int
    end: int
    lane: int
    homes: int


class MovedLeaves(NamedTuple):
    """The leaves of a new table: how many there are, were elsewhere, were hashed; and those of the old, hashed now.

    Elsewhere or hashed are those of which a part is.
    """

    leaves: int
    moved: int
    joined: int
    left: int

    @property
    def share(self) -> float:
        """The share of the new table's leaves that were on another lane."""
        return self.moved / self.leaves if self.leaves else 0.0

    def __str__(self) -> str:
        parts = [f"{self.moved} of {self.leaves} leaves change lane ({self.share:.1%})"]
        parts += [f"{self.joined} were hashed"] if self.joined else []
        return "; ".join([*parts, f"{self.left} are hashed now"] if self.left else parts)


def moved_leaves(old: Sequence[str], new: Sequence[str]) -> MovedLeaves:
    """Compare two lane tables.

    Split leaves whose parts stay on their lane have not moved.

    >>> moved_leaves(["8329b6 8329b0"], ["8429b61 8329b0", "8429b63"])
    MovedLeaves(leaves=3, moved=1, joined=0, left=1)

    The old 8329b6 is left in part: five of its seven children are in no leaf any more, and hashed.
    """
    was, now = _stretches(old), _stretches(new)
    moved = sum(any(one.lane != leaf.lane for one in _meeting(was, leaf)) for leaf in now)
    joined, left = (sum(not _covered(leaf, by) for leaf in leaves) for leaves, by in ((now, was), (was, now)))
    return MovedLeaves(len(now), moved, joined, left)


def _covered(leaf: Stretch, table: list[Stretch]) -> bool:
    """Whether all of a leaf is in leaves of a table: in a coarser one, or in finer ones that make it up."""
    return sum(one.homes for one in _meeting(table, leaf)) >= leaf.homes


def _stretches(leaves: Sequence[str]) -> list[Stretch]:
    known = ((cell, lane) for cell, lane in leaf_lanes(leaves) if cell is not None)
    return sorted(Stretch(curve_start(cell), curve_end(cell), lane, homes_in(cell)) for cell, lane in known)


def _meeting(table: list[Stretch], leaf: Stretch) -> list[Stretch]:
    """The leaves of a table that share a cell with this one; those of one table lie apart."""
    end = bisect_right(table, leaf.end, key=lambda one: one.start)
    start = bisect_right(table, leaf.start - 1, hi=end, key=lambda one: one.end)
    return table[start:end]


def geo_changes(old: Contract, new: Contract, strangers: float) -> Iterator[tuple[str, str, float | None]]:
    """Where, what, and the share of keys that change lane where it is known; `strangers`: that of an unlike hash."""
    was, now = old.spec.geo, new.spec.geo
    if was is None and now is None:
        return
    if was is None or now is None:
        text = "the lanes are by place" if was is None else "the lanes are no longer by place"
        yield "spec.geo", f"{text}: about {strangers:.1%} of keys change lane", strangers
    else:
        yield from _both(was, now, strangers)


def _both(was: Geo, now: Geo, strangers: float) -> Iterator[tuple[str, str, float | None]]:
    found = moved_leaves(was.leaves, now.leaves)
    if was.resolution != now.resolution:
        text = f"{was.resolution} became {now.resolution}: about {strangers:.1%} of cells in no leaf change lane"
        yield "spec.geo.resolution", text, None if found.leaves else strangers
    if found.moved or found.joined or found.left:
        yield "spec.geo.leaves", f"another lane table: {found}", None
    if (was.region and tuple(map(float, was.region))) != (now.region and tuple(map(float, now.region))):
        yield "spec.geo.region", f"{_shown(was)} became {_shown(now)}: places outside lose their lane", None


def _shown(geo: Geo) -> str:
    return "the earth" if geo.region is None else str(list(geo.region))

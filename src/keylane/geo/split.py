"""Counted cells -> the leaves of a lane table: coarse where few are, fine where many are.

Rule: start with the ancestors at the coarsest resolution. A cell that is heavier than `tau` times the mean load of a
lane is replaced by its seven children (six of a pentagon), until none is too heavy or the home resolution is reached.
Children without a record stay in the table with no load: whoever drives there later is beside the neighbours, and not
where a hash would have put the whole area.

Worked example: 60 records on 6 lanes, so a mean of 10, and tau 0.5. A cell of 4 records is a leaf. A cell of 12 is
split; a child of 5 is a leaf, a child of 7 is split again.

What changes do: a smaller tau or more lanes split more, and never make a leaf coarser. With `kept`, the leaves of an
earlier table, no leaf comes out that would hold one of them whole and more beside it, so an old lane is known for
every new leaf. When not to use it: where the heaviest home cell alone is above a lane's fair share nothing here helps;
`keylane.measure.balance.least_cv` says what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import UsageError
from keylane.geo.bits import FINEST, ancestor, curve_end, curve_start, resolution
from keylane.geo.children import children

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Cells = NDArray[np.int64]
    Loads = NDArray[np.float64]

__all__ = ["COARSEST", "HOME", "Leaves", "checked_tau", "in_curve_order", "split"]

#: Where splitting begins: cells of about 12,000 km2.
COARSEST: Final = 3
#: Where it ends; `keylane.geo.cells.HOME_RESOLUTION`, which needs the library of H3 to be there.
HOME: Final = 9


@dataclass(frozen=True, slots=True)
class Leaves:
    """Cells in the order of the curve, none inside another, and what each has of every hour."""

    cells: Cells
    loads: Loads

    def __len__(self) -> int:
        return len(self.cells)


def split(
    cells: Any, loads: Any, lanes: int, tau: float, coarsest: int = COARSEST, finest: int = HOME, kept: Any = ()
) -> Leaves:
    """The leaves of cells of the home resolution, each of which comes with its load of every hour.

    >>> leaves = split([0x89283082803ffff, 0x89283082807ffff], [[9.0], [1.0]], lanes=2, tau=1.0)
    >>> len(leaves), float(leaves.loads.sum()), int((leaves.loads > 0).sum())
    (37, 10.0, 2)
    """
    _sane(lanes, tau, coarsest, finest)
    homes, load = in_curve_order(cells, loads)
    held = np.sort(np.asarray(kept, np.int64))
    total = load.sum(1, dtype=float)
    at, begins = _first_of_leaves(homes, total, tau * float(total.sum()) / lanes, (coarsest, finest), held)
    leaves = _at_each(homes[begins], at)
    sums = np.add.reduceat(load, begins, axis=0, dtype=float) if len(homes) else load
    return _completed(leaves, sums, held, coarsest)


def _first_of_leaves(
    homes: Cells, total: Loads, heaviest: float, between: tuple[int, int], kept: Cells
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each leaf its resolution, and the place of its first home cell; by totals alone, level by level."""
    sums = np.concatenate([[0.0], np.cumsum(total)])
    left = np.arange(len(homes))
    found = []
    for at in range(between[0], between[1] + 1):
        parents = ancestor(homes[left], at)
        first = np.flatnonzero(np.diff(parents, prepend=-1))
        begins, ends = left[first], left[np.append(first[1:], len(left)) - 1] + 1 if len(left) else left
        light = (sums[ends] - sums[begins] <= heaviest) & ~_holds_more(parents[first], kept)
        leaf = light | (at == between[1])
        found.append((np.full(int(leaf.sum()), at), begins[leaf]))
        left = left[~np.repeat(leaf, np.diff(np.append(first, len(left))))]
    levels, starts = (np.concatenate(one) for one in zip(*found, strict=True))
    order = np.argsort(starts)
    return levels[order], starts[order]


def _at_each(cells: Cells, at: NDArray[np.int64]) -> Cells:
    """The ancestor of each cell at its own resolution."""
    filler = (1 << 3 * (FINEST - at)) - 1
    return (cells & ~(0xF << 52)) | (at << 52) | filler


def in_curve_order(cells: Any, loads: Any) -> tuple[Cells, Loads]:
    """Cells of one resolution with their loads along the curve; a cell that comes twice is one with both loads."""
    homes = np.asarray(cells, np.int64)
    load = np.asarray(loads)
    places = curve_end(homes)
    if (places[1:] > places[:-1]).all():
        return homes, load
    order = np.argsort(places, kind="stable")
    homes, load = homes[order], load[order]
    first = np.flatnonzero(np.diff(homes, prepend=-1))
    return homes[first], np.add.reduceat(load, first, axis=0)


def checked_tau(tau: float) -> float:
    """A share of a lane above which cells can be split; others are refused."""
    if not (tau > 0 and isfinite(tau)):
        raise UsageError.of("a cell is split above a share of a lane", got=tau, allowed="a tau above 0")
    return tau


def _sane(lanes: int, tau: float, coarsest: int, finest: int) -> None:
    checked_tau(tau)
    if not 0 <= coarsest <= finest <= FINEST:
        raise UsageError.of(
            "no such resolutions", got=(coarsest, finest), allowed=f"0 to {FINEST}, the coarse one first"
        )
    if lanes < 1:
        raise UsageError.of("a table has lanes", got=lanes, allowed="1 or more")


def _holds_more(cells: Cells, kept: Cells) -> NDArray[np.bool_]:
    """Whether a kept leaf is inside of each cell, and is not the cell itself."""
    places = np.sort(curve_end(kept))
    inside = np.searchsorted(places, curve_start(cells)) < np.searchsorted(places, curve_end(cells), "right")
    return inside & ~np.isin(cells, kept)


def _completed(cells: Cells, load: Loads, kept: Cells, coarsest: int) -> Leaves:
    """The leaves, and those without load: kept ones, and the siblings that splitting has made."""
    empty = _not_in(kept, cells)
    known = np.concatenate([cells, empty])
    siblings = _siblings(known, coarsest)
    every = np.concatenate([known, siblings])
    loads = np.concatenate([load, np.zeros((len(every) - len(load), load.shape[1]))])
    order = np.argsort(curve_end(every), kind="stable")
    return Leaves(every[order], loads[order])


def _not_in(kept: Cells, leaves: Cells) -> Cells:
    """Kept leaves with no new leaf inside of them; none of the new ones is coarser."""
    places = np.sort(curve_end(leaves))
    first, after = np.searchsorted(places, curve_start(kept)), np.searchsorted(places, curve_end(kept), "right")
    return kept[first == after]


def _siblings(leaves: Cells, coarsest: int) -> Cells:
    """The children of split cells in which there is no leaf."""
    out = [np.zeros(0, np.int64)]
    fineness = resolution(leaves)
    for at in range(coarsest, int(fineness.max(initial=coarsest))):
        finer = leaves[fineness > at]
        below = children(np.unique(ancestor(finer, at))).ravel()
        out.append(below[(below >= 0) & ~np.isin(below, ancestor(finer, at + 1))])
    return np.concatenate(out)

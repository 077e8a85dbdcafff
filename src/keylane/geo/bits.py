"""What a cell's 64 bits contain: its resolution, ancestors, children and position on the curve. No H3 needed.

A cell is mode 1 in bits 59 to 62, its resolution in bits 52 to 55, a base cell of 7 bits, then fifteen digits of 3
bits; digits finer than the resolution are all ones. So the ancestor at resolution r is the same number with r as its
resolution and every digit after the r-th set to ones, and the descendants of a cell are a range of the low 52 bits.

Worked example: 89283082803ffff at 5 is 85283083fffffff.

Routing takes ancestors and never asks H3 for the cell of a location at a coarse resolution: the two disagree for about
one location in fifteen, because a child may lie a little outside of its parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Cells = TypeVar("Cells", int, NDArray[np.int64])
    from numpy.typing import NDArray

FINEST: Final = 15
#: The resolution that all others are derived from: cells of about 0.1 km2.
HOME_RESOLUTION: Final = 9
_CURVE: Final = (1 << 52) - 1
_RESOLUTION: Final = 0xF << 52
_BASE_CELLS: Final = 122
#: The base cells that are pentagons.
PENTAGONS: Final = (4, 14, 24, 38, 49, 58, 63, 72, 83, 97, 107, 117)


def resolution(cells: Cells) -> Cells:
    """The resolution of a cell, or of each.

    >>> resolution(0x89283082803ffff)
    9
    """
    return (cells >> 52) & 0xF


def ancestor(cells: Cells, at: int) -> Cells:
    """The ancestor at a resolution that is not finer than the cell's own; the caller knows that it is not.

    >>> f"{ancestor(0x89283082803ffff, 5):x}"
    '85283083fffffff'
    """
    filler = (1 << 3 * (FINEST - at)) - 1
    return (cells & ~_RESOLUTION) | (at << 52) | filler


def middle(cells: Cells, at: int) -> Cells:
    """The descendant at a resolution, not coarser than the cell's own, whose centre is the cell's centre.

    >>> f"{middle(0x85283083fffffff, 6):x}"
    '862830807ffffff'
    """
    finer = (1 << 3 * (FINEST - resolution(cells))) - 1
    return (cells & ~_RESOLUTION & ~finer) | (at << 52) | ((1 << 3 * (FINEST - at)) - 1)


def curve_end(cells: Cells) -> Cells:
    """The last position of the cell's descendants on the curve; of a finest cell, its own."""
    return cells & _CURVE


def curve_start(cells: Any) -> Any:
    """The first position of the cell's descendants on the curve."""
    return (cells & _CURVE) & ~((1 << 3 * (FINEST - resolution(cells))) - 1)


def homes_in(cell: int) -> int:
    """How many home cells a cell holds, which is not finer than they are; a pentagon has six children, one like it.

    >>> homes_in(0x8329b6fffffffff), homes_in(0x831c00fffffffff)
    (117649, 98041)
    """
    finer = 7 ** (HOME_RESOLUTION - resolution(cell))
    pentagon = cell >> 45 & 0x7F in PENTAGONS and middle(ancestor(cell, 0), resolution(cell)) == cell
    return 1 + 5 * (finer - 1) // 6 if pentagon else finer


def is_cell(number: int) -> bool:
    """Whether a number is a cell: mode, reserved bits, base cell and digits are what they may be.

    Digits up to the resolution are 0 to 6, and those after it 7. The sequence that pentagons lack is not looked at.

    >>> is_cell(0x89283082803ffff), is_cell(0), is_cell(0x89283082803fff0)
    (True, False, False)
    """
    return 0 <= number < 1 << 63 and bool(are_cells(number))


def are_cells(numbers: Any) -> Any:
    """The same for an array of 64-bit numbers."""
    finest = resolution(numbers)
    good = (numbers >> 59 == 1) & (numbers >> 56 & 0b111 == 0) & (numbers >> 45 & 0x7F < _BASE_CELLS)
    for digit in range(1, FINEST + 1):
        filled = numbers >> 3 * (FINEST - digit) & 0b111 == 7
        good &= filled == (finest < digit)
    return good


def cell_name(cell: int) -> str:
    """A cell as people write it: fifteen hexadecimal digits."""
    return f"{cell:015x}"


def cell_named(name: str) -> int | None:
    """The cell of a name, whose trailing f may be left out; None if it is not a cell.

    >>> cell_named("8329b6") == cell_named("8329b6fffffffff") == 0x8329b6fffffffff
    True
    """
    try:
        cell = int(name.ljust(15, "f"), 16)
    except ValueError:
        return None
    return cell if len(name) <= 15 and is_cell(cell) else None


# Children: the cells right under a cell, and home cells in it.


def children(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The seven children of each cell as an (n, 7) array; -1 for the one that a pentagon lacks.

    All the cells are of one resolution. A child is one digit more, 0 to 6; a pentagon, whose digits are all 0, has no
    child with the digit 1.
    """
    if not len(cells):
        return np.zeros((0, 7), np.int64)
    at = int(resolution(cells[0])) + 1
    below = (middle(cells, at) & ~(7 << 3 * (FINEST - at)))[:, None] | np.arange(7) << 3 * (FINEST - at)
    pentagon = np.isin(cells >> 45 & 0x7F, PENTAGONS) & (middle(ancestor(cells, 0), at - 1) == cells)
    below[pentagon, 1] = -1
    return below

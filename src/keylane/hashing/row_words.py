"""How kernels look at rows of bytes: as columns of 32-bit words, without a copy. For the hashes only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def word(rows: NDArray[np.uint8], at: int, order: str = "<") -> NDArray[Any]:
    """Bytes `at` to `at + 3` of every row as one 32-bit number: a strided, unaligned view."""
    count, length = rows.shape
    if not count:  # no view of nothing has such a stride
        return np.empty(0, f"{order}u4")
    return np.ndarray((count,), f"{order}u4", rows.data, at, (length,))


def tail(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """Read the 1 to 3 bytes after the last whole word as one little-endian number."""
    length = rows.shape[1]
    rest = length % 4
    if length > 4:
        return word(rows, length - 4) >> (8 * (4 - rest))
    number = rows[:, 0].astype(np.uint32)
    for i in range(1, rest):
        number |= rows[:, i].astype(np.uint32) << (8 * i)
    return number


def seeded(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """Start one accumulator for each row."""
    return np.full(len(rows), seed, np.uint32)


def sign_extended(column: NDArray[np.uint8]) -> NDArray[Any]:
    """Read bytes as Java does, -128 to 127, in 32 bits."""
    return column.view(np.int8).astype(np.int32).view(np.uint32)

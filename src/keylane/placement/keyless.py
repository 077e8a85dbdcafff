"""Lanes without a key: round robin, random and sticky, each a function of the record's position in its source.

So the same record has the same lane when it is read again. None keeps any order. When not to use them: for a record
whose key means something. What a live client does with records without a key depends on its batches and its chance,
and is not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from keylane.hashing.murmur2 import murmur2
from keylane.placement.fold import masked

if TYPE_CHECKING:
    from collections.abc import Callable

#: Records in a row that a sticky rule of position keeps on one lane.
STICKY_RUN: Final = 256


def round_robin_at(position: int, lanes: int) -> int:
    """Each position one lane further.

    >>> [round_robin_at(p, 3) for p in range(5)]
    [0, 1, 2, 0, 1]
    """
    return position % lanes


def random_at(position: int, lanes: int) -> int:
    """A lane that looks random and depends on the position alone: murmur2 of its eight bytes."""
    return masked(murmur2(position.to_bytes(8, "big", signed=True)), lanes)


def sticky_at(position: int, lanes: int) -> int:
    """A random lane for each run of 256 positions: the long batches of a sticky client, replayable."""
    return random_at(position // STICKY_RUN, lanes)


RULES: Final[dict[str, Callable[[int, int], int]]] = {
    "round_robin": round_robin_at,
    "random": random_at,
    "sticky": sticky_at,
}


def keyless_lanes(rule: str, positions: Any, lanes: int) -> Any:
    """The same rules over an int64 array of positions."""
    import numpy as np

    from keylane.hashing.murmur2 import murmur2_rows

    if rule == "round_robin":
        return (positions % lanes).astype(np.uint32)
    numbers = positions // STICKY_RUN if rule == "sticky" else positions
    rows = np.ascontiguousarray(numbers.astype(">i8")).view(np.uint8).reshape(-1, 8)
    return masked(murmur2_rows(rows), lanes)

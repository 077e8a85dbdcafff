"""The lane table of a geo contract as text: each lane's cells, and the checksum that shows it is complete.

A leaf is a cell that stands for all of its descendants. Looking a cell up: `keylane.placement.cell_lanes`. Where a
table comes from: `keylane.geo.lane_tables` and `keylane.geo.lane_tables`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING

from keylane.geo.bits import cell_name, cell_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


def leaf_lanes(leaves: Sequence[str]) -> Iterator[tuple[int | None, int]]:
    """Every leaf with its lane, as listed; None for a word that is no cell."""
    for lane, words in enumerate(leaves):
        for word in words.split():
            yield cell_named(word), lane


@cache
def finest_leaf(leaves: tuple[str, ...]) -> int:
    """The finest resolution of a table's leaves; 0 where there are none. A cell's second digit is its resolution.

    >>> finest_leaf(("8329b6 8429b61", "8329b0"))
    4
    """
    return max((int(word[1], 16) for words in leaves for word in words.split()), default=0)


def leaves_text(lane_of: Mapping[int, int], lanes: int) -> tuple[str, ...]:
    """Leaves and their lanes as a contract holds them: one text for each lane, cells in order.

    >>> leaves_text({0x8329b6fffffffff: 1, 0x8329b0fffffffff: 1}, 2)
    ('', '8329b0 8329b6')
    """
    words: list[list[str]] = [[] for _ in range(lanes)]
    for cell in sorted(lane_of):
        words[lane_of[cell]].append(cell_name(cell).rstrip("f"))
    return tuple(" ".join(cells) for cells in words)


def leaves_checksum(leaves: Iterable[str]) -> str:
    """SHA-256 of the table in one spelling: cells in full and in small letters, in order, a line for each lane.

    >>> leaves_checksum(["8329B6"]) == leaves_checksum(["8329b6fffffffff"])
    True
    """
    lines = (" ".join(sorted(word.lower().ljust(15, "f") for word in words.split())) for words in leaves)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()

"""Lanes without a key: round robin, random, sticky. Chance and position come in as arguments, never from a clock.

Two kinds. Rules of a *position* (`RULES`, used by the router) give the same lane for the same place in the source, so
that a replay is a replay. Rules of a *sequence* (`sticky_per_batch`, `sticky_by_bytes`) reproduce what a live client
does, for simulation; `draw` is their source of chance: a function from n to a number below n.

None keeps any order. When not to use them: for a record whose key means something.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from keylane.hashing.murmur2 import murmur2
from keylane.placement.fold import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = [
    "RULES",
    "STICKY_RUN",
    "adaptive_table",
    "adaptive_weights",
    "keyless_lanes",
    "pick",
    "random_at",
    "round_robin_at",
    "sticky_at",
    "sticky_by_bytes",
    "sticky_per_batch",
]

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


def sticky_per_batch(batches: Iterable[bool], lanes: int, draw: Callable[[int], int]) -> Iterator[int]:
    """Kafka 2.4 to 3.2 (KIP-480): stay on a lane until a batch closes, then draw another one.

    `batches` says for each record whether it opens a new batch. The flaw that ended it: a slow broker closes batches
    early, so it is drawn more often and gets more.
    """
    lane = draw(lanes)
    for i, opens in enumerate(batches):
        if opens and i and lanes > 1:
            # Draw among the others: shifting by 1 to n - 1 never comes back to the same lane.
            lane = (lane + 1 + draw(lanes - 1)) % lanes
        yield lane


def sticky_by_bytes(
    sizes: Iterable[int],
    lanes: int,
    draw: Callable[[int], int],
    batch_size: int = 16_384,
    queues: Callable[[], Sequence[int]] | None = None,
) -> Iterator[int]:
    """Kafka 3.3 and later (KIP-794): stay on a lane for `batch_size` bytes, then draw by how short the queues are.

    `sizes` are the records' sizes in bytes; `queues`, when given, tells the batches waiting for each lane now.

    Worked example: records of 6,000 bytes and the default size: three records a lane, because the third is the
    one that reaches 16,384.
    """
    lane, sent = _draw_lane(lanes, draw, queues), 0
    for size in sizes:
        if sent >= batch_size:
            lane, sent = _draw_lane(lanes, draw, queues), 0
        yield lane
        sent += size


def _draw_lane(lanes: int, draw: Callable[[int], int], queues: Callable[[], Sequence[int]] | None) -> int:
    table = adaptive_table(queues()) if queues else None
    return pick(table, draw(table[-1])) if table else draw(lanes)


def adaptive_weights(queues: Sequence[int]) -> list[int]:
    """Weight of a lane: the longest queue plus one, less its own.

    >>> adaptive_weights([5, 0, 3, 0, 1])
    [1, 6, 3, 6, 5]
    """
    longest = max(queues)
    return [longest + 1 - queue for queue in queues]


def adaptive_table(queues: Sequence[int]) -> list[int] | None:
    """Running sums of the weights; None when all queues are equal, or there is nothing to choose.

    >>> adaptive_table([0, 3, 1])
    [4, 5, 8]
    """
    if len(queues) < 2 or min(queues) == max(queues):
        return None
    return list(accumulate(adaptive_weights(queues)))


def pick(table: Sequence[int], number: int) -> int:
    """The lane whose part of the table holds the number."""
    return bisect_right(table, number)

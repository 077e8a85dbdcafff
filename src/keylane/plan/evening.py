"""Lanes made even by moving few keys: the pins of the strategy `pin`.

The rule: take the fullest lane, and move its heaviest key that the emptiest lane has room for; again, until the fullest
lane is within a hundredth of the least it could be, or no move helps, or enough keys have moved. A lane's fullness is
the worst of several measures (all records; the recent ones), each divided by the most that a single key has of it: a
lane that holds nothing but the heaviest key is as full as it must be.

Worked example: keys of 5, 3, 2 and 2 on two lanes, all on lane 0. The least possible is 6 a lane. 5 moves to lane 1,
then nothing helps: 7 and 5. A packing from scratch would come as far, and name all four. Lanes below the fullest that
must be are left as they are: a pin that does not lower it is not worth its line.

Another lane count starts from another hash and gives other moves. A key that is new, or was light and grows, is where
its hash puts it; so what is promised of this is what it did to records it had not seen (`candidates`).

When not to use it: when one key is heavier than a lane may be. That key stays whole, and its lane stays hot.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["MOST_MOVED", "evened", "packed"]

#: Near enough to the least possible: less than this is not worth another pin.
NEAR: Final = 0.01
#: Pins in one contract. More make it slow to read, for people first.
MOST_MOVED: Final = 2_000


def evened(start: NDArray[np.int32], weights: Floats, load: Floats, *, most: int = MOST_MOVED) -> dict[int, int]:
    """Which keys to move, by row, and the lane of each.

    `weights` is (keys, measures) in mean lanes, heaviest first; `load` (lanes, measures) is what lies on the lanes,
    these keys at their `start` and all others.

    >>> keys = np.array([[5.0], [3.0], [2.0], [2.0]]) / 6
    >>> evened(np.zeros(4, np.int32), keys, np.array([[2.0], [0.0]]))
    {0: 1}
    """
    least = np.maximum(1.0, weights.max(axis=0, initial=0.0))
    scaled = weights / least
    keys, lanes = scaled.tolist(), (load / least).tolist()
    fullness, waiting = (load / least).max(axis=1), _waiting(start, scaled, len(load))
    unsettled, moved = fullness.copy(), dict[int, int]()
    while len(moved) < most:
        full, empty = int(unsettled.argmax()), int(fullness.argmin())
        if unsettled[full] <= 1 + NEAR:
            break
        key = _next_that_fits(waiting[full], keys, lanes[empty], float(fullness[full]))
        if key is None:
            unsettled[full] = -1.0
            continue
        lanes[full] = [on - one for on, one in zip(lanes[full], keys[key], strict=True)]
        lanes[empty] = [on + one for on, one in zip(lanes[empty], keys[key], strict=True)]
        moved[key] = empty
        for lane in (full, empty):
            fullness[lane] = max(lanes[lane])
            unsettled[lane] = fullness[lane] if unsettled[lane] >= 0 else -1.0
    return moved


def _waiting(start: NDArray[np.int32], scaled: Floats, lanes: int) -> list[list[int]]:
    """The keys of each lane, the lightest first: the heaviest is taken from the end."""
    order = np.lexsort((scaled.max(axis=1), start))
    ends = np.searchsorted(start[order], np.arange(lanes + 1)).tolist()
    keys = order.tolist()
    return [keys[first:end] for first, end in pairwise(ends)]


def _next_that_fits(waiting: list[int], keys: list[list[float]], room: list[float], full: float) -> int | None:
    """The heaviest key with which the emptiest lane is clearly less full than the fullest was.

    What is too heavy now is too heavy later, when the lanes are nearer to each other: it is not looked at again.
    """
    while waiting:
        key = waiting.pop()
        after = max(on + one for on, one in zip(room, keys[key], strict=True))
        if after < full and after <= max(1 + NEAR, full - max(keys[key]) / 2):
            return key
    return None


def packed(volumes: Floats, load: Floats) -> list[int]:
    """A lane for each volume, the heaviest first to the emptiest lane; `load` is what lies on the lanes already.

    Longest processing time first: at worst a third above the best packing, and near it when small ones come last. One
    lane more gives other lanes to most of them.

    >>> packed(np.array([5.0, 3.0, 2.0, 2.0]), np.zeros(2))
    [0, 1, 1, 0]
    """
    on, out = load.copy(), [0] * len(volumes)
    for i in np.argsort(-volumes, kind="stable").tolist():
        out[i] = lane = int(on.argmin())
        on[lane] += volumes[i]
    return out

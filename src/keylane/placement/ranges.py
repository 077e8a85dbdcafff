"""A 128-bit hash -> one of n equal ranges: how a new Kinesis stream cuts its key space.

Rule: every range is floor(2**128 / n) wide and the last takes the rest, so range i begins at i * width. This is not
i * 2**128 // n, which differs from n = 6 on. Uneven ranges, splits and merges are the key space's, not this file's.

Going from n to m ranges moves the keys whose fraction of the space has another integer part: see
`contract.answers.moved_share`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SPACE", "range_lane", "range_lanes", "range_start"]

SPACE = 1 << 128


def range_start(lane: int, lanes: int) -> int:
    """The first hash key of a range: what an explicit hash key may be set to.

    >>> range_start(1, 2) == 2**127
    True
    """
    return lane * (SPACE // lanes)


def range_lane(number: int, lanes: int) -> int:
    """The range a 128-bit number is in; a boundary belongs to the range it begins."""
    return min(number // (SPACE // lanes), lanes - 1)


def range_lanes(halves: NDArray[Any], lanes: int) -> NDArray[Any]:
    """The same for (n, 2) halves: search by the high half, and by the low half where that decides."""
    import numpy as np

    starts = [range_start(lane, lanes) for lane in range(lanes)]
    high = np.array([start >> 64 for start in starts], np.uint64)
    low = np.array([start & (1 << 64) - 1 for start in starts], np.uint64)
    lane = np.searchsorted(high, halves[:, 0], side="right") - 1
    too_far = (high[lane] == halves[:, 0]) & (low[lane] > halves[:, 1])
    lane -= too_far
    return lane.astype(np.uint32)

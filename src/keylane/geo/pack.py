"""Leaves -> lanes, so that lanes are evenly filled in every hour of the day; or in ranges of the curve.

`pack_by_hour`, the rule: leaves from the heaviest to the lightest, each to the lane where the sum of the squares of the
lanes' loads grows least; every hour counts in parts of its own mean, and the day as a whole as well. Cities in one time
zone are busy together, so they meet on different lanes, and a lane is made of cities that sleep in turn.

Worked example, two hours and two lanes: leaves of (6, 0), (0, 6), (5, 1) and (1, 5). By totals alone any two and two
are even. By hour (6, 0) and (1, 5) share a lane, and so do (0, 6) and (5, 1): 7 and 5 in each hour.

`pack_along_curve`, the rule: leaves in the order of the curve, cut where the running sum passes a lane's fair share.
Neighbours share a lane, so fewer records are near a border between lanes; a lane then wakes and sleeps as one.

What changes do: another load, or another lane count, gives nearly every leaf another lane. A table in use is changed by
`keylane.geo.rebalance`. When not to use them: `pack_along_curve` not for loads over several time zones; neither where
one leaf is above a lane's fair share, before `keylane.geo.split`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Lanes = NDArray[np.int32]

__all__ = ["in_parts_of_the_mean", "pack_along_curve", "pack_by_hour"]

#: The day beside its hours: as much as all of them together.
_DAY: Final = 1.0


def pack_by_hour(loads: Any, lanes: int) -> Lanes:
    """The lane of each leaf; `loads` has a row for each leaf along the curve, and a column for each hour.

    >>> pack_by_hour([[6, 0], [0, 6], [5, 1], [1, 5]], 2).tolist()
    [0, 1, 1, 0]
    """
    load = _checked(loads, lanes)
    parts = in_parts_of_the_mean(load, lanes)
    total, out = load.sum(1), np.full(len(load), -1, np.int32)
    filled = np.zeros((lanes, parts.shape[1]))
    for leaf in np.argsort(-total, kind="stable")[: int((total > 0).sum())]:
        lane = int(np.argmin(filled @ parts[leaf]))
        filled[lane] += parts[leaf]
        out[leaf] = lane
    return _with_neighbours(out)


def pack_along_curve(loads: Any, lanes: int) -> Lanes:
    """The lane of each leaf, rising along the curve.

    >>> pack_along_curve([[1], [1], [1], [3]], 2).tolist()
    [0, 0, 0, 1]
    """
    total = _checked(loads, lanes).sum(1)
    middle = np.cumsum(total) - total / 2
    fair = max(float(total.sum()), np.finfo(float).tiny) / lanes
    return np.clip(middle // fair, 0, lanes - 1).astype(np.int32)


def in_parts_of_the_mean(load: NDArray[np.float64], lanes: int) -> NDArray[np.float64]:
    """Each hour in parts of what a lane has of it on average, and the whole day as the last column."""
    fair = load.sum(0) / lanes
    hours = np.divide(load, fair, out=np.zeros_like(load), where=fair > 0)
    day = load.sum(1, keepdims=True) / max(float(fair.sum()), np.finfo(float).tiny)
    return np.hstack([hours, day * np.sqrt(_DAY * load.shape[1])])


def _checked(loads: Any, lanes: int) -> NDArray[np.float64]:
    load = np.asarray(loads, float)
    if lanes < 1:
        raise UsageError.of("a table has lanes", got=lanes, allowed="1 or more")
    if load.ndim != 2 or (load < 0).any() or not np.isfinite(load).all():
        raise UsageError.of(
            "not the loads of leaves by hour", got=f"shape {load.shape}", allowed="counts from 0 upwards"
        )
    return load


def _with_neighbours(lanes: Lanes) -> Lanes:
    """Leaves without a load are with the leaf before them on the curve, and the first with the first that has one."""
    known = np.flatnonzero(lanes >= 0)
    if not len(known):
        return np.zeros_like(lanes)
    before = np.maximum.accumulate(np.where(lanes >= 0, np.arange(len(lanes)), known[0]))
    return lanes[before]

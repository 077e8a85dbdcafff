"""How evenly lanes are filled, and how evenly they could be: one definition of each figure, for every command.

Records of each lane come in as counts. Who counted them, and what a contract expects of them: `conformance`.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from keylane.contract.names import MAX_LANES
from keylane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Counts = NDArray[np.int64] | NDArray[np.float64] | Sequence[int] | Sequence[float]


def cv(lanes: Counts) -> float:
    """The coefficient of variation: the standard deviation of the lanes over their mean; 0 when there is nothing.

    All lanes count, the idle ones too.

    >>> cv([6, 0, 0])
    1.4142135623730951
    """
    counts = np.asarray(lanes, float)
    return float(counts.std() / counts.mean()) if counts.any() else 0.0


def max_over_mean(lanes: Counts) -> float:
    """The fullest lane over the mean lane; 0 when there is nothing.

    >>> max_over_mean([6, 2])
    1.5
    """
    counts = np.asarray(lanes)
    return float(counts.max() / counts.mean()) if counts.any() else 0.0


def noise_floor(lanes: int, records: int) -> float:
    """The CV that chance alone gives: each record on a lane drawn evenly, whatever its key.

    The root of the mean square of a multinomial; a CV below it needs more records, not a better hash.

    >>> round(noise_floor(60, 6_000), 4)
    0.0992
    """
    return sqrt((lanes - 1) / records) if records else 0.0


def least_cv(keys: Counts, lanes: int) -> float:
    """A CV that no placement with each key on one lane goes below, given the records of each key.

    A key above the fair share has a lane to itself; the rest is spread as if it could be divided at will.

    >>> round(least_cv([1, 1, 1, 1, 1, 1], 60), 9)
    3.0
    >>> least_cv([2, 1, 1], 2)
    0.0
    """
    counts = np.asarray(keys, float)
    rest = float(counts.sum())
    loads: list[float] = []
    for records in _heaviest(counts, lanes):
        if records * (lanes - len(loads)) <= rest:
            break
        loads.append(records)
        rest -= records
    free = lanes - len(loads)
    return cv([*loads, *[rest / free] * free] if free else loads)


def useful_lanes(hottest_share: float) -> int:
    """Most lanes that could be filled evenly when the hottest key stays whole: about 1 / p.

    >>> useful_lanes(0.083), useful_lanes(1 / 12), useful_lanes(0.6)
    (12, 12, 1)
    """
    if not 0 < hottest_share <= 1:
        raise UsageError.of("share is out of range", got=hottest_share, allowed="above 0, up to 1")
    # A share such as 1/49 is stored a little above it, and its inverse a little below 49.
    return min(MAX_LANES, int(1 / hottest_share + 1e-9))


def _heaviest(counts: NDArray[np.float64], most: int) -> list[float]:
    """The heaviest first; without sorting millions of keys that can have no lane to themselves."""
    in_order = len(counts) <= most or bool((counts[1:] <= counts[:-1]).all())
    top = counts[:most] if in_order else np.partition(counts, len(counts) - most)[-most:]
    return sorted(top.tolist(), reverse=True)

"""How even lanes are under a strategy: the figures of a candidate, from records by lane and window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.measure.balance import cv, max_over_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Score", "score", "worst_window"]

#: A window with less than this part of the mean window says little about lanes.
THIN: Final = 0.1


@dataclass(frozen=True, slots=True)
class Score:
    """`p99` is the lane at the 99th percentile over the mean; `worst_window` the fullest lane of any one window."""

    max_over_mean: float
    cv: float
    p99: float
    worst_window: float
    idle_lanes: int


def score(loads: NDArray[np.float64]) -> Score:
    """The figures of (lanes, windows) records.

    >>> score(np.array([[3.0, 0.0], [1.0, 4.0]])).worst_window
    2.0
    """
    lanes = loads.sum(axis=1)
    mean = float(lanes.mean()) or 1.0
    p99 = float(np.percentile(lanes, 99)) / mean
    return Score(max_over_mean(lanes), cv(lanes), p99, worst_window(loads), int((lanes <= 0).sum()))


def worst_window(loads: NDArray[np.float64]) -> float:
    """The fullest lane over the mean in the window where that is worst; thin windows do not count."""
    totals = loads.sum(axis=0)
    thick = loads[:, totals > THIN * totals.mean()] if totals.any() else loads[:, :0]
    return float((thick.max(axis=0) / thick.mean(axis=0)).max()) if thick.size else 0.0

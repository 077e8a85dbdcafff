"""Shares of several writers, from which rule each record fits first; and how likely chance is as an explanation.

A record's lane fits the rule of whoever wrote it, and another rule by chance, about once in n. So the rules are asked
in turn, each only about the records that none before it explains, and the counted first fits are a mixture: one column
of the matrix below for each writer, and one for records that no rule explains. The shares are the solution.

Worked example: 12 lanes, two rules; 95.4 % fit the first, 4.6 % only the second. Of the second writer's records 1/12
fit the first rule too, so its share is 4.6 / (11/12) = 5.0 %.
"""

from __future__ import annotations

from math import comb, log, log1p
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["first_fits", "log_chance", "log_occupancy", "shares"]


def first_fits(predicted: Sequence[NDArray[Any]], lanes: int) -> NDArray[np.float64]:
    """Chance of each first fit (rows; the last: none) under each writer (columns; the last: nobody's rule).

    Measured on the lanes that the rules predict for sampled records, because rules may be related: two folds of one
    hash agree on half of the keys, not on one in n.
    """
    rules = len(predicted)
    out = np.zeros((rules + 1, rules + 1))
    for writer in range(rules):
        left = np.ones(len(predicted[writer]), bool)
        for rule in range(writer + 1):
            fit = left & (predicted[rule] == predicted[writer])
            out[rule, writer] = fit.mean()
            left &= ~fit
    out[:, rules] = [*((1 - 1 / lanes) ** rule / lanes for rule in range(rules)), (1 - 1 / lanes) ** rules]
    return out


def shares(counts: NDArray[Any], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of the writers and of the unexplained, from the count of each first fit."""
    found: NDArray[np.float64] = np.linalg.solve(matrix, counts / counts.sum())
    found = np.clip(found, 0, None)
    return found / found.sum()


def log_chance(hits: int, tries: int, lanes: int) -> float:
    """Natural log of a bound on the chance that a wrong rule fits at least `hits` of `tries` keys.

    Chernoff's bound: tries * KL(hits/tries, 1/lanes). All of k keys: k * log(lanes), the familiar n**-k.
    """
    rate, chance = hits / tries if tries else 0.0, 1 / lanes
    if rate <= chance:
        return 0.0
    miss = (1 - rate) * (log1p(-rate) - log1p(-chance)) if rate < 1 else 0.0
    return -tries * (rate * (log(rate) - log(chance)) + miss)


def log_occupancy(used: int, keys: int, lanes: int) -> float:
    """Natural log of a bound on the chance that `keys` fair keys use at most `used` of `lanes` lanes.

    Union bound over which lanes: C(lanes, used) * (used / lanes) ** keys. 12 keys on one of 12 lanes: 12 ** -11.
    """
    return min(0.0, log(comb(lanes, used)) + keys * log(used / lanes)) if used else 0.0

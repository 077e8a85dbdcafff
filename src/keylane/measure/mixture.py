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

__all__ = ["by_chance", "first_fits", "log_chance", "log_occupancy", "shares"]


def first_fits(predicted: Sequence[NDArray[Any]], lanes: int, *, few: bool = False) -> NDArray[np.float64]:
    """Chance of each first fit (rows; the last: none) under each writer (columns; the last: nobody's rule).

    Measured on the lanes that the rules predict for sampled records, because rules may be related: two folds of one
    hash agree on half of the keys, not on one in n. `few`: the unexplained records are of a few keys, each of which
    fits a rule always or never, so chance hides none of them.
    """
    rules = len(predicted)
    out = np.zeros((rules + 1, rules + 1))
    for writer in range(rules):
        left = np.ones(len(predicted[writer]), bool)
        for rule in range(writer + 1):
            fit = left & (predicted[rule] == predicted[writer])
            out[rule, writer] = fit.mean()
            left &= ~fit
    chance = 0.0 if few else 1 / lanes
    out[:, rules] = [*((1 - chance) ** rule * chance for rule in range(rules)), (1 - chance) ** rules]
    return out


def shares(counts: NDArray[Any], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of the writers and of the unexplained, from the count of each first fit."""
    found: NDArray[np.float64] = np.linalg.solve(matrix, counts / counts.sum())
    found = np.clip(found, 0, None)
    return found / found.sum()


#: Keys' worth of belief that a rule spreads evenly.
EVEN = 50


def by_chance(predicted: NDArray[Any], at: NDArray[Any], lanes: int) -> float:
    """How often a rule would fit if it had nothing to do with the lanes: once in n, more where both favour a lane.

    Data that stands on one lane fits every rule as often as that rule likes the lane; that is no evidence. What a rule
    likes is counted, and believed to be even as long as few keys say otherwise.
    """
    counts = np.bincount(predicted[predicted >= 0], minlength=lanes)
    likes = (counts + EVEN / lanes) / (len(at) + EVEN)
    return float(likes @ np.bincount(at[at < lanes], minlength=lanes)) / max(1, len(at))


def log_chance(hits: int, tries: int, chance: float) -> float:
    """Natural log of a bound on the chance that a rule fits at least `hits` of `tries` keys for no reason.

    Chernoff's bound: tries * KL(hits/tries, chance). All of k keys on n even lanes: k * log(n), the familiar n**-k.
    """
    rate = hits / tries if tries else 0.0
    if rate <= chance:
        return 0.0
    miss = (1 - rate) * (log1p(-rate) - log1p(-chance)) if rate < 1 else 0.0
    return -tries * (rate * (log(rate) - log(chance)) + miss)


def log_occupancy(used: int, keys: int, lanes: int) -> float:
    """Natural log of a bound on the chance that `keys` fair keys use at most `used` of `lanes` lanes.

    Union bound over which lanes: C(lanes, used) * (used / lanes) ** keys. 12 keys on one of 12 lanes: 12 ** -11.
    """
    return min(0.0, log(comb(lanes, used)) + keys * log(used / lanes)) if used else 0.0

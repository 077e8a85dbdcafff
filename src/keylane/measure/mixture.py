"""Shares of several writers, from how often each could have written a record.

A record's lane fits the rule of whoever wrote it, and any other rule by chance, once in n. So the records fall into
patterns (which of the rules they fit), and the shares that make the counted patterns most likely are found by
expectation-maximisation. The last share is of records that no rule explains.

Worked example: 12 lanes, two rules; 95 % fit the first, 12.5 % the second. By chance alone 1/12 of the first writer's
records fit the second rule too (7.9 points), so the second writer has about 5 %, not 12.5.
"""

from __future__ import annotations

from math import comb, log, log1p
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["log_chance", "shares"]

ROUNDS = 200


def shares(counts: NDArray[np.float64], rules: int, lanes: int) -> NDArray[np.float64]:
    """Shares of `rules` writers and of the unexplained, from the count of each pattern (bit i: rule i fits)."""
    likely = _likelihoods(rules, lanes)
    share = np.full(rules + 1, 1 / (rules + 1))
    seen = counts > 0
    for _ in range(ROUNDS):
        joint = likely[seen] * share
        blame = joint / joint.sum(axis=1, keepdims=True)
        new = counts[seen] @ blame / counts.sum()
        if np.abs(new - share).max() < 1e-12:
            break
        share = new
    return share


def _likelihoods(rules: int, lanes: int) -> NDArray[np.float64]:
    """Chance of each pattern (rows) under each writer (columns; the last: nobody's rule)."""
    fits = (np.arange(1 << rules).reshape(-1, 1) >> np.arange(rules)) & 1
    by_chance = np.where(fits == 1, 1 / lanes, 1 - 1 / lanes)
    out = np.empty((1 << rules, rules + 1))
    for writer in range(rules):
        others = np.delete(by_chance, writer, axis=1).prod(axis=1)
        out[:, writer] = fits[:, writer] * others
    out[:, rules] = by_chance.prod(axis=1)
    return out


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

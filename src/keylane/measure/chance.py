"""The chance that a fair hash fills a lane so: bounds with a stated rate of false alarms, for two lanes and more.

Two nulls, for two states of knowledge. Only the records of each lane are known: records fall evenly and alone
(`alarm`). The records of each key are known: *keys* fall evenly and alone, each with all of its records, so a lane is
a sum over keys and swings far more than a sum over records would (`keys_chance`). Taking the first null for a keyed
stream rings at every heavy key.

"Mean + 2 sigma" is not here: of n lanes none can be more than sqrt(n - 1) sigma above their mean, so on five lanes or
fewer it never rings. What made a lane full is asked in `hot_lanes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log, log1p, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: False alarms of a look at all lanes together, at most.
ALPHA: Final = 0.001
#: Heaviest keys that a simulated hash places one by one; the rest falls as its effective number of equal keys.
HEAD: Final = 1_000
#: Lanes drawn in all simulations together: what keeps a thousand lanes within a fraction of a second.
CELLS: Final = 500_000
#: Distinct weights that the bound is reckoned with one by one; of more, those that are nearly equal go together.
FINE: Final = 4_096
#: Points of the bound's grid. Every point gives a bound that holds; more of them make it a little sharper.
GRID: Final = 64


@dataclass(frozen=True, slots=True)
class Alarm:
    """A look at the lanes. `chance` is at least that of any lane being so full when nothing is wrong."""

    rings: bool
    lane: int
    share: float
    over_mean: float
    chance: float
    alpha: float


def alarm(counts: ArrayLike, alpha: float = ALPHA) -> Alarm:
    """Hold the fullest lane against evenly falling records: for lanes of which nothing but their records is known.

    Rings falsely in at most `alpha` of looks, whatever the number of lanes.

    >>> alarm([180, 60, 60]).rings, alarm([110, 95, 95]).rings
    (True, False)
    """
    lanes = np.asarray(counts)
    if lanes.ndim != 1 or len(lanes) < 2:
        raise UsageError.of("lanes can be compared only with each other", got=lanes.shape, allowed="two lanes or more")
    if lanes.min() < 0:
        raise UsageError.of("record counts must not be negative", got=lanes.min())
    if not 0 < alpha < 1:
        raise UsageError.of("the rate of false alarms is out of range", got=alpha, allowed="above 0 and below 1")
    lane, total = int(lanes.argmax()), int(lanes.sum())
    chance = records_chance(int(lanes[lane]), total, len(lanes))
    share = float(lanes[lane]) / total if total else 0.0
    return Alarm(chance < alpha, lane, share, share * len(lanes), chance, alpha)


def records_chance(fullest: int, records: int, lanes: int) -> float:
    """The chance that any of `lanes` gets `fullest` of `records` that fall evenly and alone; at most 1.

    The exact upper tail of one lane's binomial, times the lanes. For two lanes with one above the half that is exact;
    for more it is above the truth by what two lanes would have to be full at once, which is next to nothing.

    >>> round(records_chance(8, 10, 2), 6), 2 * (45 + 10 + 1) / 2**10
    (0.109375, 0.109375)
    """
    if fullest * lanes <= records:
        return 1.0
    return min(1.0, lanes * exp(_log_tail(fullest, records, 1 / lanes)))


def tail_chance(least: int, tries: int, share: float) -> float:
    """The chance that at least so many of `tries` fall where each falls with the chance `share`, to the last digit.

    >>> round(tail_chance(8, 10, 0.5), 9), (45 + 10 + 1) / 2**10
    (0.0546875, 0.0546875)
    """
    if least <= tries * share or least <= 0:
        return 1.0
    return exp(_log_tail(least, tries, share)) if share > 0 and least <= tries else 0.0


def _log_tail(least: int, tries: int, chance: float) -> float:
    """Natural log of P(binomial >= least), for `least` above the mean: its first term times the sum of the ratios."""
    first = lgamma(tries + 1) - lgamma(least + 1) - lgamma(tries - least + 1)
    first += least * log(chance) + (tries - least) * log1p(-chance)
    odds = chance / (1 - chance)
    # Ratios only fall: after this many terms, or deviations, nothing is left that a float could add.
    falls = max(1 - (tries - least) / (least + 1) * odds, 1 / tries)
    terms = min(tries - least, 2 + int(40 / falls), 50 + int(12 * sqrt(tries * chance)))
    more = np.arange(least, least + terms, dtype=float)
    ratios = (tries - more) / (more + 1) * odds
    return first + log1p(float(np.cumprod(ratios).sum()))


@dataclass(frozen=True, slots=True)
class Runs:
    """Keys by weight: each distinct number of records, heaviest first, and how many keys have it; and their sums."""

    records: NDArray[np.float64]
    keys: NDArray[np.float64]
    total: float
    squares: float

    @classmethod
    def of(cls, key_records: ArrayLike) -> Runs:
        """Read the records of keys that stand heaviest first: five million keys in a few milliseconds."""
        weights = np.asarray(key_records)
        if (weights[1:] > weights[:-1]).any() or (len(weights) and weights[-1] < 0):
            raise UsageError.of("keys must be sorted, heaviest first", got=weights[:5].tolist())
        weights = weights[: len(weights) - np.searchsorted(weights[::-1], 0, side="right")]
        ends = np.append(np.flatnonzero(weights[1:] != weights[:-1]), len(weights) - 1)[: len(weights)]
        return cls._summed(weights[ends].astype(float), np.diff(ends, prepend=-1).astype(float))

    @classmethod
    def _summed(cls, records: NDArray[np.float64], keys: NDArray[np.float64]) -> Runs:
        loads = records * keys
        return cls(records, keys, float(loads.sum()), float(loads @ records))

    def below(self, weight: float) -> Runs:
        """Those of keys with fewer records than `weight`."""
        first = len(self.records) - int(np.searchsorted(self.records[::-1], weight))
        return self._summed(self.records[first:], self.keys[first:])

    @property
    def effective(self) -> float:
        """How many equal keys would swing as these do: (sum w)^2 / sum w^2."""
        return self.total**2 / self.squares if self.squares else 0.0

    def widened(self) -> Runs:
        """At most a few thousand weights instead of millions: as many keys and records, swinging no less.

        Weights within a hundredth of each other become the lightest and the heaviest of them. The growth of a key in
        `keys_chance` is convex in its weight, so a bound for these is one for the keys themselves, and hardly wider.
        """
        if len(self.records) <= FINE:
            return self
        edges = np.geomspace(self.records[0], self.records[-1], 2 + int(100 * log(self.records[0] / self.records[-1])))
        starts = np.unique(len(self.records) - np.searchsorted(self.records[::-1], edges, side="right"))
        starts = starts[starts < len(self.records)]
        most, least = self.records[starts], self.records[np.append(starts[1:], len(self.records)) - 1]
        keys, loads = np.add.reduceat(self.keys, starts), np.add.reduceat(self.keys * self.records, starts)
        heavy = np.divide(loads - keys * least, most - least, out=keys.copy(), where=most > least)
        return self._summed(np.stack([most, least], 1).ravel(), np.stack([heavy, keys - heavy], 1).ravel())


def keys_chance(runs: Runs, loads: ArrayLike) -> NDArray[np.float64]:
    """For each lane's load, a bound on the chance that any lane gets as much when keys fall evenly and alone.

    Chernoff's bound, times the lanes: n * min over t of exp(-t * load) * product over keys of (1 + (e^(t w) - 1) / n).
    It holds for every set of keys, few and unequal ones too, so a lane rings falsely no more often than stated. It is
    up to ten times above the truth for many keys, which costs a tenth of a deviation or two; and exact, n * n**-k, for
    k keys that are all on one lane.

    >>> keys_chance(Runs.of([1] * 6), [6, 0, 0]).round(4).tolist()
    [0.0041, 1.0, 1.0]
    """
    at = np.asarray(loads, float)
    lanes, best, wide = len(at), np.zeros(len(at)), runs.widened()
    for tilt in _tilts(runs, lanes):
        growth = np.logaddexp(log1p(-1 / lanes), tilt * wide.records - log(lanes))
        best = np.minimum(best, float(growth @ wide.keys) - tilt * at)
    return np.minimum(1.0, lanes * np.exp(best))


def share_chance(runs: Runs, load: float, share: float) -> float:
    """A bound on the chance that one lane gets `load` when each key falls there with the chance `share`, alone.

    The same bound as `keys_chance`, of one lane that need not be like the others.

    >>> round(share_chance(Runs.of([1] * 6), 6, 1 / 3), 6), round(3**-6, 6)
    (0.001372, 0.001372)
    """
    if load <= runs.total * share or load <= 0:
        return 1.0
    if share <= 0 or load > runs.total:
        return 0.0
    wide, tilts = runs.widened(), _tilts(runs, 1 / share)
    growth = np.logaddexp(log1p(-share), np.outer(tilts, wide.records) + log(share)) @ wide.keys
    return exp(float((growth - tilts * load).min(initial=0.0)))


def _tilts(runs: Runs, lanes: float) -> NDArray[np.float64]:
    """Where to try the bound: from a quarter of a deviation up to where a typical key is all but certain."""
    if not runs.squares:
        return np.zeros(0)
    least = 0.25 / sqrt(runs.squares / lanes)
    most = (log(lanes) + 20) * runs.total / runs.squares
    return np.geomspace(least, max(most, 8 * least), GRID)


def fair_fullest(runs: Runs, lanes: int, rng: np.random.Generator, looks: int = 999) -> NDArray[np.float64]:
    """The fullest lane of this many simulated fair hashes: what is usual, where the bound gives only what is rare.

    The heaviest keys fall one by one; the rest falls as its effective number of equal keys.
    """
    looks = max(99, min(looks, CELLS // lanes))
    heavy = np.repeat(runs.records[:HEAD], np.minimum(runs.keys[:HEAD], HEAD).astype(np.int64))[:HEAD]
    places = rng.integers(lanes, size=(looks, len(heavy))) + lanes * np.arange(looks)[:, None]
    full = np.bincount(places.ravel(), np.tile(heavy, looks), lanes * looks).astype(float).reshape(looks, lanes)
    rest, squares = runs.total - float(heavy.sum()), runs.squares - float((heavy**2).sum())
    if rest > 0 and squares > 0:
        alike = max(1, round(rest * rest / squares))
        full += rng.multinomial(alike, np.full(lanes, 1 / lanes), size=looks) * (rest / alike)
    fullest: NDArray[np.float64] = full.max(axis=1)
    return fullest


def log_occupancy(used: int, keys: int, lanes: int) -> float:
    """Natural log of a bound on the chance that `keys` fair keys use at most `used` of `lanes` lanes.

    Union bound over which lanes: C(lanes, used) * (used / lanes) ** keys. 12 keys on one of 12 lanes: 12 ** -11.
    """
    if not used:
        return 0.0
    choices = lgamma(lanes + 1) - lgamma(used + 1) - lgamma(lanes - used + 1)
    return min(0.0, choices + keys * log(used / lanes))

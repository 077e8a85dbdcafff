"""The expectations of a contract, compared with what a sample of its traffic shows; and which part of that is chance.

A sample is never as even as its stream: a thousand keys on 64 lanes put 1.6 times the mean on the fullest lane, under
the best of hashes. So an expectation is `broken` only when a stream that keeps it would show as much in less than
`ALPHA` of samples; what is beyond the threshold and within that is `cannot-tell`. The rate holds for every stream that
keeps the expectation, those that just keep it too, and for all lanes together; of `min_distinct_keys` see below.

What falls by chance, for `max_over_mean`: rows fall alone, and keys fall with all of their rows, and a lane has to be
beyond what either explains. Hot keys are no chance, wherever they fell. A key is hot from a hundred rows on, when no
lane could hold it within the threshold, or when it has half of a lane's share and five times the weight of what is
typical below it. Hot keys stay where they are, and the others have to explain the rest.

Of `min_distinct_keys` no sample proves that there are no further keys: one may always be too rare to be seen. It is
`broken` when keys alike in weight would show more, and when hardly any key was seen just once, so that not even a
million times the rows would show as many.

The counts come from `conformance`; chances from `chance`. What made a lane full, key by key: `hot_lanes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, floor, inf, lgamma, log, log10
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from keylane import numbers
from keylane.measure.balance import max_over_mean
from keylane.measure.chance import ALPHA, Runs, share_chance, tail_chance
from keylane.numbers import percent, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from keylane.contract.model import Expect

ExpectationName: TypeAlias = Literal["max_over_mean", "max_key_share", "max_null_share", "min_distinct_keys"]
Judgement: TypeAlias = Literal["kept", "broken", "cannot-tell"]

#: Rows from which on a heavy key is a fact of the stream and not a burst of one that is gone tomorrow.
KNOWN: Final = 100
#: A hot key has this many times the rows of a typical lighter one: more than the longest of many ordinary bursts.
HOT: Final = 5.0
#: Lanes beyond the threshold that are looked at, fullest first.
LOOKED_AT: Final = 256
#: More keys than this are not asked for.
MOST_KEYS: Final = 1e9
#: A count of keys that only this many times the rows of the sample could reach is not reached.
FURTHER: Final = 1e6
#: The level in words.
SURELY: Final = percent(1 - ALPHA)


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation and what became of it.

    `by_chance`: up to here a stream that keeps the expectation may show, at the level 1 - ALPHA. `usual`: what an even
    stream shows half of the time, where that is known. `chance`: a bound on that of showing `got` or worse.
    """

    name: ExpectationName
    got: float
    allowed: float
    by_chance: float
    usual: float | None
    chance: float
    judgement: Judgement
    says: str


@dataclass(frozen=True, slots=True)
class KeySample:
    """What was counted: rows, keys, and the rows of each key on its lane."""

    rows: int
    distinct: int
    heaviest: int
    without_key: int
    #: Rows in each lane.
    per_lane: NDArray[np.int64]
    #: Rows of each key in each of its lanes, and that lane; without rows that have no key, or whose key has no lane.
    records: NDArray[np.int64]
    lanes: NDArray[np.int64]
    #: Keys with one row: as long as there are many, further rows show further keys.
    once: int = 0


def judged(expect: Expect, sample: KeySample, heaviest: str = "") -> Iterator[Expectation]:
    """Hold every expectation of a contract against a sample that has rows; `heaviest` names its heaviest key."""
    if expect.max_over_mean is not None:
        in_lanes = sample.per_lane.any()
        allowed = expect.max_over_mean
        yield _balance(allowed, sample) if in_lanes else _open("max_over_mean", allowed, "no row is in a lane")
    if expect.max_key_share is not None and not sample.distinct:
        yield _open("max_key_share", expect.max_key_share, "no row has a key")
    elif expect.max_key_share is not None:
        yield _share(
            "max_key_share",
            expect.max_key_share,
            sample.heaviest,
            sample.rows,
            f"the heaviest key{heaviest and f' ({heaviest})'} has {share(sample.heaviest / sample.rows)} of all rows",
            floor(1 / expect.max_key_share),
        )
    if expect.max_null_share is not None:
        yield _share(
            "max_null_share",
            expect.max_null_share,
            sample.without_key,
            sample.rows,
            f"{share(sample.without_key / sample.rows)} of all rows have no key",
        )
    if expect.min_distinct_keys is not None:
        yield _distinct(expect.min_distinct_keys, sample)


def _open(name: ExpectationName, allowed: float, why: str) -> Expectation:
    """An expectation that nothing in the sample speaks for or against."""
    return Expectation(name, 0.0, allowed, allowed, None, 1.0, "cannot-tell", f"{why}; cannot tell")


# Balance: lanes against the mean.


@dataclass(frozen=True, slots=True)
class _Scales:
    """A sample divided into what is fixed and what falls by chance."""

    allowed: float
    rows: int
    fixed: NDArray[np.float64]
    light: Runs

    @property
    def lanes(self) -> int:
        return len(self.fixed)

    @property
    def mean(self) -> float:
        return self.rows / self.lanes

    def chance(self, load: float, fixed: float) -> float:
        """A bound on the chance that any lane that keeps `allowed` shows `load`, of which `fixed` is of hot keys."""
        room = self.allowed * self.mean - fixed
        share = room / self.light.total if self.light.total else 0.0
        by_keys = share_chance(self.light, load - fixed, share) if load > fixed or room >= 0 else 0.0
        by_rows = tail_chance(round(load), self.rows, self.allowed / self.lanes)
        return min(1.0, self.lanes * max(by_keys, by_rows))

    def most_by_chance(self, fixed: float) -> float:
        """The fullest that a lane may be, over the mean, before chance is no explanation."""
        least = self.allowed * self.mean
        most = _last(lambda load: self.chance(load, fixed) >= ALPHA, least, float(self.rows))
        return max(self.allowed, most / self.mean)


def _balance(allowed: float, sample: KeySample) -> Expectation:
    got, lanes = max_over_mean(sample.per_lane), len(sample.per_lane)
    scales = _scales(allowed, sample)
    lane, chance = _least_likely(scales, sample.per_lane)
    usual, most = _usual(scales), scales.most_by_chance(float(scales.fixed[lane]))
    text = f"the fullest lane holds {got:.3f} times the mean; allowed: at most {allowed}"
    if got <= allowed:
        return Expectation("max_over_mean", got, allowed, most, usual, 1.0, "kept", text)
    if chance < ALPHA:
        text += f"; of that, chance explains up to {most:.2f} in this sample ({SURELY})"
        return Expectation("max_over_mean", got, allowed, most, usual, chance, "broken", text)
    few = f"{numbers.plural(sample.distinct, 'key')} on {lanes} lanes"
    text += (
        f"; not proven: by chance alone {few} show {usual:.2f}, and up to {most:.2f} ({SURELY}) where {allowed} is kept"
    )
    text += f"; cannot tell: {_more(allowed, scales, sample.distinct)}"
    return Expectation("max_over_mean", got, allowed, most, usual, chance, "cannot-tell", text)


def _least_likely(scales: _Scales, per_lane: NDArray[np.int64]) -> tuple[int, float]:
    """The first lane, fullest first, that chance does not explain, otherwise the fullest; and its chance."""
    full = np.argsort(-per_lane, kind="stable")[:LOOKED_AT]
    fullest, looked_at = (int(full[0]), 1.0), set()
    for lane in map(int, full):
        fixed = float(scales.fixed[lane])
        if per_lane[lane] <= scales.allowed * scales.mean:
            break
        # With as much of hot keys, a lane that is less full is likelier.
        if fixed not in looked_at:
            looked_at.add(fixed)
            chance = scales.chance(float(per_lane[lane]), fixed)
            fullest = (lane, chance) if lane == fullest[0] else fullest
            if chance < ALPHA:
                return lane, chance
    return fullest


def _scales(allowed: float, sample: KeySample) -> _Scales:
    """Set the hot keys apart. Which they are depends on weights only, never on lanes."""
    lanes, rows = len(sample.per_lane), int(sample.per_lane.sum())
    order = np.argsort(-sample.records, kind="stable")
    weights, at = sample.records[order].astype(float), sample.lanes[order]
    # Rows without a key fall alone.
    alone = max(0, rows - int(weights.sum()))
    mean = rows / lanes
    lighter = weights.sum() + alone - np.cumsum(weights)
    squares = np.maximum(weights @ weights + alone - np.cumsum(weights**2), 0.0)
    out = (weights >= mean / 2) & (lighter > 0) & (weights * lighter >= HOT * squares)
    out |= weights > allowed * mean
    out &= weights >= KNOWN
    # Whatever is heavier than one that stands out among the lighter ones does so, too.
    heavy = int(np.flatnonzero(out).max(initial=-1)) + 1
    fixed = np.bincount(at[:heavy], weights[:heavy], lanes).astype(float)
    light = Runs.of(np.concatenate([weights[heavy:], np.ones(alone)]))
    return _Scales(allowed, rows, fixed, light)


def _usual(scales: _Scales) -> float:
    """The fullest lane over the mean that an even stream of so many light keys shows half of the time."""
    keys, lanes = round(scales.light.effective), scales.lanes
    if not keys:
        return 1.0
    fullest = _last(lambda load: lanes * tail_chance(floor(load), keys, 1 / lanes) > log(2), keys / lanes, keys)
    return max(1.0, floor(fullest) * lanes / keys)


def _more(allowed: float, scales: _Scales, distinct: int) -> str:
    """How many more keys would settle it: those with which an even stream stays within the threshold."""
    needed, have = keys_for(allowed, scales.lanes), scales.light.effective
    if needed is None:
        return "no sample stays within that"
    if needed <= have:
        return "the sample is too near to the threshold"
    return f"about {numbers.count(_rounded((needed / have - 1) * distinct if have else needed))} more keys needed"


def keys_for(allowed: float, lanes: int) -> int | None:
    """Keys of equal weight with which an even stream shows at most `allowed`, at the level 1 - ALPHA; None: never.

    >>> keys_for(1.3, 64), keys_for(1.3, 12)
    (13194, 1874)
    """
    if allowed <= 1:
        return None

    def too_few(keys: float) -> bool:
        return lanes * tail_chance(floor(allowed * keys / lanes) + 1, floor(keys), 1 / lanes) >= ALPHA

    most = float(lanes)
    while too_few(most):
        most *= 2
        if most > MOST_KEYS:
            return None
    return floor(_last(too_few, 1.0, most)) + 1


def _rounded(number: float) -> int:
    """Up to two digits that count: more would claim to be exact."""
    unit = 10 ** max(0, floor(log10(max(number, 1.0))) - 1)
    return int(-(-number // unit) * unit)


# Shares and counts.


def _share(name: ExpectationName, allowed: float, count: int, rows: int, says: str, among: int = 1) -> Expectation:
    """A share of the rows, of which `among` things could be the one that is beyond it."""

    def chance(least: float) -> float:
        return min(1.0, among * tail_chance(floor(least), rows, allowed))

    got = count / rows
    most = floor(_last(lambda least: chance(least) >= ALPHA, allowed * rows, rows)) / rows
    most = max(most, allowed)
    text = f"{says}; allowed: at most {share(allowed)}"
    if got <= allowed:
        return Expectation(name, got, allowed, most, None, 1.0, "kept", text)
    if chance(count) < ALPHA:
        text += (
            f"; of that, chance explains up to {share(most)} in {numbers.plural(rows, 'row')} ({SURELY})"
            if most > allowed
            else ""
        )
        return Expectation(name, got, allowed, most, None, chance(count), "broken", text)
    text += (
        f"; not proven: {numbers.plural(rows, 'row')} of a stream that keeps it may show up to {share(most)} ({SURELY})"
    )
    return Expectation(
        name, got, allowed, most, None, chance(count), "cannot-tell", f"{text}; cannot tell: too few rows"
    )


def _distinct(allowed: int, sample: KeySample) -> Expectation:
    """Different keys; of a stream of that many, a sample shows fewer, and far fewer where most keys are rare."""
    distinct, rows = sample.distinct, sample.rows
    text = f"got {numbers.count(distinct)} distinct keys; allowed: at least {numbers.count(allowed)}"
    fewest = min(
        allowed, floor(_last(lambda seen: few_chance(floor(seen), allowed, rows) < ALPHA, 0.0, float(allowed))) + 1
    )
    if distinct >= allowed:
        return Expectation("min_distinct_keys", distinct, allowed, fewest, None, 1.0, "kept", text)
    chance, times = few_chance(distinct, allowed, rows), times_for(allowed, distinct, sample.once)
    if chance < ALPHA and times > FURTHER and rows >= KNOWN:
        more = f"; {numbers.count(sample.once)} of them have one row only: further rows would not show so many"
        return Expectation("min_distinct_keys", distinct, allowed, fewest, None, chance, "broken", text + more)
    text += f"; not proven: {numbers.count(sample.once)} of them have one row only, so further rows show further keys"
    text += "; cannot tell: "
    text += f"about {numbers.count(_rounded(times * rows))} rows needed" if times <= FURTHER else "too few rows"
    return Expectation("min_distinct_keys", distinct, allowed, min(fewest, distinct), None, 1.0, "cannot-tell", text)


def times_for(keys: int, distinct: int, once: int) -> float:
    """How many times the rows of a sample would show so many keys, by the way in which it shows new ones now.

    Where weights fall off by a power, as they do in real traffic, different keys grow by a power of the rows, and its
    exponent is the share of keys that were seen once. A sample that has seen every key twice shows no new ones.

    >>> times_for(100, 10, 10), round(times_for(100, 10, 5)), times_for(100, 10, 0)
    (10.0, 100, inf)
    """
    if not distinct:
        return float(keys)
    power = once / distinct
    if not power or log10(keys / distinct) > power * log10(MOST_KEYS):
        return inf
    return float((keys / distinct) ** (1 / power))


def few_chance(seen: int, keys: int, rows: int) -> float:
    """A bound on the chance that `rows` of `keys` keys, alike in weight, show at most `seen` of them.

    Over which of them it could be: C(keys, seen) * (seen / keys) ** rows.

    >>> round(few_chance(1, 2, 11), 6), round(2 * 0.5**11, 6)
    (0.000977, 0.000977)
    """
    if seen >= min(keys, rows):
        return 1.0
    if seen <= 0:
        return 0.0
    which = lgamma(keys + 1) - lgamma(seen + 1) - lgamma(keys - seen + 1)
    return exp(min(0.0, which + rows * log(seen / keys)))


def _last(holds: Callable[[float], bool], least: float, most: float) -> float:
    """The largest number for which something that stops holding still holds, to a millionth; or `least`."""
    if holds(most):
        return most
    for _ in range(64):
        middle = (least + most) / 2
        least, most = (middle, most) if holds(middle) else (least, middle)
        if most - least <= 1e-6 * most:
            break
    return least

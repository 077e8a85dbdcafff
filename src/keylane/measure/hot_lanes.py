"""Why a lane is hot: one key, few keys, an unlucky hash, a wide range or a mixed writer; each with its evidence.

A lane is hot when it carries `worth` times the mean or more and evenly falling records would not do that; or when
evenly falling *keys* would not fill it so (`chance`), however little it is above the mean. Its cause is the first that
holds:

mixed-writer   half of its excess, or more, are records that the contract places on another lane
wide-range     its range of the key space is so much wider than the others' that half of the excess, or more, follows
one-key        its heaviest key is half of the excess or more, stands out among the lighter ones, and without it the
               lane is within what chance makes of those, and has no more than half of its excess left
few-keys       heavy keys share it, or there are too few keys for the lanes: even a fair hash gives this
unlucky-hash   many ordinary keys, and a fair hash would give it in less than `alpha` of cases

Worked example, 12 lanes: a key with a sixth of all records, the rest many small ones -> its lane is at 2.9 times the
mean, `one-key`. Twenty equal keys -> a lane with four of them is at 2.4, `few-keys`. Whether data keeps its contract,
record by record: `conformance`; which clients wrote it: `identify`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from keylane import numbers
from keylane.errors import UsageError
from keylane.measure.balance import max_over_mean
from keylane.measure.chance import ALPHA, Runs, fair_fullest, keys_chance, records_chance
from keylane.measure.identify import STRAY, UNEXPLAINED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from keylane.measure.identify import Identification


# Causes, the values of an answer, and its sentences.

Cause: TypeAlias = Literal["mixed-writer", "wide-range", "one-key", "few-keys", "unlucky-hash", "fair"]
CAUSES: Final[tuple[Cause, ...]] = ("mixed-writer", "wide-range", "one-key", "few-keys", "unlucky-hash", "fair")

_SAYS: Final[dict[Cause, str]] = {
    "mixed-writer": "a second writer that places keys differently",
    "wide-range": "its wide range",
    "one-key": "one key",
    "few-keys": "a few heavy keys",
    "unlucky-hash": "an unlucky hash",
}


@dataclass(frozen=True, slots=True)
class HotLane:
    """One hot lane. `keys` are ranks, 0 the heaviest of the stream.

    `share` and `over_mean` are of the lane as it was seen, `share_of_heaviest` of what the contract puts there.

    `chance`: how often a fair hash of the same keys fills some lane as much; at most that, where it is below `alpha`.
    """

    lane: int
    share: float
    over_mean: float
    cause: Cause
    evidence: str
    keys: tuple[int, ...]
    share_of_heaviest: float
    chance: float


@dataclass(frozen=True, slots=True)
class HotVerdict:
    """The stream as a whole: the cause of its fullest hot lane, and all of it in a sentence; `mixed` are its writers.

    `alarm`: a fair hash of these keys would fill its lanes so in less than `alpha` of cases. `misplaced`: at least
    this share of the records is not in the lane of the contract; None when it was not measured. `as_seen`: lanes are
    those that the records were found in, because the contract's are others.
    """

    cause: Cause
    says: str
    mixed: str
    as_seen: bool
    alarm: bool
    chance: float
    effective_keys: float
    misplaced: float | None


@dataclass(frozen=True, slots=True)
class Heat:
    """Every hot lane, fullest first, and the verdict."""

    verdict: HotVerdict
    hot: tuple[HotLane, ...]
    lanes: int
    alpha: float
    worth: float
    #: The records in the lanes.
    records: int


def of_strangers(part: float, misplaced: float) -> str:
    """The evidence for a mixed writer."""
    return (
        f"{numbers.share(part)} of the lane are records whose key belongs in another lane; "
        f"at least {numbers.share(misplaced)} of the stream's records are not in their lane"
    )


def of_width(width: float, lanes: int) -> str:
    """The evidence for a wide range."""
    return f"it is {numbers.share(width)} of the key space, {width * lanes:.2f} times the mean range"


def of_one(part: float, left: float) -> str:
    """The evidence for one key."""
    without = f"without that key the lane would carry {left:.2f} times an even share of the lighter keys"
    return f"its heaviest key holds {numbers.share(part)} of it; {without}"


def by_contract_only(evidence: str) -> str:
    """Evidence from keys, beside a load that was seen: a key is counted in the lane that the contract gives it."""
    return f"with every record in the lane of its key, {evidence}"


def of_many(part: float, chance: float) -> str:
    """The evidence for an unlucky hash."""
    return f"made of many keys, the heaviest with {numbers.share(part)} of it; a fair hash gives this {_often(chance)}"


def of_few(named: int, held: float, effective_keys: float, lanes: int, chance: float) -> str:
    """The evidence for few keys."""
    heaviest = f"its {named} heaviest keys hold" if named > 1 else "its heaviest key holds"
    keys = numbers.plural(round(effective_keys), "effective key")
    return (
        f"{heaviest} {numbers.share(held)} of it; the stream has {keys} "
        f"for {lanes} lanes, and a fair hash fills a lane like this {_often(chance)}"
    )


def _often(chance: float) -> str:
    if chance > 0.99:
        return "nearly always"
    return f"in {numbers.percent(chance, 0)} of cases" if chance >= 0.01 else f"in fewer than {chance:.1g} of cases"


def verdict(
    hot: tuple[HotLane, ...],
    mixed: bool,
    misplaced: float | None,
    writers: Identification | None,
    chance: float,
    alpha: float,
    effective_keys: float,
    fullest: float,
) -> HotVerdict:
    """The stream in a sentence or two."""
    as_seen, mixed = mixed, mixed or (writers is not None and writers.verdict == "mixed")
    cause: Cause = hot[0].cause if hot else "mixed-writer" if mixed else "fair"
    says = _sentence(hot, cause, fullest)
    if chance < alpha and "unlucky-hash" not in {lane.cause for lane in hot}:
        says += f" A fair hash of these keys fills the lanes like this {_often(chance)}."
    who = _who(misplaced, writers) if mixed else ""
    return HotVerdict(cause, says, who, as_seen, chance < alpha, chance, effective_keys, misplaced)


def _sentence(hot: tuple[HotLane, ...], cause: Cause, fullest: float) -> str:
    if not hot:
        return f"No lane is hot: the fullest carries {fullest:.2f} times the mean."
    lane = hot[0]
    because = f"because of {_SAYS[cause]}: {lane.evidence}.{of_others([other.cause for other in hot[1:]])}"
    return f"Lane {lane.lane} carries {lane.over_mean:.2f} times the mean {because}"


#: The same of several lanes: each has a key, or keys, of its own.
_SAYS_EACH: Final[dict[Cause, str]] = {
    **_SAYS,
    "wide-range": "their wide ranges",
    "one-key": "one key each",
    "few-keys": "a few heavy keys each",
}


def of_others(causes: Sequence[Cause]) -> str:
    """The other lanes above the mean, with the cause of each kind."""
    if not causes:
        return ""
    found = Counter(causes)
    lanes = f"{numbers.count(len(causes))} other {'lane is' if len(causes) == 1 else 'lanes are'} above the mean"
    if len(found) == 1:
        says = _SAYS_EACH if len(causes) > 1 else _SAYS
        return f" {lanes}, because of {says[causes[0]]}."
    parts = [f"{numbers.count(n)} because of {(_SAYS_EACH if n > 1 else _SAYS)[one]}" for one, n in found.items()]
    return f" {lanes}: {', '.join(parts)}."


def _who(misplaced: float | None, writers: Identification | None) -> str:
    if writers is not None and writers.verdict == "mixed":
        known = [f"{one.name} {numbers.share(one.share)}" for one in writers.writers if one.name != UNEXPLAINED]
        rest = sum(one.share for one in writers.writers if one.name == UNEXPLAINED)
        left = f"; no known rule places {numbers.share(rest)} of the records" if rest else ""
        who = "More than one rule places" if len(known) > 1 else "One rule places a part of"
        return f"{who} the stream: {', '.join(known)}{left}."
    return f"At least {numbers.share(misplaced or 0)} of the records are not in the lane that their key belongs in."


#: The least share of the key space that is reckoned with: one of two keys is too small to divide by.
_NARROW: Final = 1e-30
#: A lane below this many times the mean is not worth a word, unless a fair hash would not give it.
WORTH: Final = 1.1
#: One key stands out when it has at least this many times the records of a typical lighter one.
STANDS_OUT: Final = 2.0
#: Keys are named while they are among the heaviest of the stream, and this many of a lane at most.
NAMED_AMONG: Final = 10_000
NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys that have one lane, heaviest first, and what they put on each lane."""

    lanes: int
    ranks: NDArray[np.int64] | None
    lane: NDArray[Any]
    records: NDArray[Any]
    runs: Runs
    loads: NDArray[np.float64]
    first: NDArray[np.int64]

    def rank(self, key: int) -> int:
        """The rank among all keys, those with several lanes too."""
        return key if self.ranks is None else int(self.ranks[key])

    def heaviest_of(self, lane: int) -> float:
        key = self.first[lane]
        return float(self.records[key]) if key >= 0 else 0.0


def why_hot(
    loads: ArrayLike,
    key_lanes: ArrayLike,
    key_records: ArrayLike,
    lanes: int,
    *,
    rng: np.random.Generator,
    observed: ArrayLike | None = None,
    same_records: bool = True,
    writers: Identification | None = None,
    alpha: float = ALPHA,
    worth: float = WORTH,
    widths: ArrayLike | None = None,
) -> Heat:
    """Find which lanes are hot and why, from the lane and the records of each key, heaviest first.

    `loads` are the records of each lane by the contract; a key on several lanes, or on none, has lane -1. `observed`
    are the records that really stand in each lane: of the same records (with others that have no key, perhaps), or,
    with `same_records=False`, of another sample of the stream, or where keys are spread by position. `writers` is what
    `identify` found in the same data. `widths` are the shares of the key space that lanes have, where not equal ones.
    `rng` draws the fair hashes that the usual is read from.
    """
    by_contract = np.asarray(loads, float)
    _sane(by_contract, lanes, alpha)
    keys = _keys(np.asarray(key_lanes), np.asarray(key_records), lanes)
    shares = None if widths is None else np.asarray(widths, float)
    misplaced = _misplaced(by_contract, observed, alpha, same_records=same_records)
    mixed = misplaced is not None and misplaced > STRAY
    seen = _to_scale(observed, by_contract, same_records=same_records) if mixed else by_contract
    chances = _chances(keys, shares)
    hot = _hot(seen, chances, alpha, worth)
    usual = fair_fullest(keys.runs, lanes, rng) if len(hot) else np.zeros(0)
    found = tuple(
        _wide(lane, seen, by_contract, keys, float(shares[lane]), chances)
        if shares is not None and _is_wide(lane, seen, by_contract, float(shares[lane]))
        else _judged(lane, seen, by_contract, keys, _chance(lane, chances, usual, keys, alpha), misplaced, alpha, worth)
        for lane in hot
    )
    least = float(chances.min(initial=1.0))
    text = verdict(found, mixed, misplaced, writers, least, alpha, keys.runs.effective, max_over_mean(seen))
    return Heat(text, found, lanes, alpha, worth, round(float(seen.sum())))


def _sane(loads: NDArray[np.float64], lanes: int, alpha: float) -> None:
    if lanes < 2 or loads.shape != (lanes,):
        raise UsageError.of(
            "loads must be given for two lanes or more", got=loads.shape, allowed=f"({lanes},), from (2,)"
        )
    if not 0 < alpha < 1:
        raise UsageError.of("the rate of false alarms is out of range", got=alpha, allowed="above 0 and below 1")


def _keys(lane: NDArray[Any], records: NDArray[Any], lanes: int) -> _Keys:
    if lane.shape != records.shape or lane.max(initial=0) >= lanes:
        raise UsageError.of(
            "each key needs a lane", got=(lane.shape, int(lane.max(initial=0))), allowed=f"below {lanes}"
        )
    ranks = None
    if lane.min(initial=0) < 0:
        ranks = np.flatnonzero(lane >= 0)
        lane, records = lane[ranks], records[ranks]
    first = np.full(lanes, -1, np.int64)
    # Of several values for one index the last one stays: from the back, that is the heaviest key.
    first[lane[::-1]] = np.arange(len(lane) - 1, -1, -1)
    return _Keys(lanes, ranks, lane, records, Runs.of(records), np.bincount(lane, records, lanes).astype(float), first)


def _misplaced(
    loads: NDArray[np.float64], observed: ArrayLike | None, alpha: float, *, same_records: bool
) -> float | None:
    """The least share of records outside their lane: what is missing where the contract wants it.

    Of another sample, less what chance does to shares: P(distance >= e) <= 2**n * exp(-2 * records * e**2) for each.
    """
    if observed is None:
        return None
    seen = np.asarray(observed, float)
    total, there = loads.sum(), seen.sum()
    if seen.shape != loads.shape or (same_records and there < total):
        hint = "same_records=False for another sample of the stream"
        raise UsageError.of("the observed lanes do not match these records", got=(seen.shape, there), hint=hint)
    if not total or not there:
        return 0.0
    if same_records:
        return float(np.maximum(0.0, loads - seen).sum() / total)
    apart = float(np.abs(loads / total - seen / there).sum() / 2)
    noise = sum(sqrt((len(seen) * log(2) + log(2 / alpha)) / (2 * records)) for records in (total, there))
    return max(0.0, apart - noise)


def _to_scale(observed: ArrayLike | None, loads: NDArray[np.float64], *, same_records: bool) -> NDArray[np.float64]:
    """What was observed, in records of the contract's lanes: another sample may be larger or smaller."""
    seen = np.asarray(observed, float)
    return seen if same_records else seen * (loads.sum() / seen.sum())


def _chances(keys: _Keys, shares: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """A bound for each lane: of all keys, and of the light ones alone, which a giant elsewhere would hide.

    Two looks, so each counts twice. What is light depends on the keys' records only, never on their lanes.
    """
    half = keys.runs.total / keys.lanes / 2
    heavy = int(keys.runs.keys[keys.runs.records >= half].sum())
    light = np.bincount(keys.lane[heavy:], keys.records[heavy:], keys.lanes).astype(float)
    every = keys.loads
    if shares is not None:
        every, light = _as_if_equal(every, shares), _as_if_equal(light, shares)
    both = np.minimum(keys_chance(keys.runs, every), keys_chance(keys.runs.below(half), light))
    return np.minimum(1.0, 2 * both)


def _as_if_equal(loads: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Loads of lanes of unequal width as those of equal ones: as far from what is expected, in standard deviations."""
    fair, total = 1 / len(loads), loads.sum()
    variances = np.maximum(shares * (1 - shares), _NARROW)
    away = (loads - shares * total) * np.sqrt(fair * (1 - fair) / variances)
    return np.clip(fair * total + away, 0.0, total)


def _is_wide(lane: int, seen: NDArray[np.float64], by_contract: NDArray[np.float64], share: float) -> bool:
    """Whether the width explains half of what the lane has above the mean, and strangers do not."""
    excess, strangers = float(seen[lane] - seen.mean()), float(seen[lane] - by_contract[lane])
    return 2 * (share * float(seen.sum()) - float(seen.mean())) >= excess > 2 * strangers


def _wide(
    lane: int,
    seen: NDArray[np.float64],
    by_contract: NDArray[np.float64],
    keys: _Keys,
    share: float,
    chances: NDArray[np.float64],
) -> HotLane:
    load, total = float(seen[lane]), float(seen.sum())
    part = keys.heaviest_of(lane) / float(by_contract[lane]) if by_contract[lane] else 0.0
    evidence = of_width(share, keys.lanes)
    return HotLane(
        lane, load / total, load * keys.lanes / total, "wide-range", evidence, (), part, float(chances[lane])
    )


def _hot(seen: NDArray[np.float64], chances: NDArray[np.float64], alpha: float, worth: float) -> list[int]:
    """Hot lanes, fullest first."""
    mean, records = float(seen.mean()), int(seen.sum())
    rare = chances < alpha
    for lane in np.flatnonzero((seen >= worth * mean) & ~rare):
        rare[lane] = records_chance(int(seen[lane]), records, len(seen)) < alpha
    hot = np.flatnonzero((seen > mean) & rare)
    return [int(lane) for lane in hot[np.argsort(-seen[hot], kind="stable")]]


def _chance(lane: int, chances: NDArray[np.float64], usual: NDArray[np.float64], keys: _Keys, alpha: float) -> float:
    """The proven bound where it is rare; otherwise what the simulated hashes show."""
    if chances[lane] < alpha:
        return float(chances[lane])
    shown = (1 + int((usual >= keys.loads[lane]).sum())) / (1 + len(usual))
    return min(float(chances[lane]), max(alpha, shown))


def _judged(
    lane: int,
    seen: NDArray[np.float64],
    by_contract: NDArray[np.float64],
    keys: _Keys,
    chance: float,
    misplaced: float | None,
    alpha: float,
    worth: float,
) -> HotLane:
    load, mean, promised = float(seen[lane]), float(seen.mean()), float(by_contract[lane])
    strangers = load - promised
    # How many records of a key stand elsewhere was not counted: its share is of what the contract puts here.
    part = keys.heaviest_of(lane) / promised if promised else 0.0
    named: tuple[int, ...] = ()
    cause: Cause
    if strangers > 0 and 2 * strangers >= load - mean:
        cause, evidence = "mixed-writer", of_strangers(strangers / load, misplaced or 0.0)
    elif (left := _left(lane, load - mean, mean, keys, worth)) is not None:
        cause, named, evidence = "one-key", (keys.rank(int(keys.first[lane])),), of_one(part, left)
    elif chance < alpha:
        cause, evidence = "unlucky-hash", of_many(part, chance)
    else:
        few = _making_up(lane, load - mean, keys)
        named = tuple(keys.rank(int(key)) for key in few)
        held = float(keys.records[few].sum()) / promised if promised else 0.0
        cause, evidence = "few-keys", of_few(len(few), held, keys.runs.effective, keys.lanes, chance)
    if cause != "mixed-writer" and seen is not by_contract:
        evidence = by_contract_only(evidence)
    return HotLane(lane, load / float(seen.sum()), load / mean, cause, evidence, named, part, chance)


def _left(lane: int, excess: float, mean: float, keys: _Keys, worth: float) -> float | None:
    """What is left of the lane without its heaviest key, over its share of the lighter keys; None if it is not the one.

    All other keys of the lane are lighter, and each lighter key of the stream was as likely to be here as elsewhere.
    """
    key, lanes = int(keys.first[lane]), keys.lanes
    if key < 0 or len(keys.records) - key - 1 < lanes:
        return None
    upto = keys.records[: key + 1].astype(float)
    weight, lighter = float(upto[-1]), keys.runs.total - float(upto.sum())
    squares = max(keys.runs.squares - float(upto @ upto), 0.0)
    rest, fair = float(keys.loads[lane]) - weight, lighter / lanes
    usual = max(worth * fair, fair + 2 * sqrt(squares / lanes * (1 - 1 / lanes)))
    is_it = 2 * weight >= excess and weight * lighter >= STANDS_OUT * squares and rest <= usual
    # A reader who is told of one key expects the lane to be about even without it.
    enough = fair > 0 and 2 * (rest / fair - 1) <= excess / mean
    return rest / fair if is_it and enough else None


def _making_up(lane: int, excess: float, keys: _Keys) -> NDArray[np.int64]:
    """The heaviest keys of the lane, as many as make up its excess."""
    here = np.flatnonzero(keys.lane[:NAMED_AMONG] == lane)[:NAMED]
    enough = int(np.searchsorted(np.cumsum(keys.records[here]), excess)) + 1
    return here[:enough]

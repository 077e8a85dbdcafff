"""Every strategy times every lane count, each fitted on what was seen and scored on what came later.

    strategies      the keys that go elsewhere
    hashed_keys     the records that then lie on each lane, by window
    score           how even that is

`max_over_mean` is the promise: fitted on the first three quarters of the records, scored on the last. `fullest_share`
is the same as a share of all records, which compares across lane counts. `score` has the figures on all that was
seen, which is what the contract is made from. Which candidate to take: `choose`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from math import log, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane import numbers
from keylane.contract.partitioners import FACTS
from keylane.hashing.murmur3 import fmix32_rows
from keylane.measure.balance import cv, max_over_mean
from keylane.placement.spread import STEP
from keylane.plan.hashed_keys import moved_loads
from keylane.plan.strategies import STRATEGIES, TO_THE_LAST, Fitted, with_fewer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.contract.model import Contract
    from keylane.placement.cell_lanes import CellLanes
    from keylane.plan.geo_work import LaneWork
    from keylane.plan.hashed_keys import Fold, HashedStream, Moves, ProfiledStream, Seen

# Scores: how even lanes are under a strategy, from records by lane and window.

#: A window with less than this part of the mean window shows little about lanes.
THIN: Final = 0.1

#: Strategies that name nothing: what a plan is compared with where there is no contract of today.
HASHES: Final = ("hash", "geo-hash")


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


#: The usual hashes of clients: each is another draw, no better than the others on the whole.
ALTERNATIVES: Final = ("kafka-java", "librdkafka-consistent-random", "sarama-hash")
#: A client that ignores keys.
KEYLESS: Final = "librdkafka-random"
TITLES: Final = {
    "today": "the current contract",
    "hash": "the hash alone",
    "window": "key and time window hashed together",
    "pin": "{keys} pinned, the rest hashed",
    "table": "{keys} in a table, the rest hashed",
    "spread": "{keys} spread by sub-key",
    "spread-by-position": "{keys} spread by position",
    "tier": "{keys} in a separate stream",
    "tier-spread": "{keys} in a separate stream, spread there",
    "concentrate": "{keys} on as few lanes as they need",
    "keyless": "no key: any lane",
    "geo-hash": "cells of one resolution hashed",
    "geo-table": "cells split where load is heavy, every hour even",
    "geo-curve": "cells in ranges of the curve",
    "geo-regions": "cells in compact regions",
}


#: A fit holds while the fullest lane of later records is at most so many times as full as when it was fitted.
HOLDS: Final = 1.25


@dataclass(frozen=True, slots=True)
class FoldScore:
    """Fitted on the windows before `cut`, scored on those from it up to `end`.

    The shares are those of all `records` that were in the fullest lane. `held` is for how many windows after the cut
    the fullest lane stayed about as full as it was fitted: all of them, where the fit holds.
    """

    cut: int
    end: int
    fitted: float
    scored: float
    fitted_share: float
    share: float
    records: float
    held: int

    @property
    def holds(self) -> bool:
        """Whether later records are as even as those that were fitted on."""
        return self.held >= self.end - self.cut


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy at a lane count: what it moves, what then lies on each lane, and how even that was and is promised."""

    strategy: str
    partitioner: str
    lanes: int
    folds: tuple[FoldScore, ...]
    score: Score
    hottest_key_share: float
    loads: NDArray[np.float64]
    fitted: Fitted = field(default_factory=Fitted)
    #: The lanes of cells, where keys are locations.
    by_place: CellLanes | None = None
    #: Where records are matched within a radius: what lanes have to do under each cut of the time, copies included.
    works: tuple[LaneWork, ...] = ()
    #: Lanes that today's contract has in tiers: as many are there already.
    tier_today: int = 0
    #: The same strategy with every key that made the lanes of seen records more even, where some are not named.
    with_all: Candidate | None = None

    @property
    def max_over_mean(self) -> float:
        """The promise: the last quarter, fitted on what came before; on all of it when there is but one window."""
        return self.folds[0].scored if self.folds else self.score.max_over_mean

    @property
    def fullest_share(self) -> float:
        """The promise as the share of all records in the fullest lane: it compares across lane counts."""
        return self.shares[0]

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the fullest lane under each cut of the time, on records that were not fitted on."""
        return tuple(fold.share for fold in self.folds) or (self.fitted_share,)

    @property
    def fitted_share(self) -> float:
        """The share of the fullest lane of all records, which the contract is fitted on."""
        total = float(self.loads.sum())
        return float(self.loads.sum(axis=1).max(initial=0.0)) / total if total else 1.0

    @property
    def work(self) -> float:
        """How many evenly filled lanes would carry as much before the fullest is full: lanes over max/mean.

        Where records are matched, lanes over what the fullest has to do, copies included.
        """
        return self.lanes / max(self.works[0].fullest, 1e-9) if self.works else 1 / max(self.fullest_share, 1e-9)

    @property
    def compared(self) -> tuple[float, ...]:
        """The shares that candidates are compared by: as if the lanes of a new tier were none more than there are.

        A tier brings lanes of its own, which any other strategy could have had too: that they are more is no gain.
        Those that today's contract has in tiers are there, so it is compared by its shares as they are, and no contract
        with a larger share is ever taken for it. Copies count where records are matched.
        """
        if self.works:
            return tuple(work.fullest / self.lanes for work in self.works)
        found = [(fold.scored, fold.share) for fold in self.folds] or [(self.score.max_over_mean, self.fitted_share)]
        return tuple(over / (self.lanes + self._there(over, share)) for over, share in found)

    def _there(self, over: float, share: float) -> int:
        """Of the lanes of a tier under a cut, those that today has: max/mean over the share is the count of all."""
        tier = round(over / share) - self.lanes if share else 0
        return min(tier, self.tier_today)

    @property
    def deciding(self) -> float:
        """The work by `compared`, over all cuts of the time: one cut is a matter of luck."""
        return len(self.compared) / max(sum(self.compared), 1e-9)

    @property
    def noise(self) -> float:
        """How far off by chance the share of the fullest lane may be, relative to it: two standard errors."""
        records = self.folds[0].records if self.folds else float(self.loads.sum())
        share = self.fullest_share
        return 2 * sqrt(max(0.0, 1 - share) / max(share * records, 1e-9))

    @property
    def title(self) -> str:
        """What it is in a few words."""
        if self.strategy == "geo-hash" and self.by_place is not None:
            return f"cells of resolution {self.by_place.resolution} hashed"
        other = self.strategy not in TITLES
        keys = f"{numbers.count(self.listed) if self.listed else 'no'} key{'s' * (self.listed > 1)}"
        return f"the hash of {self.partitioner}" if other else TITLES[self.strategy].format(keys=keys)

    @property
    def all_lanes(self) -> int:
        """Lanes of the stream and of its tier."""
        return len(self.loads)

    @property
    def listed(self) -> int:
        """What the contract names: keys that go elsewhere, or the leaves of a lane table."""
        return len(self.fitted.moves) if self.by_place is None else len(self.by_place.starts)

    def home(self, stream: ProfiledStream) -> NDArray[np.int32]:
        """The lane of each key, before any that the strategy moves."""
        if self.by_place is not None and stream.places is not None:
            return stream.places.lanes_of_keys(self.by_place)
        return stream.hashed(self.partitioner, self.lanes).home


#: What a candidate has to be better by, at least.
CLEARLY: Final = 0.05


def margin(one: Candidate, other: Candidate) -> float:
    """What one has to be better than the other by: a twentieth, or the noise of so many records."""
    return max(CLEARLY, one.noise, other.noise)


def clearly_beats(one: Candidate, other: Candidate) -> bool:
    """Whether one is better than the other by more than chance gives: under the newest cut of the time and over all."""
    by = 1 + margin(one, other)
    return one.compared[0] * by < other.compared[0] and one.deciding > other.deciding * by


def improves(one: Candidate, other: Candidate) -> bool:
    """Whether one clearly beats the other, and was clearly worse under no cut of the time.

    A cut under which it was shows records on which the change would not have held.
    """
    pairs = zip(one.compared, other.compared, strict=True)
    return clearly_beats(one, other) and all(own <= theirs * (1 + CLEARLY) for own, theirs in pairs)


def candidates(
    stream: ProfiledStream,
    base: str,
    counts: Sequence[int],
    enough: Callable[[Candidate], bool] = lambda _: True,
    today: tuple[int, Moves] | None = None,
) -> Iterator[Candidate]:
    """All of them; `base` is the partitioner whose hash the tail keeps.

    `enough` is whether a candidate keeps the figures that were asked for: no name is left out that they need. `today`
    is the lane count of today's contract, where its hash is the same, and the keys that it puts elsewhere.
    """
    others = [name for name in ALTERNATIVES if FACTS[name].family != FACTS[base].family]
    for lanes in counts:
        hashed = stream.hashed(base, lanes)
        yield from _by_key(stream, hashed, enough, today[1] if today and today[0] == lanes else {})
        for name in others:
            yield _fitted(f"hash-{FACTS[name].hash}", stream, stream.hashed(name, lanes))
        yield _scattered("window", base, stream, _windowed(hashed, stream))
        yield _scattered("keyless", KEYLESS, stream, _even(stream, lanes))


def _by_key(
    stream: ProfiledStream, hashed: HashedStream, enough: Callable[[Candidate], bool], today: Moves
) -> Iterator[Candidate]:
    """The strategies that place keys one by one; pins start from those of today.

    Where a strategy that starts from the hash comes to what today does, today's contract was planned from records like
    these, and starting from it once more would only fit it to the records that it is to be scored on.
    """
    found = {one: _fewest(one, stream, hashed, enough) for one in STRATEGIES if one != "hash"}
    pinned: Moves = {rank: to for rank, to in today.items() if len(to) == 1 and to[0] < hashed.lanes}
    if pinned and not any(_as_today(one.fitted, hashed, today) for one in found.values()):
        found["pin"] = _fewest("pin", stream, hashed, enough, pinned)
    yield _fitted("hash", stream, hashed)
    yield from found.values()


def _as_today(found: Fitted, hashed: HashedStream, today: Moves) -> bool:
    """Whether a fit puts every key where today does; a key that is named for the lane of its hash counts as hashed."""
    ranks = np.fromiter({**found.moves, **today}, np.int64)
    home = dict(zip(ranks.tolist(), hashed.fold(ranks).tolist(), strict=True))
    return all(found.moves.get(rank, (lane,)) == today.get(rank, (lane,)) for rank, lane in home.items())


def standing(stream: ProfiledStream, contract: Contract, lanes: int, fitted: Fitted) -> Candidate:
    """A contract as it stands, which has learned nothing from this profile; `fitted` is what its rules do."""
    name = contract.spec.partitioner
    if FACTS[name].fold == "keyless":
        return _scattered("today", name, stream, _even(stream, lanes))
    hashed = stream.hashed(name, lanes)
    if contract.spec.key.window is not None:
        return _scattered("today", name, stream, _windowed(hashed, stream))
    return _candidate("today", stream, hashed, lambda *_: fitted)


def _fitted(strategy: str, stream: ProfiledStream, hashed: HashedStream) -> Candidate:
    return _candidate(strategy, stream, hashed, STRATEGIES.get(strategy, STRATEGIES["hash"]))


def _fewest(
    strategy: str,
    stream: ProfiledStream,
    hashed: HashedStream,
    enough: Callable[[Candidate], bool],
    pinned: Moves | None = None,
) -> Candidate:
    """A strategy with as few keys as are as good on later records, within the noise.

    Its fit names every key that makes the lanes of what was seen a little more even. Each smaller set of them is fitted
    and scored in the same way; from none on, a set that names more is taken only where it improves on what is taken.
    With `pinned`, today's pins, it starts from these instead of from none.
    """
    seen = (stream.whole, *(fold.fit for fold in stream.folds))
    start = {} if pinned is None else {"pinned": pinned}
    fits = [with_fewer(strategy, hashed, one, STRATEGIES[strategy](hashed, one, **start), pinned) for one in seen]
    made = [_made(strategy, stream, hashed, *found) for found in zip(*fits, strict=True)]
    none = _made(strategy, stream, hashed, *(Fitted(pinned or {}) for _ in seen))
    good = [one for one in made if enough(one)]
    if not good and strategy in TO_THE_LAST:
        fit = partial(STRATEGIES[strategy], least=0.0, **start)
        last = _made(strategy, stream, hashed, *(fit(hashed, one) for one in seen))
        if enough(last):
            return last
    if not good:
        # What no set of keys reaches is no reason to name more of them.
        good, enough = made, _any_will_do
    sound = [one for one in good if _sound(one, none)] or made[:1]
    some = sorted((one for one in sound if one.listed), key=lambda one: one.listed)
    taken, *others = [*([none] if enough(none) else []), *some] or [none]
    for one in others:
        if improves(one, taken):
            taken = one
    # What names no key is the hash, which is another candidate.
    taken = some[0] if some and not taken.listed else taken
    return replace(taken, with_all=made[0]) if taken is not made[0] else taken


def _any_will_do(_: Candidate) -> bool:
    return True


def _sound(one: Candidate, none: Candidate) -> bool:
    """Whether what would be written is about as even as what was scored.

    Where few keys are named, those of one cut may be luckier than those of all records: three keys that leave 17 % on
    a lane promise nothing of the 14 % that five others had. `none` is the hash: what fills all lanes is no fault.
    """
    if not one.folds:
        return True
    share, plain = one.folds[0].share, max(none.folds[0].share, 1e-9)
    return one.fitted_share <= (1 + CLEARLY) * max(share, none.fitted_share * share / plain)


def _candidate(
    strategy: str, stream: ProfiledStream, hashed: HashedStream, fit: Callable[[HashedStream, Seen], Fitted]
) -> Candidate:
    return _made(strategy, stream, hashed, fit(hashed, stream.whole), *(fit(hashed, one.fit) for one in stream.folds))


def _made(strategy: str, stream: ProfiledStream, hashed: HashedStream, found: Fitted, *by_fold: Fitted) -> Candidate:
    """A candidate of what was fitted on all that was seen, and on the records before each cut."""
    loads = moved_loads(hashed, found.moves, stream.profile.by_window, found.tier_lanes)
    folds = tuple(_refitted(hashed, fold, one) for fold, one in zip(stream.folds, by_fold, strict=True))
    hottest = _hottest(stream, found)
    return Candidate(strategy, hashed.rule.name, hashed.lanes, folds, score(loads), hottest, loads, found)


def _refitted(hashed: HashedStream, fold: Fold, found: Fitted) -> FoldScore:
    loads = moved_loads(hashed, found.moves, fold.fit.profile.by_window, found.tier_lanes)
    return fold_score(fold, loads)


def fold_score(fold: Fold, loads: NDArray[np.float64]) -> FoldScore:
    """The fullest lane in the time range that was fitted on and in the one after it, and for how long it held."""
    before, after = (loads[:, one.first : one.last].sum(axis=1) for one in (fold.fit, fold.score))
    fitted, records = max_over_mean(before), float(after.sum())
    fitted_share, share = (float(lanes.max(initial=0.0)) / max(float(lanes.sum()), 1e-9) for lanes in (before, after))
    held = _held(fitted, loads[:, fold.score.first : fold.score.last])
    first, last = fold.score.first, fold.score.last
    return FoldScore(first, last, fitted, max_over_mean(after), fitted_share, share, records, held)


def _held(fitted: float, later: NDArray[np.float64]) -> int:
    """For how many windows it held: all, or those before the first in which the lanes so far were clearly less even.

    Few records are uneven by chance: the fullest of n lanes with m records each is off by about sqrt(2 ln n / m).
    """
    so_far = np.cumsum(later, axis=1)
    mean = np.maximum(so_far.mean(axis=0), 1e-9)
    chance = np.sqrt(2 * log(max(2, len(later))) / mean)
    broken = so_far.max(axis=0) / mean > fitted * (HOLDS + chance)
    return int(broken.argmax()) if broken[-1] else later.shape[1]


def _hottest(stream: ProfiledStream, found: Fitted) -> float:
    """The largest share of all records that one key puts on one lane."""
    records = stream.records
    if not len(records):
        return 0.0
    first_left = next(rank for rank in range(len(records) + 1) if rank not in found.moves)
    whole = float(records[first_left]) if first_left < len(records) else 0.0
    pieces = [records[rank] / len(lanes) for rank, lanes in found.moves.items() if lanes]
    return float(max([whole, *pieces]) / max(1, stream.total))


def _scattered(strategy: str, name: str, stream: ProfiledStream, loads: NDArray[np.float64]) -> Candidate:
    """A strategy that has nothing to learn and leaves no key on one lane."""
    folds = tuple(fold_score(fold, loads) for fold in stream.folds)
    keyless = FACTS[name].fold == "keyless"
    piece = 1 if keyless else stream.profile.by_window[:1000].max(initial=0)
    share = float(piece / max(1, stream.total))
    return Candidate(strategy, name, len(loads), folds, score(loads), share, loads)


def _windowed(hashed: HashedStream, stream: ProfiledStream) -> NDArray[np.float64]:
    """Key and window hashed together: a draw for each key of the head and window, the light keys evenly.

    The draw is a stand-in for the client's hash of the longer key, which depends on how the window is written; it is as
    fair, and gives lanes that are as even.
    """
    counts, totals = stream.profile.by_window[stream.whole.head], stream.window_totals
    numbers = _numbers32(hashed)[stream.whole.head]
    loads = np.tile((totals - counts.sum(axis=0)) / hashed.lanes, (hashed.lanes, 1))
    for window, column in enumerate(counts.T):
        drawn = fmix32_rows(numbers ^ np.uint32((window + 1) * STEP & 0xFFFFFFFF))
        loads[:, window] += np.bincount(drawn % np.uint32(hashed.lanes), column, minlength=hashed.lanes)
    return loads


def _numbers32(hashed: HashedStream) -> NDArray[np.uint32]:
    numbers = hashed.numbers if hashed.numbers.ndim == 1 else hashed.numbers[:, 1]
    return numbers.astype(np.uint32)


def _even(stream: ProfiledStream, lanes: int) -> NDArray[np.float64]:
    return np.tile(stream.window_totals / lanes, (lanes, 1))

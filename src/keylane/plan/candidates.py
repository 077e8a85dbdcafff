"""Every strategy times every lane count, each fitted on what was seen and scored on what came later.

    strategies      the keys that go elsewhere
    stream          the records that then lie on each lane, by window
    score           how even that is

`max_over_mean` is the promise: fitted on the first half of the time, scored on the second. `fitted` has the figures on
all that was seen, which is what the contract is made from. Which candidate to take: `choose`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.contract.partitioners import FACTS
from keylane.hashing.murmur3 import fmix32_rows
from keylane.measure.balance import max_over_mean
from keylane.placement.spread import STEP
from keylane.plan.score import Score, score
from keylane.plan.strategies import STRATEGIES, Fitted
from keylane.plan.stream import moved_loads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.contract.model import Contract
    from keylane.plan.seen import Seen
    from keylane.plan.stream import Hashed, Stream

__all__ = ["ALTERNATIVES", "TITLES", "Candidate", "FoldScore", "candidates", "promised_by_folds", "standing"]

#: The usual hashes of clients: each is another draw, no better than the others on the whole.
ALTERNATIVES: Final = ("kafka-java", "librdkafka-consistent-random", "sarama-hash")
#: A client that ignores keys.
KEYLESS: Final = "librdkafka-random"
TITLES: Final = {
    "today": "as it stands today",
    "hash": "the hash alone",
    "window": "key and time window hashed together",
    "pin": "few keys pinned, the rest hashed",
    "table": "heavy keys in a table, the rest hashed",
    "spread": "hot keys spread by sub-key",
    "spread-by-position": "hot keys spread by position",
    "tier": "hot keys in a stream of their own",
    "tier-spread": "hot keys in a stream of their own, spread there",
    "concentrate": "accounts on as few lanes as they need",
    "keyless": "no key: any lane",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy at a lane count: what it moves, what then lies on each lane, and how even that was and is promised."""

    strategy: str
    partitioner: str
    lanes: int
    max_over_mean: float
    score: Score
    hottest_key_share: float
    loads: NDArray[np.float64]
    fitted: Fitted = field(default_factory=Fitted)

    @property
    def title(self) -> str:
        """What it is in a few words."""
        other = self.strategy not in TITLES
        return f"the hash of {self.partitioner}" if other else TITLES[self.strategy]

    @property
    def all_lanes(self) -> int:
        """Lanes of the stream and of its tier."""
        return len(self.loads)


@dataclass(frozen=True, slots=True)
class FoldScore:
    """Fitted on the windows before `cut`, scored on those from it up to `end`."""

    cut: int
    end: int
    fitted: float
    scored: float


def candidates(stream: Stream, base: str, counts: Sequence[int]) -> Iterator[Candidate]:
    """All of them; `base` is the partitioner whose hash the tail keeps."""
    others = [name for name in ALTERNATIVES if FACTS[name].family != FACTS[base].family]
    for lanes in counts:
        hashed = stream.hashed(base, lanes)
        for strategy in STRATEGIES:
            yield _fitted(strategy, stream, hashed)
        for name in others:
            yield _fitted(f"hash-{FACTS[name].hash}", stream, stream.hashed(name, lanes))
        yield _scattered("window", base, stream, _windowed(hashed, stream))
        yield _scattered("keyless", KEYLESS, stream, _even(stream, lanes))


def standing(stream: Stream, contract: Contract, lanes: int, fitted: Fitted) -> Candidate:
    """A contract as it stands, which has learned nothing from this profile; `fitted` is what its rules do."""
    name = contract.spec.partitioner
    if FACTS[name].fold == "keyless":
        return _scattered("today", name, stream, _even(stream, lanes))
    hashed = stream.hashed(name, lanes)
    if contract.spec.key.window is not None:
        return _scattered("today", name, stream, _windowed(hashed, stream))
    loads = moved_loads(hashed, fitted.moves, stream.profile.by_window, fitted.tier_lanes)
    promise = _on(hashed, fitted, stream.folds[0].score) if stream.folds else score(loads).max_over_mean
    return Candidate("today", name, lanes, promise, score(loads), _hottest(stream, fitted), loads, fitted)


def promised_by_folds(stream: Stream, chosen: Candidate) -> list[FoldScore]:
    """The chosen strategy on every fold: how steady its promise is."""
    fit = STRATEGIES.get(chosen.strategy)
    if fit is None:
        return []
    hashed = stream.hashed(chosen.partitioner, chosen.lanes)
    found = [(fold, fit(hashed, fold.fit)) for fold in stream.folds]
    return [
        FoldScore(fold.score.first, fold.score.last, _on(hashed, one, fold.fit), _on(hashed, one, fold.score))
        for fold, one in found
    ]


def _fitted(strategy: str, stream: Stream, hashed: Hashed) -> Candidate:
    fit = STRATEGIES.get(strategy, STRATEGIES["hash"])
    found = fit(hashed, stream.whole)
    loads = moved_loads(hashed, found.moves, stream.profile.by_window, found.tier_lanes)
    scored, halves = score(loads), stream.folds[0] if stream.folds else None
    promise = _on(hashed, fit(hashed, halves.fit), halves.score) if halves else scored.max_over_mean
    return Candidate(strategy, hashed.rule.name, hashed.lanes, promise, scored, _hottest(stream, found), loads, found)


def _on(hashed: Hashed, found: Fitted, seen: Seen) -> float:
    """The fullest lane over the mean in a stretch, under what was found in another."""
    loads = moved_loads(hashed, found.moves, seen.profile.by_window, found.tier_lanes)
    return max_over_mean(loads[:, seen.first : seen.last].sum(axis=1))


def _hottest(stream: Stream, found: Fitted) -> float:
    """The largest share of all records that one key puts on one lane."""
    records = stream.records
    if not len(records):
        return 0.0
    first_whole = next(rank for rank in range(len(records) + 1) if len(found.moves.get(rank, ())) < 2)
    whole = float(records[first_whole]) if first_whole < len(records) else 0.0
    pieces = [records[rank] / len(lanes) for rank, lanes in found.moves.items()]
    return float(max([whole, *pieces]) / records.sum())


def _scattered(strategy: str, name: str, stream: Stream, loads: NDArray[np.float64]) -> Candidate:
    """A strategy that has nothing to learn and leaves no key on one lane."""
    later = loads[:, stream.folds[0].score.first : stream.folds[0].score.last] if stream.folds else loads
    piece = stream.profile.by_window[:1000].max(initial=0) if strategy == "window" else 1
    share = float(piece / max(1, int(stream.records.sum())))
    return Candidate(strategy, name, len(loads), max_over_mean(later.sum(axis=1)), score(loads), share, loads)


def _windowed(hashed: Hashed, stream: Stream) -> NDArray[np.float64]:
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


def _numbers32(hashed: Hashed) -> NDArray[np.uint32]:
    numbers = hashed.numbers if hashed.numbers.ndim == 1 else hashed.numbers[:, 1]
    return numbers.astype(np.uint32)


def _even(stream: Stream, lanes: int) -> NDArray[np.float64]:
    return np.tile(stream.window_totals / lanes, (lanes, 1))

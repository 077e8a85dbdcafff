"""A stretch of the windows, and what weighs how much in it. What is fitted sees one, and is scored on a later one.

There are two measures: all records of the stretch, and its recent ones, because keys rise and fall: a record that is
a quarter of the stretch older counts half. Strategies look at the heaviest keys only (`head`); the others are in the
loads of the lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from keylane.measure.profile import Profile

__all__ = ["Fold", "Seen", "folds_of"]

#: Of a stretch: after this part of it a record counts half.
HALF_LIFE: Final = 0.25
#: Keys that a strategy looks at. The others are too light to matter one by one.
HEAD: Final = 20_000
#: They are looked for among so many of the heaviest of all time: whoever is heavy for a quarter of it is among them.
LOOKED_AT: Final = 200_000
#: Where the time is cut, as parts of all records: the first is the promise, the others show how steady it is.
CUTS: Final = ((0.75, 1.0), (0.5, 1.0), (0.25, 0.5))


@dataclass(frozen=True)
class Seen:
    """The windows from `first` up to, not including, `last`."""

    profile: Profile
    first: int
    last: int
    window_totals: NDArray[np.float64]

    @property
    def by_window(self) -> NDArray[np.int32]:
        """Records of each key in each window of the stretch."""
        return self.profile.by_window[:, self.first : self.last]

    @cached_property
    def measures(self) -> NDArray[np.float64]:
        """(windows, 2): what a record counts, by its window: one, and less the older it is."""
        windows = self.last - self.first
        ages = np.arange(windows - 1, -1, -1)
        return np.stack([np.ones(windows), 0.5 ** (ages / (HALF_LIFE * windows))], axis=1)

    @cached_property
    def totals(self) -> NDArray[np.float64]:
        """(2,): all keys together, in both measures."""
        totals: NDArray[np.float64] = self.window_totals[self.first : self.last] @ self.measures
        return np.maximum(totals, 1)

    @cached_property
    def _head(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        shares = self.by_window[:LOOKED_AT] @ self.measures / self.totals
        most = shares.max(axis=1)
        few = np.argpartition(-most, HEAD - 1)[:HEAD] if len(most) > HEAD else np.arange(len(most))
        few = few[most[few] > 0]
        ranks = few[np.lexsort((few, -most[few]))]
        return ranks, shares[ranks]

    @property
    def head(self) -> NDArray[np.int64]:
        """The ranks of the heaviest keys of the stretch, the heaviest first."""
        return self._head[0]

    def weights(self, lanes: int) -> NDArray[np.float64]:
        """(head, 2): what each of the head weighs in mean lanes."""
        return self._head[1] * lanes

    def on_lanes(self, loads: NDArray[np.float64]) -> NDArray[np.float64]:
        """(lanes, 2): loads by window as mean lanes in both measures."""
        found: NDArray[np.float64] = loads[:, self.first : self.last] @ self.measures
        return found * (len(loads) / self.totals)


@dataclass(frozen=True, slots=True)
class Fold:
    """Fitted on one stretch, scored on the one after it."""

    fit: Seen
    score: Seen


def folds_of(profile: Profile, window_totals: NDArray[np.float64]) -> tuple[Fold, ...]:
    """Three quarters against the last, then what shows whether that was luck; none when all is in one window.

    That one comes first because it is the most like what happens next: fitted on nearly all that will be fitted on, and
    scored on what is newest. Of the cuts that were tried on public data it foretold the later records best.
    """
    edges = np.concatenate([[0.0], np.cumsum(window_totals)]) / max(1.0, window_totals.sum())
    found = [_cut(profile, window_totals, edges, *cut) for cut in CUTS]
    return tuple(fold for fold in found if fold is not None)


def _cut(
    profile: Profile, totals: NDArray[np.float64], edges: NDArray[np.float64], until: float, end: float
) -> Fold | None:
    """The windows whose edges are nearest to these parts of the records."""
    cut, last = (int(np.abs(edges - part).argmin()) for part in (until, end))
    there = edges[cut] > 0 and edges[last] > edges[cut]
    return Fold(Seen(profile, 0, cut, totals), Seen(profile, cut, last, totals)) if there else None

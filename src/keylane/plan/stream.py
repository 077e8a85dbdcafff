"""The keys of a profile under a hash: the lane of each, and what lies on the lanes in each window.

A strategy changes where some keys go (`Moves`); all others stay where their hash puts them. So loads are counted once
for each hash and lane count, and a strategy only moves what it moves. Which keys it moves: `strategies`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from keylane.hashing.batch import hash_batch
from keylane.keys.read import read_batch
from keylane.placement.fold import FOLDS
from keylane.placement.partitioners import partitioner
from keylane.placement.ranges import range_lanes
from keylane.plan.places import Places, may_be_places, places_of
from keylane.plan.seen import Fold, Seen, folds_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.measure.profile import Profile
    from keylane.placement.partitioners import Partitioner

__all__ = ["Hashed", "Moves", "Stream", "lane_loads", "moved_loads"]

#: Where some keys go instead, by rank: one lane, or several that share them evenly. Lanes of a tier are numbered on
#: after the stream's own.
Moves: TypeAlias = dict[int, tuple[int, ...]]
#: Lanes of a common multiple that are still cheaper than a count for each.
MOST_COMMON: Final = 1 << 17


@dataclass(frozen=True)
class Hashed:
    """One hash, one lane count: what tells the lane of each key, and (lanes, windows) records on the lanes."""

    rule: Partitioner
    lanes: int
    numbers: NDArray[Any]
    loads: NDArray[np.float64]

    def fold(self, ranks: NDArray[np.int64], lanes: int | None = None) -> NDArray[np.int32]:
        """The lanes of some keys, also under another lane count."""
        return _folded(self.rule, self.numbers[ranks], lanes or self.lanes)

    @cached_property
    def home(self) -> NDArray[np.int32]:
        """The lane of every key: only whoever counts all of them needs it."""
        return _folded(self.rule, self.numbers, self.lanes)


@dataclass(frozen=True)
class Stream:
    """A profile whose keys are hashed once for each hash function, for the lane counts that are asked about.

    Where a lane is a hash modulo the count, it is also the lane under any multiple of the count, modulo the count. So
    the records are added up once, under the least common multiple of all counts, and folded for each.
    """

    profile: Profile
    counts: tuple[int, ...] = ()
    _numbers: dict[str, Any] = field(default_factory=dict)
    _hashed: dict[tuple[str, int], Hashed] = field(default_factory=dict)

    @cached_property
    def whole(self) -> Seen:
        """All that was seen."""
        return Seen(self.profile, 0, len(self.profile.windows), self.window_totals)

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        """Where the time is cut; the first is the promise's."""
        return folds_of(self.profile, self.window_totals)

    @cached_property
    def records(self) -> NDArray[np.int64]:
        """Records of each key."""
        return self._columns.sum(axis=0, dtype=np.int64)

    @cached_property
    def total(self) -> int:
        """Records of all keys."""
        return int(self.window_totals.sum())

    @cached_property
    def window_totals(self) -> NDArray[np.float64]:
        """Records of each window, all keys together."""
        return self._columns.sum(axis=1, dtype=np.float64)

    @cached_property
    def base_keys(self) -> pa.Array:
        """The bytes of each key, without a window."""
        key = self.profile.key.model_copy(update={"window": None})
        return read_batch(self.profile.keys, key).base

    @cached_property
    def places(self) -> Places | None:
        """The keys as places; None where they are none."""
        return places_of(self.profile, self.base_keys) if may_be_places(self.profile) else None

    def hashed(self, name: str, lanes: int) -> Hashed:
        """The keys under a partitioner and a lane count."""
        if (name, lanes) not in self._hashed:
            rule, numbers = self._numbered(name)
            self._hashed[name, lanes] = Hashed(rule, lanes, numbers, self._loads(name, rule, numbers, lanes))
        return self._hashed[name, lanes]

    def _loads(self, name: str, rule: Partitioner, numbers: NDArray[Any], lanes: int) -> NDArray[np.float64]:
        common = lcm(*self.counts) if lanes in self.counts and rule.facts.fold != "ranges" else lanes
        if common == lanes or common > MOST_COMMON:
            return lane_loads(_folded(rule, numbers, lanes), self._columns, lanes)
        whole = self.hashed(name, common).loads
        return whole.reshape(common // lanes, lanes, -1).sum(axis=0)

    @cached_property
    def _columns(self) -> NDArray[np.int32]:
        """(windows, keys): each window's counts in one piece, as they are added up."""
        return np.ascontiguousarray(self.profile.by_window.T)

    def _numbered(self, name: str) -> tuple[Partitioner, NDArray[Any]]:
        """Each key's number: two partitioners with one hash share it."""
        key = self.profile.key
        rule = partitioner(name, key.encodings[0] if len(key.fields) == 1 else "raw")
        assert rule.hash is not None
        if rule.hash.name not in self._numbers:
            self._numbers[rule.hash.name] = hash_batch(rule.hash, self.base_keys)
        return rule, self._numbers[rule.hash.name]


def _folded(rule: Partitioner, numbers: NDArray[Any], lanes: int) -> NDArray[np.int32]:
    folded = range_lanes(numbers, lanes) if rule.facts.fold == "ranges" else FOLDS[rule.facts.fold](numbers, lanes)
    return np.asarray(folded).astype(np.int32)


def lane_loads(home: NDArray[np.int32], windows: NDArray[Any], lanes: int) -> NDArray[np.float64]:
    """(lanes, windows): records on the lanes, from the lane of each key and a row of records for each window."""
    at = home.astype(np.intp)
    columns = [np.bincount(at, counts, minlength=lanes) for counts in windows]
    return np.stack(columns, axis=1) if columns else np.zeros((lanes, 0))


def moved_loads(hashed: Hashed, moves: Moves, by_window: NDArray[np.int32], more_lanes: int = 0) -> NDArray[np.float64]:
    """Records on the lanes when some keys go elsewhere; `more_lanes` are a tier's, below the stream's own."""
    loads = np.vstack([hashed.loads, np.zeros((more_lanes, hashed.loads.shape[1]))])
    ranks = np.fromiter(moves, np.int64, len(moves))
    np.subtract.at(loads, hashed.fold(ranks), by_window[ranks])
    widths = np.array([len(lanes) for lanes in moves.values()], np.int64)
    to = np.array([lane for lanes in moves.values() for lane in lanes], np.int64)
    np.add.at(loads, to, np.repeat(by_window[ranks] / np.maximum(widths, 1)[:, None], widths, axis=0))
    return loads

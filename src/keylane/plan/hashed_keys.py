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

from keylane.contract.partitioners import FACTS
from keylane.geo.bits import HOME_RESOLUTION, ancestor, curve_end, resolution
from keylane.hashing.batch import hash_batch
from keylane.keys.cells import NO_CELL, cells_in
from keylane.keys.read import read_batch
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.placement.cell_lanes import CellLanes
    from keylane.placement.partitioners import Partitioner
    from keylane.placement.ranges import KeySpace, Lanes
    from keylane.profile.model import Profile, Windows

# Time folds: strategies are fitted on one range of windows and scored on a later one.

#: Of a time range: after this part of it a record counts half.
HALF_LIFE: Final = 0.25
#: Keys that a strategy looks at. The others are too light to matter one by one.
HEAD: Final = 20_000
#: They are looked for among this many of the heaviest of all time: a key heavy for a quarter of it is among them.
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
        """Records of each key in each window of the time range."""
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
        """The ranks of the heaviest keys of the time range, the heaviest first."""
        return self._head[0]

    def weights(self, lanes: int) -> NDArray[np.float64]:
        """(head, 2): what each of the head weighs in mean lanes."""
        return self._head[1] * lanes

    def on_lanes(self, loads: NDArray[np.float64]) -> NDArray[np.float64]:
        """(lanes, 2): loads by window as mean lanes in both measures."""
        return self.shares(loads) * len(loads)

    def shares(self, loads: NDArray[np.float64]) -> NDArray[np.float64]:
        """(lanes, 2): loads by window as shares of all records in both measures."""
        found: NDArray[np.float64] = loads[:, self.first : self.last] @ self.measures
        return found / self.totals


@dataclass(frozen=True, slots=True)
class Fold:
    """Fitted on one time range, scored on the one after it."""

    fit: Seen
    score: Seen


def folds_of(profile: Profile, window_totals: NDArray[np.float64]) -> tuple[Fold, ...]:
    """Three quarters against the last, then what shows whether that was luck; none when all is in one window.

    That one comes first because it is the most like what comes next: fitted on nearly all that will be fitted on, and
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


# Keys that are locations: home cells along the curve, with the records of each in every window.

_HOUR: Final = 3_600_000_000
#: A longer window is of no hour.
_LONGEST: Final = 3 * _HOUR


@dataclass(frozen=True, slots=True)
class Places:
    """Home cells along the curve, each once, and their records by window.

    `loads` has a row for each window. `row` has for each key of the profile the number of its cell, -1 where the key is
    none; `resolution` is that of all the cells: the home resolution, or that of the coarsest key. `hours` has for each
    window the column it is packed in.
    """

    cells: NDArray[np.int64]
    loads: NDArray[np.int64]
    row: NDArray[np.int64]
    resolution: int
    hours: NDArray[np.int64]
    _at: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict, repr=False)

    @property
    def records(self) -> NDArray[np.int64]:
        """Records of each home cell."""
        total: NDArray[np.int64] = self.loads.sum(axis=0)
        return total

    def at(self, resolution: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The ancestors at a resolution, along the curve, and the loads of each; counted once."""
        if resolution not in self._at:
            parents = ancestor(self.cells, resolution)
            first = np.flatnonzero(np.diff(parents, prepend=-1))
            self._at[resolution] = parents[first], np.add.reduceat(self.loads, first, axis=1)
        return self._at[resolution]

    def lanes_of_keys(self, rule: CellLanes) -> NDArray[np.int32]:
        """The lane of each key of the profile; -1 where the key is no cell."""
        lanes = np.append(rule.of(self.cells), np.int32(-1))
        return lanes[self.row].astype(np.int32)

    def units(self, rule: CellLanes) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """What a rule gives a lane to: the lane and the records of each leaf or hashed cell, the heaviest first."""
        hashed = rule.from_leaves(self.cells) < 0
        leaf = np.searchsorted(rule.starts, curve_end(self.cells), "right")
        number = np.where(hashed, ancestor(self.cells, rule.resolution), leaf)
        _, first, unit = np.unique(number, return_index=True, return_inverse=True)
        records = np.bincount(unit, self.records).astype(np.int64)
        order = np.argsort(-records, kind="stable")
        return rule.of(self.cells[first])[order], records[order]

    def by_hour(self, first: int, last: int) -> NDArray[np.float64]:
        """(cells, columns): the windows from `first` up to `last` in the columns that lanes are packed by."""
        columns, at = np.unique(self.hours[first:last], return_inverse=True)
        out = np.zeros((len(columns), len(self.cells)))
        for window, column in enumerate(at.tolist(), first):
            out[column] += self.loads[window]
        return np.ascontiguousarray(out.T)


def may_be_places(profile: Profile) -> bool:
    """Whether the keys of a profile are locations or cells, or bytes that may be cells."""
    return profile.key.is_place or profile.key.encodings in (("h3",), ("raw",))


def fields_of_place(profile: Profile) -> tuple[str, ...] | None:
    """The latitude and longitude that the cells were made from, where they were."""
    fields = profile.known.get("place")
    return tuple(fields) if fields else profile.key.fields if profile.key.is_place else None


def scale_of(profile: Profile) -> float:
    """How many of the numbers that the cells were made from make a degree."""
    return profile.known.get("scale", 1.0)


def places_of(profile: Profile, keys: pa.Array) -> Places | None:
    """The locations of a profile, whose keys come as bytes; None where no key is a cell, or not all bytes are."""
    found = cells_in(keys)
    good = np.flatnonzero(found != NO_CELL)
    if not len(good) or (len(good) < len(found) and profile.key.encodings == ("raw",)):
        return None
    at = min(HOME_RESOLUTION, int(resolution(found[good]).min()))
    homes = ancestor(found[good], at)
    # One number for each cell, in the order of the curve.
    _, first, place = np.unique(curve_end(homes), return_index=True, return_inverse=True)
    # Records are whole numbers far below 2**53: as floats they are exact.
    sums = [np.bincount(place, counts, minlength=len(first)) for counts in profile.by_window[good].T]
    loads = np.stack(sums).astype(np.int64)
    row = np.full(len(found), -1, np.int64)
    row[good] = place
    return Places(homes[first], loads, row, at, hours_of(profile.windows))


def hours_of(windows: Windows) -> NDArray[np.int64]:
    """The hour of the day that each window lies in, by its middle; otherwise a number for each window.

    Windows by position, and those longer than three hours, have no hour: lanes are then even in every window.

    >>> from keylane.profile.model import Windows
    >>> day = 86_400_000_000
    >>> hours_of(Windows("time", tuple(range(0, 2 * day + 1, day // 8)))).tolist()[6:10]
    [19, 22, 1, 4]
    """
    edges: Any = np.asarray(windows.edges, np.int64)
    if windows.kind != "time" or (np.diff(edges) > _LONGEST).any():
        return np.arange(len(windows))
    middles = edges[:-1] + np.diff(edges) // 2
    return np.asarray(middles // _HOUR % 24)


#: Where some keys go instead, by rank: one lane, or several that share them evenly. Lanes of a tier are numbered on
#: after the stream's own.
Moves: TypeAlias = dict[int, tuple[int, ...]]
#: Lanes of a common multiple that are still cheaper than a count for each.
MOST_COMMON: Final = 1 << 17


@dataclass(frozen=True)
class HashedStream:
    """One hash, one lane count: what gives the lane of each key, and (lanes, windows) records on the lanes."""

    rule: Partitioner
    space: Lanes
    numbers: NDArray[Any]
    loads: NDArray[np.float64]

    @property
    def lanes(self) -> int:
        """The lane count."""
        return len(self.loads)

    def fold(self, ranks: NDArray[np.int64], lanes: int | None = None) -> NDArray[np.int32]:
        """The lanes of some keys, also under another lane count."""
        return self.rule.fold_batch(self.numbers[ranks], lanes or self.space).astype(np.int32)

    @cached_property
    def home(self) -> NDArray[np.int32]:
        """The lane of every key: needed only to count all of them."""
        return self.rule.fold_batch(self.numbers, self.space).astype(np.int32)


@dataclass(frozen=True)
class ProfiledStream:
    """A profile whose keys are hashed once for each hash function, for the lane counts that are asked about.

    Where a lane is a hash modulo the count, it is also the lane under any multiple of the count, modulo the count. So
    the records are added up once, under the least common multiple of all counts, and folded for each.
    """

    profile: Profile
    counts: tuple[int, ...] = ()
    _numbers: dict[str, Any] = field(default_factory=dict)
    _hashed: dict[tuple[str, Lanes], HashedStream] = field(default_factory=dict)

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
    def counted(self) -> NDArray[np.int64]:
        """Records of each key among those that figures are counted on: the newest, which nothing was fitted on."""
        newest = self.folds[0].score if self.folds else self.whole
        return newest.by_window.sum(axis=1, dtype=np.int64)

    @property
    def hottest(self) -> float:
        """The share of the heaviest key of these records."""
        return float(self.counted.max(initial=0) / max(1, self.counted.sum()))

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
        """The keys as locations; None where they are not."""
        return places_of(self.profile, self.base_keys) if may_be_places(self.profile) else None

    def ranges(self, lanes: int) -> KeySpace | None:
        """The ranges that the source had, where it had so many."""
        space = self._space
        return space if space is not None and len(space) == lanes else None

    def hashed(self, name: str, lanes: Lanes) -> HashedStream:
        """The keys under a partitioner and a lane count, or a key space; a count that the source has is its ranges."""
        if isinstance(lanes, int) and FACTS[name].fold == "ranges":
            lanes = self.ranges(lanes) or lanes
        if (name, lanes) not in self._hashed:
            rule, numbers = self._numbered(name)
            self._hashed[name, lanes] = HashedStream(rule, lanes, numbers, self._loads(name, rule, numbers, lanes))
        return self._hashed[name, lanes]

    def _loads(self, name: str, rule: Partitioner, numbers: NDArray[Any], lanes: Lanes) -> NDArray[np.float64]:
        count = lanes if isinstance(lanes, int) else len(lanes)
        common = lcm(*self.counts) if count in self.counts and rule.facts.fold != "ranges" else count
        if common == count or common > MOST_COMMON:
            return lane_loads(rule.fold_batch(numbers, lanes).astype(np.int32), self._columns, count)
        whole = self.hashed(name, common).loads
        return whole.reshape(common // count, count, -1).sum(axis=0)

    @cached_property
    def _space(self) -> KeySpace | None:
        return self.profile.key_space

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


def lane_loads(home: NDArray[np.int32], windows: NDArray[Any], lanes: int) -> NDArray[np.float64]:
    """(lanes, windows): records on the lanes, from the lane of each key and a row of records for each window."""
    at = home.astype(np.intp)
    columns = [np.bincount(at, counts, minlength=lanes) for counts in windows]
    return np.stack(columns, axis=1) if columns else np.zeros((lanes, 0))


def moved_loads(
    hashed: HashedStream, moves: Moves, by_window: NDArray[np.int32], more_lanes: int = 0
) -> NDArray[np.float64]:
    """Records on the lanes when some keys go elsewhere; `more_lanes` are a tier's, below the stream's own."""
    loads = np.vstack([hashed.loads, np.zeros((more_lanes, hashed.loads.shape[1]))])
    ranks = np.fromiter(moves, np.int64, len(moves))
    np.subtract.at(loads, hashed.fold(ranks), by_window[ranks])
    widths = np.array([len(lanes) for lanes in moves.values()], np.int64)
    to = np.array([lane for lanes in moves.values() for lane in lanes], np.int64)
    np.add.at(loads, to, np.repeat(by_window[ranks] / np.maximum(widths, 1)[:, None], widths, axis=0))
    return loads

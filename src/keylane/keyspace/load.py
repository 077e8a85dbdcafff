"""Load over the key space: bins that do not overlap, even inside each, and how far a cap reaches from any key.

Rule: a bin is a range with its load. A single hash key is a bin of one key, which no boundary can divide; the load of a
shard of which nothing else is known is a bin that is divided in proportion. `furthest` is the last place to cut at.

Worked example: 8 on the keys 0 to 7 and 5 on the single key 9. From 0 a cap of 4 reaches to 4; from 8 it reaches to 9,
because the key 9 is more than the cap by itself. That key is hot, and no cut helps it.

When not to use it: for choosing hash keys, which is `key_tree`. What is cut where: `cuts`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from keylane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.keyspace.layout import ShardLayout

#: What a measured load counts, of each second.
LoadUnit: TypeAlias = Literal["records", "bytes"]
#: Sums of loads are of floats: a shard that is over the cap by no more than this part of it is not over.
ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """Bins in order: where each begins, how many keys it has, and the load before each; one more of the last.

    >>> curve = from_points([(2**126, 3.0), (2**127, 5.0)])
    >>> curve.between(0, 2**127), curve.furthest(0, 4.0) == 2**127
    (3.0, True)
    """

    starts: list[int]
    widths: list[int]
    before: list[float]

    @property
    def total(self) -> float:
        """All of it."""
        return self.before[-1]

    def until(self, key: int) -> float:
        """The load of the keys before this one."""
        at = bisect_right(self.starts, key) - 1
        if at < 0:
            return 0.0
        inside, width = key - self.starts[at], self.widths[at]
        if inside >= width:
            return self.before[at + 1]
        return self.before[at] + (self.before[at + 1] - self.before[at]) * (inside / width)

    def between(self, start: int, end: int) -> float:
        """The load from `start` up to, not including, `end`."""
        return max(0.0, self.until(end) - self.until(start))

    def furthest(self, start: int, cap: float) -> int:
        """The last key up to which, not included, the load from `start` on keeps to the cap; beyond the space: all."""
        # Half of what a check of the cap allows for: a cut that uses all of it is over the cap by the next rounding.
        limit = self.until(start) + cap * (1 + ROUNDING / 2)
        if limit >= self.total:
            return 1 << 128
        at = bisect_right(self.before, limit) - 1
        load, width = self.before[at + 1] - self.before[at], self.widths[at]
        inside = int(width * ((limit - self.before[at]) / load)) if width > 1 else 0
        return max(start, self.starts[at] + min(inside, width - 1))

    def after_first(self, start: int) -> int:
        """Where the second bin with a load begins, of those from `start` on: all before it is the first one's."""
        first = bisect_left(self.starts, start)
        while first < len(self.starts) and self.before[first + 1] == self.before[first]:
            first += 1
        later = first + 1
        while later < len(self.starts) and self.before[later + 1] == self.before[later]:
            later += 1
        return self.starts[later] if later < len(self.starts) else 1 << 128

    def keys_over(self, cap: float) -> int:
        """How many single keys have more than the cap by themselves."""
        loads = np.diff(np.array(self.before))
        return int(((loads > cap * (1 + ROUNDING)) & (np.array(self.widths, object) == 1)).sum()) if len(loads) else 0

    def heaviest_key(self, start: int, end: int) -> tuple[int, float] | None:
        """The single key with the most load from `start` up to `end`; None where no load is known by key."""
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end)
        single = [n for n in range(first, last) if self.widths[n] == 1]
        if not single:
            return None
        best = max(single, key=lambda n: self.before[n + 1] - self.before[n])
        return self.starts[best], self.before[best + 1] - self.before[best]


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """What a stream carried a second: at single hash keys, and evenly over ranges, both ends included.

    `keys` are partition keys behind hash keys, where they are known; `notes` is what to know of the measurement.
    """

    points: Mapping[int, float]
    ranges: Sequence[tuple[int, int, float]]
    keys: Mapping[int, str]
    notes: tuple[str, ...] = ()


def from_points(points: Iterable[tuple[int, float]]) -> LoadCurve:
    """Load by single hash key; a key that comes twice has the sum."""
    known = list(points)
    keys = b"".join([key.to_bytes(16, "big") for key, _ in known])
    halves = np.frombuffer(keys, ">u8").reshape(-1, 2).astype(np.uint64)
    return from_halves(halves, np.array([load for _, load in known], np.float64))


def from_halves(halves: NDArray[np.uint64], loads: NDArray[np.float64]) -> LoadCurve:
    """The same from (n, 2) halves of hash keys, as `hash_batch` gives them."""
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    ordered = halves[order]
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    firsts = np.flatnonzero(is_first)
    summed = np.add.reduceat(loads[order], firsts) if len(firsts) else loads[:0]
    starts = [high << 64 | low for high, low in ordered[firsts].tolist()]
    return _curve(starts, [1] * len(starts), summed.tolist())


def from_ranges(points: Mapping[int, float], ranges: Iterable[tuple[int, int, float]]) -> LoadCurve:
    """Load by single hash key, and load of ranges, both ends included and even inside; what overlaps is added up.

    >>> curve = from_ranges({4: 3.0}, [(0, 7, 8.0)])
    >>> curve.between(0, 4), curve.between(4, 5), curve.total
    (4.0, 4.0, 11.0)
    """
    spread = [one for one in ranges if one[2]]
    if not spread:
        return from_points(points.items())
    ends = {edge for start, end, _ in spread for edge in (start, end + 1)}
    edges = sorted(ends | {edge for key in points for edge in (key, key + 1)})
    places = {edge: n for n, edge in enumerate(edges)}
    loads = [0.0] * (len(edges) - 1)
    for start, end, load in spread:
        for n in range(places[start], places[end + 1]):
            loads[n] += load * ((edges[n + 1] - edges[n]) / (end - start + 1))
    for key, load in points.items():
        loads[places[key]] += load
    return _curve(edges[:-1], [after - at for at, after in pairwise(edges)], loads)


def from_layout(layout: ShardLayout) -> LoadCurve:
    """Load by shard, even inside each: counts of shards show no more."""
    loads = layout.loads
    if loads is None:
        without = [shard.id for shard in layout.open if shard.load is None]
        hint = "a load for every shard, or --profile, --load or --registry"
        raise UsageError.of("the load of shards is not known", got=", ".join(without[:5]), hint=hint)
    return _curve(layout.starts, [shard.width for shard in layout.open], loads)


def _curve(starts: list[int], widths: list[int], loads: Sequence[float]) -> LoadCurve:
    return LoadCurve(starts, widths, list(accumulate(loads, initial=0.0)))

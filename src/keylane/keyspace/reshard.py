"""From one layout to another: the calls, in an order that keeps few shards open and no shard fuller than it must be.

Rule: the calls are the boundaries that only one layout has, a split for each new one and a merge for each old one:
always, and no fewer can do. Old boundaries inside a new shard are merged away as soon as both of its ends are there, so
that a merge never makes more than a new shard; a merge comes first only where a split would leave a shard of one key.
The splits that let most merges follow come first, so that few shards are open at once.

Worked example: 4 equal shards to 3: split at 1/3, merge over 1/4, split at 2/3, merge over 1/2, merge over 3/4. Five
calls, never more than five shards.

When not to use it: for a stream that scales by a count (a uniform update); that is compared in `plan.shards`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Literal

from keylane.contract.shards import NARROWEST, SPACE
from keylane.keyspace.layout import Shard, ShardLayout

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ReshardCall:
    """One call: a split of a shard at a key, or a merge of two shards over one. `after` is how many are open then."""

    call: Literal["SplitShard", "MergeShards"]
    at: int
    shards: tuple[str, ...]
    makes: tuple[str, ...]
    after: int


@dataclass(frozen=True, slots=True)
class Resharding:
    """The calls from a layout to another, the shards that are open when they are done, and the most on the way."""

    calls: tuple[ReshardCall, ...]
    layout: ShardLayout
    peak: int

    @property
    def splits(self) -> int:
        """How many of the calls are splits."""
        return sum(call.call == "SplitShard" for call in self.calls)

    @property
    def merges(self) -> int:
        """How many of the calls are merges."""
        return len(self.calls) - self.splits


@dataclass(frozen=True, slots=True)
class _Change:
    """A boundary that is added or removed."""

    at: int
    adds: bool


def resharding(layout: ShardLayout, starts: Sequence[int]) -> Resharding:
    """The calls from a layout to shards with these starts, of which the first is 0."""
    open_shards = _OpenShards(layout)
    calls = []
    peak = len(layout.open)
    for change in _ordered(layout.boundaries, list(starts[1:])):
        calls.append(open_shards.split(change.at) if change.adds else open_shards.merge(change.at))
        peak = max(peak, calls[-1].after)
    return Resharding(tuple(calls), ShardLayout(tuple(open_shards.shards())), peak)


def difference(layout: ShardLayout, starts: Sequence[int]) -> int:
    """How many boundaries only one of the layouts has."""
    return len(set(layout.starts) ^ set(starts))


class _OpenShards:
    """Open shards while calls are made: by their start, with the ids that the service would give.

    Not `ShardLayout.split`, which looks through all shards: a plan of 10,000 shards has as many calls.
    """

    def __init__(self, layout: ShardLayout) -> None:
        self._ids = {shard.start: shard.id for shard in layout.open}
        self._parents: dict[int, tuple[str, ...]] = {shard.start: shard.parents for shard in layout.open}
        self._starts = list(layout.starts)
        first = layout.next_ids(1)[0]
        digits = len(first) - len(first.rstrip("0123456789"))
        self._prefix, self._digits, self._next = first[: len(first) - digits], digits, int(first[-digits:])

    def split(self, at: int) -> ReshardCall:
        start = self._starts[bisect_left(self._starts, at) - 1]
        old = self._ids[start]
        makes = (self._new(), self._new())
        insort(self._starts, at)
        self._ids[start], self._ids[at] = makes
        self._parents[start] = self._parents[at] = (old,)
        return ReshardCall("SplitShard", at, (old,), makes, len(self._starts))

    def merge(self, at: int) -> ReshardCall:
        place = bisect_left(self._starts, at)
        start = self._starts[place - 1]
        olds = (self._ids[start], self._ids.pop(at))
        del self._starts[place]
        made = self._new()
        self._ids[start] = made
        self._parents[start] = olds
        return ReshardCall("MergeShards", at, olds, (made,), len(self._starts))

    def shards(self) -> list[Shard]:
        ends = [*(start - 1 for start in self._starts[1:]), SPACE - 1]
        return [
            Shard(self._ids[start], start, end, None, self._parents[start])
            for start, end in zip(self._starts, ends, strict=True)
        ]

    def _new(self) -> str:
        self._next += 1
        return f"{self._prefix}{self._next - 1:0{self._digits}d}"


def _ordered(old: Sequence[int], new: Sequence[int]) -> list[_Change]:
    """The changes: merges as soon as they can be made, splits that let most merges follow, then all other splits.

    A new shard is a place: its ends, and the old boundaries inside it, which can go once both ends are there.
    """
    wanted = _Wanted(old, new)
    changes: list[_Change] = []
    for place in range(len(wanted.inside)):
        changes += wanted.merges(place)
    waiting = [(*wanted.worth(end), end) for end in wanted.missing]
    heapify(waiting)
    while waiting:
        *worth, end = heappop(waiting)
        if end not in wanted.missing:
            continue
        if tuple(worth) != wanted.worth(end):
            heappush(waiting, (*wanted.worth(end), end))
            continue
        changes += wanted.split(end)
        for near in (end - 1, end + 1):
            if near in wanted.missing:
                heappush(waiting, (*wanted.worth(near), near))
    return changes


class _Wanted:
    """New shards in order: place `n` lies between the ends `n` and `n + 1`; the ends that are not there are missing."""

    def __init__(self, old: Sequence[int], new: Sequence[int]) -> None:
        self.ends = [0, *new, SPACE]
        there = set(old)
        self.missing = {n for n, at in enumerate(self.ends[1:-1], 1) if at not in there}
        self.inside: list[list[int]] = [[] for _ in self.ends[1:]]
        kept = set(new)
        for at in old:
            if at not in kept:
                self.inside[bisect_left(self.ends, at) - 1].append(at)

    def worth(self, end: int) -> tuple[int, int]:
        """How many merges a split here lets follow at once, and how many it only prepares; the most sort first."""
        left, right = len(self.inside[end - 1]), len(self.inside[end])
        at_once = left * (end - 1 not in self.missing) + right * (end + 1 not in self.missing)
        return -at_once, at_once - left - right

    def split(self, end: int) -> list[_Change]:
        """The split, and the merges that it lets follow. Next to an old boundary it would leave one key: that goes."""
        at = self.ends[end]
        near = [one for place in (end - 1, end) for one in self.inside[place] if abs(one - at) < NARROWEST]
        for place in (end - 1, end):
            self.inside[place] = [one for one in self.inside[place] if one not in near]
        self.missing.remove(end)
        before = [_Change(one, adds=False) for one in near]
        return [*before, _Change(at, adds=True), *self.merges(end - 1), *self.merges(end)]

    def merges(self, place: int) -> list[_Change]:
        """The merges inside a place whose ends are there."""
        if place in self.missing or place + 1 in self.missing:
            return []
        found, self.inside[place] = self.inside[place], []
        return [_Change(one, adds=False) for one in found]

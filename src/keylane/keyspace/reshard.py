"""From one layout to another: the calls, in an order that keeps few shards open and no shard fuller than it must be.

Rule: the calls are the boundaries that only one layout has, a split for each new one and a merge for each old one:
always, and no fewer can do. Boundaries that both have divide the space into blocks that do not touch each other. Within
a block the new shards are made one after the other: the split at its far end, then the merges inside it, so that a
merge never makes more than a new shard. A merge comes first only where a split would leave a shard of one key. Blocks
that give shards back come first, then those that take some, so that the peak stays low.

Worked example: 4 equal shards to 3: split at 1/3, merge over 1/4, split at 2/3, merge over 1/2, merge over 3/4. Five
calls, never more than five shards.

When not to use it: for a stream that scales by a count (a uniform update); that is compared in `uniform_calls`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from keylane.keyspace.hash_keys import SPACE
from keylane.keyspace.layout import NARROWEST, Shard, ShardLayout, new_layout

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


def uniform_calls(layout: ShardLayout, count: int) -> int:
    """The splits and merges that a change to `count` equal shards takes, whoever carries them out."""
    return difference(layout, new_layout(count).starts)


class _OpenShards:
    """Open shards while calls are made: by their start, with the ids that the service would give."""

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
    """The changes, block by block: those that give shards back first, then those that take some.

    For blocks whose peaks and gains differ this order has the lowest peak: gains of no more than 0 by rising peak, then
    the others by falling distance from peak to gain.
    """
    blocks = [min(_swept(*one), _swept(*one, backwards=True), key=_peak) for one in _blocks(old, new)]
    back = sorted((one for one in blocks if _gain(one) <= 0), key=_peak)
    more = sorted((one for one in blocks if _gain(one) > 0), key=lambda one: _gain(one) - _peak(one))
    return [change for block in (*back, *more) for change in block]


def _blocks(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Boundaries to remove and to add between each two that both layouts have."""
    gone, added = set(old), set(new)
    blocks: list[tuple[list[int], list[int]]] = [([], [])]
    for at in sorted(gone | added):
        if at in gone and at in added:
            blocks.append(([], []))
        else:
            blocks[-1][0 if at in gone else 1].append(at)
    return [block for block in blocks if block[0] or block[1]]


def _swept(removed: list[int], added: list[int], *, backwards: bool = False) -> list[_Change]:
    """The changes of a block: each new boundary, then the old ones that lie before it, seen from where it begins."""
    step = -1 if backwards else 1
    olds, changes, waiting = removed[::step], [], 0
    for at in added[::step]:
        # A split next to an old boundary would leave one key: that one goes first.
        near = [one for one in olds[waiting:] if abs(one - at) < NARROWEST]
        changes += [_Change(one, adds=False) for one in near]
        olds = [*olds[:waiting], *(one for one in olds[waiting:] if one not in near)]
        changes.append(_Change(at, adds=True))
        while waiting < len(olds) and (olds[waiting] - at) * step < 0:
            changes.append(_Change(olds[waiting], adds=False))
            waiting += 1
    return [*changes, *(_Change(one, adds=False) for one in olds[waiting:])]


def _peak(changes: Sequence[_Change]) -> int:
    highest = level = 0
    for change in changes:
        level += 1 if change.adds else -1
        highest = max(highest, level)
    return highest


def _gain(changes: Sequence[_Change]) -> int:
    return sum(1 if change.adds else -1 for change in changes)

"""The key space: 128-bit hash -> lane, by ranges that need not be equal, such as the shards of a Kinesis stream.

Rule: the space 0 .. 2**128 - 1 is cut into ranges without holes; each begins at its start and ends before the next
one's. A number is on the lane of the range that holds it, and a boundary belongs to the range that it begins. Lanes are
numbered in the order of their ranges; `ids` gives them their names. A new stream has equal ranges: each
floor(2**128 / n) wide, the last takes the rest, so range i begins at i * width. This is not i * 2**128 // n, which
differs from n = 6 on.

Worked example: starts 0, 2**126, 2**127 with the ids s-3, s-4, s-1 is half of the space on s-1 and a quarter on each of
the others; 2**127 - 1 is on lane 1 (s-4) and 2**127 on lane 2 (s-1).

A split moves the keys of one range to two new ids, a merge those of two ranges to one; all other keys keep their id,
while the numbers of the lanes behind it shift by one: compare layouts by id. From n to m equal ranges nearly every
boundary moves: `contract.moved.moved_share`.

When not to use it: for clients that fold a hash modulo the lane count (`placement.fold`); for ranges of the keys
themselves, which are a table's (`placement.table`).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from keylane.contract.names import MAX_LANES
from keylane.contract.shards import SPACE
from keylane.errors import LaneCountError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from keylane.contract.model import Contract

ALLOWED: Final = "ranges from 0 to 2**128 - 1 that meet, without holes"


@dataclass(frozen=True)
class KeySpace:
    """Ranges of the 128-bit space in order, and the id of each. `equal` and `from_ranges` make one.

    `starts` is the first number of each range. `names` are the ids; without any, a lane's id is its number.

    >>> shards = KeySpace.from_ranges([("shardId-000000000007", 2**126, 2**128 - 1), ("shardId-6", 0, 2**126 - 1)])
    >>> shards.lane_of(2**126 - 1), shards.ids[1], shards.range_of("shardId-000000000007")[0] == 2**126
    (0, 'shardId-000000000007', True)
    """

    starts: range | tuple[int, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        starts, count = self.starts, len(self.starts)
        if not 1 <= count <= MAX_LANES:
            raise LaneCountError.of("not a lane count", got=count, allowed=f"1 to {MAX_LANES} ranges")
        if starts[0] != 0:
            raise UsageError.of("the first range does not begin at 0", got=starts[0], allowed=ALLOWED)
        ascend = starts.step > 0 if isinstance(starts, range) else all(a < b for a, b in pairwise(starts))
        if not ascend or starts[-1] >= SPACE:
            raise UsageError.of("starts of ranges must ascend below 2**128", allowed=ALLOWED)
        if self.names and (len(self.names) != count or len(set(self.names)) != count or not all(self.names)):
            got = f"{len(set(self.names))} different names for {count} ranges"
            raise UsageError.of("every range needs a distinct, non-empty id", got=got)

    @classmethod
    def equal(cls, count: int) -> KeySpace:
        """The ranges of a new stream.

        >>> KeySpace.equal(2).range_of(1) == (2**127, 2**128 - 1)
        True
        """
        if not 1 <= count <= MAX_LANES:
            raise LaneCountError.of("not a lane count", got=count, allowed=f"1 to {MAX_LANES} ranges")
        width = SPACE // count
        return cls(range(0, count * width, width))

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[str, int, int]]) -> KeySpace:
        """From the id, the first and the last number of each range, in any order. Holes and overlaps are errors."""
        ordered = sorted(ranges, key=lambda one: (one[1], one[2]))
        end, before = -1, "the beginning"
        for name, first, last in ordered:
            if first != end + 1:
                what = f"a hole before {name!r}" if first > end + 1 else f"{name!r} overlaps {before}"
                raise UsageError.of(what, got=f"{first} after {end}", allowed=ALLOWED)
            if last < first:
                raise UsageError.of(f"{name!r} ends before it begins", got=f"{first} to {last}", allowed=ALLOWED)
            end, before = last, repr(name)
        if end != SPACE - 1:
            raise UsageError.of("the ranges do not end at 2**128 - 1", got=end, allowed=ALLOWED)
        return cls.of_starts((name, first) for name, first, _ in ordered)

    @classmethod
    def of_starts(cls, starts: Iterable[tuple[str, int]]) -> KeySpace:
        """From the id and the first number of each range, in their order."""
        names, firsts = zip(*starts, strict=True)
        same = cls.equal(len(firsts)).starts
        return cls(same if tuple(same) == firsts else firsts, names)

    @classmethod
    def of_contract(cls, contract: Contract) -> KeySpace | None:
        """The shards of a contract that has a layout of them; None where they are of equal width, or asked for."""
        found = contract.spec.shards.ranges if contract.spec.shards else None
        return cls.from_ranges((one.id, int(one.start), int(one.end)) for one in found) if found else None

    def __len__(self) -> int:
        """How many lanes there are."""
        return len(self.starts)

    @property
    def ids(self) -> tuple[str, ...]:
        """The id of every lane, in the order of the ranges."""
        return self.names or tuple(map(str, range(len(self))))

    @property
    def is_equal(self) -> bool:
        """Whether the ranges are those of a new stream."""
        return isinstance(self.starts, range)

    def lane_of(self, number: int) -> int:
        """The lane whose range holds a number."""
        if not 0 <= number < SPACE:
            raise UsageError.of("outside the key space", got=number, allowed="0 to 2**128 - 1")
        if isinstance(self.starts, range):
            return min(number // self.starts.step, len(self.starts) - 1)
        return bisect_right(self.starts, number) - 1

    def range_of(self, lane: int | str) -> tuple[int, int]:
        """The first and the last number of a lane, which is named by its number or its id."""
        if isinstance(lane, str):
            if lane not in self.ids:
                raise UnknownNameError.among("lane", lane, self.ids[:20])
            lane = self.ids.index(lane)
        if not 0 <= lane < len(self):
            raise UsageError.of("no such lane", got=lane, allowed=f"0 to {len(self) - 1}")
        after = self.starts[lane + 1] if lane + 1 < len(self) else SPACE
        return self.starts[lane], after - 1

    def lanes_of(self, digests: Any) -> NDArray[Any]:
        """The lane of each number, as uint32. Takes (n, 2) halves as `hash_batch` gives them, or 16-byte Arrow values.

        Searches by the high half; where that is the high half of a start, by all 16 bytes.
        """
        import numpy as np

        halves = digests if isinstance(digests, np.ndarray) else _halves(digests)
        high, whole = self._arrays
        lane = np.searchsorted(high, halves[:, 0], side="right") - 1
        ties = np.flatnonzero(high[lane] == halves[:, 0])
        if len(ties):
            lane[ties] = np.searchsorted(whole, _bytes(halves[ties]), side="right") - 1
        return lane.astype(np.uint32)

    @cached_property
    def _arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The starts, ready to be searched: their high halves, and all of their bytes."""
        import numpy as np

        starts = np.array([divmod(start, 1 << 64) for start in self.starts], np.uint64)
        return np.ascontiguousarray(starts[:, 0]), _bytes(starts)


#: What a fold runs over: a lane count, or the key space of a stream. For ranges a count stands for equal ones.
Lanes: TypeAlias = int | KeySpace


def key_space(lanes: Lanes) -> KeySpace:
    """The key space that a count of lanes stands for; a key space is itself."""
    return lanes if isinstance(lanes, KeySpace) else KeySpace.equal(lanes)


def range_start(lane: int, lanes: Lanes) -> int:
    """The first hash key of a range: what an explicit hash key may be set to.

    >>> range_start(1, 2) == 2**127
    True
    """
    return key_space(lanes).starts[lane]


def range_lane(number: int, lanes: Lanes) -> int:
    """The lane of a 128-bit number; a boundary belongs to the range it begins."""
    return key_space(lanes).lane_of(number)


def range_lanes(halves: NDArray[Any], lanes: Lanes) -> NDArray[Any]:
    """The same for (n, 2) halves."""
    return key_space(lanes).lanes_of(halves)


def _halves(digests: Any) -> NDArray[Any]:
    """16-byte Arrow values as halves."""
    import numpy as np
    import pyarrow as pa

    rows = digests.combine_chunks() if isinstance(digests, pa.ChunkedArray) else digests
    fixed = rows.cast(pa.binary(16))
    if fixed.null_count:
        raise UsageError.of("a null digest has no lane", got=f"{fixed.null_count} nulls among {len(fixed)} digests")
    data = np.frombuffer(fixed.buffers()[1] or b"", ">u8", 2 * len(fixed), 16 * fixed.offset)
    return data.reshape(-1, 2).astype(np.uint64)


def _bytes(halves: NDArray[Any]) -> NDArray[Any]:
    """Halves as 16 bytes, big-endian, which compare as the numbers do."""
    return halves.astype(">u8").view("S16").reshape(-1)

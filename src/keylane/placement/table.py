"""Lanes from lists instead of a hash: values and half-open ranges, as the shards of a database have them.

Rule: a value's own entry first, then the range it lies in, then `otherwise`. Integers compare by number, text by
its bytes. A new lane count moves nothing by itself: a table changes only where its rows do. When not to use it: for
keys that are not listed; they all fall to `otherwise`.

Worked example: ranges [from 0 below 1000 -> 0], [from 1000 -> 1] and values {7: 2}: key 7 is on lane 2, 999 on 0,
1000 on 1, -1 on none.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.contract.model import Key, Table


@dataclass(frozen=True, slots=True)
class LaneTable:
    """A table ready for look-up by base key."""

    values: Mapping[bytes, tuple[int, ...]]
    starts: Sequence[bytes | int | None]
    ends: Sequence[bytes | int | None]
    range_lanes: Sequence[int]
    by_number: bool

    def lanes_of(self, base: bytes) -> tuple[int, ...] | None:
        """The lanes of a key: one, a few, or None when the table does not know it."""
        return self.values.get(base) or self._in_range(base)

    def _in_range(self, base: bytes) -> tuple[int, ...] | None:
        if not self.range_lanes:
            return None
        key: Any = int.from_bytes(base, "big", signed=True) if self.by_number else base
        open_below = self.starts[0] is None
        at = bisect_right(self.starts, key, lo=1 if open_below else 0) - 1
        end = self.ends[at] if at >= 0 else None
        inside = at >= 0 and (end is None or key < end)
        return (self.range_lanes[at],) if inside else None


def compile_table(table: Table, key: Key) -> LaneTable:
    """Encode a contract's table once, in the bytes that records will be looked up by."""
    from keylane.keys.encode import ENCODERS

    encoding = key.encodings[0]
    values = {ENCODERS[encoding](k): _tuple(lanes) for k, lanes in table.values.items()}
    by_number = encoding in ("int32be", "int64be", "h3")

    def bound(value: Any) -> Any:
        return None if value is None else value if by_number else ENCODERS[encoding](value)

    # An open beginning sorts first; parse has refused overlaps, so there is one at most.
    ranges = sorted(table.ranges, key=lambda r: (r.from_ is not None, bound(r.from_) or (0 if by_number else b"")))
    return LaneTable(
        values,
        [bound(r.from_) for r in ranges],
        [bound(r.below) for r in ranges],
        [r.lane for r in ranges],
        by_number,
    )


def _tuple(lanes: int | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(lanes)) if isinstance(lanes, tuple) else (lanes,)

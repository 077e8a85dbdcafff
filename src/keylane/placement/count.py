"""What a lane count may be. Checked once, where a count comes in; everything after may divide by it."""

from __future__ import annotations

from typing import Any

from keylane.contract.names import MAX_LANES
from keylane.errors import LaneCountError

__all__ = ["lane_count"]


def lane_count(value: Any) -> int:
    """Return a lane count that can be trusted, or say what is wrong with it.

    >>> lane_count(15)
    15
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and 1 <= value <= MAX_LANES:
        return int(value)
    hint = "a stream's own count; ask the cluster, do not guess" if value == "live" else ""
    raise LaneCountError.of("not a lane count", got=value, allowed=f"a whole number from 1 to {MAX_LANES}", hint=hint)

"""What a lane count may be. Checked once, where a count comes in; everything after may divide by it."""

from __future__ import annotations

from typing import Any

from keylane.contract.names import MAX_LANES
from keylane.errors import LaneCountError


def lane_count(value: Any) -> int:
    """Return a lane count that can be trusted, or raise what is wrong with it.

    >>> lane_count(15)
    15
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and 1 <= value <= MAX_LANES:
        return int(value)
    hint = "a stream's own count; ask the cluster, do not guess" if value == "live" else ""
    raise LaneCountError.of("not a lane count", got=value, allowed=f"a whole number from 1 to {MAX_LANES}", hint=hint)


def agreed_count(promised: Any, given: int | None) -> int:
    """The count of a contract, which may ask for it; a contradiction is refused."""
    if promised == "live":
        if given is None:
            raise LaneCountError.of(
                "the contract leaves the lane count to the cluster", got="lanes: live", hint="lanes=N, or --lanes N"
            )
        return lane_count(given)
    if given is not None and lane_count(given) != promised:
        raise LaneCountError.of("contradicts the contract", got=given, allowed=str(promised), hint="a new epoch")
    return lane_count(promised)


def lanes_exist(highest: int, count: int) -> None:
    """A live count may be too small for lanes that the contract names; parse could not know."""
    if highest >= count:
        allowed = f"{highest + 1} or more"
        raise LaneCountError.of("the contract names lanes beyond the count", got=count, allowed=allowed)

"""A 32-bit hash -> a lane: one function for each rule that clients use. Most disagreements between clients are here.

Each takes the unsigned hash and a trusted lane count, as numbers or as arrays, and is total: no hash gives a
negative lane, 0x80000000 (Java's Integer.MIN_VALUE, whose absolute value is negative) included.

Going from n to m lanes moves 1 - gcd(n, m) / max(n, m) of the keys, for each of them.

What a lane count may be is here too: it is checked once, where a count comes in; everything after may divide by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from keylane.contract.names import MAX_LANES
from keylane.errors import LaneCountError

if TYPE_CHECKING:
    from collections.abc import Callable


def masked(h: Any, lanes: int) -> Any:
    """Drop the sign bit, then modulo: the Java client, and all that follow it.

    >>> masked(0x80000000, 10), masked(0xFFFFFFFF, 10)
    (0, 7)
    """
    return (h & 0x7FFFFFFF) % lanes


def unsigned(h: Any, lanes: int) -> Any:
    """Modulo of the unsigned number: librdkafka's CRC32 settings. Reading it signed is a known bug elsewhere.

    >>> unsigned(0xFFFFFFFF, 10)
    5
    """
    return h % lanes


def absolute(h: Any, lanes: int) -> Any:
    """Absolute value of the signed number, then modulo: Sarama's default, kafka-go's Hash, librdkafka's fnv1a.

    Clients that take the remainder first and its absolute value after get the same lane; for 0x80000000 that is
    2**31 mod n. Agrees with `masked` for hashes below 2**31, so for a little over half of the keys.

    >>> absolute(0xFFFFFFFF, 10), absolute(0x80000000, 10)
    (1, 8)
    """
    return ((h ^ -(h >> 31) & 0xFFFFFFFF) + (h >> 31)) % lanes


def positive(h: Any, lanes: int) -> Any:
    """The signed number's remainder, made positive: Spark's pmod, Java's floorMod.

    2**32 is added in steps that keep 32-bit arrays in range: h - 2**32 and h + (-2**32 mod n) fall together.

    >>> positive(0xFFFFFFFF, 10)
    9
    """
    return (h % lanes + (h >> 31) * (-(2**32) % lanes)) % lanes


FOLDS: Final[dict[str, Callable[[Any, int], Any]]] = {
    "masked": masked,
    "unsigned": unsigned,
    "absolute": absolute,
    "positive": positive,
}


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

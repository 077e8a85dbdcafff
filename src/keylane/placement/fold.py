"""A 32-bit hash -> a lane: one function for each rule that clients use. Most disagreements between clients are here.

Each takes the unsigned hash and a trusted lane count, as numbers or as arrays, and is total: no hash gives a
negative lane, 0x80000000 (Java's Integer.MIN_VALUE, whose absolute value is negative) included.

Going from n to m lanes moves 1 - gcd(n, m) / max(n, m) of the keys, for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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

"""Four orders in which hash keys can be handed out one after another, as closed forms. Keys in use: `key_tree`.

Rule: the number of a key, from 1 on, becomes a key of a space of `bits` bits.

    tree        the middle, then the middles of its halves, always in the half with fewer keys: the bits of the number
                reversed. Any two halves, quarters, … differ by one key at most.
    left-right  the same middles, those of one level from left to right. Half way through a level one half of the space
                has twice the keys of the other.
    halves      the same middles, of each level every second one first. Better: three to two at worst.
    golden      steps of the golden ratio, modulo the space: even over counts of shards that are no power of two.

Worked example, 4 bits: tree 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, …; left-right 8, 4, 12, 2, 6, 10, 14, 1, 3, …;
halves 8, 4, 12, 2, 10, 6, 14, 1, 5, 9, …

A change of the shard count moves no key: that is the point of them. When not to use them: for accounts of unequal
volume, where only `key_tree` with weights, or cutting the shards where the load is, helps.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from keylane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

Sequence: TypeAlias = Literal["tree", "left-right", "halves", "golden"]
SEQUENCES: Final[tuple[Sequence, ...]] = get_args(Sequence)


def nth_key(sequence: Sequence, number: int, bits: int = 128) -> int:
    """The key with a number, from 1 on. The first three have 2**bits - 1 keys, all but 0; golden has all.

    >>> nth_key("tree", 2) == 2**126, nth_key("tree", 3) == 3 * 2**126
    (True, True)
    """
    last = (1 << bits) - (sequence != "golden")
    if not 1 <= number <= last:
        raise UsageError.of(f"{sequence} has no such key", got=number, allowed=f"1 to {last}")
    return _KEYS[sequence](number, bits)


def number_of(sequence: Sequence, key: int, bits: int = 128) -> int | None:
    """Which number a key has: the other way round. None for 0 in the sequences that never come to it.

    >>> [number_of("halves", nth_key("halves", n, 4), 4) for n in (1, 9, 15)]
    [1, 9, 15]
    """
    if sequence == "golden":
        step = _golden_step(bits)
        return key * pow(step, -1, 1 << bits) % (1 << bits) or 1 << bits
    if key == 0:
        return None
    if sequence == "tree":
        return _reversed(key, bits)
    zeros = (key & -key).bit_length() - 1
    level = bits - 1 - zeros
    at = key >> (zeros + 1)
    if sequence == "halves":
        at = at // 2 + (at % 2) * ((1 << level) - (1 << level) // 2)
    return (1 << level) + at


def _tree(number: int, bits: int) -> int:
    return _reversed(number, bits)


def _left_right(number: int, bits: int) -> int:
    level = number.bit_length() - 1
    return (2 * (number - (1 << level)) + 1) << (bits - 1 - level)


def _halves(number: int, bits: int) -> int:
    level = number.bit_length() - 1
    width, at = 1 << level, number - (1 << level)
    firsts = width - width // 2
    at = 2 * at if at < firsts else 2 * (at - firsts) + 1
    return (2 * at + 1) << (bits - 1 - level)


def _golden(number: int, bits: int) -> int:
    return number * _golden_step(bits) % (1 << bits)


def _golden_step(bits: int) -> int:
    """2**bits / golden ratio, made odd: only then does every key come once."""
    space = 1 << bits
    return (isqrt(5 * space * space) - space) // 2 | 1


def _reversed(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2)


_KEYS: Final[dict[Sequence, Callable[[int, int], int]]] = {
    "tree": _tree,
    "left-right": _left_right,
    "halves": _halves,
    "golden": _golden,
}

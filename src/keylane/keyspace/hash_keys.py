"""A hash key as text, the hash key of a partition key, and which of them are refused or warned of.

Rule: a hash key is a number from 0 to 2**128 - 1, written as decimal text: ASCII digits, no sign, no space, no leading
zero. A partition key is text of 1 to 256 UTF-16 units, and its hash key is the MD5 of its UTF-8 bytes, read as an
unsigned big-endian number.

Worked example: the partition key `abcd` has the hash key 0xe2fc714c4727ee9395f324cd2e7f331f; a signed reading would be
negative, and wrong for half of all keys. `"007"`, `" 5"` and `"٣"` pass Python's `int` and are no hash keys.

A number below 2**96 lies in the lowest 2**-32 of the space, so it is on the first shard of any stream: whoever sends
partition numbers or row ids as hash keys fills that shard alone. `small` finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keylane.contract.shards import HASH_KEY_FORM, MOST_UNITS, hash_key_problem, partition_key_units
from keylane.errors import UsageError
from keylane.hashing.md5 import md5_128

if TYPE_CHECKING:
    from collections.abc import Iterable

BITS: Final = 128
#: Below it a hash key is on the first shard, however many there are.
SMALL: Final = 1 << 96


def hash_key(text: object) -> int:
    """The number of a hash key that was given as text; UsageError for everything else.

    >>> hash_key("170141183460469231731687303715884105728") == 2**127
    True
    """
    problem = hash_key_problem(text)
    if problem:
        hint = 'write it as text, in quotes: "0"' if isinstance(text, int | float) else ""
        raise UsageError.of(problem, got=text, allowed=HASH_KEY_FORM, hint=hint)
    return int(str(text))


def hash_key_of(partition_key: str) -> int:
    """Where a partition key without an explicit hash key lies.

    >>> f"{hash_key_of('abcd'):032x}"
    'e2fc714c4727ee9395f324cd2e7f331f'
    """
    return md5_128(checked_partition_key(partition_key).encode())


def checked_partition_key(text: str) -> str:
    """The partition key itself; UsageError when no service would take it.

    Services differ in what they count, code points or UTF-16 units. Units are the stricter of the two: 128 emoji pass,
    129 do not.
    """
    units = partition_key_units(text)
    if units is None:
        raise UsageError.of("not a partition key: it has half of a surrogate pair", got=text)
    if not 1 <= units <= MOST_UNITS:
        allowed = f"1 to {MOST_UNITS} UTF-16 units"
        raise UsageError.of(f"not a partition key: {units} units", got=text, allowed=allowed)
    return text


def small(keys: Iterable[int]) -> list[int]:
    """Hash keys that look like plain numbers: all of them on the first shard. A single 0 is the first key of the space.

    >>> small([0, 2**127]), small([0, 1, 2, 2**127]), small([2**64])
    ([], [0, 1, 2], [18446744073709551616])
    """
    found = [key for key in keys if key < SMALL]
    return [] if found == [0] else found


def at_share(key: int) -> float:
    """How far along the space a key lies, from 0 to 1: for drawing.

    >>> at_share(2**127)
    0.5
    """
    return (key >> (BITS - 53)) / (1 << 53)

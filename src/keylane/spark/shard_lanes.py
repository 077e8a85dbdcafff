"""MD5 digest -> shard, as a column: ranges of unequal width, and accounts with explicit hash keys.

Both are constant tables that Spark makes once, before the first row, and reads inside generated code.

    bucket_table     boundaries -> for each value of the leading bits the range it begins in; then a few steps upwards
    hash_key_table   accounts -> a perfect hash over their digests: one slot to look at, and the key itself to compare

Rule of the second: a displacement, found by the leading bits of the digest, is combined with other bits of its upper
half, so that no two accounts share a slot. All of it reads the upper half alone, which Spark computes once for a row:
for the lower one, which occurs inside of branches only, it would compute the digest again. Two keys of one MD5 are
possible, so the key in the slot is compared, not its digest.

Worked example: 10,000 accounts have 32,768 slots and 8,192 displacements. One account more makes new tables, and moves
no key. When not to use it: in a session without calls of Java (`java_calls`), where ranges are bisected and accounts
are joined (`hashes`, `overrides`); for accounts of which two have one upper half, which no perfect hash can hold.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.hashing.md5 import md5_128
from keylane.spark.java_calls import integer_at, long_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import Column

#: Leading bits of a bucket, from the fewest that are tried; and steps that are still faster than a bisection.
FEWEST_BITS, MOST_BITS, MOST_STEPS = 8, 12, 3
#: Flips the sign bit, after which signed numbers compare in the order of unsigned ones.
SIGN: Final = -(2**63)
_HALF: Final = 1 << 64
#: The upper half of the digest of no bytes, as a signed number.
_EMPTY_HIGH: Final = int.from_bytes(md5_128(b"").to_bytes(16, "big")[:8], "big", signed=True)


@dataclass(frozen=True, slots=True)
class BucketTable:
    """For each value of the leading bits the range that it begins in, and how many ranges may begin inside it."""

    bits: int
    firsts: tuple[int, ...]
    steps: int


def bucket_table(starts: Sequence[int]) -> BucketTable | None:
    """The smallest table with the fewest steps; None where ranges are so narrow that a bisection is better.

    >>> bucket_table([0, 2**127, 2**127 + 2]).steps
    1
    """
    best: BucketTable | None = None
    for bits in range(FEWEST_BITS, MOST_BITS + 1):
        width = 1 << (128 - bits)
        firsts = [bisect_right(starts, at * width) - 1 for at in range(1 << bits)]
        lasts = [bisect_right(starts, at * width + width - 1) - 1 for at in range(1 << bits)]
        steps = max(last - first for first, last in zip(firsts, lasts, strict=True))
        if best is None or steps < best.steps:
            best = BucketTable(bits, tuple(firsts), steps)
        if best.steps <= 1:
            break
    return best if best is not None and best.steps <= MOST_STEPS else None


def bucket_lane(high: Column, low: Column, starts: Sequence[int], table: BucketTable) -> Column:
    """The range of a digest by its halves. The lower one is read inside a branch, where the upper one is a tie."""
    last = len(starts) - 1
    lane = integer_at(packed(table.firsts, 4), _times(F.shiftrightunsigned(high, 64 - table.bits).cast("int"), 4))
    # Behind the last start comes one more, so that every lane has a bound; it leads nowhere. Null stays null.
    bounds = [*starts[1:], (1 << 128) - 1]
    both = packed((half + SIGN for at in bounds for half in divmod(at, _HALF)), 8)
    upper, lower = high.bitwiseXOR(F.lit(SIGN)), low.bitwiseXOR(F.lit(SIGN))
    for _ in range(table.steps):
        bound, rest = long_at(both, _times(lane, 16)), long_at(both, _times(lane, 16) + 8)
        tie = (upper == bound) & (lower >= rest) & (lane < last)
        lane = lane + F.when(upper > bound, F.lit(1)).when(tie, F.lit(1)).otherwise(F.lit(0))
    return lane


@dataclass(frozen=True, slots=True)
class HashKeyTable:
    """Slots with a key and its lane, -1 for an empty one; `shift` is how far the upper half of a digest is shifted.

    `bits` are words of 64 bits, of which every key sets one: a key without its bit has no slot.
    """

    displacements: tuple[int, ...]
    keys: tuple[bytes, ...]
    lanes: tuple[int, ...]
    shift: int
    bits: tuple[int, ...]


def hash_key_table(lane_of: Mapping[bytes, int]) -> HashKeyTable | None:
    """A slot for each key; None where no table holds them, because the digests of two begin with the same half.

    >>> table = hash_key_table({b"acme": 3, b"bolt": 5})
    >>> sorted(zip(table.keys, table.lanes))[-2:]
    [(b'acme', 3), (b'bolt', 5)]
    """
    digests = {key: md5_128(key) >> 64 for key in lane_of}
    if len(set(digests.values())) < len(digests):
        return None
    slots = 1 << max(4, (2 * len(lane_of)).bit_length())
    for shift in range(0, 64 - slots.bit_length(), 8):
        found = _displaced(digests, slots, shift)
        if found is not None:
            displacements, slot_of = found
            keys, lanes = [b""] * slots, [-1] * slots
            for key, slot in slot_of.items():
                keys[slot], lanes[slot] = key, lane_of[key]
            bits = _bits(digests.values())
            return HashKeyTable(tuple(displacements), tuple(keys), tuple(lanes), shift, bits)
    return None


def _bits(digests: Collection[int]) -> tuple[int, ...]:
    """At least 64 bits for each key, of which one is set: so one key in sixty, or less, is looked up in vain."""
    words = [0] * (1 << max(4, len(digests).bit_length()))
    for high in digests:
        words[(high >> 6) & (len(words) - 1)] |= 1 << (high & 63)
    return tuple(word - (1 << 64) if word >= 1 << 63 else word for word in words)


def _displaced(digests: Mapping[bytes, int], slots: int, shift: int) -> tuple[list[int], dict[bytes, int]] | None:
    """A displacement for each group of keys, the largest group first; None where two keys of a group cannot part."""
    groups: dict[int, list[bytes]] = {}
    count = slots // 4
    for key, high in digests.items():
        groups.setdefault(high >> _behind(count), []).append(key)
    displacements, slot_of = [0] * count, dict[bytes, int]()
    taken: set[int] = set()
    for group, keys in sorted(groups.items(), key=lambda one: -len(one[1])):
        own = [(digests[key] >> shift) & (slots - 1) for key in keys]
        if len(set(own)) < len(own):
            return None
        by = next((by for by in range(slots) if not any(one ^ by in taken for one in own)), None)
        if by is None:
            return None
        displacements[group] = by
        for key, one in zip(keys, own, strict=True):
            slot_of[key] = one ^ by
            taken.add(one ^ by)
    return displacements, slot_of


def _behind(count: int) -> int:
    """The bits behind the leading ones that name one of so many groups, a power of two."""
    return 64 - (count.bit_length() - 1)


def with_hash_keys(lane: Column, base: Column, high: Column, table: HashKeyTable) -> Column:
    """The lane of the account's hash key where it has one, otherwise this lane; `high` is the digest's upper half.

    One bit of a small table tells most keys without a hash key: only the others are looked up.
    """
    mask = len(table.keys) - 1
    group = F.shiftrightunsigned(high, _behind(len(table.displacements))).cast("int")
    own = F.shiftrightunsigned(high, table.shift).bitwiseAND(F.lit(mask)).cast("int")
    slot = own.bitwiseXOR(integer_at(packed(table.displacements, 4), _times(group, 4)))
    pin = integer_at(packed(table.lanes, 4), _times(slot, 4))
    ends = packed((0, *accumulate(map(len, table.keys))), 4)
    first, after = integer_at(ends, _times(slot, 4)), integer_at(ends, _times(slot, 4) + 4)
    # An empty slot has an empty key, which no account has.
    hit = base == F.substring(F.lit(b"".join(table.keys)), first + 1, after - first)
    # The lane is outside the branches, where Spark computes it once. What is looked up is inside of one and not part of
    # its condition: Spark computes what occurs twice in a condition for every row.
    found = F.when(hit, pin - lane).otherwise(F.lit(0))
    return lane + F.when(_maybe(table, high), found).otherwise(F.lit(0))


def _maybe(table: HashKeyTable, high: Column) -> Column:
    """Whether the key's bit is set: the last six bits of the upper half name a bit of the word."""
    word = F.shiftrightunsigned(high, 6).bitwiseAND(F.lit(len(table.bits) - 1)).cast("int")
    bits, at = long_at(packed(table.bits, 8), _times(word, 8)), high.bitwiseAND(F.lit(63)).cast("int")
    return F.call_function("shiftrightunsigned", bits, at).bitwiseAND(F.lit(1)) != 0


def without_empty(lane: Column, key: Column, high: Column) -> Column:
    """The lane, null where the key is empty; `high` is the digest's upper half.

    The key's bytes are looked at only where the digest is that of no bytes. A branch before the digest would have Spark
    copy them twice for every row; one around the lane would have it compute the digest again.
    """
    empty = (high == F.lit(_EMPTY_HIGH)) & (F.octet_length(key) == 0)
    return lane + F.when(empty, F.lit(None).cast("int")).otherwise(F.lit(0))


def packed(values: Iterable[int], width: int) -> Column:
    """Constant numbers as bytes in one literal: every task gets the literals of a plan."""
    return F.lit(b"".join(value.to_bytes(width, "big", signed=True) for value in values))


def _times(number: Column, power: int) -> Column:
    """A multiple by a power of two, without the check for overflow that a product has."""
    return F.shiftleft(number, power.bit_length() - 1)

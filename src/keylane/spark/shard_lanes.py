"""MD5 digest -> shard, as a column: ranges of unequal width, and accounts with explicit hash keys.

Both are constant tables that Spark makes once, before the first row, and reads inside generated code.

    bucket_table     boundaries -> for each value of the leading bits the range it begins in; then a few steps upwards
    hash_key_table   accounts -> a perfect hash over their digests: one slot to look at, and the key itself to compare

Rule of the second: a displacement, found by the low bits of the digest, is combined with bits of its upper half, so
that no two accounts share a slot. Two keys of one MD5 are possible, so the key in the slot is compared, not its digest.

Worked example: 10,000 accounts have 32,768 slots and 8,192 displacements. One account more makes new tables, and moves
no key. When not to use it: in a session without calls of Java (`java_calls`), where ranges are bisected and accounts
are joined (`hashes`, `overrides`); for accounts of which two have one MD5, which no perfect hash can hold.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.hashing.md5 import md5_128
from keylane.spark.java_calls import static_call

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import Column

#: Leading bits of a bucket, from the fewest that are tried; and steps that are still faster than a bisection.
FEWEST_BITS, MOST_BITS, MOST_STEPS = 8, 12, 3
#: Flips the sign bit, after which signed numbers compare in the order of unsigned ones.
SIGN: Final = -(2**63)
INTS: Final = "com.google.common.primitives.Ints"
_HALF: Final = 1 << 64


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
    """The range of a digest by its halves. Without a branch: inside one Spark computes a digest again for each use."""
    last = len(starts) - 1
    lane = F.get(_numbers(table.firsts, "int"), F.shiftrightunsigned(high, 64 - table.bits).cast("int"))
    # Behind the last start comes one more, so that every lane has a bound; it leads nowhere. Null stays null.
    bounds = [*starts[1:], (1 << 128) - 1]
    highs = _numbers((at // _HALF + SIGN for at in bounds), "bigint")
    lows = _numbers((at % _HALF + SIGN for at in bounds), "bigint")
    upper, lower = high.bitwiseXOR(F.lit(SIGN)), low.bitwiseXOR(F.lit(SIGN))
    for _ in range(table.steps):
        bound, rest = F.get(highs, lane), F.get(lows, lane)
        above, tie = _as_int(upper > bound), _as_int(upper == bound) * _as_int(lower >= rest)
        lane = lane + (above + tie) * _as_int(lane < last)
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
    """A slot for each key; None where no table holds them, because two have one MD5.

    >>> table = hash_key_table({b"acme": 3, b"bolt": 5})
    >>> sorted(zip(table.keys, table.lanes))[-2:]
    [(b'acme', 3), (b'bolt', 5)]
    """
    digests = {key: divmod(md5_128(key), _HALF) for key in lane_of}
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


def _bits(digests: Collection[tuple[int, int]]) -> tuple[int, ...]:
    """About sixteen bits for each key, of which one is set: so one key in sixteen is looked up in vain."""
    words = [0] * (1 << max(4, (len(digests) // 8).bit_length()))
    for high, low in digests:
        words[(low >> 32) & (len(words) - 1)] |= 1 << (high & 63)
    return tuple(word - (1 << 64) if word >= 1 << 63 else word for word in words)


def _displaced(
    digests: Mapping[bytes, tuple[int, int]], slots: int, shift: int
) -> tuple[list[int], dict[bytes, int]] | None:
    """A displacement for each group of keys, the largest group first; None where two keys of a group cannot part."""
    groups: dict[int, list[bytes]] = {}
    count = slots // 4
    for key, (_, low) in digests.items():
        groups.setdefault(low & (count - 1), []).append(key)
    displacements, slot_of = [0] * count, dict[bytes, int]()
    taken: set[int] = set()
    for group, keys in sorted(groups.items(), key=lambda one: -len(one[1])):
        own = [(digests[key][0] >> shift) & (slots - 1) for key in keys]
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


def with_hash_keys(lane: Column, base: Column, high: Column, low: Column, table: HashKeyTable) -> Column:
    """The lane of the account's hash key where it has one, otherwise this lane.

    One bit of a small table tells most keys without a hash key: only the others are looked up.
    """
    mask = len(table.keys) - 1
    group = low.bitwiseAND(F.lit(len(table.displacements) - 1)).cast("int")
    own = F.shiftrightunsigned(high, table.shift).bitwiseAND(F.lit(mask)).cast("int")
    slot = own.bitwiseXOR(_number_at(table.displacements, group))
    pin = _number_at(table.lanes, slot)
    ends = (0, *accumulate(map(len, table.keys)))
    first, after = _number_at(ends, slot), _number_at(ends, slot + 1)
    hit = (base == F.substring(F.lit(b"".join(table.keys)), first + 1, after - first)) & (pin >= 0)
    bits = F.get(_numbers(table.bits, "bigint"), _word(low, len(table.bits)))
    maybe = _bit(bits, high) != 0
    # The lane is outside the branch, where Spark computes it once.
    return lane + F.when(maybe & hit, pin - lane).otherwise(F.lit(0))


def _word(low: Column, words: int) -> Column:
    return F.shiftrightunsigned(low, 32).bitwiseAND(F.lit(words - 1)).cast("int")


def _bit(bits: Column, high: Column) -> Column:
    """The bit of a word that the last six bits of the upper half name."""
    at = high.bitwiseAND(F.lit(63)).cast("int")
    return F.call_function("shiftrightunsigned", bits, at).bitwiseAND(F.lit(1))


def _number_at(values: Iterable[int], at: Column) -> Column:
    """One of many constant numbers. As bytes in one literal, because every task gets the literals of a plan."""
    packed = b"".join(value.to_bytes(4, "big", signed=True) for value in values)
    return static_call(INTS, "fromByteArray", "integer", F.substring(F.lit(packed), at * 4 + 1, F.lit(4)))


def _as_int(condition: Column) -> Column:
    return condition.cast("int")


def _numbers(values: Iterable[int], kind: str) -> Column:
    """A constant array: one literal text, which Spark takes apart once."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast(f"array<{kind}>")

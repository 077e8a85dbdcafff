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
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.hashing.md5 import md5_128

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column

#: Leading bits of a bucket, from the fewest that are tried; and steps that are still faster than a bisection.
FEWEST_BITS, MOST_BITS, MOST_STEPS = 8, 14, 3
#: Flips the sign bit, after which signed numbers compare in the order of unsigned ones.
SIGN: Final = -(2**63)
_HALF: Final = 1 << 64
#: Letters that may separate keys in one text: not special in a pattern, and hardly in a key.
_SEPARATORS: Final = ("\x1f", "\x1e", "\x1d", "\x1c")


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
    # Behind the last start comes one that only the last key of the space reaches, which `least` takes back.
    bounds = [*starts[1:], (1 << 128) - 1]
    highs = _numbers((at // _HALF + SIGN for at in bounds), "bigint")
    lows = _numbers((at % _HALF + SIGN for at in bounds), "bigint")
    upper, lower = high.bitwiseXOR(F.lit(SIGN)), low.bitwiseXOR(F.lit(SIGN))
    for _ in range(table.steps):
        bound, rest = F.get(highs, lane), F.get(lows, lane)
        above, tie = _as_int(upper > bound), _as_int(upper == bound) * _as_int(lower >= rest)
        lane = F.least(lane + above + tie, F.lit(last))
    return lane


@dataclass(frozen=True, slots=True)
class HashKeyTable:
    """Slots with a key and its lane, -1 for an empty one; `shift` is how far the upper half of a digest is shifted."""

    displacements: tuple[int, ...]
    keys: tuple[str, ...]
    lanes: tuple[int, ...]
    shift: int
    separator: str


def hash_key_table(lane_of: Mapping[bytes, int]) -> HashKeyTable | None:
    """A slot for each key; None where no table holds them: keys that are no text, or two of one MD5.

    >>> table = hash_key_table({b"acme": 3, b"bolt": 5})
    >>> sorted(zip(table.keys, table.lanes))[-2:]
    [('acme', 3), ('bolt', 5)]
    """
    try:
        texts = {key: key.decode() for key in lane_of}
    except UnicodeDecodeError:
        return None
    separator = next((one for one in _SEPARATORS if not any(one in text for text in texts.values())), None)
    digests = {key: divmod(md5_128(key), _HALF) for key in lane_of}
    if separator is None or len(set(digests.values())) < len(digests):
        return None
    slots = 1 << max(4, (2 * len(lane_of)).bit_length())
    for shift in range(0, 64 - slots.bit_length(), 8):
        found = _displaced(digests, slots, shift)
        if found is not None:
            displacements, slot_of = found
            keys, lanes = [""] * slots, [-1] * slots
            for key, slot in slot_of.items():
                keys[slot], lanes[slot] = texts[key], lane_of[key]
            return HashKeyTable(tuple(displacements), tuple(keys), tuple(lanes), shift, separator)
    return None


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
    """The lane of the account's hash key where it has one, otherwise this lane; without a branch, as above."""
    mask = len(table.keys) - 1
    group = low.bitwiseAND(F.lit(len(table.displacements) - 1)).cast("int")
    own = F.shiftrightunsigned(high, table.shift).bitwiseAND(F.lit(mask)).cast("int")
    slot = own.bitwiseXOR(F.get(_numbers(table.displacements, "int"), group))
    pin = F.get(_numbers(table.lanes, "int"), slot)
    keys = F.split(F.lit(table.separator.join(table.keys)), table.separator).cast("array<binary>")
    hit = _as_int(base == F.get(keys, slot)) * _as_int(pin >= 0)
    return lane + hit * (pin - lane)


def _as_int(condition: Column) -> Column:
    return condition.cast("int")


def _numbers(values: Iterable[int], kind: str) -> Column:
    """A constant array: one literal text, which Spark takes apart once."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast(f"array<{kind}>")

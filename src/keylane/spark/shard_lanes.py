"""MD5 digest -> shard, as a column: ranges of unequal width, and accounts with explicit hash keys.

    bucket_table     boundaries -> for each value of the leading bits the range it begins in; then a few steps upwards:
                     a constant table, which Spark makes once, before the first row, and reads inside generated code
    with_hash_keys   the same and accounts, in a function of Java (`ShardLane.java`): as expressions, looking an account
                     up takes a third of the time of its digest

Rule of the second: one bit tells most keys without a hash key; the others are looked up by their digest, and the key
itself is compared, because two keys of one MD5 are possible.

Worked example: 10,000 accounts have 16,384 words of bits and 65,536 slots. One account more makes new tables, and moves
no key. When not to use it: in a session without calls of Java (`java_calls`), where ranges are bisected and accounts
are joined (`hashes`, `overrides`).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keylane.hashing.md5 import md5_128
from keylane.spark.java_calls import integer_at, java_column, long_at
from keylane.spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column

    from keylane.placement.ranges import KeySpace

SOURCES: Final = Path(__file__).parent / "jvm" / "shards"
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


def with_hash_keys(key: Column, space: KeySpace, lane_of: Mapping[bytes, int], *, hashes_empty: bool) -> Column:
    """The lane of each key: that of its explicit hash key where it has one (`lane_of`), otherwise of its MD5.

    Null where the key is, and where it is empty, unless empty keys are hashed.
    """
    spark = SparkSession.active()
    numbers = [b"".join(one.to_bytes(4, "big") for one in some) for some in (map(len, lane_of), lane_of.values())]
    starts = b"".join(start.to_bytes(16, "big") for start in space.starts)
    given = [bytearray(one) for one in (starts, b"".join(lane_of), *numbers)]
    return java_column(java_class(spark, SOURCES, "keylane.ShardLane").newInstance().of(*given, hashes_empty), key)


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

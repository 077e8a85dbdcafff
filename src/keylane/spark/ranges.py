"""MD5 digest -> one of n equal ranges of its 128-bit space, as a column: what `placement.ranges` does.

128 bits fit no number of Spark's, not even its decimals. The rule: the first bits of the digest tell the lane or the
one before it, because with more values than lanes they can cut off one boundary at most; comparing the digest with
that one boundary settles it. The boundaries are one constant array, so that 4,096 shards cost what 64 do, where a
CASE over them would outgrow what Java compiles.

Two forms: the digest as two signed longs, where Java can be called; as hex text, which compares in the order of its
number, everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.placement.ranges import range_start
from keylane.spark.calls import static_call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column

    from keylane.spark.calls import JavaWay

__all__ = ["constant_texts", "digest", "range_lane"]

DIGEST: Final = "org.apache.commons.codec.digest.DigestUtils"
LONGS: Final = "com.google.common.primitives.Longs"
#: Flips the sign bit, after which signed numbers compare in the order of unsigned ones.
SIGN: Final = -(2**63)
#: Leading bits that estimate the lane: their product with the largest lane count stays below 2**63.
LEADING: Final = 44


def digest(key: Column, way: JavaWay) -> Column:
    """The MD5 of every key, in the form that `range_lane` reads under the same way."""
    return static_call(DIGEST, "md5", "binary", key) if way == "static" else F.md5(key)


def range_lane(digest: Column, lanes: int, way: JavaWay) -> Column:
    """The range that a digest lies in."""
    if lanes == 1:
        return F.when(digest.isNotNull(), F.lit(0))
    starts = [range_start(lane, lanes) for lane in range(1, lanes)]
    return (_by_halves if way == "static" else _by_text)(digest, starts, lanes)


def _by_halves(digest: Column, starts: list[int], lanes: int) -> Column:
    high, low = _long(digest), _long(F.substring(digest, 9, 8))
    lane = F.shiftright(F.shiftrightunsigned(high, 64 - LEADING) * F.lit(lanes), LEADING).cast("int")
    boundary = F.get(_longs(start >> 64 for start in starts), lane)
    high, low = high.bitwiseXOR(F.lit(SIGN)), low.bitwiseXOR(F.lit(SIGN))
    tie = (high == boundary) & (low >= F.get(_longs(start % 2**64 for start in starts), lane))
    # Past the last boundary `get` is null, and so is the comparison: no further lane.
    return lane + F.when((high > boundary) | tie, 1).otherwise(0)


def _long(data: Column) -> Column:
    return static_call(LONGS, "fromByteArray", "long", data)


def _longs(halves: Iterable[int]) -> Column:
    return constant_texts(str(half + SIGN) for half in halves).cast("array<bigint>")


def _by_text(digest: Column, starts: list[int], lanes: int) -> Column:
    digits = next(count for count in range(1, 9) if 16**count >= lanes)
    lane = F.shiftright(_leading(digest, digits).cast("bigint") * F.lit(lanes), 4 * digits).cast("int")
    boundary = F.get(constant_texts(f"{start:032x}" for start in starts), lane)
    return lane + F.when(digest >= boundary, 1).otherwise(0)


def _leading(digest: Column, digits: int) -> Column:
    """The number that the first hex digits spell. Spark's `conv` would take longer than the MD5 itself."""
    number = F.lit(0)
    for at in range(1, digits + 1):
        letter = F.ascii(F.substring(digest, at, 1))
        # 0x30 to 0x39 are the digits; 0x61 to 0x66 are a to f, whose low bits count from 1.
        number = F.shiftleft(number, 4) + letter.bitwiseAND(F.lit(15)) + F.shiftright(letter, 6) * 9
    return number


def constant_texts(values: Iterable[str]) -> Column:
    """An array of texts without commas, as one literal: Spark makes it once, before the first row."""
    return F.split(F.lit(",".join(values)), ",")

"""Routing key -> number, as a column: natively where Spark or a jar of its own has the hash, over Arrow otherwise.

A hash column is an integer whose low 32 bits are the hash (Spark and Java show them signed, CRC32 unsigned), null where
the key is; `lanes` folds it. MD5 is 128 bits, which fit no number of Spark's: it is a digest that `ranges` reads.

    murmur2         a Java call; for 8-byte numbers also bit operations, which every session has
    crc32           Spark's own
    spark-murmur3   Spark's own `hash`, which looks at the type: numbers are hashed as numbers
    murmur3-32      a Java call
    java-long       bit operations
    the others      over Arrow (`hashed`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas import functions as python

from keylane.hashing.murmur2 import SEED, M
from keylane.placement.ranges import key_space
from keylane.spark.java_calls import MURMUR2, long_at, md5, static_call
from keylane.spark.keys import big_endian
from keylane.spark.shard_lanes import SIGN, bucket_lane, bucket_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column

    from keylane.placement.ranges import Lanes
    from keylane.router import Router
    from keylane.spark.java_calls import JavaBackend
    from keylane.spark.keys import Bytes


# MD5 digest -> a range of its 128-bit space, as a column: what `placement.ranges` does.

#: Leading bits that estimate the lane: their product with the largest lane count stays below 2**63.
LEADING: Final = 44


def digest(key: Column, backend: JavaBackend) -> Column:
    """The MD5 of every key, in the form that `range_lane` reads under the same backend."""
    return md5(key) if backend == "static" else F.md5(key)


def range_lane(digest: Column, lanes: Lanes, backend: JavaBackend) -> Column:
    """The range that a digest lies in: computed for equal ranges, looked up or searched for in others."""
    space = key_space(lanes)
    if len(space) == 1:
        return F.when(digest.isNotNull(), F.lit(0))
    if not space.is_equal:
        # By bisection over constant texts, whose order is that of the numbers: 4,096 ranges are 13 steps.
        table = bucket_table(space.starts) if backend == "static" else None
        if table is not None:
            return bucket_lane(*halves(digest), space.starts, table)
        starts = constant_texts(f"{start:032x}" for start in space.starts)
        digits = F.lower(F.hex(digest)) if backend == "static" else digest
        return bound(digits, lambda text: F.when(text.isNotNull(), bisected(text, starts, len(space)) - 1))
    return (_by_halves if backend == "static" else _by_text)(digest, list(space.starts[1:]), len(space))


def bisected(key: Column, starts: Column, count: int) -> Column:
    """How many starts are not above the key: halving steps, each taken if the start it leads to is not above it."""
    steps = F.array(*(F.lit(1 << bit) for bit in reversed(range(count.bit_length()))))

    def step(passed: Column, width: Column) -> Column:
        return F.when(key >= F.get(starts, passed + width - 1), passed + width).otherwise(passed)

    return F.aggregate(steps, F.lit(0), step)


def halves(digest: Column) -> tuple[Column, Column]:
    """The two halves of a digest under the static backend, as signed numbers."""
    return long_at(digest, F.lit(0)), long_at(digest, F.lit(8))


def _by_halves(digest: Column, starts: list[int], lanes: int) -> Column:
    high, low = halves(digest)
    lane = F.shiftright(F.shiftrightunsigned(high, 64 - LEADING) * F.lit(lanes), LEADING).cast("int")
    boundary = F.get(_longs(start >> 64 for start in starts), lane)
    high, low = high.bitwiseXOR(F.lit(SIGN)), low.bitwiseXOR(F.lit(SIGN))
    tie = (high == boundary) & (low >= F.get(_longs(start % 2**64 for start in starts), lane))
    # Past the last boundary `get` is null, and so is the comparison: no further lane.
    return lane + F.when((high > boundary) | tie, 1).otherwise(0)


def _longs(parts: Iterable[int]) -> Column:
    return constant_texts(str(part + SIGN) for part in parts).cast("array<bigint>")


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


# Hashes without a native form, over Arrow: keylane's batch code in Spark's Python workers, never row by row.

#: Its stubs ask for a kind of function that it derives itself.
arrow_udf: Final[Any] = python.arrow_udf
PLACEMENT: Final = "struct<stream string, lane int, routing_key binary, reason string>"


def hashed(name: str, keys: Column) -> Column:
    """A 32-bit hash of every key, signed; null where the key is."""

    def hash_keys(keys: pa.Array) -> pa.Array:
        from keylane.hashing import HASHES
        from keylane.hashing.batch import hash_batch

        return pa.array(
            hash_batch(HASHES[name], keys).view("int32"), mask=keys.is_null().to_numpy(zero_copy_only=False)
        )

    return arrow_udf(hash_keys, "int")(keys)


def placed(router: Router, fields: Sequence[str], columns: Sequence[Column], position: Column | None) -> Column:
    """The placement of every row as one struct; `columns` are the fields of these names."""
    contract, stream, names = router.contract, router.stream, list(fields)
    space, hash_keys = router.key_space, router.hash_keys
    # One for all batches of a task: a lane table takes a while to read.
    routers: list[Router] = []

    def place(*arrays: pa.Array) -> pa.Array:
        from keylane.router import Router

        if not routers:
            routers.append(Router(contract, stream=stream, key_space=space, hash_keys=hash_keys))
        batch = pa.RecordBatch.from_arrays(list(arrays[: len(names)]), names=names)
        return placements(routers[0], batch, arrays[len(names)] if len(arrays) > len(names) else None)

    return arrow_udf(place, PLACEMENT)(*columns, *([] if position is None else [position]))


def placements(router: Router, batch: pa.RecordBatch, positions: pa.Array | None) -> pa.Array:
    """The router's placements; rows without a position as if no row had one."""
    if positions is None:
        return _struct(router.placements(batch))
    known = _struct(router.placements(batch, positions.fill_null(0)))
    if not positions.null_count:
        return known
    return pc.if_else(positions.is_null(), _struct(router.placements(batch)), known)


def _struct(batch: pa.RecordBatch) -> Any:
    columns = [batch.column(0), batch.column(1), batch.column(2).cast(pa.binary()), batch.column(3)]
    return pa.StructArray.from_arrays(columns, names=batch.schema.names)


MURMUR3: Final = "org.apache.commons.codec.digest.MurmurHash3"
U32: Final = 0xFFFFFFFF


def hash_column(name: str, key: Bytes, backend: JavaBackend) -> Column:
    """The hash of that name (one of `hashing.HASHES`, or `spark-int` and `spark-long`) of every key."""
    native = _NATIVE.get(name)
    return native(key, backend) if native else hashed(name, key.binary)


def murmur2(key: Bytes, backend: JavaBackend) -> Column:
    """Kafka's murmur2."""
    if backend == "static":
        return static_call(MURMUR2, "hash32", "integer", key.binary, F.octet_length(key.binary))
    if key.number is not None and key.width == 8:
        return _closed_form(key.number, _in_place)
    return hashed("murmur2", key.binary)


def murmur2_of_long(number: Column, backend: JavaBackend) -> Column:
    """murmur2 of a number's eight big-endian bytes, short enough to be one branch of many."""
    if backend == "static":
        return static_call(MURMUR2, "hash32", "integer", big_endian(number, 8, backend), F.lit(8))
    return _closed_form(number, bound)


def _closed_form(number: Column, let: Callable[[Column, Callable[[Column], Column]], Column]) -> Column:
    """The hash of eight bytes as bit operations. M is below 2**31, so that no product leaves 63 bits.

    Each step needs its number twice, which would double the expression six times over. `let` avoids that.
    """

    def folded(word: Column, by: int) -> Column:
        return let(word, lambda once: once.bitwiseXOR(F.shiftright(once, by)))

    def mixed(word: Column) -> Column:
        return _times_m(folded(_times_m(let(word, _swapped)), 24))

    h = F.lit((SEED ^ 8) * M & U32).bitwiseXOR(mixed(F.shiftrightunsigned(number, 32)))
    h = _times_m(h).bitwiseXOR(mixed(number.bitwiseAND(F.lit(U32))))
    return folded(_times_m(folded(h, 13)), 15)


def _in_place(value: Column, body: Callable[[Column], Column]) -> Column:
    """Inlined: fast outside a branch, because there Spark eliminates common subexpressions by itself."""
    return body(value)


def bound(value: Column, body: Callable[[Column], Column]) -> Column:
    """Bound to a name through an array of one element: slower, but short. Spark shares nothing between branches."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def _swapped(word: Column) -> Column:
    """The four bytes in reverse order."""
    lower = F.shiftleft(word.bitwiseAND(F.lit(0xFF)), 24).bitwiseOR(F.shiftleft(word.bitwiseAND(F.lit(0xFF00)), 8))
    return lower.bitwiseOR(F.shiftright(word, 8).bitwiseAND(F.lit(0xFF00))).bitwiseOR(F.shiftright(word, 24))


def _times_m(word: Column) -> Column:
    return (word * F.lit(M)).bitwiseAND(F.lit(U32))


def low32(number: Column) -> Column:
    """A hash column as a number from 0 to 2**32 - 1."""
    return number.cast("bigint").bitwiseAND(F.lit(U32))


def _murmur3(key: Bytes, backend: JavaBackend) -> Column:
    if backend == "static":
        return static_call(MURMUR3, "hash32x86", "integer", key.binary)
    return hashed("murmur3-32", key.binary)


def _spark(value: Column | None) -> Column:
    """Spark's own hash gives null a number, the seed: here it is null."""
    assert value is not None
    return F.when(value.isNotNull(), F.hash(value))


def _java_long(key: Bytes, _backend: JavaBackend) -> Column:
    assert key.number is not None
    return key.number.bitwiseXOR(F.shiftrightunsigned(key.number, 32)).bitwiseAND(F.lit(U32))


_NATIVE: Final[dict[str, Callable[[Bytes, JavaBackend], Column]]] = {
    "murmur2": murmur2,
    "crc32": lambda key, _: F.crc32(key.binary),
    "md5-128": lambda key, backend: digest(key.binary, backend),
    "murmur3-32": _murmur3,
    "spark-murmur3": lambda key, _: _spark(key.binary),
    "spark-int": lambda key, _: _spark(None if key.number is None else key.number.cast("int")),
    "spark-long": lambda key, _: _spark(key.number),
    "java-long": _java_long,
}

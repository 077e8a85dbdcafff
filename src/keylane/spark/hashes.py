"""Routing key -> number, as a column: natively where Spark or a jar of its own has the hash, over Arrow where not.

A hash column is an integer whose low 32 bits are the hash (Spark and Java show them signed, CRC32 unsigned), null where
the key is; `lanes` folds it. MD5 is 128 bits, which fit no number of Spark's: it is a digest that `ranges` reads.

    murmur2         a Java call; for 8-byte numbers also bit operations, which every session has
    crc32           Spark's own
    spark-murmur3   Spark's own `hash`, which looks at the type: numbers are hashed as numbers
    murmur3-32      a Java call
    java-long       bit operations
    the others      `arrow.hashed`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.hashing.murmur2 import SEED, M
from keylane.spark.arrow import hashed
from keylane.spark.calls import MURMUR2, reflected, static_call
from keylane.spark.keys import big_endian
from keylane.spark.ranges import digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from keylane.spark.calls import JavaWay
    from keylane.spark.keys import Bytes

__all__ = ["bound", "hash_column", "low32", "murmur2", "murmur2_of_long"]

MURMUR3: Final = "org.apache.commons.codec.digest.MurmurHash3"
U32: Final = 0xFFFFFFFF


def hash_column(name: str, key: Bytes, way: JavaWay) -> Column:
    """The hash of that name (one of `hashing.HASHES`, or `spark-int` and `spark-long`) of every key."""
    native = _NATIVE.get(name)
    return native(key, way) if native else hashed(name, key.binary)


def murmur2(key: Bytes, way: JavaWay) -> Column:
    """Kafka's murmur2."""
    if way == "static":
        return static_call(MURMUR2, "hash32", "integer", key.binary, F.octet_length(key.binary))
    if key.number is not None and key.width == 8:
        return _closed_form(key.number, _in_place)
    if way == "reflect" and key.text is not None:
        return F.when(key.binary.isNotNull(), reflected(MURMUR2, "hash32", key.text)).cast("int")
    return hashed("murmur2", key.binary)


def murmur2_of_long(number: Column, way: JavaWay) -> Column:
    """murmur2 of a number's eight big-endian bytes, short enough to stand in one branch of many."""
    if way == "static":
        return static_call(MURMUR2, "hash32", "integer", big_endian(number, 8, way), F.lit(8))
    return _closed_form(number, bound)


def _closed_form(number: Column, let: Callable[[Column, Callable[[Column], Column]], Column]) -> Column:
    """The hash of eight bytes as bit operations. M is below 2**31, so that no product leaves 63 bits.

    Each step needs its number twice, and written out that doubles six times over. `let` says what to do about it.
    """

    def folded(word: Column, by: int) -> Column:
        return let(word, lambda once: once.bitwiseXOR(F.shiftright(once, by)))

    def mixed(word: Column) -> Column:
        return _times_m(folded(_times_m(let(word, _swapped)), 24))

    h = F.lit((SEED ^ 8) * M & U32).bitwiseXOR(mixed(F.shiftrightunsigned(number, 32)))
    h = _times_m(h).bitwiseXOR(mixed(number.bitwiseAND(F.lit(U32))))
    return folded(_times_m(folded(h, 13)), 15)


def _in_place(value: Column, body: Callable[[Column], Column]) -> Column:
    """Written out: quick where nothing stands around it, because Spark then finds what is the same by itself."""
    return body(value)


def bound(value: Column, body: Callable[[Column], Column]) -> Column:
    """Bound to a name by way of an array of one: slower, and short. Spark shares nothing between branches."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def _swapped(word: Column) -> Column:
    """The four bytes in the other order."""
    lower = F.shiftleft(word.bitwiseAND(F.lit(0xFF)), 24).bitwiseOR(F.shiftleft(word.bitwiseAND(F.lit(0xFF00)), 8))
    return lower.bitwiseOR(F.shiftright(word, 8).bitwiseAND(F.lit(0xFF00))).bitwiseOR(F.shiftright(word, 24))


def _times_m(word: Column) -> Column:
    return (word * F.lit(M)).bitwiseAND(F.lit(U32))


def low32(number: Column) -> Column:
    """A hash column as a number from 0 to 2**32 - 1."""
    return number.cast("bigint").bitwiseAND(F.lit(U32))


def _crc32(key: Bytes, _way: JavaWay) -> Column:
    return F.crc32(key.binary)


def _md5(key: Bytes, way: JavaWay) -> Column:
    return digest(key.binary, way)


def _murmur3(key: Bytes, way: JavaWay) -> Column:
    if way == "static":
        return static_call(MURMUR3, "hash32x86", "integer", key.binary)
    return hashed("murmur3-32", key.binary)


def _spark(key: Bytes, _way: JavaWay) -> Column:
    return _unless_null(key.binary, F.hash(key.binary))


def _spark_int(key: Bytes, _way: JavaWay) -> Column:
    assert key.number is not None
    return _unless_null(key.number, F.hash(key.number.cast("int")))


def _spark_long(key: Bytes, _way: JavaWay) -> Column:
    assert key.number is not None
    return _unless_null(key.number, F.hash(key.number))


def _unless_null(value: Column, hash_: Column) -> Column:
    """Spark's own hash gives null a number: the seed."""
    return F.when(value.isNotNull(), hash_)


def _java_long(key: Bytes, _way: JavaWay) -> Column:
    assert key.number is not None
    return key.number.bitwiseXOR(F.shiftrightunsigned(key.number, 32)).bitwiseAND(F.lit(U32))


_NATIVE: Final[dict[str, Callable[[Bytes, JavaWay], Column]]] = {
    "murmur2": murmur2,
    "crc32": _crc32,
    "md5-128": _md5,
    "murmur3-32": _murmur3,
    "spark-murmur3": _spark,
    "spark-int": _spark_int,
    "spark-long": _spark_long,
    "java-long": _java_long,
}

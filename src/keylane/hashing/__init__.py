"""Routing key -> number: one algorithm a file, each for one key and for a batch. Pure.

    murmur2, kafkajs_legacy, crc32, fnv1a, murmur3, md5, java   the algorithms
    row_words   rows of bytes as columns of 32-bit words, for their kernels
    batch       one of them over an Arrow array of keys

`HASHES` is the table of all of them. What a number becomes is not decided here: see `placement.fold` and
`placement.ranges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.hashing import crc32, fnv1a, java, kafkajs_legacy, md5, murmur2, murmur3

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HASHES", "Hash"]


@dataclass(frozen=True, slots=True)
class Hash:
    """A hash in its two forms, equal on every key.

    `one` takes one key. `rows` takes keys of one length as an (n, length) array of bytes; `batch.hash_batch`
    sorts a mixed batch into such groups.
    """

    name: str
    one: Callable[[bytes], int]
    rows: Callable[[Any], Any]
    bits: int = 32
    #: What stands for the null key where the client gives it a number of its own; else the empty key's hash does.
    null: int | None = None

    def of(self, key: bytes | None) -> int:
        """The hash of a key, null included."""
        if key is None and self.null is not None:
            return self.null
        return self.one(key or b"")


HASHES: Final[dict[str, Hash]] = {
    h.name: h
    for h in (
        Hash("murmur2", murmur2.murmur2, murmur2.murmur2_rows),
        Hash("murmur2-big-endian", murmur2.murmur2_big_endian, murmur2.murmur2_big_endian_rows),
        Hash("kafkajs-legacy", kafkajs_legacy.kafkajs_legacy, kafkajs_legacy.kafkajs_legacy_rows),
        Hash("crc32", crc32.crc32, crc32.crc32_rows),
        Hash("fnv1a", fnv1a.fnv1a, fnv1a.fnv1a_rows),
        Hash("murmur3-32", murmur3.murmur3_32, murmur3.murmur3_32_rows),
        Hash("spark-murmur3", murmur3.spark_bytes, murmur3.spark_bytes_rows, null=murmur3.SPARK_SEED),
        Hash("md5-128", md5.md5_128, md5.md5_128_rows, bits=128),
        Hash("java-string", java.java_string, java.java_string_rows),
        Hash("java-long", java.java_long, java.java_long_rows),
    )
}

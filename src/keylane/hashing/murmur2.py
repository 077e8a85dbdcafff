"""murmur2, 32 bits, in the form Kafka froze it; and the same over big-endian words, which is a mistake.

Reference: `Utils.murmur2` of Apache Kafka's Java client (seed 0x9747b28c, m 0x5bd1e995, r 24).
For murmur3 (Pulsar, Spark) see `murmur3`; for the kafkajs 1.x port that rounds, `kafkajs_legacy`.
"""

from __future__ import annotations

from struct import unpack_from
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995
U32: Final = 0xFFFFFFFF


def murmur2(key: bytes, order: str = "<", seed: int = SEED) -> int:
    """Kafka's murmur2: the hash of the Java client and of all that follow it.

    Rule: start from seed xor length; mix in each little-endian word (times m, xor itself >> 24, times m);
    xor in the last 1 to 3 bytes; finish with two shifts. Unsigned here, where Java shows it signed.

    >>> murmur2(b"21") - 2**32
    -973932308

    A lane count plays no part in it. When not to use it: against readers or writers of another family;
    the same key then lands elsewhere for all but 1/n of the keys.
    """
    length = len(key)
    h = seed ^ length
    for word in unpack_from(f"{order}{length >> 2}I", key):
        k = word * M & U32
        h = (h * M ^ (k ^ k >> 24) * M) & U32
    if length & 3:
        h = (h ^ int.from_bytes(key[length & ~3 :], "little")) * M & U32
    h = (h ^ h >> 13) * M & U32
    return h ^ h >> 15


def murmur2_big_endian(key: bytes) -> int:
    """murmur2 with each word read big-endian: wrong, and deployed.

    Teaching code that wraps the key in a `ByteBuffer` and calls `getInt` does this, because Java's buffers are
    big-endian by default. It spreads as well as the right one and agrees with it on 1/n of the keys.
    Kept so that streams written this way can be read, checked and moved; not for new streams.
    """
    return murmur2(key, ">")


def murmur2_big_endian_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """murmur2_big_endian of every row of an (n, length) array."""
    return murmur2_rows(rows, ">")


def murmur2_rows(rows: NDArray[np.uint8], order: str = "<", seed: int = SEED) -> NDArray[Any]:
    """murmur2 of every row of an (n, length) array."""
    from keylane.hashing.row_words import seeded, tail, word

    length = rows.shape[1]
    h = seeded(rows, seed ^ length)
    for at in range(0, length & ~3, 4):
        k = word(rows, at, order) * M
        k ^= k >> 24
        k *= M
        h *= M
        h ^= k
    if length % 4:
        h ^= tail(rows)
        h *= M
    h ^= h >> 13
    h *= M
    h ^= h >> 15
    return h

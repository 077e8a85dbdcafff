"""murmur3, x86, 32 bits: as published (Pulsar, seed 0), and as Spark has it (seed 42, its own tail).

For Kafka's hash see `murmur2`: the two have nothing in common but the author.
"""

from __future__ import annotations

from struct import unpack_from
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

C1: Final = 0xCC9E2D51
C2: Final = 0x1B873593
U32: Final = 0xFFFFFFFF
SPARK_SEED: Final = 42


def murmur3_32(key: bytes, seed: int = 0) -> int:
    """murmur3 x86_32 as published; Pulsar's `Murmur3_32Hash` is this, then masked to 31 bits.

    >>> murmur3_32(b"key1") & 0x7FFFFFFF
    462881061
    """
    h = seed
    for word in unpack_from(f"<{len(key) >> 2}I", key):
        h = _mix_h(h, word)
    if len(key) & 3:
        h ^= _mix_k(int.from_bytes(key[len(key) & ~3 :], "little"))
    return fmix32(h ^ len(key))


def spark_bytes(key: bytes) -> int:
    """Spark's `hash()` of a string or binary: seed 42, and every byte after the last word mixed as a word.

    The tail bytes are signed, as in Java. This differs from the published murmur3 whenever the length is not a
    multiple of four, and cannot be changed without moving every bucketed table.
    """
    h = SPARK_SEED
    for word in unpack_from(f"<{len(key) >> 2}I", key):
        h = _mix_h(h, word)
    for byte in key[len(key) & ~3 :]:
        h = _mix_h(h, byte if byte < 128 else byte - 256)
    return fmix32(h ^ len(key))


def spark_int(value: int) -> int:
    """Spark's `hash()` of an int column value."""
    return fmix32(_mix_h(SPARK_SEED, value & U32) ^ 4)


def spark_long(value: int) -> int:
    """Spark's `hash()` of a bigint column value: low word, then high word."""
    return fmix32(_mix_h(_mix_h(SPARK_SEED, value & U32), value >> 32 & U32) ^ 8)


def fmix32(h: int) -> int:
    """murmur3's finaliser: spreads every bit of a 32-bit number over all of them."""
    h = (h ^ h >> 16) * 0x85EBCA6B & U32
    h = (h ^ h >> 13) * 0xC2B2AE35 & U32
    return h ^ h >> 16


def _mix_k(k: int) -> int:
    k = k * C1 & U32
    return (k << 15 | k >> 17) * C2 & U32


def _mix_h(h: int, k: int) -> int:
    h ^= _mix_k(k)
    return ((h << 13 | h >> 19) * 5 + 0xE6546B64) & U32


def murmur3_32_rows(rows: NDArray[np.uint8], seed: int = 0) -> NDArray[Any]:
    """murmur3_32 of every row of an (n, length) array."""
    from keylane.hashing.row_words import seeded, tail, word

    length = rows.shape[1]
    h = seeded(rows, seed)
    for at in range(0, length & ~3, 4):
        h = _mix_h_rows(h, word(rows, at))
    if length % 4:
        h ^= _mix_k_rows(tail(rows))
    return fmix32_rows(h ^ length)


def spark_bytes_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """spark_bytes of every row of an (n, length) array."""
    from keylane.hashing.row_words import seeded, sign_extended, word

    length = rows.shape[1]
    h = seeded(rows, SPARK_SEED)
    for at in range(0, length & ~3, 4):
        h = _mix_h_rows(h, word(rows, at))
    for at in range(length & ~3, length):
        h = _mix_h_rows(h, sign_extended(rows[:, at]))
    return fmix32_rows(h ^ length)


def spark_words_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """spark_int or spark_long of rows that hold the number big-endian, 4 or 8 bytes wide."""
    from keylane.hashing.row_words import seeded, word

    length = rows.shape[1]
    h = seeded(rows, SPARK_SEED)
    for at in range(length - 4, -1, -4):
        h = _mix_h_rows(h, word(rows, at, ">"))
    return fmix32_rows(h ^ length)


def _mix_k_rows(k: NDArray[Any]) -> NDArray[Any]:
    k = k * C1
    return (k << 15 | k >> 17) * C2


def _mix_h_rows(h: NDArray[Any], k: NDArray[Any]) -> NDArray[Any]:
    h = h ^ _mix_k_rows(k)
    return (h << 13 | h >> 19) * 5 + 0xE6546B64


def fmix32_rows(h: NDArray[Any]) -> NDArray[Any]:
    """fmix32 of every number."""
    h = (h ^ h >> 16) * 0x85EBCA6B
    h = (h ^ h >> 13) * 0xC2B2AE35
    return h ^ h >> 16

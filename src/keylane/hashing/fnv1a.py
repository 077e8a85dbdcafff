"""FNV-1a, 32 bits: the default of Sarama, `Hash` of kafka-go, `fnv1a` of librdkafka.

The clients share the hash and differ in the fold; see `placement.fold`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BASIS: Final = 0x811C9DC5
PRIME: Final = 0x01000193


def fnv1a(key: bytes) -> int:
    """FNV-1a of the key: for each byte, xor it in, then multiply by the prime.

    >>> fnv1a(b"1468509572224")  # as a signed int this is Integer.MIN_VALUE, whose abs() is negative
    2147483648
    """
    h = BASIS
    for byte in key:
        h = (h ^ byte) * PRIME & 0xFFFFFFFF
    return h


def fnv1a_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """fnv1a of every row of an (n, length) array."""
    from keylane.hashing.row_words import seeded

    h = seeded(rows, BASIS)
    for at in range(rows.shape[1]):
        h ^= rows[:, at]
        h *= PRIME
    return h


def fnv1(key: bytes) -> int:
    """FNV-1 of the key: for each byte, multiply by the prime, then xor it in. No client of a contract uses it.

    >>> hex(fnv1(b"foobar"))
    '0x31f0b262'
    """
    h = BASIS
    for byte in key:
        h = h * PRIME & 0xFFFFFFFF ^ byte
    return h


def fnv1_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """fnv1 of every row of an (n, length) array."""
    from keylane.hashing.row_words import seeded

    h = seeded(rows, BASIS)
    for at in range(rows.shape[1]):
        h *= PRIME
        h ^= rows[:, at]
    return h

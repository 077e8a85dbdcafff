"""The murmur2 of kafkajs 1.x, which is not murmur2: kept because keys were placed by it for years.

Two faults, both kept bit for bit. JavaScript numbers are doubles, so each product loses its low bits beyond
53; and the word loop runs while i < length / 4, so a tail of 1 to 3 bytes is mixed once as a word and once
more as a tail. kafkajs 2 has the right one (`murmur2`) and offers this as `LegacyPartitioner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEED: Final = 0x9747B28C
M: Final = float(0x5BD1E995)


def kafkajs_legacy(key: bytes) -> int:
    """The hash kafkajs 1.x gives the key, unsigned.

    >>> kafkajs_legacy(b"1")  # murmur2 gives 2301521807
    1311020360
    """
    length = len(key)
    padded = key + bytes(-length % 4)
    h = _int32(SEED ^ length)
    for at in range(0, len(padded), 4):
        k = _int32(int(int.from_bytes(padded[at : at + 4], "little", signed=True) * M))
        k = _int32(k ^ (k & 0xFFFFFFFF) >> 24)
        h = _int32(int(h * M)) ^ _int32(int(k * M))
    if length % 4:
        h = _int32(int(_int32(h ^ int.from_bytes(padded[-4:], "little")) * M))
    h = _int32(h ^ (h & 0xFFFFFFFF) >> 13)
    h = _int32(int(h * M))
    return (h ^ (h & 0xFFFFFFFF) >> 15) & 0xFFFFFFFF


def _int32(number: int) -> int:
    """What a JavaScript bit operation makes of a number: its low 32 bits, signed."""
    return ((number + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def kafkajs_legacy_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """kafkajs_legacy of every row of an (n, length) array."""
    from keylane.hashing.row_words import seeded, tail, word

    length = rows.shape[1]
    h = seeded(rows, SEED ^ length)
    for at in range(0, length & ~3, 4):
        h = _times_m(h) ^ _mixed(word(rows, at))
    if length % 4:
        rest = tail(rows)
        h = _times_m(_times_m(h) ^ _mixed(rest) ^ rest)
    h = _times_m(h ^ h >> 13)
    return h ^ h >> 15


def _mixed(k: NDArray[Any]) -> NDArray[Any]:
    k = _times_m(k)
    return _times_m(k ^ k >> 24)


def _times_m(number: NDArray[Any]) -> NDArray[Any]:
    """A product as a double, back to 32 bits: |int32 * M| is below 2**62, so int64 holds it exactly."""
    import numpy as np

    return (number.astype(np.int32) * M).astype(np.int64).astype(np.uint32)

"""XXH32: the default of kafka-rust, and of Apache Iggy. No contract names it: `identify` looks for it."""

from __future__ import annotations

from struct import unpack_from
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

P1: Final = 0x9E3779B1
P2: Final = 0x85EBCA77
P3: Final = 0xC2B2AE3D
P4: Final = 0x27D4EB2F
P5: Final = 0x165667B1
U32: Final = 0xFFFFFFFF


def xxhash32(key: bytes, seed: int = 0) -> int:
    """XXH32 of the key: four sums over 16 bytes a step, then words, then bytes, then three shifts.

    >>> hex(xxhash32(b"abc"))
    '0x32d153ff'
    """
    length, at = len(key), 0
    if length >= 16:
        sums = [seed + P1 + P2, seed + P2, seed, seed - P1]
        while at + 16 <= length:
            sums = [_round(v, w) for v, w in zip(sums, unpack_from("<4I", key, at), strict=True)]
            at += 16
        h = sum(_turned(v, by) for v, by in zip(sums, (1, 7, 12, 18), strict=True))
    else:
        h = seed + P5
    h = h + length & U32
    while at + 4 <= length:
        h = _turned(h + unpack_from("<I", key, at)[0] * P3 & U32, 17) * P4 & U32
        at += 4
    for byte in key[at:]:
        h = _turned(h + byte * P5 & U32, 11) * P1 & U32
    h = (h ^ h >> 15) * P2 & U32
    h = (h ^ h >> 13) * P3 & U32
    return h ^ h >> 16


def _round(one: int, word: int) -> int:
    return _turned(one + word * P2 & U32, 13) * P1 & U32


def _turned(h: Any, by: int) -> Any:
    """Rotated to the left, as a number or as an array of 32 bits."""
    return (h << by | h >> 32 - by) & U32 if isinstance(h, int) else h << by | h >> 32 - by


def xxhash32_rows(rows: NDArray[np.uint8], seed: int = 0) -> NDArray[Any]:
    """xxhash32 of every row of an (n, length) array."""
    from keylane.hashing.row_words import seeded, word

    length, at = rows.shape[1], 0
    if length >= 16:
        sums = [seeded(rows, start & U32) for start in (seed + P1 + P2, seed + P2, seed, seed - P1)]
        while at + 16 <= length:
            sums = [
                _turned(v + word(rows, at + 4 * n) * P2, 13) * P1  # wraps at 32 bits
                for n, v in enumerate(sums)
            ]
            at += 16
        h = seeded(rows, length)
        for v, by in zip(sums, (1, 7, 12, 18), strict=True):
            h += _turned(v, by)
    else:
        h = seeded(rows, seed + P5 + length & U32)
    while at + 4 <= length:
        h = _turned(h + word(rows, at) * P3, 17) * P4
        at += 4
    for column in range(at, length):
        h = _turned(h + rows[:, column].astype(h.dtype) * P5, 11) * P1
    h ^= h >> 15
    h *= P2
    h ^= h >> 13
    h *= P3
    h ^= h >> 16
    return h

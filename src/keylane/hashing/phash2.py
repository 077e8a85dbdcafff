"""Erlang's `phash2` of a binary: `hash` of brod, and wolff. No contract names it: `identify` looks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GOLDEN: Final = 0x9E3779B9
#: What a binary begins with.
BINARY: Final = 0x08D12E65
U32: Final = 0xFFFFFFFF
#: Bits that `phash2` gives of a number of 32.
GIVEN: Final = (1 << 27) - 1


def phash2(key: bytes) -> int:
    """Jenkins' hash of 1996 over three words a step, of which 27 bits are given.

    >>> phash2(b"Scott9")
    38990304
    """
    if not key:
        return BINARY & GIVEN
    a = b = GOLDEN
    c, at, length = BINARY, 0, len(key)
    while length - at >= 12:
        a, b, c = (x + int.from_bytes(key[at + n : at + n + 4], "little") for n, x in ((0, a), (4, b), (8, c)))
        a, b, c = _mixed(a & U32, b & U32, c & U32)
        at += 12
    rest = key[at:]
    a += int.from_bytes(rest[:4], "little")
    b += int.from_bytes(rest[4:8], "little")
    # The lowest byte of the last word is the length's.
    c += length + (int.from_bytes(rest[8:], "little") << 8)
    return _mixed(a & U32, b & U32, c & U32)[2] & GIVEN


_SHIFTS: Final = ((13, -8, 13), (12, -16, 5), (3, -10, 15))


def _mixed(a: Any, b: Any, c: Any) -> tuple[Any, Any, Any]:
    """Three words mixed into each other: numbers, or arrays of 32 bits that wrap by themselves."""
    whole = isinstance(a, int)
    for first, second, third in _SHIFTS:
        a = a - b - c
        a = (a & U32) ^ c >> first if whole else a ^ c >> first
        b = b - c - a
        b = ((b & U32) ^ a << -second) & U32 if whole else b ^ a << -second
        c = c - a - b
        c = (c & U32) ^ b >> third if whole else c ^ b >> third
    return a, b, c


def phash2_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """phash2 of every row of an (n, length) array."""
    from keylane.hashing.row_words import seeded, word

    length, at = rows.shape[1], 0
    a, b, c = seeded(rows, GOLDEN), seeded(rows, GOLDEN), seeded(rows, BINARY)
    if not length:
        return c & GIVEN
    while length - at >= 12:
        a, b, c = _mixed(a + word(rows, at), b + word(rows, at + 4), c + word(rows, at + 8))
        at += 12
    for n in range(length - at):
        byte = rows[:, at + n].astype(a.dtype)
        if n < 4:
            a = a + (byte << 8 * n)
        elif n < 8:
            b = b + (byte << 8 * (n - 4))
        else:
            c = c + (byte << 8 * (n - 7))
    a, b, c = _mixed(a, b, c + seeded(rows, length))
    return c & GIVEN

"""MD5 as one unsigned 128-bit number: where Kinesis puts a partition key in its key space.

Not for secrets: a placement, nothing more. Ranges over the number are `placement.ranges`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROTATIONS: Final = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
START: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)


def md5_128(key: bytes) -> int:
    """The digest read big-endian, 0 to 2**128 - 1. A signed reading would be wrong for half of the keys.

    >>> f"{md5_128(b''):032x}"
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    return int.from_bytes(hashlib.md5(key, usedforsecurity=False).digest(), "big")


def md5_128_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """md5_128 of every row, as (n, 2): high half, low half. All rows go through each of the 64 steps at once."""
    import numpy as np

    blocks = _padded(rows)
    state = [np.full(len(rows), word, np.uint32) for word in START]
    for at in range(0, blocks.shape[1], 64):
        words = np.ascontiguousarray(blocks[:, at : at + 64]).view("<u4").T.copy()
        state = [old + new for old, new in zip(state, _rounds(state, words), strict=True)]
    digest = np.stack(state, axis=1).astype("<u4").view(np.uint8)
    return digest.view(">u8").astype(np.uint64)


def _padded(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The message, a one-bit, zeros, and the length in bits: whole blocks of 64 bytes."""
    import numpy as np

    count, length = rows.shape
    out = np.zeros((count, (length + 72) // 64 * 64), np.uint8)
    out[:, :length] = rows
    out[:, length] = 0x80
    out[:, -8:] = np.frombuffer((8 * length).to_bytes(8, "little"), np.uint8)
    return out


def _rounds(state: list[NDArray[Any]], words: NDArray[Any]) -> list[NDArray[Any]]:
    a, b, c, d = state
    for step, constant in enumerate(_sines()):
        turn = step // 16
        if turn == 0:
            mixed, at = d ^ (b & (c ^ d)), step
        elif turn == 1:
            mixed, at = c ^ (d & (b ^ c)), (5 * step + 1) % 16
        elif turn == 2:
            mixed, at = b ^ c ^ d, (3 * step + 5) % 16
        else:
            mixed, at = c ^ (b | ~d), 7 * step % 16
        mixed = mixed + a + constant + words[at]
        left = ROTATIONS[turn][step % 4]
        a, d, c, b = d, c, b, b + (mixed << left | mixed >> (32 - left))
    return [a, b, c, d]


@cache
def _sines() -> tuple[int, ...]:
    """The 64 constants, floor(2**32 * |sin(i)|), as the definition gives them."""
    from math import sin

    return tuple(int(abs(sin(i)) * 2**32) for i in range(1, 65))

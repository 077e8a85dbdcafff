"""Java's own hash codes: of a String (Pulsar's default), of bytes, and of a Long (H3 cells in teaching code).

Both are 32-bit numbers that Java shows signed; they are unsigned here, and `placement.fold` reads the sign.
"""

from __future__ import annotations

from struct import unpack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def java_string(key: bytes) -> int:
    """`String.hashCode` of the text that these UTF-8 bytes spell: h = 31 * h + unit, over UTF-16 units.

    A character outside the basic plane is two units, a surrogate pair, so the text must be decoded: a hash over
    the UTF-8 bytes agrees for ASCII only.

    >>> java_string("keykeykey2".encode()) & 0x7FFFFFFF
    42978643
    """
    units = key.decode("utf-8").encode("utf-16-le")
    h = 0
    for unit in unpack(f"<{len(units) // 2}H", units):
        h = (31 * h + unit) & 0xFFFFFFFF
    return h


def java_bytes(key: bytes) -> int:
    """`Arrays.hashCode(byte[])`: from 1, h = 31 * h + the signed byte. Old Scala producers, and Pinot.

    >>> java_bytes(b"abc")
    126145
    """
    h = 1
    for byte in key:
        h = 31 * h + (byte if byte < 128 else byte - 256) & 0xFFFFFFFF
    return h


def java_bytes_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """java_bytes of every row of an (n, length) array."""
    from keylane.hashing.row_words import seeded, sign_extended

    h = seeded(rows, 1)
    for at in range(rows.shape[1]):
        h *= 31
        h += sign_extended(rows[:, at])
    return h


def java_long(key: bytes) -> int:
    """`Long.hashCode` of an 8-byte big-endian integer: the high half xor the low half. Fewer bytes: a smaller number.

    H3 cells of resolution r end in 3 * (15 - r) one-bits, so for coarse cells whole groups of hash bits are
    constant: at resolution 3 the low four bits are, and `abs(hash) % N` reaches 15 of 60 lanes and 4 of 64.
    """
    number = int.from_bytes(key[-8:], "big")
    return (number >> 32 ^ number) & 0xFFFFFFFF


def java_string_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """java_string of every row of an (n, length) array; ASCII takes the short way."""
    from keylane.hashing.row_words import seeded

    if rows.size and rows.max() >= 0x80:
        return _string_rows_beyond_ascii(rows)
    h = seeded(rows, 0)
    for at in range(rows.shape[1]):
        h *= 31
        h += rows[:, at]
    return h


def _string_rows_beyond_ascii(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """Decode UTF-8 column by column: collect a code point a row, and hash its units when it is complete."""
    import numpy as np

    from keylane.hashing.row_words import seeded

    h, code, missing = seeded(rows, 0), seeded(rows, 0), seeded(rows, 0)
    for at in range(rows.shape[1]):
        byte = rows[:, at].astype(np.uint32)
        follows = (byte & 0xC0) == 0x80
        more = (byte >= 0xC0).astype(np.uint32) + (byte >= 0xE0) + (byte >= 0xF0)
        lead = np.where(more > 0, byte & (0x3F >> more), byte)
        code = np.where(follows, code << 6 | byte & 0x3F, lead)
        missing = np.where(follows, missing - 1, more).astype(np.uint32)
        h = np.where(missing == 0, _append(h, code), h)
    return h


def _append(h: NDArray[Any], code: NDArray[Any]) -> NDArray[Any]:
    """Add one code point to a String hash: one unit, or the two of a surrogate pair."""
    import numpy as np

    beyond = code - 0x10000
    pair = (h * 31 + (0xD800 + (beyond >> 10))) * 31 + (0xDC00 + (beyond & 0x3FF))
    return np.where(code < 0x10000, h * 31 + code, pair)


def java_long_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """java_long of every row; rows of another width are read as the number they spell."""
    import numpy as np

    from keylane.hashing.row_words import word

    eight = np.zeros((len(rows), 8), np.uint8)
    width = min(8, rows.shape[1])
    eight[:, 8 - width :] = rows[:, rows.shape[1] - width :]
    return (word(eight, 0, ">") ^ word(eight, 4, ">")).astype("uint32")

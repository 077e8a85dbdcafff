"""CRC-32 with the IEEE polynomial: librdkafka's default, and the CRC settings of Sarama and kafka-go.

Not CRC-32C (Castagnoli), which Kafka uses to protect record batches and which is another number.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POLYNOMIAL: Final = 0xEDB88320


def crc32(key: bytes) -> int:
    """CRC-32 of the key. The empty key gives 0, so `consistent` writers put it in lane 0.

    >>> crc32(b"TT0124") % 15
    9
    """
    return zlib.crc32(key)


def crc32_rows(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """crc32 of every row of an (n, length) array: four bytes a step, by four tables."""
    from keylane.hashing.row_words import seeded, word

    tables = _tables()
    length = rows.shape[1]
    crc = seeded(rows, 0xFFFFFFFF)
    for at in range(0, length & ~3, 4):
        crc ^= word(rows, at)
        crc = (
            tables[3][crc & 0xFF] ^ tables[2][(crc >> 8) & 0xFF] ^ tables[1][(crc >> 16) & 0xFF] ^ tables[0][crc >> 24]
        )
    for at in range(length & ~3, length):
        crc = tables[0][(crc ^ rows[:, at]) & 0xFF] ^ (crc >> 8)
    return ~crc


@cache
def _tables() -> NDArray[Any]:
    """Table 0 moves a byte through the register; table k moves it through k more zero bytes."""
    import numpy as np

    tables = np.empty((4, 256), np.uint32)
    entry = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entry = np.where(entry & 1, (entry >> 1) ^ np.uint32(POLYNOMIAL), entry >> 1)
    tables[0] = entry
    for k in range(1, 4):
        tables[k] = tables[0][tables[k - 1] & 0xFF] ^ (tables[k - 1] >> 8)
    return tables

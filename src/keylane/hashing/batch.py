"""A hash over an Arrow array of keys of any lengths, on top of the kernels for keys of one length.

The rule: cut the array into windows, sort each window by key length (Arrow's `take` moves the bytes), and
hand every run of equal length to the kernel as one (n, length) array. A batch whose keys all have one length
skips the sort. So each hash is written once, without offsets, and NumPy does all the work.

Worked example: keys `ab`, `c`, `de` -> order 1, 0, 2 -> runs [`c`] and [`ab`, `de`] -> two kernel calls.

When not to use it: for a handful of keys. `Hash.one` is quicker below about 30.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from keylane.keys.arrow_bytes import as_binary, fixed_rows, lengths_and_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from keylane.hashing import Hash

#: Rows sorted at once: large enough for long runs, small enough to stay flat in memory and in cache.
WINDOW = 131_072
#: Rows a kernel sees at once, so that its temporaries stay in the second-level cache.
BLOCK = 16_384
#: A kernel makes several NumPy calls for every four bytes of length, whatever the number of rows, and a loop over
#: `Hash.one` a few steps: so few rows, or few for their length, are quicker in the loop.
FEW = 8
BYTES_A_ROW = 128


def hash_batch(hash_: Hash, keys: pa.Array) -> NDArray[Any]:
    """Hash every key; a null gives the hash of the empty key, and the caller decides what null means.

    128-bit hashes come back as an (n, 2) array of uint64: high half, low half.
    """
    binary = as_binary(keys)
    shape = (len(binary), 2) if hash_.bits == 128 else (len(binary),)
    out = np.empty(shape, np.uint64 if hash_.bits == 128 else np.uint32)
    for start in range(0, len(binary), WINDOW):
        window = binary.slice(start, WINDOW)
        out[start : start + len(window)] = _hash_window(hash_, window)
    return out


def _hash_window(hash_: Hash, window: pa.Array) -> NDArray[Any]:
    rows = fixed_rows(window)
    if rows is not None:
        return _hash_rows(hash_, rows)
    lengths, _ = lengths_and_data(window)
    order = np.argsort(_narrow(lengths), kind="stable")
    hashed = np.concatenate([_hash_rows(hash_, run) for run in _runs(window.take(pa.array(order)))])
    out = np.empty_like(hashed)
    out[order] = hashed
    return out


def _narrow(lengths: NDArray[Any]) -> NDArray[Any]:
    """Short lengths as small integers, which NumPy sorts by radix."""
    longest = lengths.max()
    return lengths.astype(np.uint8 if longest < 256 else np.uint16 if longest < 65_536 else np.int64)


def _runs(by_length: pa.Array) -> Iterator[NDArray[np.uint8]]:
    """Cut keys sorted by length into (n, length) arrays."""
    lengths, data = lengths_and_data(by_length)
    counts_of, counts = np.unique(lengths, return_counts=True)
    at = 0
    for length, count in zip(counts_of.tolist(), counts.tolist(), strict=True):
        yield data[at : at + length * count].reshape(count, length)
        at += length * count


def _hash_rows(hash_: Hash, rows: NDArray[np.uint8]) -> NDArray[Any]:
    if len(rows) < max(FEW, rows.shape[1] // BYTES_A_ROW):
        return _loop(hash_, rows)
    return np.concatenate([hash_.rows(rows[at : at + BLOCK]) for at in range(0, len(rows), BLOCK)])


def _loop(hash_: Hash, rows: NDArray[np.uint8]) -> NDArray[Any]:
    numbers = [hash_.one(row.tobytes()) for row in rows]
    if hash_.bits == 128:
        return np.array([divmod(number, 1 << 64) for number in numbers], np.uint64)
    return np.array(numbers, np.uint32)

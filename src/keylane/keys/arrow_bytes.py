"""How the steps look at Arrow arrays of keys: as bytes, as rows of one length, and back. No rule lives here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


def plain(column: Any) -> pa.Array:
    """One array of plain values: chunks joined, dictionaries and extension types unwrapped."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def as_binary(keys: pa.Array) -> pa.Array:
    """View text or binary of any layout as one of Arrow's two offset layouts, nulls as the empty key."""
    wide = pa.types.is_large_string(keys.type) or pa.types.is_large_binary(keys.type)
    binary = keys.cast(pa.large_binary() if wide else pa.binary())
    return binary.fill_null(b"") if binary.null_count else binary


def fixed_rows(keys: pa.Array) -> NDArray[np.uint8] | None:
    """View keys that all have one length as an (n, length) array, without a copy; None if they do not."""
    lengths, data = lengths_and_data(keys)
    if len(keys) == 0 or lengths.min() != lengths.max():
        return None
    return data.reshape(len(keys), int(lengths[0]))


def lengths_and_data(binary: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Key lengths, and the bytes of all keys end to end."""
    width = np.int64 if pa.types.is_large_binary(binary.type) else np.int32
    _, offsets_buffer, data_buffer = binary.buffers()
    offsets = np.frombuffer(offsets_buffer, width)[binary.offset : binary.offset + len(binary) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
    return np.diff(offsets), data[offsets[0] : offsets[-1]]


def binary_of_rows(rows: NDArray[np.uint8], missing: NDArray[np.bool_]) -> pa.Array:
    """An (n, width) array of bytes as an Arrow binary array, without a loop."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    kind = pa.large_binary() if count * width > np.iinfo(np.int32).max else pa.binary()
    typed = offsets if kind == pa.large_binary() else offsets.astype(np.int32)
    validity = pa.array(~missing).buffers()[1] if missing.any() else None
    data = pa.py_buffer(np.ascontiguousarray(rows))
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(typed), data])


def nulls_of(array: pa.Array) -> NDArray[np.bool_]:
    """Which rows are null."""
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), bool)

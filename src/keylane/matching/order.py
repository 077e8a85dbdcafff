"""The order of tables: ids as numbers that sort as the ids do, and rows by id and then by numbers.

Ids are text and compared by their UTF-8 bytes, which is how Arrow, Spark and Python compare them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["differs", "numbers", "ranks", "sorted_rows"]


def numbers(table: pa.Table, *names: str) -> tuple[NDArray[Any], ...]:
    """Columns without nulls as arrays of NumPy."""
    return tuple(np.ascontiguousarray(table.column(name).to_numpy()) for name in names)


def ranks(*columns: pa.ChunkedArray) -> tuple[NDArray[np.int64], ...]:
    """The place of each id among all the ids of these columns, equal for equal ids.

    >>> [one.tolist() for one in ranks(pa.chunked_array([["b", "a"]]), pa.chunked_array([["c", "b"]]))]
    [[1, 0], [2, 1]]
    """
    whole = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
    coded = pc.dictionary_encode(whole.combine_chunks())
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    place = np.empty(len(coded.dictionary), np.int64)
    place[pc.array_sort_indices(coded.dictionary).to_numpy()] = np.arange(len(place))
    every = place[coded.indices.to_numpy(zero_copy_only=False)]
    ends = np.cumsum([len(column) for column in columns])
    return tuple(np.split(every, ends[:-1]))


def sorted_rows(*keys: NDArray[Any]) -> NDArray[np.intp]:
    """The rows in the order of the first key, equal ones by the second, and so on; stable."""
    return np.lexsort(keys[::-1])


def differs(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """For sorted rows: whether each begins a new group of equal keys.

    >>> differs(np.array([1, 1, 2])).tolist()
    [True, False, True]
    """
    changed = np.zeros(len(keys[0]), bool)
    changed[:1] = True
    for key in keys:
        changed[1:] |= key[1:] != key[:-1]
    return changed

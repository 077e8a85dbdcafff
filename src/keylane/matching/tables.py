"""The Arrow schemas of every table that matching takes and gives, row order, and requests that arrive more than once.

Times (`ts`, `expires`, `expire` arguments) are whole microseconds since 1970 in UTC. `offset` is a record's position
in its source: of two pings of one driver with the same `ts` the larger offset is the newer. No two pings of a driver
have the same `ts` and `offset`: a second one with both is the same ping, sent twice.

ENTRIES   what a lane knows of its drivers: pings, and tombstones as entries of kind LEFT. `timeline` keeps them
REQUESTS  riders that ask; one request is one (rider, ts)
PAIRS     a request and a driver near it; `rider_offset` is which of several copies of a request it answers
OFFERS    a driver offered to a rider until `expires`
LEDGER    the offers that hold a driver
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Kind(IntEnum):
    """What an entry of a lane records. Of two at the same (ts, offset) the larger kind counts."""

    LEFT = 0
    UNAVAILABLE = 1
    AVAILABLE = 2


def _schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


_MOMENT: Final = {"ts": pa.int64(), "offset": pa.int64()}
_PLACE: Final = {"lat": pa.float64(), "lng": pa.float64()}

ENTRIES: Final = _schema(driver=pa.string(), **_MOMENT, **_PLACE, kind=pa.int8())
REQUESTS: Final = _schema(rider=pa.string(), **_MOMENT, **_PLACE)
PAIRS: Final = _schema(
    rider=pa.string(),
    rider_ts=pa.int64(),
    driver=pa.string(),
    distance_m=pa.float64(),
    driver_ts=pa.int64(),
    driver_offset=pa.int64(),
    rider_offset=pa.int64(),
)
LEDGER: Final = _schema(
    driver=pa.string(), offer=pa.string(), rider=pa.string(), rider_ts=pa.int64(), expires=pa.int64()
)
OFFERS: Final = _schema(
    offer=pa.string(),
    rider=pa.string(),
    rider_ts=pa.int64(),
    attempt=pa.int32(),
    driver=pa.string(),
    distance_m=pa.float64(),
    made=pa.int64(),
    expires=pa.int64(),
)


def shaped(table: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """The columns of a schema, in its order and types; others are left out. Missing columns and nulls are refused.

    >>> shaped(pa.table({"ts": [5], "x": [0], "a": [1]}), pa.schema({"a": pa.int8(), "ts": pa.int64()})).column_names
    ['a', 'ts']
    """
    missing = [name for name in schema.names if name not in table.schema.names]
    if missing:
        raise DataError.of("columns are missing", got=missing, allowed=", ".join(schema.names))
    whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    chosen = whole.select(schema.names)
    nulls = [name for name in schema.names if chosen.column(name).null_count]
    if nulls:
        raise DataError.of("columns hold nulls", got=nulls, allowed="none: such records are dead letters")
    return chosen if chosen.schema.equals(schema) else chosen.cast(schema)


# Row order: ids as numbers that sort as the ids do, and rows by id and then by numbers.


def numbers(table: pa.Table, *names: str) -> tuple[NDArray[Any], ...]:
    """Columns without nulls as arrays of NumPy."""
    return tuple(np.ascontiguousarray(table.column(name).to_numpy()) for name in names)


def ranks(*columns: pa.ChunkedArray) -> tuple[NDArray[np.int64], ...]:
    """The index of each id among all the ids of these columns, equal for equal ids.

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


# Repeated requests: the one with the larger offset counts, once.


def distinct_rows(requests: pa.Table) -> NDArray[np.intp]:
    """The rows that count: of each (rider, ts) the one with the largest offset, in the order of rider and ts."""
    (rider,) = ranks(requests.column("rider"))
    ts, offset = numbers(requests, "ts", "offset")
    rows = sorted_rows(rider, ts, offset)
    first = differs(rider[rows], ts[rows])
    return rows[np.append(first[1:], True)] if len(rows) else rows


def distinct(requests: pa.Table) -> pa.Table:
    """Each request once, in the order of rider and ts."""
    return shaped(requests, REQUESTS).take(pa.array(distinct_rows(requests)))

"""The Arrow shapes of every table that matching takes and gives, in one place; `shaped` brings a table into one.

Times (`ts`, `expires`, `expire` arguments) are whole microseconds since 1970 in UTC. `offset` is a record's place in
its source: of two pings of one driver with the same `ts` the larger offset is the newer. No two pings of a driver have
the same `ts` and `offset`: a second one with both is the same ping, told twice.

ENTRIES   what a lane knows of its drivers: pings, and tombstones as entries of kind LEFT. `timeline` keeps them
REQUESTS  riders that ask; one request is one (rider, ts), see `requests`
PAIRS     a request and a driver near it; `rider_offset` says which of several tellings of a request it answers
STAYS     in which lane a driver was told to be from (ts, offset) on; also the shape of pings that `homes` reads and of
          the tombstones it gives, where `lane` is the lane to be told
OFFERS    a driver offered to a rider until `expires`
LEDGER    the offers that hold a driver
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import pyarrow as pa

from keylane.errors import DataError

__all__ = ["ENTRIES", "LEDGER", "OFFERS", "PAIRS", "REQUESTS", "STAYS", "Kind", "shaped"]


class Kind(IntEnum):
    """What an entry of a lane says. Of two at the same (ts, offset) the larger kind counts."""

    LEFT = 0
    UNAVAILABLE = 1
    AVAILABLE = 2


def _schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


_MOMENT: Final = {"ts": pa.int64(), "offset": pa.int64()}
_PLACE: Final = {"lat": pa.float64(), "lng": pa.float64()}

ENTRIES: Final = _schema(driver=pa.string(), **_MOMENT, **_PLACE, kind=pa.int8())
REQUESTS: Final = _schema(rider=pa.string(), **_MOMENT, **_PLACE)
STAYS: Final = _schema(driver=pa.string(), **_MOMENT, lane=pa.int32())
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

    >>> shaped(pa.table({"lane": [1], "ts": [5], "offset": [0], "driver": ["a"], "x": [0]}), STAYS).column_names
    ['driver', 'ts', 'offset', 'lane']
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

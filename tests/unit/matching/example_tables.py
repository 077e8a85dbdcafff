"""Small tables as literals: one line for each row, in the order of the schema's columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from keylane.matching.tables import ENTRIES, PAIRS, REQUESTS, Kind

FREE, BUSY, LEFT = Kind.AVAILABLE, Kind.UNAVAILABLE, Kind.LEFT


def of(schema: pa.Schema, *rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def entries(*rows: tuple[Any, ...]) -> pa.Table:
    """Driver, ts, offset, lat, lng, kind."""
    return of(ENTRIES, *rows)


def at(driver: str, ts: int, offset: int = 0, kind: Kind = FREE, east: float = 0.0) -> tuple[Any, ...]:
    """An entry on the equator, so many metres east of 10 degrees."""
    return driver, ts, offset, 0.0, 10 + east / 111_195.08, int(kind)


def requests(*rows: tuple[Any, ...]) -> pa.Table:
    """Rider, ts, offset, lat, lng."""
    return of(REQUESTS, *rows)


def asked(rider: str, ts: int, offset: int = 0, east: float = 0.0) -> tuple[Any, ...]:
    return rider, ts, offset, 0.0, 10 + east / 111_195.08


def pairs(*rows: tuple[Any, ...]) -> pa.Table:
    """Rider, rider_ts, driver, distance_m; then driver_ts, driver_offset and rider_offset, or zeros."""
    return of(PAIRS, *((*row, *[0] * (len(PAIRS) - len(row))) for row in rows))


def rows(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    """The rows of some columns, or of all."""
    return [tuple(row.values()) for row in table.select(list(names) or table.column_names).to_pylist()]

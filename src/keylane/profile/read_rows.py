"""Rows of a source as they are read for a count in this process, and the windows between their first and last time.

    ReadRows      columns of some rows of one file or lane
    RowSource     all of them, as often as they are asked for
    timed_rows    the times of some of them
    times_read    the unit and the windows of a column of times, which takes a look at every row

What is counted: `profile.scan`. Who reads: `systems.files.local_scan`, `systems.messages.local_scan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.errors import DataError
from keylane.keys.arrow_bytes import plain
from keylane.keys.times import is_text, micros_of, no_unit, sizes_of, tick_of, unit_of
from keylane.profile.model import time_windows, windows_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from keylane.profile.model import Windows
    from keylane.profile.scan import ScanRequest

#: Bytes of columns that are kept between finding the first and last time and counting, instead of a second read.
_KEPT: Final = 1 << 28
#: Before every window: a record without a time is in the first.
BEFORE_ALL: Final = -(2**62)


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Rows of one file or lane: columns, the number of each in it, which one it is, and which rows cannot be read."""

    columns: dict[str, Any]
    row: NDArray[np.int64]
    part: int
    malformed: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.row)


@dataclass
class RowSource:
    """Rows of all files or lanes, as often as they are asked for; where they are few, kept after the first read."""

    read: Callable[[], Iterator[ReadRows]]
    types: dict[str, pa.DataType]
    keep: bool = False
    _kept: list[ReadRows] | None = None

    def rows(self) -> Iterator[ReadRows]:
        """All rows, once more."""
        if self._kept is not None:
            yield from self._kept
            return
        kept, size = list[ReadRows](), 0
        for one in self.read():
            size += one.row.nbytes + sum(column.nbytes for column in one.columns.values())
            if self.keep and size <= _KEPT:
                kept.append(one)
            yield one
        if self.keep and size <= _KEPT:
            self._kept = kept


@dataclass(frozen=True, slots=True)
class Times:
    """The windows, the unit of integers, and whether a record may have no time."""

    windows: Windows
    unit: str | None = None
    untimed: bool = False


def times_read(
    source: RowSource, wanted: ScanRequest, kind: pa.DataType, bound: int | None = None
) -> tuple[Times, int]:
    """The windows between the first and the last time of a column, and how many records there are.

    Their number follows from that of the records, or from a bound of it, where one is known without reading.
    """
    source.keep = True
    name, unit, records = str(wanted.time), wanted.unit, 0
    if unit is None and (is_text(kind) or pa.types.is_integer(kind)):
        sizes = sum((sizes_of(_readable(rows, name)) for rows in source.rows()), np.zeros(4, np.int64))
        unit = unit_of(sizes.tolist())
        if unit is None and pa.types.is_integer(kind):
            raise no_unit(name)
    ends, nothing = list[int](), 0
    for rows in source.rows():
        at, missing = timed_rows(rows, name, unit)
        records, nothing = records + len(rows), nothing + int(missing.sum())
        ends += [int(at[~missing].min()), int(at[~missing].max())] if not missing.all() else []
    if not ends and records:
        hint = "2026-11-15T08:30:00Z is how text has to be"
        raise DataError.of(f"no record has a time in {name!r}", got=str(kind), hint=hint)
    many = windows_for(wanted.windows, records if bound is None else bound)
    windows = time_windows(min(ends, default=0), max(ends, default=0), many, tick_of(kind))
    return Times(windows, unit, nothing > 0), records


def timed_rows(rows: ReadRows, name: str, unit: str | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The times of a column, and which rows have none. One that cannot be read as a record has none, as on Spark."""
    at, missing = micros_of(rows.columns[name], unit)
    return at, missing if rows.malformed is None else missing | rows.malformed


def _readable(rows: ReadRows, name: str) -> Any:
    column = plain(rows.columns[name])
    return column if rows.malformed is None else column.filter(pa.array(~rows.malformed))

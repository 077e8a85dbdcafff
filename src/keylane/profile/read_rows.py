"""Rows of a source as they are read for a count in this process, and the windows between their first and last time.

    ReadRows      columns of some rows of one file or lane
    RowSource     all of them, as often as they are asked for
    Times         how they are read, and the windows between the first and the last
    times_read    those of a column, which takes a look at every row

What is counted: `profile.scan`. Who reads: `systems.files.local_scan`, `systems.messages.local_scan`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.keys.arrow_bytes import plain
from keylane.keys.times import (
    WRITTEN,
    TimeEnds,
    TimeRange,
    is_number,
    is_text,
    micros_of,
    sizes_of,
    tick_of,
    unit_of,
    unread_times,
)
from keylane.profile.model import time_windows, windows_for
from keylane.profile.scan import time_facts

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
    """The windows, the ends beyond which a time is not counted, and whether a record may have none.

    `facts` are what is known of how times were read.
    """

    windows: Windows
    form: str | None = None
    ends: TimeRange | None = None
    untimed: bool = False
    facts: dict[str, Any] = field(default_factory=dict)

    def of(self, rows: ReadRows, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The times of a column, and which rows have none, or one that is far from all others."""
        at, missing = _times(rows, name, self.form)
        if self.ends is not None and self.ends.strays:
            missing = missing | (at < self.ends.first) | (at > self.ends.last)
        return at, missing


def times_read(
    source: RowSource, wanted: ScanRequest, kind: pa.DataType, bound: int | None = None
) -> tuple[Times, int]:
    """The windows between the first and the last time of a column, and how many records there are.

    Their number follows from that of the records, or from a bound of it, where one is known without reading.
    """
    source.keep = True
    name, form, records, nothing = str(wanted.time), wanted.form, 0, 0
    unit, sizes, text = None, list[int](), is_text(kind)
    if form is None and (text or is_number(kind)):
        sizes = sum(
            (sizes_of(_readable(rows, name)) for rows in source.rows()), np.zeros(WRITTEN + 1, np.int64)
        ).tolist()
        unit = unit_of(name, sizes, text=text)
    ends = TimeEnds()
    for rows in source.rows():
        at, missing = _times(rows, name, form)
        records, nothing = records + len(rows), nothing + int(missing.sum())
        ends.add(at[~missing])
    found = ends.range()
    if found is None and records:
        shown = (text for rows in source.rows() for text in plain(rows.columns[name]).to_pylist()[:100] if text)
        raise unread_times(name, str(kind), form, islice(shown, 100) if text else ())
    found = found or TimeRange(0, 0)
    many = windows_for(wanted.windows, records if bound is None else bound)
    windows = time_windows(found.first, found.last, many, tick_of(kind))
    return Times(windows, form, found, nothing + found.strays > 0, time_facts(form, unit, sizes, found)), records


def _times(rows: ReadRows, name: str, form: str | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The times of a column, and which rows have none. One that cannot be read as a record has none, as on Spark."""
    at, missing = micros_of(rows.columns[name], form)
    return at, missing if rows.malformed is None else missing | rows.malformed


def _readable(rows: ReadRows, name: str) -> Any:
    column = plain(rows.columns[name])
    return column if rows.malformed is None else column.filter(pa.array(~rows.malformed))

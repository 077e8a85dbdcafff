"""What the footers of Parquet files tell without reading a record: rows, columns, and the ends of a column.

The records themselves: `files` (Arrow), `keylane.spark.scan` (Spark).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from keylane.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Ends", "Footer", "ends_of", "read_footers"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Ends:
    """The least and the greatest value of a column, and how many of its values are null.

    Times are microseconds since 1970 (UTC), whole numbers are as they are; `timed` says which they are.
    """

    first: int
    last: int
    nulls: int
    timed: bool


@dataclass(frozen=True, slots=True)
class Footer:
    """Of one file: its rows, and the shape of its columns as one text, the same for files of one shape."""

    rows: int
    shape: str
    metadata: Any


def read_footers(paths: Sequence[str]) -> list[Footer]:
    """The footer of each file, several at a time."""
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(_footer, paths))


def _footer(path: str) -> Footer:
    try:
        found = pq.read_metadata(path)
        return Footer(found.num_rows, str(found.schema.to_arrow_schema().remove_metadata()), found)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError.of(f"{path} cannot be read as Parquet", got=str(error).splitlines()[0]) from error


def ends_of(footers: Sequence[Footer], column: str) -> Ends | None:
    """The ends of a column of times, days or whole numbers over all files; None where a footer does not tell.

    Text has none here: what its first letters are is not what its first time is.
    """
    found: list[Ends] = []
    for footer in footers:
        for group in range(footer.metadata.num_row_groups):
            one = _group_ends(footer.metadata.row_group(group), column)
            if one is None:
                return None
            found.extend(one)
    if not found:
        return None
    if len({e.timed for e in found}) > 1:
        return None
    nulls = sum(e.nulls for e in found)
    return Ends(min(e.first for e in found), max(e.last for e in found), nulls, found[0].timed)


def _group_ends(group: Any, column: str) -> list[Ends] | None:
    """Of a row group: nothing where it has no row, None where it does not tell."""
    if not group.num_rows:
        return []
    chunk = next((c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == column), None)
    statistics = chunk.statistics if chunk is not None and chunk.is_stats_set else None
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count:
        return None
    first, last = _number(statistics.min), _number(statistics.max)
    return (
        None
        if first is None or last is None
        else [Ends(first, last, statistics.null_count, isinstance(statistics.min, date))]
    )


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * 86_400_000_000
    return value if isinstance(value, int) else None

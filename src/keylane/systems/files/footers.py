"""What the footers of Parquet files hold, without reading a record: rows, columns, and a column's minimum and maximum.

Their records: `data`, `local_scan` and `stream`, as Arrow batches; `spark.read_parquet`, as frames.
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
    """Of one file: its rows, and its schema as one text, the same for files of one schema."""

    rows: int
    shape: str
    metadata: Any
    schema: Any = None


def read_footers(paths: Sequence[str]) -> list[Footer]:
    """The footer of each file, several at a time."""
    if len(paths) == 1:
        return [_footer(paths[0])]
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(_footer, paths))


def _footer(path: str) -> Footer:
    try:
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema().remove_metadata()
        return Footer(metadata.num_rows, str(schema), metadata, schema)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError.of(f"{path} cannot be read as Parquet", got=str(error).splitlines()[0]) from error


def ends_of(footers: Sequence[Footer], column: str) -> Ends | None:
    """The least and greatest value of a column of times, dates or integers; None where a footer has no statistics.

    Text has none here: the first text in alphabetical order is not the first time.
    """
    groups = [footer.metadata.row_group(n) for footer in footers for n in range(footer.metadata.num_row_groups)]
    group_ends = [_group_ends(group, column) for group in groups if group.num_rows]
    known = [one for one in group_ends if one is not None]
    ends = [(one.first, one.last) for one in known if one.first is not None and one.last is not None]
    if len(known) < len(group_ends) or not ends or len({one.timed for one in known if one.first is not None}) > 1:
        return None
    timed = any(one.timed for one in known)
    return Ends(min(first for first, _ in ends), max(last for _, last in ends), sum(e.nulls for e in known), timed)


@dataclass(frozen=True, slots=True)
class _GroupEnds:
    """Of a row group; one of nulls only has neither."""

    first: int | None
    last: int | None
    nulls: int
    timed: bool


def _group_ends(group: Any, column: str) -> _GroupEnds | None:
    chunk = next((c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == column), None)
    column_stats = chunk.statistics if chunk is not None and chunk.is_stats_set else None
    if column_stats is None or not column_stats.has_null_count:
        return None
    if column_stats.null_count == group.num_rows:
        return _GroupEnds(None, None, column_stats.null_count, timed=False)
    try:
        ends = (column_stats.min, column_stats.max) if column_stats.has_min_max else (None, None)
    except (ValueError, OverflowError):  # nanoseconds, which only pandas has a type for; and years beyond 9999
        return None
    first, last = map(_number, ends)
    return (
        None
        if first is None or last is None
        else _GroupEnds(first, last, column_stats.null_count, isinstance(column_stats.min, date))
    )


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * 86_400_000_000
    return value if isinstance(value, int) else None

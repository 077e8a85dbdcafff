"""The few vector steps that the rules share: codes for text, where groups begin, running maxima, violations from rows.

No rule lives here. All of it works on one bucket, which fits in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.testing.history.found import Rule, Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

__all__ = [
    "begins",
    "codes",
    "group_numbers",
    "kind_of",
    "lane_codes",
    "numbers",
    "running_max",
    "shown_key",
    "violations",
]

#: Bytes of a key that a violation shows.
SHOWN: Final = 80
_POSITION: Final = ("generation", "stream", "lane", "offset", "writer", "seq", "key", "scope")


def codes(column: Any) -> Ints:
    """Equal values get equal numbers, null gets -1."""
    indices = plain_codes(column).fill_null(-1)
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)


def plain_codes(column: Any) -> pa.Array:
    """The codes of a column, whether it is in one chunk, in several, or in none."""
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks
        column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
    return column.dictionary_encode().indices


def numbers(column: Any, null: int = -1) -> Ints:
    """A column of whole numbers; `null` where there is none."""
    filled = column.fill_null(null) if column.null_count else column
    return np.asarray(filled.to_numpy(), np.int64)


def kind_of(table: pa.Table) -> Ints:
    """The kind of every row, as its number."""
    return numbers(table.column("what"))


def lane_codes(table: pa.Table) -> Ints:
    """Stream and lane as one number, which sorts as they do: the first of several is the same in every bucket."""
    streams = table.column("stream").fill_null("")
    known = pc.unique(streams).sort()
    stream = pc.index_in(streams, value_set=known).to_numpy(zero_copy_only=False).astype(np.int64)
    return stream << 32 | numbers(table.column("lane"), 0)


def begins(*columns: Ints) -> Mask:
    """Which rows begin a new group, where rows of a group stand together."""
    count = len(columns[0])
    first = np.zeros(count, bool)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def group_numbers(first: Mask) -> Ints:
    """Number the groups from 0."""
    return np.cumsum(first) - 1


def running_max(values: Ints, first: Mask) -> Ints:
    """The greatest value of the group so far, this row's included."""
    ranked, rank = np.unique(values, return_inverse=True)
    lift = group_numbers(first) * (len(ranked) + 1)
    return ranked[np.maximum.accumulate(rank + lift) - lift]


def shown_key(key: bytes | None) -> str:
    """A key as a person reads it: text where it is text, else hex digits."""
    if key is None:
        return ""
    cut = key[:SHOWN]
    try:
        text = cut.decode("utf-8", "strict" if len(key) <= SHOWN else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    shown = text if text.isprintable() else f"0x{cut.hex()}"
    return shown if len(key) <= SHOWN else f"{shown}…"


def violations(
    rule: Rule, table: pa.Table, rows: NDArray[np.intp], keep: int, detail: str | Callable[[int], str]
) -> tuple[Violation, ...]:
    """The first of these rows by position, as violations; `detail` may look at the row."""
    if not len(rows):
        return ()
    there = [name for name in _POSITION if name in table.schema.names]
    found = table.select(there).take(pa.array(rows)).append_column("row", pa.array(rows))
    if len(found) > keep:
        by = [(name, "ascending") for name in there if name not in ("key", "scope")]
        found = found.take(pc.sort_indices(found, sort_keys=by)).slice(0, keep)
    return tuple(_violation(rule, one, detail) for one in found.to_pylist())


def _violation(rule: Rule, row: dict[str, Any], detail: str | Callable[[int], str]) -> Violation:
    return Violation(
        rule,
        row.get("generation") or 0,
        row.get("stream") or "",
        -1 if row.get("lane") is None else row["lane"],
        -1 if row.get("offset") is None else row["offset"],
        row.get("writer") or "",
        -1 if row.get("seq") is None else row["seq"],
        shown_key(row["key"] if row.get("key") is not None else row.get("scope")),
        detail if isinstance(detail, str) else detail(row["row"]),
    )

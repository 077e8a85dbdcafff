"""Batches of records -> one row for each key, with its records in each window: the aggregation of a profile, on Arrow.

    CountedBatch   the keys of some records, each with its window and what was measured of it
    KeyCounter     adds them up; its rows are those of `spark.count_keys.counted`, for `profile.build`

A batch is counted by itself: its distinct keys, numbered, and one sum over number and window. Such parts are added to
what came before when they have grown to its size, so that memory is that of the distinct keys, never of the records.
More keys than `MOST_KEYS`, or than `MOST_BYTES` of them, are refused: there Spark counts, which can spill to the disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane import numbers
from keylane.errors import DataError
from keylane.keys.arrow_bytes import plain
from keylane.keys.read import read_batch
from keylane.profile.build import LANE, MALFORMED, SIZE, UNTIMED, WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.contract.model import Key
    from keylane.contract.names import Encoding
    from keylane.profile.model import Windows

#: Distinct keys, and bytes of them, that are counted in this process; a key counts in each lane that it was seen in.
MOST_KEYS: Final = 5_000_000
MOST_BYTES: Final = 1 << 30
#: Rows of one sum: a sum has a cell for each window of each of their keys.
ROWS: Final = 1 << 18
#: Parts are added up when they have this many rows, or as many as what they are added to.
_PENDING: Final = 1 << 19
#: Cells that are cheaper to make than rows are to sort.
_CELLS: Final = 1 << 22
_MOST: Final = 2**31 - 1
_WIDEST: Final = 2**62


class TooManyKeysError(DataError):
    """A source has more keys than are counted in this process."""


@dataclass(frozen=True, slots=True)
class CountedBatch:
    """Some records: the fields of their keys, the number of the window of each, and what was measured."""

    fields: Mapping[str, Any]
    window: NDArray[np.int64]
    lane: NDArray[np.int64] | None = None
    size: NDArray[np.int64] | None = None
    malformed: NDArray[np.bool_] | None = None
    untimed: NDArray[np.bool_] | None = None


def window_numbers(at: NDArray[np.int64], windows: Windows) -> NDArray[np.int64]:
    """The number of the window of each time or position: what lies outside is in the first or the last.

    >>> from keylane.profile.model import Windows
    >>> window_numbers(np.array([-5, 0, 9, 10, 99]), Windows("time", (0, 10, 20))).tolist()
    [0, 0, 0, 1, 1]
    """
    first, count = windows.edges[0], len(windows)
    number = (
        (at - first) // (windows.edges[1] - first)
        if windows.kind == "time"
        else at * count // max(1, windows.edges[-1])
    )
    return np.clip(number, 0, count - 1)


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows that differ in their keys: the values of each field, records by window, and sums beside them."""

    keys: tuple[pa.Array, ...]
    counts: NDArray[Any]
    sums: Mapping[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.counts)


@dataclass
class KeyCounter:
    """Counts the keys of batches. `measured` are the sums that are kept beside the records of a key."""

    key: Key
    windows: Windows
    measured: Sequence[str] = ()
    lanes: bool = False
    most_keys: int = MOST_KEYS
    most_bytes: int = MOST_BYTES
    records: int = 0
    _total: _Part | None = None
    _pending: list[_Part] = field(default_factory=list)

    def add(self, batch: CountedBatch) -> None:
        """Count some more records."""
        rows = len(batch.window)
        self.records += rows
        for at in range(0, rows, ROWS):
            self._pending.append(self._counted(batch, slice(at, min(rows, at + ROWS))))
        waiting = sum(map(len, self._pending))
        if waiting >= max(_PENDING, 0 if self._total is None else len(self._total)):
            self._merge()

    def rows(self) -> pa.Table:
        """One row for each key, and for each lane that it was seen in."""
        self._merge()
        total = self._total
        assert total is not None
        names = [*self.key.fields, *([LANE] if self.lanes else [])]
        columns: dict[str, Any] = dict(zip(names, total.keys, strict=True))
        counts = total.counts
        columns |= {f"{WINDOW}{n}": pa.array(np.ascontiguousarray(counts[:, n])) for n in range(counts.shape[1])}
        return pa.table(columns | {name: pa.array(sums) for name, sums in total.sums.items()})

    def _counted(self, batch: CountedBatch, rows: slice) -> _Part:
        size = rows.stop - rows.start
        unread = None if batch.malformed is None else batch.malformed[rows]
        columns = [
            _numbered(plain(batch.fields[name]).slice(rows.start, size), encoding, self.key, unread)
            for name, encoding in zip(self.key.fields, self.key.encodings, strict=True)
        ]
        if self.lanes:
            assert batch.lane is not None
            columns.append(_numbered_lanes(batch.lane[rows]))
        number, first = _joined([codes for codes, _ in columns], [len(values) for _, values in columns])
        counts = np.bincount(number * self._width + batch.window[rows], minlength=len(first) * self._width)
        sums = {name: _summed(_measured(batch, name)[rows], number, len(first)) for name in self.measured}
        keys = tuple(values.take(pa.array(codes[first])) for codes, values in columns)
        return _Part(keys, counts.reshape(len(first), self._width).astype(np.int32), sums)

    @property
    def _width(self) -> int:
        return len(self.windows)

    def _merge(self) -> None:
        """Add what waits to the total. Within a part each key is there once, so that rows are added by their number."""
        parts = [*([] if self._total is None else [self._total]), *self._pending]
        self._pending = []
        if not parts:
            schema = [pa.array([], pa.string()) for _ in self.key.fields]
            lanes = [pa.array([], pa.int32())] if self.lanes else []
            none = np.zeros(0, np.int64)
            self._total = _Part(
                (*schema, *lanes), np.zeros((0, self._width), np.int32), dict.fromkeys(self.measured, none)
            )
            return
        if len(parts) == 1:
            self._total = parts[0]
        else:
            self._total = self._added(parts)
        self._check_size(self._total)

    def _added(self, parts: list[_Part]) -> _Part:
        columns = [_common([part.keys[n] for part in parts]) for n in range(len(parts[0].keys))]
        encoded = [column.dictionary_encode(null_encoding="encode") for column in columns]
        codes = [one.indices.to_numpy(zero_copy_only=False).astype(np.int64) for one in encoded]
        number, first = _joined(codes, [len(one.dictionary) for one in encoded])
        counts = np.zeros((len(first), self._width), np.int32 if self.records <= _MOST else np.int64)
        sums = {name: np.zeros(len(first), np.int64) for name in self.measured}
        at = 0
        for part in parts:
            mine = number[at : at + len(part)]
            counts[mine] += part.counts
            for name, known in part.sums.items():
                sums[name][mine] += known
            at += len(part)
        return _Part(tuple(column.take(pa.array(first)) for column in columns), counts, sums)

    def _check_size(self, total: _Part) -> None:
        size = sum(column.nbytes for column in total.keys)
        if len(total) > self.most_keys or size > self.most_bytes:
            seen = f"{numbers.count(len(total))} keys of {numbers.size(size)}"
            got = f"{seen} after {numbers.count(self.records)} records"
            allowed = f"{numbers.count(self.most_keys)} keys, {numbers.size(self.most_bytes)}"
            what = "more keys than are counted in one process"
            raise TooManyKeysError.of(what, got=got, allowed=allowed, hint="--engine spark, or --approximate")


def refuse_misfits(fields: Mapping[str, pa.DataType], key: Key) -> None:
    """Refuse columns whose types can hold no such key."""
    read_batch(pa.table({name: pa.array([], kind) for name, kind in fields.items()}), key)


def _numbered(
    column: Any, encoding: Encoding, key: Key, unread: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], pa.Array]:
    """The number of each row's value among the distinct ones, and these; one value for what is the same key."""
    if unread is not None and unread.any():
        column = pc.if_else(pa.array(unread), pa.scalar(None, column.type), column)
    encoded = column.dictionary_encode(null_encoding="encode")
    codes, values = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
    canonical = _canonical(values, encoding, key)
    if canonical is not values:
        again = canonical.dictionary_encode(null_encoding="encode")
        codes, values = again.indices.to_numpy(zero_copy_only=False)[codes], again.dictionary
    return codes.astype(np.int64), values


def _numbered_lanes(lanes: NDArray[np.int64]) -> tuple[NDArray[np.int64], pa.Array]:
    """Lanes from -1 on, which is none."""
    most = int(lanes.max(initial=0))
    return lanes + 1, pa.array(np.arange(-1, most + 1, dtype=np.int32))


def _canonical(values: pa.Array, encoding: Encoding, key: Key) -> pa.Array:
    """Values that are the same bytes made the same value: capitals of UUIDs and cells, the header of a registry."""
    if encoding in ("uuid", "h3") and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = pc.utf8_lower(values)
        if encoding == "h3":
            values = pc.replace_substring_regex(values, r"^0(.{15})$", r"\1")
    if key.registry_header == "strip":
        binary = values.to_pylist()
        headed = [
            bytes(5) + one[5:] if isinstance(one, bytes) and len(one) >= 5 and one[0] == 0 else one for one in binary
        ]
        values = pa.array(headed, values.type)
    return values


def _joined(codes: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """One number for the numbers of all fields of a row, without gaps; and a row that has each.

    >>> [one.tolist() for one in _joined([np.array([0, 1, 0]), np.array([2, 2, 2])], [2, 3])]
    [[0, 1, 0], [0, 1]]
    """
    number, span = codes[0], sizes[0]
    for more, size in zip(codes[1:], sizes[1:], strict=True):
        if span * size >= _WIDEST:
            kinds, number = np.unique(number, return_inverse=True)
            span = len(kinds)
        number, span = number * size + more, span * size
    if span > max(_CELLS, 4 * len(number)):
        _, first, number = np.unique(number, return_index=True, return_inverse=True)
        return number, first
    rows = np.full(span, -1, np.intp)
    rows[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    seen = rows >= 0
    return (np.cumsum(seen) - 1)[number], rows[seen]


def _measured(batch: CountedBatch, name: str) -> NDArray[Any]:
    found = {SIZE: batch.size, MALFORMED: batch.malformed, UNTIMED: batch.untimed}[name]
    assert found is not None
    return found


def _summed(values: NDArray[Any], number: NDArray[np.int64], kinds: int) -> NDArray[np.int64]:
    """Sums of whole numbers by their group; doubles hold them as long as they are below 2**53."""
    if values.dtype == bool or np.abs(values.astype(np.float64)).sum() < 2**53:
        return np.bincount(number, weights=values, minlength=kinds).astype(np.int64)
    sums = np.zeros(kinds, np.int64)
    np.add.at(sums, number, values)
    return sums


def _common(columns: Sequence[pa.Array]) -> pa.Array:
    """Columns of one type after the other; files may have integers of several widths."""
    kinds = {column.type for column in columns}
    if len(kinds) > 1:
        known = [kind for kind in kinds if not pa.types.is_null(kind)]
        wide = known[0] if len(known) == 1 else pa.int64()
        columns = [column.cast(wide) for column in columns]
    return pa.concat_arrays(columns)

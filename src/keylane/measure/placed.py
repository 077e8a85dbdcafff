"""Keys and the lanes they are in: columns made readable, and a sample that is spread evenly over all rows.

    readable_keys, lane_numbers   columns of any layout, or an error that says what they hold
    empty_keys, long_keys         rows that say nothing of who wrote them
    Sample                        one pass over batches -> at most `ROWS` rows, and what was set aside
    pairs_of                      the distinct keys of a sample with the lanes they were seen in

What explains a sample: `mixture`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.names import MAX_LANES
from keylane.errors import DataError, LaneCountError
from keylane.keys.arrow_bytes import plain
from keylane.measure.rules import not_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

#: Rows that are kept at most, drawn over all of them; of more, half of those kept are let go, by their number.
ROWS: Final = 1 << 18
#: Bytes of keys that are kept at most.
KEPT_BYTES: Final = 64 << 20
#: Bytes of a key that is compared with every rule. Hashes of single long keys are pure Python: one of 30 MB takes
#: minutes under all of them, and proves no more than a short one. A contract names no longer ones, and Kafka's clients
#: send no record above 1 MiB by default.
LONGEST: Final = 1 << 16
#: Distinct pairs of key and lane that rules are held against.
PAIRS: Final = 6_000
#: A key in so many lanes is placed by no rule of the key.
SCATTERED: Final = 5


@dataclass(slots=True)
class Sample:
    """What one pass over the data keeps: rows with a key and a lane, and counts of all others."""

    given: int | None = None
    rows: int = 0
    keyed: int = 0
    highest: int = 0
    unplaced: int = 0
    long: int = 0
    nulls: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    empties: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    #: How many times the rows kept were halved.
    halved: int = 0
    _kept: list[tuple[pa.Array, NDArray[np.int32], NDArray[np.uint64]]] = field(default_factory=list)

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], given: int | None) -> Sample:
        """The sample of batches whose first column is the key and whose second is the lane."""
        sample = cls(given)
        for batch in batches:
            sample.add(batch)
        return sample

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch, set null, empty and overlong keys aside, and keep its share of the rest."""
        keys, at = self._keyed(batch)
        drawn = _draws(self.keyed, len(at))
        self.keyed += len(at)
        self._keep(keys, at, drawn)
        while sum(len(lanes) for _, lanes, _ in self._kept) > ROWS or self._bytes() > KEPT_BYTES:
            self.halved += 1
            kept, self._kept = self._kept, []
            for one in kept:
                self._keep(*one)

    def _keep(self, keys: pa.Array, at: NDArray[np.int32], drawn: NDArray[np.uint64]) -> None:
        if self.halved:
            some = np.flatnonzero(drawn >> np.uint64(64 - self.halved) == 0)
            keys, at, drawn = keys.take(pa.array(some)), at[some], drawn[some]
        if len(at):
            self._kept.append((plain(keys) if self.halved else keys, at, drawn))

    def _bytes(self) -> int:
        return sum(keys.nbytes for keys, _, _ in self._kept) if len(self._kept) else 0

    @property
    def whole(self) -> bool:
        """Whether every row with a key and a lane was kept."""
        return self.halved == 0

    def table(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """The rows kept, in their order."""
        keys = [plain(keys) for keys, _, _ in self._kept]
        lanes = [lanes for _, lanes, _ in self._kept]
        if not keys:
            return pa.array([], pa.string()), np.zeros(0, np.int64)
        return pa.concat_arrays(keys), np.concatenate(lanes).astype(np.int64)

    def _keyed(self, batch: pa.RecordBatch) -> tuple[pa.Array, NDArray[np.int32]]:
        keys, lanes = readable_keys(batch.column(0)), batch.column(1)
        self.rows += len(keys)
        if lanes.null_count:
            self.unplaced += lanes.null_count
            keys, lanes = keys.filter(lanes.is_valid()), lanes.drop_null()
        at = lane_numbers(lanes, batch.schema.names[1], self.given)
        self.highest = max(self.highest, int(at.max(initial=0)))
        if keys.null_count:
            missing = keys.is_null().to_numpy(zero_copy_only=False)
            self.nulls = _added(self.nulls, at[missing])
            keys, at = keys.drop_null(), at[~missing]
        empty = empty_keys(keys)
        if empty is not None and empty.any():
            self.empties = _added(self.empties, at[empty])
            keys, at = keys.filter(pa.array(~empty)), at[~empty]
        long = long_keys(keys)
        if long is not None and long.any():
            self.long += int(long.sum())
            keys, at = keys.filter(pa.array(~long)), at[~long]
        return keys, at


def _draws(first: int, count: int) -> NDArray[np.uint64]:
    """A number for each row by its position, the same in every run; its high bits decide how long the row is kept.

    Not every n-th row: two producers that take turns would leave one of them out.
    """
    x = np.arange(first, first + count, dtype=np.uint64)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    return x


@dataclass(frozen=True, slots=True)
class Pairs:
    """Distinct keys with the lanes they were seen in, evenly over the rows.

    A key in many lanes is left out: no rule of the key placed it. `scattered` are such keys. `again` are keys seen in
    two rows or more: the first and the last row of each, by their numbers among `keys`.
    """

    keys: pa.Array
    at: NDArray[np.int64]
    distinct: int
    scattered: int
    #: The row of `keys` for each key that came again, and the lanes that it was in first and last.
    again: NDArray[np.int64]
    first_at: NDArray[np.int64]
    last_at: NDArray[np.int64]


def pairs_of(keys: pa.Array, at: NDArray[np.int64], most: int = PAIRS) -> Pairs:
    """The distinct pairs of a sample."""
    code = pc.dictionary_encode(keys).indices.to_numpy().astype(np.int64)
    pair, first = np.unique(code * MAX_LANES + at, return_index=True)
    lanes_of_key = np.bincount(pair // MAX_LANES, minlength=int(code.max()) + 1)
    many = lanes_of_key >= SCATTERED
    first = np.sort(first[~many[code[first]]])
    if len(first) > most:
        first = first[np.linspace(0, len(first) - 1, most).astype(np.int64)]
    # The first and the last row of each key that came more than once.
    order = np.argsort(code, kind="stable")
    edge = np.flatnonzero(np.diff(code[order])) + 1
    starts, ends = np.append(0, edge), np.append(edge, len(order)) - 1
    one, last = order[starts], order[ends]
    slot = np.full(len(lanes_of_key), -1, np.int64)
    slot[code[first][::-1]] = np.arange(len(first) - 1, -1, -1)
    came = (one != last) & (slot[code[one]] >= 0)
    return Pairs(
        keys.take(pa.array(first)),
        at[first],
        len(lanes_of_key),
        int(many.sum()),
        slot[code[one[came]]],
        at[one[came]],
        at[last[came]],
    )


def readable_keys(keys: pa.Array) -> pa.Array:
    """Keys of any layout that Arrow's kernels take; a column that holds no keys is refused."""
    values = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    if pa.types.is_string_view(values) or pa.types.is_binary_view(values):
        return plain(keys).cast(pa.string() if pa.types.is_string_view(values) else pa.binary())
    if pa.types.is_null(values):
        return keys.cast(pa.string())
    fixed = pa.types.is_fixed_size_binary(values)
    text = pa.types.is_string(values) or pa.types.is_large_string(values)
    if not (
        fixed or text or pa.types.is_integer(values) or pa.types.is_binary(values) or pa.types.is_large_binary(values)
    ):
        raise not_keys(values)
    return keys


def lane_numbers(column: pa.Array, name: str, lanes: int | None = None) -> NDArray[np.int32]:
    """A column of lanes as numbers; refused when it holds anything else."""
    column = plain(column)
    if not pa.types.is_integer(column.type):
        raise DataError.of(f"column {name!r} holds no lanes", got=str(column.type), allowed="whole numbers")
    if column.null_count:
        raise DataError.of(f"column {name!r} has rows without a lane", got=f"{column.null_count} nulls")
    at = column.to_numpy(zero_copy_only=False)
    if len(at) and (at.min() < 0 or at.max() >= MAX_LANES):
        got = int(at.min()) if at.min() < 0 else int(at.max())
        raise DataError.of(f"column {name!r} holds no lanes", got=got, allowed=f"0 to {MAX_LANES - 1}")
    if lanes is not None and len(at) and at.max() >= lanes:
        raise LaneCountError.of(
            "a lane number is beyond the lane count", got=int(at.max()), allowed=f"0 to {lanes - 1}"
        )
    return at.astype(np.int32, copy=False)


def _added(counts: NDArray[np.int64], at: NDArray[np.int32]) -> NDArray[np.int64]:
    more = np.bincount(at, minlength=len(counts))
    more[: len(counts)] += counts
    return more


def empty_keys(keys: pa.Array) -> NDArray[np.bool_] | None:
    """Which keys are empty; None for numbers, which cannot be."""
    return _by_length(keys, lambda length: pc.equal(length, 0))


def long_keys(keys: pa.Array) -> NDArray[np.bool_] | None:
    """Which keys are too long to be compared with every rule; None for numbers, which cannot be."""
    return _by_length(keys, lambda length: pc.greater(length, LONGEST))


def _by_length(keys: pa.Array, judge: Callable[[pa.Array], pa.Array]) -> NDArray[np.bool_] | None:
    values = keys.dictionary if pa.types.is_dictionary(keys.type) else keys
    if pa.types.is_integer(values.type):
        return None
    found = np.asarray(judge(pc.binary_length(values)).to_numpy(zero_copy_only=False), bool)
    return found[keys.indices.to_numpy()] if pa.types.is_dictionary(keys.type) else found

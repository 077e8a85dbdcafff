"""The router's steps over an Arrow batch: the same decisions as `router`, a column at a time.

The common case costs one hash and one fold. Null, empty, hot and tabled rows are found first and decided apart,
so a batch with a few of them pays for a few. What may be a batch: `batches_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.errors import ArgumentError, DataError, UnknownNameError, UnplacedError
from keylane.hashing import HASHES
from keylane.hashing.batch import hash_batch
from keylane.keys.arrow_bytes import as_binary, nulls_of
from keylane.keys.columns import encode_column
from keylane.keys.read import BatchKeys, absent_rows, column_at, read_batch
from keylane.placement.keyless import keyless_lanes
from keylane.placement.spread import by_sub_keys
from keylane.records import REASON_CODES, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.contract.model import Spread
    from keylane.placement.overrides import HotRule
    from keylane.router import Router

REASONS: Final = tuple(Reason)
_ARROW: Final = (pa.Array, pa.ChunkedArray)
#: The columns of placements.
PLACED: Final = pa.schema(
    {"stream": pa.string(), "lane": pa.int32(), "routing_key": pa.large_binary(), "reason": pa.string()}
)


@dataclass(slots=True)
class Decided:
    """Lanes of a batch while they are being decided. `reason` is -1 where a lane was found."""

    batch: Any
    keys: BatchKeys
    positions: NDArray[np.int64] | None
    lane: NDArray[np.int32]
    reason: NDArray[np.int8]
    stream: NDArray[np.int32]
    streams: list[str]
    #: Rows whose lane follows their position in the source, not their key alone.
    by_position: NDArray[np.bool_]

    def lane_column(self) -> pa.Array:
        """Lanes as int32, null where a row has no lane."""
        missing = self.reason >= 0
        return pa.array(self.lane, mask=missing) if missing.any() else pa.array(self.lane)

    def as_batch(self) -> pa.RecordBatch:
        """All columns of a placement."""
        stream = pa.DictionaryArray.from_arrays(pa.array(self.stream), pa.array(self.streams)).cast(pa.string())
        reason = pa.DictionaryArray.from_arrays(
            pa.array(self.reason.astype(np.int32), mask=self.reason < 0), pa.array([str(r) for r in REASONS])
        ).cast(pa.string())
        columns = [stream, self.lane_column(), self.keys.routing.cast(pa.large_binary()), reason]
        return pa.RecordBatch.from_arrays(columns, schema=PLACED)

    def refuse(self, rows: Any, reason: Reason) -> None:
        """Give rows a reason instead of a lane."""
        self.reason[rows] = REASON_CODES[reason]

    def settle(self, rows: NDArray[np.intp], lanes: Any) -> None:
        """Give rows their lanes."""
        self.lane[rows] = lanes

    def keyless(self, rows: NDArray[np.intp], rule: str, lanes: int) -> None:
        """Place rows by position, or mark them as without one."""
        self.by_position[rows] = True
        if self.positions is None:
            self.refuse(rows, Reason.NO_POSITION)
        else:
            self.settle(rows, keyless_lanes(rule, self.positions[rows], lanes))


def decide(
    router: Router, batch: pa.RecordBatch | pa.Table, positions: Any = None, keys: BatchKeys | None = None
) -> Decided:
    """Decide every row of a batch; `keys` are those of records whose keys are bytes already."""
    keys = keys or read_batch(batch, router.contract.spec.key, router.contract.spec.geo)
    rows = len(keys.routing)
    lane = np.zeros(rows, np.int32) if router.partitioner.hash is None else _home(router, keys)
    state = Decided(
        batch,
        keys,
        _positions(positions, rows),
        lane,
        np.full(rows, -1, np.int8),
        np.zeros(rows, np.int32),
        [router.stream],
        np.zeros(rows, bool),
    )
    keyed = _set_aside(router, state)
    if router.partitioner.hash is None:
        state.keyless(_where(keyed), router.facts.on_null, router.lane_count)
    elif router.overrides.any:
        _override(router, state, keyed)
    return state


# What is taken as a batch, and its rows decided: the functions behind the methods of `Router`.

TAKEN: Final = (
    "an Arrow table, record batch or reader, a pandas or polars frame, whatever has __arrow_c_stream__, "
    "or a list of records"
)


def lanes_of(router: Router, given: Any, positions: Any = None) -> pa.Array:
    """The lane of every row of whatever is taken as a batch."""
    if isinstance(given, list | tuple):
        return _lanes_one_by_one(router, given, positions)
    if isinstance(given, pa.RecordBatch | pa.Table):
        return decide(router, given, positions).lane_column()
    found = [one.lane_column() for one in _decided(router, given, positions)]
    return pa.concat_arrays([pa.array([], pa.int32()), *found])


def lanes_of_keys(router: Router, given: Any, positions: Any = None) -> pa.Array:
    """The lane of every value of one column."""
    field = router.only_field()
    if isinstance(given, list | tuple):
        return _lanes_one_by_one(router, given, positions)
    return lanes_of(router, pa.table({field: _column(given)}), positions)


def placements_of(router: Router, given: Any, positions: Any = None) -> pa.RecordBatch:
    """The placement of every row of whatever is taken as a batch."""
    if isinstance(given, list | tuple):
        places = [router.place(*one) for one in _numbered(given, positions)]
        rows = [(one.stream, one.lane, one.routing_key, one.reason and str(one.reason)) for one in places]
        return pa.RecordBatch.from_pylist([dict(zip(PLACED.names, row, strict=True)) for row in rows], schema=PLACED)
    if isinstance(given, pa.RecordBatch | pa.Table):
        return decide(router, given, positions).as_batch()
    found = [one.as_batch() for one in _decided(router, given, positions)]
    whole = pa.Table.from_batches(found, PLACED).combine_chunks().to_batches()
    return whole[0] if whole else pa.RecordBatch.from_pylist([], schema=PLACED)


def batches_of(given: Any) -> pa.RecordBatchReader:
    """The batches of a reader or a frame; ArgumentError for what is neither."""
    if isinstance(given, pa.RecordBatchReader):
        return given
    try:
        if hasattr(given, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(given)
        if hasattr(given, "__arrow_c_array__"):
            batch = pa.record_batch(given)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    except (pa.ArrowException, TypeError, ValueError) as error:
        hint = "lanes_of_keys takes one column"
        raise ArgumentError.of("not a batch of records", got=_type(given), allowed=TAKEN, hint=hint) from error
    hint = ""
    if isinstance(given, Mapping):
        hint = "lane(record) takes one record, and pyarrow.table(columns) makes a table of columns"
    raise ArgumentError.of("not a batch of records", got=_type(given), allowed=TAKEN, hint=hint)


def batches_with(given: Any, *columns: str | None) -> Iterator[pa.RecordBatch]:
    """Some columns of a table, reader or frame, or of batches one by one: as named, otherwise the first, the second."""
    batches: Any = batches_of(given) if hasattr(given, "__arrow_c_stream__") else given
    batches = [batches] if isinstance(batches, pa.RecordBatch) else batches
    allowed = f"a path, an address, {TAKEN.replace('a list of records', 'Arrow batches')}"
    if not isinstance(batches, Iterable):
        raise ArgumentError.of("not a stream of records", got=_type(given), allowed=allowed)
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise ArgumentError.of("not a stream of records", got=f"an item of {_type(batch)}", allowed=allowed)
        if batch.num_columns < len(columns):
            raise ArgumentError.of("columns are missing", got=batch.schema.names, allowed=f"{len(columns)} or more")
        names = [name or batch.schema.names[n] for n, name in enumerate(columns)]
        for name in names:
            if name not in batch.schema.names:
                raise UnknownNameError.among("column of the source", name, batch.schema.names)
        yield plainly_laid(batch.select(names))


def _decided(router: Router, given: Any, positions: Any) -> Iterator[Decided]:
    """Batch by batch, so that a reader larger than memory will do."""
    batches, at = batches_of(given), 0
    positions = None if positions is None else _position_column(positions)
    for batch in batches:
        yield decide(router, plainly_laid(batch), None if positions is None else positions[at : at + len(batch)])
        at += len(batch)
    if positions is not None and len(positions) != at:
        got = f"{len(positions)} of them"
        raise DataError.of("the positions do not match the rows of the batch", got=got, allowed=f"{at} whole numbers")


def _lanes_one_by_one(router: Router, given: Sequence[Any], positions: Any) -> pa.Array:
    """Records or keys of Python's own types: each as `lane` has it, which knows values that no Arrow type has."""

    def lane(record: Any, position: Any = None) -> int | None:
        try:
            return router.lane(record, position)
        except UnplacedError:
            return None

    return pa.array([lane(*one) for one in _numbered(given, positions)], pa.int32())


def _numbered(given: Sequence[Any], positions: Any) -> Iterator[tuple[Any, ...]]:
    if positions is None:
        return zip(given, strict=True)
    numbered: Any = _positions(positions, len(given))
    return zip(given, numbered.tolist(), strict=True)


def _column(given: Any) -> Any:
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given
    try:
        # Only where a library has no Arrow of its own does Arrow guess from its values.
        if hasattr(given, "__arrow_c_stream__"):
            return _viewless(pa.chunked_array(given))
        return _viewless(pa.array(given))
    except (pa.ArrowException, TypeError, ValueError) as error:
        allowed = "an Arrow array, a pandas or polars series, a NumPy array, or a list"
        raise ArgumentError.of("not a column of keys", got=_type(given), allowed=allowed) from error


def plainly_laid(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Views, as polars lays its text out, as text."""
    if not any(_is_view(field.type) for field in batch.schema):
        return batch
    return pa.RecordBatch.from_arrays([_viewless(column) for column in batch.columns], names=batch.schema.names)


def _viewless(column: Any) -> Any:
    if not _is_view(column.type):
        return column
    return column.cast(pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary())


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _type(given: Any) -> str:
    kind = type(given)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _home(router: Router, keys: BatchKeys) -> NDArray[np.int32]:
    """The lane of the leaf that holds the key's cell, where there is one; otherwise that of the hash."""
    lanes = _hashed(router, keys.routing)
    if router.cells is None or keys.cells is None or not len(router.cells.starts):
        return lanes
    leaf = router.cells.from_leaves(keys.cells)
    return np.where(leaf >= 0, leaf, lanes)


def _hashed(router: Router, keys: pa.Array, tier: int | None = None) -> NDArray[np.int32]:
    return router.partitioner.hashed_lanes(keys, router.key_space_of(tier)).astype(np.int32)


def _position_column(given: Any) -> NDArray[Any]:
    """Positions as an array of one dimension, of whatever they are."""
    allowed = "whole numbers in an Arrow or NumPy array, a series or a list"
    try:
        array = np.asarray(given.to_numpy(zero_copy_only=False) if isinstance(given, _ARROW) else given)
    except ValueError as error:
        raise ArgumentError.of("not positions of rows", got=given, allowed=allowed) from error
    if array.ndim != 1:
        raise ArgumentError.of("not positions of rows", got=given, allowed=allowed)
    return array


def _positions(given: Any, rows: int) -> NDArray[np.int64] | None:
    if given is None:
        return None
    positions = _position_column(given)
    if len(positions) != rows or (rows and not np.issubdtype(positions.dtype, np.integer)):
        got = f"{len(positions)} of {positions.dtype}"
        raise DataError.of("the positions do not match the rows of the batch", got=got, allowed=f"{rows} whole numbers")
    return positions.astype(np.int64)


def _where(mask: NDArray[np.bool_]) -> NDArray[np.intp]:
    return np.flatnonzero(mask)


def _set_aside(router: Router, state: Decided) -> NDArray[np.bool_]:
    """Settle malformed, null and (unless hashed) empty keys; return which rows are left."""
    keyed = np.ones(len(state.lane), bool)
    if state.keys.routing.null_count:
        missing = nulls_of(state.keys.routing)
        keyed &= ~missing
        state.refuse(state.keys.malformed, Reason.MALFORMED_KEY)
        if state.keys.reason is not None:
            np.copyto(state.reason, state.keys.reason, where=state.keys.malformed)
        _by_rule(router, state, missing & ~state.keys.malformed, router.on_null, Reason.NULL_KEY)
    if router.on_empty != "hash":
        empty = keyed & (pc.binary_length(state.keys.base).fill_null(1).to_numpy(zero_copy_only=False) == 0)
        keyed &= ~empty
        _by_rule(router, state, empty, router.on_empty, Reason.EMPTY_KEY)
    return keyed


def _by_rule(router: Router, state: Decided, mask: NDArray[np.bool_], rule: str, reason: Reason) -> None:
    rows = _where(mask)
    if not len(rows):
        return
    if rule == "reject":
        state.refuse(rows, reason)
    elif rule == "hash":
        # Only null keys come here: empty ones that are hashed were never set aside.
        assert router.partitioner.hash is not None
        over = router.partitioner.over(router.key_space)
        state.settle(rows, router.partitioner.fold(router.partitioner.hash.of(None), over))
    else:
        state.keyless(rows, rule, router.lane_count)


def _override(router: Router, state: Decided, keyed: NDArray[np.bool_]) -> None:
    """Hot keys first, then the table for the keys no hot rule names."""
    base = as_binary(state.keys.base)
    hot_keys = list(router.overrides.hot)
    found = _index_in(base, hot_keys)
    found[~keyed] = -1
    for rule, members in _members(router.overrides.hot):
        rows = _where(np.isin(found, members))
        if len(rows):
            _apply(router, state, rule, rows)
    if router.overrides.table is not None:
        _apply_table(router, state, _where(keyed & (found < 0)), base)


def _index_in(base: pa.Array, known: list[bytes]) -> NDArray[np.int64]:
    """Which of the known keys each row is; -1 for none."""
    if not known:
        return np.full(len(base), -1, np.int64)
    found = pc.index_in(base, value_set=pa.array(known, base.type)).fill_null(-1)
    return np.array(found.to_numpy(zero_copy_only=False), np.int64)


def _members(hot: Any) -> list[tuple[HotRule, list[int]]]:
    """Hot keys grouped by their rule: pins apart, because each has a lane of its own."""
    groups: dict[Any, tuple[HotRule, list[int]]] = {}
    for i, rule in enumerate(hot.values()):
        groups.setdefault((rule.where, rule.pin), (rule, []))[1].append(i)
    return list(groups.values())


def _apply(router: Router, state: Decided, rule: HotRule, rows: NDArray[np.intp]) -> None:
    if rule.pin is not None:
        state.settle(rows, rule.pin)
        return
    count = rule.lanes or router.lane_count
    if rule.stream:
        state.stream[rows] = _stream_code(state, rule.stream)
        state.settle(rows, _hashed(router, state.keys.routing.take(pa.array(rows)), rule.lanes))
    if rule.spread:
        _apply_spread(state, rule.spread, rows, count)


def _stream_code(state: Decided, stream: str) -> int:
    if stream not in state.streams:
        state.streams.append(stream)
    return state.streams.index(stream)


def _apply_spread(state: Decided, spread: Spread, rows: NDArray[np.intp], count: int) -> None:
    among = _lane_sets(spread, state.lane[rows], count)
    state.by_position[rows] = spread.by_position
    if spread.by is not None:
        _by_sub_key(state, spread.by, rows, among)
    elif state.positions is None:
        state.refuse(rows, Reason.NO_POSITION)
    else:
        slot = state.positions[rows] % among.shape[-1]
        sets = np.broadcast_to(among, (len(rows), among.shape[-1]))
        state.settle(rows, np.take_along_axis(sets, slot.reshape(-1, 1), axis=1)[:, 0])


def _lane_sets(spread: Spread, home: NDArray[np.int32], count: int) -> NDArray[Any]:
    """The ascending lane set of each row: one for all when listed, otherwise counted from each row's own lane."""
    if spread.lanes is not None:
        return np.array(sorted(spread.lanes), np.int64)
    return np.sort((home.reshape(-1, 1).astype(np.int64) + np.arange(spread.over or 1)) % count, axis=1)


def _by_sub_key(state: Decided, field: str, rows: NDArray[np.intp], among: NDArray[Any]) -> None:
    if not len(rows):
        return
    sub_keys, misfit = encode_column(column_at(state.batch, field), "utf8", field)
    sub_keys, bad = sub_keys.take(pa.array(rows)), misfit[rows]
    state.settle(rows, by_sub_keys(hash_batch(HASHES["murmur2"], sub_keys), among))
    state.refuse(rows[bad], Reason.MALFORMED_KEY)
    absent = absent_rows(state.batch, field)
    if absent is not None:
        state.refuse(rows[absent[rows]], Reason.MISSING_FIELD)


def _apply_table(router: Router, state: Decided, rows: NDArray[np.intp], base: pa.Array) -> None:
    """Look each distinct key up once; then place all rows of single-lane keys, and the few-lane keys in turn."""
    table = router.overrides.table
    assert table is not None
    coded = base.take(pa.array(rows)).dictionary_encode()
    lanes = [table.lanes_of(key.as_py()) for key in coded.dictionary]
    code = coded.indices.to_numpy(zero_copy_only=False)
    single = np.array([entry[0] if entry and len(entry) == 1 else -1 for entry in lanes], np.int32)
    if len(single):
        listed = single[code] >= 0
        state.settle(rows[listed], single[code][listed])
    if router.overrides.table_rejects:
        unknown = np.array([entry is None for entry in lanes], bool)
        state.refuse(rows[unknown[code]] if lanes else rows, Reason.NOT_IN_TABLE)
    for i, entry in enumerate(lanes):
        if entry and len(entry) > 1:
            _by_sub_key(state, router.overrides.table_by or "", rows[code == i], np.array(entry, np.int64))

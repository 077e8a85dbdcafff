"""The key fields of a contract -> base key and routing key, of one record and of an Arrow batch.

The null rule lives here: a null in any field of the key, or in the window's time, makes the key null. What a null
or empty key then does is the router's to decide. Encodings are in `encode` and `columns`. A key that is a location or,
under `geo`, a cell is read by `cells`; a location without one of its numbers is not a null key, and has its own reason.

Windows are half-open, of one size, counted from 1970-01-01 UTC; times before it have windows too (floor, not
truncation). A naive datetime is taken as UTC. What a change of size does: it gives every key other bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.fields import absent_name, in_tree, no_such_field, paths_in, steps_of
from keylane.errors import DataError, UnplacedError, did_you_mean
from keylane.keys.encode import ENCODERS, home_cell, malformed, strip_registry_header
from keylane.keys.json_object import read_object
from keylane.records import REASON_CODES, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.contract.model import Geo, Key, Window

    Reader = Callable[[Mapping[str, Any]], tuple[bytes | None, bytes | None]]


TICKS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
WRITTEN: Final = {"start_ms": 1_000, "start_s": 1_000_000}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = (EPOCH.resolution).resolution
#: Times further than this from 1970, in microseconds (some 146,000 years), are no times.
FURTHEST: Final = 2**62


def _window_bytes(number: int, key: Key) -> bytes:
    """The window's number in the manner of the other parts: digits after text, 8 bytes after fixed widths."""
    return number.to_bytes(8, "big", signed=True) if key.fixed_width else b"%d" % number


def encode_key_value(value: Any, key: Key) -> bytes:
    """The base key of a key written in a contract: one value, or one for each field."""
    if key.is_place:
        return ENCODERS["place"](value)
    parts = value if isinstance(value, tuple | list) else (value,)
    encoded = [ENCODERS[e](part) for e, part in zip(key.encodings, parts, strict=True)]
    return key.joined_by.join(encoded)


def base_key(record: Mapping[str, Any], key: Key) -> bytes | None:
    """Bytes of the key fields; None when one of them is null. Raises UnplacedError when one is missing or misfit."""
    # All fields first: a record without one of them is that, whatever the others hold.
    values = [value_at(record, field) for field in key.fields]
    parts = [
        None if value is None else ENCODERS[encoding](value)
        for value, encoding in zip(values, key.encodings, strict=True)
    ]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    base = key.joined_by.join(known)
    return strip_registry_header(base) if key.registry_header == "strip" else base


def value_at(record: Mapping[str, Any], name: str) -> Any:
    """The value of a field: of the one with this very name, or of the one at this path (`contract.fields`).

    Raises UnplacedError for a record without it, and for a path that leads through something that has no fields.
    """
    if name in record:
        return record[name]
    value: Any = record
    for step in steps_of(name):
        if value is None:
            return None
        if not hasattr(value, "keys"):
            raise malformed("field", value, f"a record that holds {step!r}, to follow {name!r}")
        if step not in value:
            raise _missing(record, name)
        value = value[step]
    return value


def _missing(record: Mapping[str, Any], name: str) -> UnplacedError:
    known = sorted(paths_in(_tree(record)))[:20]
    hint = did_you_mean(name, known)
    text = f"the record has no field {name!r}: got {known}"
    return UnplacedError(f"{text}; hint: {hint}" if hint else text, Reason.MISSING_FIELD)


def names_in_json(texts: Iterable[str | bytes]) -> list[str]:
    """The fields that some texts have, those within others by their paths; texts that are no objects have none."""
    tree: dict[str, Any] = {}
    for text in texts:
        try:
            found = read_object(text if isinstance(text, bytes) else text.encode())
        except ValueError:
            continue
        for name, inner in _tree(found).items():
            tree[name] = {**tree.get(name, {}), **inner}
    return sorted(paths_in(tree))


def _tree(record: Mapping[str, Any], depth: int = 8) -> dict[str, Any]:
    """The names in a record, as far down as an error has to know them."""
    inner = {name: value if depth and isinstance(value, dict) else {} for name, value in record.items()}
    return {str(name): _tree(value, depth - 1) for name, value in inner.items()}


def record_reader(key: Key, geo: Geo | None = None) -> Reader:
    """A function from a record to (base key, routing key); both None when the key is null."""
    if geo is not None or key.is_place:
        return _cell_reader(key, geo)
    if key.window is not None:
        return _windowed_reader(key, key.window)
    if len(key.fields) == 1 and key.registry_header == "keep":
        return _one_field_reader(key.fields[0], ENCODERS[key.encodings[0]])
    return lambda record: ((base := base_key(record, key)), base)


def _cell_reader(key: Key, geo: Geo | None) -> Reader:
    """Locations, and cells under `geo`: the base key is the cell, the routing key its ancestor."""
    from keylane.keys.cells import region_of, routing_key_of

    region = region_of(geo)
    routing = None if geo is None else routing_key_of(geo, others=key.encodings == ("raw",))

    def base_of(record: Mapping[str, Any]) -> bytes | None:
        return (
            home_cell([value_at(record, name) for name in key.fields], region)
            if key.is_place
            else base_key(record, key)
        )

    def read(record: Mapping[str, Any]) -> tuple[bytes | None, bytes | None]:
        base = base_of(record)
        return base, base if base is None or routing is None else routing(base)

    return read


def _one_field_reader(field: str, encoder: Callable[[Any], bytes]) -> Reader:
    """The short way that producers take for most contracts."""

    def read(record: Mapping[str, Any]) -> tuple[bytes | None, bytes | None]:
        try:
            value = record[field]
        except KeyError:
            value = value_at(record, field)
        if value is None:
            return None, None
        key = encoder(value)
        return key, key

    return read


def _windowed_reader(key: Key, window: Window) -> Reader:
    join = key.joined_by

    def read(record: Mapping[str, Any]) -> tuple[bytes | None, bytes | None]:
        time = value_at(record, window.field)
        base = base_key(record, key)
        if base is None or time is None:
            return None, None
        return base, join.join((base, _window_bytes(window_number(time, window), key)))

    return read


@dataclass(frozen=True, slots=True)
class BatchKeys:
    """Keys of a batch. `routing` is null where the key is null or malformed; `malformed` distinguishes the two.

    `reason` is the code of each malformed row's own reason, where they differ (`records.REASON_CODES`, otherwise -1).
    `cells` are the keys as cells, under `geo`; `NO_CELL` where a key is not a cell.
    """

    base: pa.Array
    routing: pa.Array
    malformed: NDArray[np.bool_]
    reason: NDArray[np.int8] | None = None
    cells: NDArray[np.int64] | None = None


def read_batch(batch: pa.RecordBatch | pa.Table, key: Key, geo: Geo | None = None) -> BatchKeys:
    """Base and routing keys of every row; rows that lack a field have the reason of that, whatever else they hold."""
    keys = _batch_keys(batch, key, geo)
    names = (*key.fields, key.window.field) if key.window else key.fields
    marks = [mark for mark in (absent_rows(batch, name) for name in names) if mark is not None]
    return _without_fields(keys, marks) if marks else keys


def absent_rows(batch: pa.RecordBatch | pa.Table, name: str) -> NDArray[np.bool_] | None:
    """Which rows do not have a field at all; None where every row has it."""
    import numpy as np

    if absent_name(name) not in batch.schema.names:
        return None
    return np.asarray(batch.column(absent_name(name)).fill_null(False).to_numpy(zero_copy_only=False), bool)


def without_field(rows: pa.Table, name: str) -> pa.Table:
    """The rows as records none of which has a field: for keys that stand for records whose other fields are unknown."""
    import pyarrow as pa

    absent = pa.repeat(pa.scalar(True), len(rows))
    return rows.append_column(name, pa.nulls(len(rows), pa.string())).append_column(absent_name(name), absent)


def _without_fields(keys: BatchKeys, marks: Sequence[NDArray[np.bool_]]) -> BatchKeys:
    import numpy as np

    absent = np.logical_or.reduce(marks)
    others = np.full(len(absent), REASON_CODES[Reason.MALFORMED_KEY], np.int8) if keys.reason is None else keys.reason
    reason = np.where(absent, np.int8(REASON_CODES[Reason.MISSING_FIELD]), others)
    return replace(
        keys,
        base=_without(keys.base, absent),
        routing=_without(keys.routing, absent),
        malformed=keys.malformed | absent,
        reason=reason,
    )


def _batch_keys(batch: pa.RecordBatch | pa.Table, key: Key, geo: Geo | None) -> BatchKeys:
    from keylane.keys.arrow_bytes import nulls_of

    if key.is_place:
        return _place_keys(batch, key, geo)
    if geo is not None:
        return sent_keys(*_base_column(batch, key), key, geo)
    base, malformed = _base_column(batch, key)
    if key.window is None:
        return BatchKeys(base, base, malformed)
    window, misfit = _window_part(batch, key)
    # A record whose key is null is a null key, whatever its time holds: the order `record_reader` asks in.
    misfit &= ~nulls_of(base)
    return BatchKeys(base, _join([base, window], key.joined_by), malformed | misfit)


def _place_keys(batch: pa.RecordBatch | pa.Table, key: Key, geo: Geo | None) -> BatchKeys:
    from keylane.keys.cells import cell_column, place_columns, region_of, routing_column

    lat, lng = key.fields
    cells, reason = place_columns(column_at(batch, lat), column_at(batch, lng), (lat, lng), region_of(geo))
    base, bad = cell_column(cells, reason >= 0), reason >= 0
    routing = base if geo is None else routing_column(base, cells, geo)[0]
    return BatchKeys(base, routing, bad, reason, cells)


def sent_keys(base: pa.Array, malformed: NDArray[np.bool_], key: Key, geo: Geo | None) -> BatchKeys:
    """The keys of records whose base keys are bytes already, of one field and without a window."""
    if geo is None:
        return BatchKeys(base, base, malformed)
    from keylane.keys.arrow_bytes import nulls_of
    from keylane.keys.cells import NO_CELL, cells_in, routing_column

    cells = cells_in(base)
    routing, coarse = routing_column(base, cells, geo)
    bad = malformed | coarse
    if key.encodings != ("raw",):
        bad |= (cells == NO_CELL) & ~nulls_of(base)
    return BatchKeys(base, _without(routing, bad), bad, cells=cells)


def _without(keys: pa.Array, rows: NDArray[np.bool_]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(rows), pa.scalar(None, keys.type), keys) if rows.any() else keys


def _base_column(batch: pa.RecordBatch | pa.Table, key: Key) -> tuple[pa.Array, NDArray[np.bool_]]:
    from keylane.keys.columns import encode_column, strip_registry_headers

    encoded = [
        encode_column(column_at(batch, field), encoding, field)
        for field, encoding in zip(key.fields, key.encodings, strict=True)
    ]
    malformed = encoded[0][1]
    for _, bad in encoded[1:]:
        malformed = malformed | bad
    base = _join([part for part, _ in encoded], key.joined_by)
    if key.registry_header == "keep":
        return base, malformed
    stripped, bad = strip_registry_headers(base)
    return stripped, malformed | bad


def column_at(batch: pa.RecordBatch | pa.Table, name: str) -> Any:
    """The column of this very name, or the field at this path of a column of records (`contract.fields`)."""
    import pyarrow.compute as pc

    if name in batch.schema.names:
        if batch.schema.names.count(name) > 1:
            raise DataError.of(f"the data has more than one column {name!r}", got=batch.schema.names)
        return batch.column(name)
    first, *rest = steps_of(name)
    if not rest or first not in batch.schema.names:
        raise _no_column(batch.schema, name)
    column = batch.column(first)
    for step in rest:
        names = [field.name for field in column.type] if is_struct(column.type) else []
        if step not in names:
            raise _no_column(batch.schema, name)
        column = pc.struct_field(column, names.index(step))
    return column


def columns_for(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """The columns that hold these fields, of those that there are: whole ones, also of nested fields."""
    tree = schema_tree(schema)
    return list(dict.fromkeys(name if name in tree else steps_of(name)[0] for name in names if in_tree(tree, name)))


def fields_in(batch: pa.RecordBatch | pa.Table, names: Sequence[str]) -> dict[str, Any]:
    """These fields by their names, of those that there are."""
    tree = schema_tree(batch.schema)
    return {name: column_at(batch, name) for name in names if in_tree(tree, name)}


def is_struct(kind: Any) -> bool:
    """Whether a type has fields of its own."""
    import pyarrow as pa

    return bool(pa.types.is_struct(kind))


def _no_column(schema: pa.Schema, name: str) -> DataError:
    return no_such_field(f"the data has no column {name!r}", name, paths_in(schema_tree(schema)))


def schema_tree(fields: Any) -> dict[str, Any]:
    """The names in an Arrow schema or struct, as `contract.fields.paths_in` takes them."""
    return {field.name: schema_tree(field.type) if is_struct(field.type) else {} for field in fields}


def _join(parts: Sequence[pa.Array], between: bytes) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(parts) == 1:
        return parts[0]
    wide = any(pa.types.is_large_binary(part.type) for part in parts)
    kind = pa.large_binary() if wide else pa.binary()
    return pc.binary_join_element_wise(*(part.cast(kind) for part in parts), pa.scalar(between, kind))


def _window_part(batch: pa.RecordBatch | pa.Table, key: Key) -> tuple[pa.Array, NDArray[np.bool_]]:
    import numpy as np
    import pyarrow as pa

    from keylane.keys.arrow_bytes import binary_of_rows, nulls_of, plain

    assert key.window is not None
    column = plain(column_at(batch, key.window.field))
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.binary()), np.zeros(len(column), bool)
    numbers, misfit = window_column(column, key.window)
    missing = nulls_of(column) | misfit
    if key.fixed_width:
        return binary_of_rows(numbers.astype(">i8").view(np.uint8).reshape(-1, 8), missing), misfit
    return pa.array(numbers, mask=missing).cast(pa.string()).cast(pa.binary()), misfit


def window_number(value: Any, window: Window) -> int:
    """The number that stands for the window in the key.

    Worked example: 05:41:16 under `size: 1h, as: start_ms` is 05:00:00 of that day, in milliseconds.
    """
    time = _time(value, window)
    size = window.micros
    index = time // size
    return index if window.as_ == "index" else index * size // WRITTEN[window.as_]


def _time(value: Any, window: Window) -> int:
    """Microseconds since 1970-01-01 UTC."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - EPOCH) // MICROSECOND
    ticks = TICKS[window.unit]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= FURTHEST // ticks:
        return value * ticks
    raise malformed("window", value, f"a datetime, or whole {window.unit} since 1970-01-01, within 146,000 years")


def window_column(column: pa.Array, window: Window) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Window numbers of a column, and which times do not fit; nulls give any number, and stay the caller's to mask."""
    import numpy as np

    times, bad = _times(column, window)
    size = window.micros
    index = np.floor_divide(times, size)
    return (index if window.as_ == "index" else index * size // WRITTEN[window.as_]), bad


def _times(column: pa.Array, window: Window) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds since 1970, and which values are no times."""
    import numpy as np
    import pyarrow as pa

    stamped = pa.types.is_timestamp(column.type)
    if not stamped and not pa.types.is_integer(column.type):
        raise DataError.of(
            f"column {window.field!r} holds no times", got=str(column.type), allowed="timestamp, integer"
        )
    numbers = column.cast(pa.int64()) if stamped else column
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    if stamped and column.type.unit == "ns":
        # Floored, as Python cuts a datetime: Arrow's own cast rounds times before 1970 up.
        return values // 1000, np.zeros(len(values), bool)
    ticks = TICKS[column.type.unit if stamped else window.unit]
    bad = _beyond(values, FURTHEST // ticks)
    return np.where(bad, 0, values).astype(np.int64) * ticks, bad


def _beyond(values: NDArray[Any], limit: int) -> NDArray[np.bool_]:
    """Which values lie outside -limit to limit, for integers of any width and sign."""
    import numpy as np

    info = np.iinfo(values.dtype)
    above = values > limit if info.max > limit else np.zeros(len(values), bool)
    return above | (values < -limit) if info.min < -limit else above

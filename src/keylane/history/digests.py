"""One number for the content of each record: equal contents have equal numbers, on every machine and in every process.

    of_columns   named columns of any type -> 64 bits a row
    of_bytes     bytes, or text -> 64 bits a row
    joined       several of these as one

A digest survives what a faithful copy may change: the width of an integer, text as text or as bytes, the layout of
Arrow, columns that are null or not there, and their order. It does not survive another value, name or kind of type. Two
different contents share a digest with a chance of 2^-64; the digests are no defence against somebody who looks for two.

What a file or a topic has to compare is in `systems.files.stream` and `systems.kafka.stream`; the rule is `changed`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.keys.arrow_bytes import lengths_and_data, nulls_of, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
#: What a value is, so that 1, "1", true and the first of January 1970 are four contents.
_FLAG, _WHOLE, _FRACTION, _DECIMAL, _BYTES, _TIME, _DATE, _CLOCK, _LIST, _RECORD = (
    np.uint64(kind * int(_ODD) & 2**64 - 1) for kind in range(1, 11)
)
#: Up to here rows of one length are hashed together; a longer value is worth a call of its own.
_SHORT: Final = 256
#: Rows hashed at once, so that the temporaries stay in the second-level cache.
_BLOCK: Final = 16_384
_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


def of_columns(columns: Mapping[str, pa.Array]) -> pa.Array:
    """The digest of each row. A null counts as a column that is not there; `v` and `V` are two names.

    >>> of_columns({"a": pa.array([1], pa.int32()), "b": pa.array([None])}) == of_columns({"a": pa.array([1])})
    True
    """
    rows = len(next(iter(columns.values()))) if columns else 0
    return _signed(_record(columns.items(), rows))


def of_bytes(values: pa.Array) -> pa.Array:
    """The digest of each value; null where it is null."""
    words = _mixed(_of_binary(values) + _BYTES)
    return pa.array(words.view(np.int64), mask=nulls_of(values) if values.null_count else None)


def joined(*digests: pa.Array) -> pa.Array:
    """Several digests of the same rows as one; the order counts, and null counts as a value."""
    total = np.zeros(len(digests[0]), np.uint64)
    for one in digests:
        number = one.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
        total = _mixed(total * _ODD + _mixed(number + one.is_valid().to_numpy(zero_copy_only=False)))
    return _signed(total)


def _signed(words: Words) -> pa.Array:
    return pa.array(words.view(np.int64))


def _mixed(number: Words) -> Words:
    """The finalizer of splitmix64: each bit of the result depends on every bit given."""
    number = (number ^ number >> np.uint64(30)) * _FACTORS[0]
    number = (number ^ number >> np.uint64(27)) * _FACTORS[1]
    return number ^ number >> np.uint64(31)


def _record(columns: Iterable[tuple[str, pa.Array]], rows: int) -> Words:
    total = np.zeros(rows, np.uint64)
    for name, column in columns:
        values = plain(column)
        if values.null_count == len(values):
            continue
        own = _mixed(_of(values) + np.uint64(int.from_bytes(blake2b(name.encode(), digest_size=8).digest())))
        total += np.where(nulls_of(values), np.uint64(0), own) if values.null_count else own
    return total


def _of(values: pa.Array) -> Words:  # noqa: C901, PLR0911  one kind of type after the other
    """The hash of every value of a column; whatever it is where there is none."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return _numbered(values.cast(pa.int8()), _FLAG)
    if pa.types.is_uint64(kind):  # as Spark reads it
        return _of(values.cast(pa.decimal128(20, 0)))
    if pa.types.is_integer(kind):
        return _numbered(values, _WHOLE)
    if pa.types.is_floating(kind):
        return _of_fractions(values)
    if pa.types.is_decimal(kind):
        return _of_decimals(values)
    if pa.types.is_date(kind):
        return _numbered(values.cast(pa.date32()).cast(pa.int32()), _DATE)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _of_times(values, _TIME)
    if pa.types.is_time(kind):
        return _of_times(values, _CLOCK)
    if pa.types.is_struct(kind):
        fields = ((field.name, part) for field, part in zip(kind, values.flatten(), strict=True))
        return _mixed(_record(fields, len(values)) + _RECORD)
    if pa.types.is_map(kind):
        return _of(values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _of_lists(values)
    return _mixed(_of_binary(values) + _BYTES)


def _numbered(values: pa.Array, kind: np.uint64) -> Words:
    filled = values.fill_null(0) if values.null_count else values
    return _mixed(filled.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64) + kind)


def _of_fractions(values: pa.Array) -> Words:
    wide = values.cast(pa.float64())
    numbers = np.array(wide.fill_null(0.0).to_numpy(zero_copy_only=False))
    numbers[np.isnan(numbers)] = np.nan
    return _mixed(numbers.view(np.uint64) + _FRACTION)


def _of_decimals(values: pa.Array) -> Words:
    scale = np.uint64((values.type.scale & 0xFF) << 56)
    full = values.cast(pa.decimal128(38, values.type.scale))
    halves = np.frombuffer(full.buffers()[1], np.uint64).reshape(-1, 2)[full.offset : full.offset + len(full)]
    return _mixed(_mixed(halves[:, 0] + _DECIMAL) + halves[:, 1] + scale)


def _of_times(values: pa.Array, kind: np.uint64) -> Words:
    numbers = values.cast(pa.int32() if pa.types.is_time32(values.type) else pa.int64()).cast(pa.int64())
    unit = values.type.unit
    if unit != "ns":
        return _numbered(pc.multiply(numbers, _MICROS[unit]), kind)
    nanos = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy(zero_copy_only=False)
    # A time in nanoseconds that microseconds can hold is the same time; any other is not.
    return _numbered(pa.array(nanos // 1_000), kind) + (nanos % 1_000).astype(np.uint64) * _ODD


def _of_lists(values: pa.Array) -> Words:
    """Items with their places in the list; the sums of all lists come from one running sum."""
    items = plain(values.flatten())
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(lengths)
    hashes = np.where(nulls_of(items), np.uint64(0), _of(items)) if len(items) > items.null_count else None
    if hashes is None:
        hashes = np.zeros(len(items), np.uint64)
    place = (np.arange(len(items)) - np.repeat(ends - lengths, lengths) + 1).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(hashes + place * _ODD), dtype=np.uint64)])
    return _mixed(sums[ends] - sums[ends - lengths] + _LIST + lengths.astype(np.uint64))


def _of_binary(values: pa.Array) -> Words:
    """The hash of bytes: short ones of one length together, in words of eight bytes; long ones one by one."""
    binary = values.cast(pa.large_binary())
    binary = binary.fill_null(b"") if binary.null_count else binary
    out = np.empty(len(binary), np.uint64)
    if not len(binary):
        return out
    lengths, data = lengths_and_data(binary)
    if lengths.min() == lengths.max() <= _SHORT:
        return _of_rows(data.reshape(len(binary), int(lengths[0])))
    order = np.argsort(np.minimum(lengths, _SHORT + 1).astype(np.uint16), kind="stable")
    short = order[: np.count_nonzero(lengths <= _SHORT)]
    if len(short):
        out[short] = np.concatenate(list(_by_length(binary.take(pa.array(short)))))
    for row in order[len(short) :].tolist():
        out[row] = int.from_bytes(blake2b(binary[row].as_buffer(), digest_size=8).digest(), "little")
    return out


def _by_length(binary: pa.Array) -> Iterator[Words]:
    lengths, data = lengths_and_data(binary)
    at = 0
    for length, count in zip(*(found.tolist() for found in np.unique(lengths, return_counts=True)), strict=True):
        yield _of_rows(data[at : at + length * count].reshape(count, length))
        at += length * count


def _of_rows(rows: NDArray[np.uint8]) -> Words:
    parts = [_of_block(rows[at : at + _BLOCK]) for at in range(0, len(rows), _BLOCK)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _of_block(rows: NDArray[np.uint8]) -> Words:
    count, length = rows.shape
    whole = length - length % 8
    total = np.full(count, length, np.uint64)
    for at in range(0, whole, 8):
        word = np.ndarray((count,), "<u8", rows.data, at, (length,))
        total = (total ^ word) * _FACTORS[0]
        total ^= total >> np.uint64(29)
    if whole < length:
        rest = np.zeros((count, 8), np.uint8)
        rest[:, : length - whole] = rows[:, whole:]
        total = (total ^ rest.view("<u8")[:, 0]) * _FACTORS[0]
        total ^= total >> np.uint64(29)
    return _mixed(total)

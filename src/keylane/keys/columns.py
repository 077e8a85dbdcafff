"""An Arrow column -> its bytes, with values that do not fit marked, never raised: one bad row does not stop the others.

A column whose type can hold no key of the encoding at all is another matter: that is a wrong contract or a wrong
file, and raises. The rules are those of `encode`, value for value; `tests/parity` holds the two together.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.errors import DataError, KeylaneError
from keylane.keys.arrow_bytes import as_binary, binary_of_rows, fixed_rows, nulls_of, plain
from keylane.keys.encode import REGISTRY_HEADER, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from keylane.contract.names import Encoding

#: Bytes of each row (null where the value is null or does not fit), and which rows did not fit.
Encoded = tuple[pa.Array, "NDArray[np.bool_]"]


def encode_column(column: pa.Array, encoding: Encoding, name: str) -> Encoded:
    """Encode a column; `name` is what errors call it."""
    array = plain(column)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.binary()), np.zeros(len(array), bool)
    return _ENCODERS[encoding](array, name)


#: What to do with a column that is no key as it is, such as one of dates.
AS_WRITTEN: Final = "a column with the key as its producers write it, as text for instance"


def _wrong_type(name: str, array: pa.Array, encoding: str, allowed: str) -> DataError:
    what = f"column {name!r} holds no {encoding} keys"
    return DataError.of(what, got=str(array.type), allowed=allowed, hint=AS_WRITTEN)


def _is_text(array: pa.Array) -> bool:
    kind = array.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(array: pa.Array) -> bool:
    kind = array.type
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _good(array: pa.Array) -> Encoded:
    return array, np.zeros(len(array), bool)


def _one_by_one(array: pa.Array, encoding: Encoding) -> Encoded:
    """The slow way, for the rare column that holds a value of another form; taken once per distinct value."""

    @cache
    def attempt(value: Any) -> tuple[bytes | None, bool]:
        try:
            return (None if value is None else encode(value, encoding)), False
        except KeylaneError:
            return None, True

    results = [attempt(value) for value in array.to_pylist()]
    return pa.array([key for key, _ in results], pa.binary()), np.array([bad for _, bad in results], bool)


def _utf8(array: pa.Array, name: str) -> Encoded:
    if _is_text(array):
        return _good(array.cast(_binary_like(array)))
    if pa.types.is_integer(array.type):
        return _good(array.cast(pa.string()).cast(pa.binary()))
    if not _is_bytes(array):
        raise _wrong_type(name, array, "utf8", "string, integer, binary")
    try:
        binary = array.cast(_binary_like(array))
        binary.cast(pa.large_string() if pa.types.is_large_binary(binary.type) else pa.string())
        return _good(binary)
    except pa.ArrowInvalid:
        return _one_by_one(array, "utf8")


def _binary_like(array: pa.Array) -> pa.DataType:
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    return pa.large_binary() if wide else pa.binary()


def _integers(width: int, encoding: Encoding) -> Callable[[pa.Array, str], Encoded]:
    limit = 1 << (8 * width - 1)

    def encode_integers(array: pa.Array, name: str) -> Encoded:
        if not pa.types.is_integer(array.type):
            raise _wrong_type(name, array, encoding, "integer")
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        bad = (values >= limit) | (values < -limit) if values.dtype.itemsize >= width else np.zeros(len(values), bool)
        rows = np.where(bad, 0, values).astype(f">i{width}").view(np.uint8).reshape(-1, width)
        return binary_of_rows(rows, nulls_of(array) | bad), bad

    return encode_integers


def _uuid(array: pa.Array, name: str) -> Encoded:
    if not (_is_text(array) or _is_bytes(array)):
        raise _wrong_type(name, array, "uuid", "string, binary of 16 bytes")
    rows = fixed_rows(as_binary(array)) if array.null_count == 0 else None
    if rows is not None and rows.shape[1] == 16 and _is_bytes(array):
        return _good(array.cast(pa.binary()))
    if rows is not None and rows.shape[1] == 36 and _is_text(array) and bool((rows[:, _DASHES] == ord("-")).all()):
        return _from_hex(np.delete(rows, _DASHES, axis=1), array, "uuid")
    return _one_by_one(array, "uuid")


_DASHES = [8, 13, 18, 23]


def _from_hex(digits: NDArray[np.uint8], array: pa.Array, encoding: Encoding) -> Encoded:
    """Pairs of hex digits to bytes; falls back to the slow way when a character is not a digit."""
    nibbles = _hex_table()[digits]
    if (nibbles > 15).any():
        return _one_by_one(array, encoding)
    pairs = (nibbles[:, 0::2] << 4 | nibbles[:, 1::2]).astype(np.uint8)
    return _good(binary_of_rows(pairs, np.zeros(len(nibbles), bool)))


@cache
def _hex_table() -> NDArray[np.uint8]:
    table = np.full(256, 255, np.uint8)
    for value, digit in enumerate("0123456789abcdef"):
        table[[ord(digit), ord(digit.upper())]] = value
    return table


def _h3(array: pa.Array, name: str) -> Encoded:
    if _is_text(array):
        return _one_by_one(array, "h3")
    if not pa.types.is_integer(array.type):
        raise _wrong_type(name, array, "h3", "integer, string of hex digits")
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    missing = nulls_of(array)
    bad = (values >> 59 != 1) & ~missing if values.dtype.itemsize == 8 else ~missing
    rows = values.astype(">u8").view(np.uint8).reshape(-1, 8)
    return binary_of_rows(rows, missing | bad), bad


def _raw(array: pa.Array, name: str) -> Encoded:
    if not _is_bytes(array):
        raise _wrong_type(name, array, "raw", "binary")
    return _good(array.cast(_binary_like(array)))


def strip_registry_headers(keys: pa.Array) -> Encoded:
    """Drop the registry header of every key; a key without one did not fit."""
    head = pc.binary_slice(keys, 0, 1)
    fits = pc.and_(pc.equal(head, b"\x00"), pc.greater_equal(pc.binary_length(keys), REGISTRY_HEADER))
    bad = np.asarray(pc.invert(fits.fill_null(True)).to_numpy(zero_copy_only=False), bool)
    longest = pc.max(pc.binary_length(keys)).as_py() or REGISTRY_HEADER
    # Without a stop this kernel of Arrow 26 asks for a buffer of negative size.
    body = pc.binary_slice(keys, REGISTRY_HEADER, max(longest, REGISTRY_HEADER))
    return (pc.if_else(pa.array(bad), pa.scalar(None, body.type), body) if bad.any() else body), bad


_ENCODERS: dict[str, Callable[[pa.Array, str], Encoded]] = {
    "utf8": _utf8,
    "int32be": _integers(4, "int32be"),
    "int64be": _integers(8, "int64be"),
    "uuid": _uuid,
    "h3": _h3,
    "raw": _raw,
}

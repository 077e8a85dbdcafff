"""A time -> the number of its window, for one value and for an Arrow column.

Windows are half-open, of one size, counted from 1970-01-01 UTC; times before it have windows too (floor, not
truncation). A naive datetime is taken as UTC. What a change of size does: it gives every key other bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import DataError
from keylane.keys.encode import malformed

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.contract.model import Window

__all__ = ["micros", "window_column", "window_number"]

UNITS: Final = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
TICKS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
WRITTEN: Final = {"start_ms": 1_000, "start_s": 1_000_000}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = (EPOCH.resolution).resolution
I64: Final = 2**63


def micros(duration: str) -> int:
    """Read `30s`, `1h` or `500ms` as microseconds."""
    digits = duration.rstrip("smhd")
    return int(digits) * UNITS[duration[len(digits) :]]


def window_number(value: Any, window: Window) -> int:
    """The number that stands for the window in the key.

    Worked example: 05:41:16 under `size: 1h, as: start_ms` is 05:00:00 of that day, in milliseconds.
    """
    time = _time(value, window)
    size = micros(window.size)
    index = time // size
    return index if window.as_ == "index" else index * size // WRITTEN[window.as_]


def _time(value: Any, window: Window) -> int:
    """Microseconds since 1970-01-01 UTC."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - EPOCH) // MICROSECOND
    ticks = TICKS[window.unit]
    if isinstance(value, int) and not isinstance(value, bool) and -I64 <= value * ticks < I64:
        return value * ticks
    raise malformed(
        "window", value, f"a datetime, or whole {window.unit} since 1970-01-01 within 64 bits of microseconds"
    )


def window_column(column: pa.Array, window: Window) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Window numbers of a column, and which times do not fit; nulls give any number, and stay the caller's to mask."""
    import numpy as np

    times, bad = _times(column, window)
    size = micros(window.size)
    index = np.floor_divide(times, size)
    return (index if window.as_ == "index" else index * size // WRITTEN[window.as_]), bad


def _times(column: pa.Array, window: Window) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    import numpy as np
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        finer = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        return _floor_nanos(column, finer), np.zeros(len(column), bool)
    if not pa.types.is_integer(column.type):
        raise DataError.of(
            f"column {window.field!r} holds no times", got=str(column.type), allowed="timestamp, integer"
        )
    values = column.cast(pa.int64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
    limit = (I64 - 1) // TICKS[window.unit]
    bad = (values > limit) | (values < -limit)
    return np.where(bad, 0, values) * TICKS[window.unit], bad


def _floor_nanos(column: pa.Array, finer: pa.Array) -> NDArray[np.int64]:
    """Nanoseconds before 1970 round up when cut to microseconds; floor them as Python does."""
    import pyarrow as pa

    if column.type.unit != "ns":
        return finer.fill_null(0).to_numpy(zero_copy_only=False)
    return column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // 1000

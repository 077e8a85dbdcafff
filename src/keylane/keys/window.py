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

TICKS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
WRITTEN: Final = {"start_ms": 1_000, "start_s": 1_000_000}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = (EPOCH.resolution).resolution
#: Times further than this from 1970, in microseconds (some 146,000 years), are no times.
FURTHEST: Final = 2**62


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

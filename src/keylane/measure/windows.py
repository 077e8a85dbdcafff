"""Where the windows of a profile lie: of one length in time, or of equal numbers of records.

The same rules as an expression of Spark's: `spark.profiling.window_of`.
"""

from __future__ import annotations

from typing import Final

from keylane.errors import UsageError
from keylane.measure.profile import Windows

__all__ = ["position_windows", "time_windows", "windows_for"]

#: As many windows as a day has hours, unless somebody says otherwise; fewer where each costs more.
USUAL: Final = 24
FEW: Final = 8
MANY_RECORDS: Final = 20_000_000
MOST: Final = 48
#: Lengths of time that people count in, in microseconds.
_UNITS: Final = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)


def windows_for(given: int | None, records: int | None) -> int:
    """How many windows a profile has: as given, else 24, and 8 where it is known to have more than 20 M records.

    >>> windows_for(None, 1000), windows_for(None, 50_000_000), windows_for(12, None)
    (24, 8, 12)
    """
    if given is None:
        return FEW if records is not None and records > MANY_RECORDS else USUAL
    if not 1 <= given <= MOST:
        raise UsageError.of("not a number of windows", got=given, allowed=f"1 to {MOST}")
    return given


def time_windows(first: int, last: int, count: int, tick: int = 1) -> Windows:
    """At most so many windows of one length, a multiple of `tick`, that hold both ends.

    Edges lie on whole days, hours, minutes, seconds or milliseconds, as far as that lengthens a window by no more than
    a hundredth. Ten days in four windows are windows of three days, and the last one is not full:

    >>> day = 86_400_000_000
    >>> [edge // day for edge in time_windows(0, 9 * day, 4, tick=day).edges]
    [0, 3, 6, 9, 12]
    >>> [edge // 3_600_000_000 for edge in time_windows(1_234_567, 4 * day - 7_654_321, 4).edges]
    [0, 24, 48, 72, 96]
    """
    least = -(-(last - first + tick) // count)
    unit = max(tick, next(unit for unit in _UNITS if unit * 100 <= least or unit == 1))
    start = first // unit * unit
    span = last - start + tick
    length = -(-span // (count * unit)) * unit
    return Windows("time", tuple(start + i * length for i in range(-(-span // length) + 1)))


def position_windows(positions: int, count: int) -> Windows:
    """At most so many windows of equal numbers of positions, to within one.

    >>> position_windows(10, 4).edges
    (0, 3, 5, 8, 10)
    """
    count = max(1, min(count, positions))
    return Windows("position", tuple(-(-i * positions // count) for i in range(count + 1)))

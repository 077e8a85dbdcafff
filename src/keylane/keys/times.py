"""A column of times, of whatever type, as microseconds since 1970 (UTC): the rule of both engines, on Arrow.

A column of times holds timestamps, dates, integers of a unit, or text. Text is an integer of the unit, or
`2026-11-15`, `2026-11-15 08:30`, `2026-11-15T08:30:00.123456Z`: seconds may have decimals, followed by `Z`, `UTC` or
an offset; without a zone it is UTC. Anything else is not a time, and neither is a date that does not exist.

Where the unit of integers is not given, it is inferred from their size: present-day seconds have ten digits,
milliseconds thirteen, and so on. Smaller integers have no unit that could be inferred.

The same as Spark columns: `spark.count_keys`. Windows of a contract: `keys.read`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.errors import DataError, UsageError
from keylane.keys.arrow_bytes import nulls_of, plain
from keylane.keys.read import FURTHEST, TICKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
UNITS: Final[tuple[Unit, ...]] = ("s", "ms", "us", "ns")
#: The least size of each unit's integers: below the first no unit is inferred.
SIZES: Final = (10**8, 10**11, 10**14, 10**17)
DAY: Final = 86_400_000_000
#: Text that is a time, and text that is a whole number, for any engine of regular expressions.
TEXT_TIME: Final = (
    r"^[ \t]*[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,12})?(?: ?(?:UTC|Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?)?[ \t]*$"
)
WHOLE: Final = r"^[ \t]*[+-]?(?:[0-9]{1,18}|[1-8][0-9]{18})[ \t]*$"
#: Text that Arrow itself parses as the same time.
_PLAIN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z?)?$"
_PARTS: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,12}))?(?: ?(UTC|Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?)?"
)
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def unit_of(counts: Sequence[int]) -> Unit | None:
    """The unit that most integers have the size of, given how many have that of each; None where none has.

    >>> unit_of([0, 7, 1, 0]), unit_of([0, 0, 0, 0])
    ('ms', None)
    """
    most = max(counts)
    return UNITS[list(counts).index(most)] if most else None


def unit_between(first: int, last: int) -> Unit | None:
    """The unit of integers of which only the least and the greatest are known; None where their sizes differ.

    >>> unit_between(1_763_000_000_000, 1_763_100_000_000), unit_between(0, 1_763_000_000)
    ('ms', None)
    """
    sizes = {_size(abs(first)), _size(abs(last))}
    (size,) = sizes if len(sizes) == 1 else (0,)
    return UNITS[size - 1] if size else None


def _size(number: int) -> int:
    return sum(number >= least for least in SIZES)


def no_unit(name: str) -> UsageError:
    """The error for integers whose unit was not given and cannot be inferred from their size."""
    what = f"column {name!r} holds integers whose unit cannot be inferred: they are not present-day times in any"
    return UsageError.of(what, allowed=", ".join(UNITS), hint="--time-unit ms, if they are times")


def no_times(name: str, kind: str) -> DataError:
    """The error for a column that cannot hold times."""
    return DataError.of(f"column {name!r} holds no times", got=kind, allowed="timestamp, date, integers, text")


def micros_of_whole(number: int, unit: str) -> int:
    """One whole number of a unit.

    >>> micros_of_whole(5, "ms"), micros_of_whole(-1, "ns")
    (5000, -1)
    """
    return number // 1000 if unit == "ns" else number * TICKS[unit]


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def checked_times(name: str, kind: pa.DataType) -> None:
    """Refuse a column that cannot hold times."""
    known = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)
    if not known and not is_text(kind):
        raise no_times(name, str(kind))


def tick_of(kind: pa.DataType) -> int:
    """The resolution of a column: a day for dates, otherwise a microsecond."""
    return DAY if pa.types.is_date(kind) else 1


def sizes_of(column: Any) -> NDArray[np.int64]:
    """How many integers of a column, or of its text, have the size of each unit; other types have none."""
    array = plain(column)
    if is_text(array.type):
        array = _whole_texts(array)
    elif not pa.types.is_integer(array.type):
        return np.zeros(len(UNITS), np.int64)
    values = array.drop_null().to_numpy(zero_copy_only=False)
    sizes = np.searchsorted(np.array(SIZES), np.abs(values.astype(np.float64)), side="right")
    return np.bincount(sizes, minlength=len(UNITS) + 1)[1:]


def micros_of(column: Any, unit: str | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The times of a column, and which rows have none; a column that cannot hold times is refused by the caller.

    >>> micros_of(pa.array(["2026-11-15 08:30", "soon", None]), None)[1].tolist()
    [False, True, True]
    """
    array = plain(column)
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64), np.ones(len(array), bool)
    if is_text(kind):
        return _of_text(array, unit)
    missing = nulls_of(array)
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) * DAY, missing
    if pa.types.is_date64(kind):
        return array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) * 1000, missing
    if pa.types.is_timestamp(kind):
        return _of_whole(array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), missing, kind.unit)
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    return _of_whole(values, missing, str(unit))


def _of_whole(
    values: NDArray[Any], missing: NDArray[np.bool_], unit: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    if unit == "ns":
        return values.astype(np.int64) // 1000, missing
    most = FURTHEST // TICKS[unit]
    wide = values.astype(np.int64)
    far = (wide > most) | (wide < -most) | ((values > 0) & (wide < 0))
    return np.where(far, 0, wide) * TICKS[unit], missing | far


def _whole_texts(array: pa.Array) -> pa.Array:
    """Text that is a whole number, as one; null where it is not."""
    fits = pc.match_substring_regex(array, WHOLE)
    bare = pc.utf8_ltrim(pc.utf8_trim(array, " \t"), "+")
    return pc.if_else(fits, bare, pa.scalar(None, bare.type)).cast(pa.int64())


def _of_text(array: pa.Array, unit: str | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    times, missing = _of_written(array)
    if unit is None or not missing.any():
        return times, missing
    numbers = _whole_texts(array)
    whole, out = _of_whole(numbers.fill_null(0).to_numpy(zero_copy_only=False), nulls_of(numbers), unit)
    return np.where(out, times, whole), missing & out


def _of_written(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Text that is a time: all at once where Arrow can parse it, otherwise one by one."""
    plainly = pc.all(pc.match_substring_regex(array, _PLAIN).fill_null(True)).as_py()
    if plainly:
        try:
            stamps = pc.utf8_rtrim(array, "Z").cast(pa.timestamp("us"))
            return stamps.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), nulls_of(stamps)
        except pa.ArrowInvalid:
            pass
    found = [None if text is None else text_micros(text) for text in array.to_pylist()]
    missing = np.array([one is None for one in found], bool)
    return np.array([one or 0 for one in found], np.int64), missing


@lru_cache(maxsize=100_000)
def text_micros(text: str) -> int | None:
    """One text as a time; None where it is not one.

    >>> text_micros("1970-01-01 00:00:00.5+00:30"), text_micros("2026-02-30")
    (-1799500000, None)
    """
    parts = _PARTS.fullmatch(text.strip(" \t"))
    if parts is None:
        return None
    year, month, day, hour, minute, second = (int(one or 0) for one in parts.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= _days(year, month) and hour < 24 and minute < 60 and second < 60):
        return None
    zone = parts[8] or "Z"
    offset = 0
    if zone[0] in "+-":
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        offset = (hours * 60 + minutes) * (1 if zone[0] == "+" else -1)
        if abs(offset) > 18 * 60 or minutes > 59:
            return None
    seconds = ((_day_number(year, month, day) * 24 + hour) * 60 + minute - offset) * 60 + second
    return seconds * 1_000_000 + int(f"{parts[7] or '':0<6}"[:6])


def _days(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _LENGTHS[month - 1] + leap


def _day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the calendar of today, also for years before it."""
    moved = year - (month <= 2)
    era, of_era = divmod(moved, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468

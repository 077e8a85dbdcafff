"""What a time is, for every verb: a column of whatever type as microseconds since 1970 (UTC). The rule of both engines.

    TimeField        a column and how its values are written, as `--time` has it: `ts`, `ts:ms`, `ts:%d/%m/%Y %H:%M`
    micros_of        the times of a column of Arrow, and which rows have none
    sizes_of, unit_of  the unit of a column's whole numbers by their size, refused where it cannot be inferred
    TimeEnds         the first and the last time, without a few that lie far from all others

A column of times holds timestamps, dates, numbers or text. A number without a unit is read by its own size, in the one
unit in which it is a time of 1980 to 2286: no number is that in two. Text is such a number, or `2026-11-15`,
`2026-11-15 08:30`, `2026-11-15T08:30:00.123456Z`: seconds may have decimals, followed by `Z`, `UTC` or an offset;
without one it is UTC. Anything else is no time: a date that does not exist, a time of day without a date.

The same as Spark columns: `spark.times`. Formats that are given, and what a text could be: `time_forms`. Windows of a
contract, which declares its unit: `keys.read`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane import numbers
from keylane.errors import DataError, UsageError
from keylane.keys.arrow_bytes import nulls_of, plain
from keylane.keys.read import FURTHEST, TICKS
from keylane.keys.time_forms import (
    NO_OFFSET,
    UNITS,
    days_since_1970,
    format_of,
    offset_of,
    part_number,
    readings,
    split_time,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Times: TypeAlias = tuple[NDArray[np.int64], NDArray[np.bool_]]

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
UNIT_NAMES: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
#: Numbers of each unit, from the least up to the least that is none: times from 1980 up to 2286. Days written as
#: numbers (20261115083000) are in none, nor is the last day of 9999 in any unit.
SIZES: Final = tuple((315_532_800 * 1000**power, min(10 ** (10 + 3 * power), 2**63)) for power in range(4))
#: What `sizes_of` counts after the four units: numbers of no unit; 0 and -1, which stand for no time; written times.
ODD: Final = 4
MARKS: Final = 5
WRITTEN: Final = 6
DAY: Final = 86_400_000_000
#: Text that is a time, and text that is a number, for any engine of regular expressions.
TEXT_TIME: Final = (
    r"^[ \t]*[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,12})?(?: ?(?:UTC|Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?)?[ \t]*\z"
)
WHOLE: Final = r"^[ \t]*[+-]?(?:[0-9]{1,18}|[1-8][0-9]{18})[ \t]*\z"
POINTED: Final = r"^[ \t]*([+-]?)([0-9]{1,18})\.([0-9]{1,18})[ \t]*\z"
#: As JSON is written by what reads it as doubles: 1.763208E9.
POWERED: Final = r"^[ \t]*[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?[eE]\+?[0-9]{1,2}[ \t]*\z"
#: Digits of a fraction that are whole microseconds.
DIGITS: Final = {"s": 6, "ms": 3, "us": 0, "ns": 0}
#: Text that Arrow itself parses as the same time.
_PLAIN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z?)?\z"
_PARTS: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,12}))?(?: ?(UTC|Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?)?"
)


@dataclass(frozen=True, slots=True)
class TimeField:
    """A column of times; `form` is a unit of its numbers, a format of its text, or None: by its values."""

    name: str
    form: str | None = None

    @classmethod
    def of(cls, text: str) -> TimeField:
        """A column as `--time` has it.

        >>> TimeField.of("ts:ms"), TimeField.of("at:%d/%m/%Y %H:%M")
        (TimeField(name='ts', form='ms'), TimeField(name='at', form='%d/%m/%Y %H:%M'))
        >>> TimeField.of("ns:at").name, TimeField.of("at:ms:").name
        ('ns:at', 'at:ms')
        """
        return cls(*split_time(text))

    def __str__(self) -> str:
        if self.form is not None:
            return f"{self.name}:{self.form}"
        return self.name if split_time(self.name) == (self.name, None) else f"{self.name}:"


# Numbers: their unit by their size.


def few_of(many: int) -> int:
    """How many of so many are a few: 1 in 100.

    >>> few_of(40_000), few_of(50), few_of(9)
    (400, 1, 0)
    """
    return min(many // 100, _KEPT) if many >= 100 else int(many >= 10)


def sizes_of(column: Any) -> NDArray[np.int64]:
    """How many numbers of a column, or of its text, have the size of each unit or none; how many texts are times."""
    array, counts = plain(column), np.zeros(WRITTEN + 1, np.int64)
    if is_text(array.type):
        counts[WRITTEN] = pc.sum(pc.match_substring_regex(array, TEXT_TIME)).as_py() or 0
    values = _sized_numbers(array)
    if values is None:
        return counts
    size = np.abs(values)  # the least of 64 bits stays what it is, and has no size
    for at, (least, beyond) in enumerate(SIZES):
        counts[at] = ((size >= least) & (size < beyond)).sum() if beyond < 2**63 else (size >= least).sum()
    counts[MARKS] = ((values == 0) | (values == -1)).sum()
    counts[ODD] = len(values) - counts[:ODD].sum() - counts[MARKS]
    return counts


def _sized_numbers(array: Any) -> Any:
    """The numbers of a column as 64 bits, cut to whole ones; None where its type has none."""
    kind = array.type
    if is_text(kind) or pa.types.is_decimal(kind):
        text = array if is_text(kind) else array.cast(pa.string())
        whole = _whole_texts(text).drop_null().to_numpy(zero_copy_only=False)
        parts = _pointed(text)
        signs = np.where(pc.equal(parts.field("sign"), "-").fill_null(False).to_numpy(zero_copy_only=False), -1, 1)
        cut = parts.field("whole").cast(pa.int64())
        pointed = cut.fill_null(0).to_numpy(zero_copy_only=False) * signs
        powered = _sized_numbers(_powered(text))
        return np.concatenate([whole, pointed[~nulls_of(cut)], powered])
    values = array.drop_null()
    if pa.types.is_floating(kind):
        found = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        found = found[np.isfinite(found)]
        return np.trunc(np.where(np.abs(found) < 2.0**62, found, 1)).astype(np.int64)
    if pa.types.is_integer(kind):
        found = values.to_numpy(zero_copy_only=False)
        return (np.minimum(found, 2**62) if found.dtype == np.uint64 else found).astype(np.int64)
    return None


def unit_of(name: str, counts: Sequence[int], *, text: bool = False) -> Unit | None:
    """The unit of a column's numbers, given what `sizes_of` has counted; None where it has no numbers.

    Refused where no unit or two are possible, and where more than a few of the values are of another one.

    >>> unit_of("ts", [0, 700, 1, 0, 2, 40, 0]), unit_of("ts", [0, 0, 0, 0, 0, 0, 9], text=True)
    ('ms', None)
    """
    units, odd, marks, written = counts[:ODD], counts[ODD], counts[MARKS], counts[WRITTEN]
    sized, few = sum(units), few_of(sum(units) + odd + written)
    if sized + odd + marks == 0 or (text and sized + odd + marks <= few and written):
        return None
    if sized == 0 or odd > few:
        raise no_unit(name)
    if sum(one > few for one in units) > 1 or sized - max(units) > few or written > few:
        raise mixed_units(name, counts)
    return UNITS[list(units).index(max(units))]


def no_unit(name: str) -> UsageError:
    """The error for numbers whose unit was not given and cannot be inferred from their size."""
    what = f"column {name!r} holds numbers whose unit cannot be inferred: they are times of 1980 to 2286 in none"
    hint = f"--time {name}:ms, if they are times in milliseconds; --time '{name}:%Y%m%d', if they are written dates"
    return UsageError.of(what, allowed=f"{name}:{'|'.join(UNITS)}, or {name}:FORMAT", hint=hint)


def mixed_units(name: str, counts: Sequence[int]) -> UsageError:
    """The error for a column whose values are of several units."""
    words = [*UNIT_NAMES.values(), "", "", "written as dates"]
    got = ", ".join(f"{numbers.count(int(counts[at]))} {words[at]}" for at in (0, 1, 2, 3, WRITTEN) if counts[at])
    hint = f"split the source, or give the one way that counts: --time {name}:ms"
    return UsageError.of(f"column {name!r} holds times of several units", got=got, allowed="one unit", hint=hint)


def no_times(name: str, kind: str) -> DataError:
    """The error for a column that cannot hold times."""
    return DataError.of(f"column {name!r} holds no times", got=kind, allowed="timestamp, date, numbers, text")


def unread_times(name: str, kind: str, form: str | None, samples: Iterable[str]) -> DataError:
    """The error for a column no value of which is a time, with the formats that its text could have."""
    shown = list(dict.fromkeys(text for text in samples if text.strip()))[:100]
    got = f"{kind}, as {shown[0][:40]!r}" if shown else kind
    hint = "2026-11-15T08:30:00Z is how text has to be, or --time 'COLUMN:FORMAT' names its format"
    if form is not None:
        hint = f"no value is of the given form {form!r}"
    elif shown and re.fullmatch(r"[ \t]*[0-9]{1,2}:[0-9]{2}(:[0-9]{2}.*)?", shown[0]):
        hint = "a time of day without a date is no time"
    elif found := readings(shown):
        named = " or ".join(f"--time '{name}:{form}' ({shown[0]!r} is {date})" for form, date in found)
        hint = f"give its format: {named}"
    return DataError.of(f"no record has a time in {name!r}", got=got, hint=hint)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers, which have a unit."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def checked_times(name: str, kind: pa.DataType) -> None:
    """Refuse a column that cannot hold times."""
    stamped = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind)
    if not stamped and not is_number(kind) and not is_text(kind):
        raise no_times(name, str(kind))


def tick_of(kind: pa.DataType) -> int:
    """The resolution of a column: a day for dates, otherwise a microsecond."""
    return DAY if pa.types.is_date(kind) else 1


# Values as times.


def micros_of(column: Any, form: str | None) -> Times:
    """The times of a column, and which rows have none; a column that cannot hold times is refused by the caller.

    >>> micros_of(pa.array(["2026-11-15 08:30", "soon", "02:30", None]), None)[1].tolist()
    [False, True, True, True]
    >>> micros_of(pa.array([1_763_000_000, 1_763_000_000_000, 0]), None)[0].tolist()
    [1763000000000000, 1763000000000000, 0]
    """
    array = plain(column)
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64), np.ones(len(array), bool)
    if is_text(kind) or is_number(kind):
        return _of_written_values(array, form)
    missing = nulls_of(array)
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) * DAY, missing
    if pa.types.is_date64(kind):
        return array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) * 1000, missing
    return _of_whole(array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), missing, kind.unit)


def _of_written_values(array: Any, form: str | None) -> Times:
    """Text and numbers, which are written in some way."""
    kind, missing = array.type, nulls_of(array)
    if form is not None and form not in UNITS and (is_text(kind) or pa.types.is_integer(kind)):
        return _of_format(array if is_text(kind) else array.cast(pa.string()), form)
    unit = form if form in UNITS else None
    if is_text(kind):
        return _of_text(array, unit)
    if pa.types.is_decimal(kind):
        return _of_digits(array.cast(pa.string()), unit)
    if pa.types.is_floating(kind):
        return _of_floats(array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False), missing, unit)
    return _of_whole(array.fill_null(0).to_numpy(zero_copy_only=False), missing, unit)


def _of_whole(values: NDArray[Any], missing: NDArray[np.bool_], unit: str | None) -> Times:
    """Whole numbers of a unit; of None, each of the one that its size has."""
    wide = values.astype(np.int64)
    wrapped = (values > 0) & (wide < 0)
    if unit is None:
        out, none = np.zeros(len(wide), np.int64), np.ones(len(wide), bool)
        for one, (least, beyond) in zip(UNITS, SIZES, strict=True):
            fits = ((wide >= least) & (wide <= beyond - 1)) | ((wide <= -least) & (wide >= 1 - beyond))
            out = np.where(fits, wide // 1000 if one == "ns" else np.where(fits, wide, 0) * TICKS.get(one, 1), out)
            none &= ~fits
        return np.where(wrapped, 0, out), missing | none | wrapped
    if unit == "ns":
        return wide // 1000, missing | wrapped
    most = FURTHEST // TICKS[unit]
    far = (wide > most) | (wide < -most) | wrapped
    return np.where(far, 0, wide) * TICKS[unit], missing | far


def _of_floats(values: NDArray[np.float64], missing: NDArray[np.bool_], unit: str | None) -> Times:
    """Numbers with a point: the nearest microsecond."""
    sound = np.isfinite(values)
    values = np.where(sound, values, 0.0)
    size, scale = np.abs(values), np.zeros(len(values))
    for one, (least, beyond) in zip(UNITS, SIZES, strict=True):
        fits = (size >= float(least)) & (size < float(beyond)) if unit is None else np.full(len(size), one == unit)
        scale[fits] = TICKS.get(one, 0.001)
    # Of nanoseconds a division, as on Spark: a product with 0.001 is rounded twice.
    micros = np.rint(np.where(scale == 0.001, values / 1000.0, values * scale))
    sound &= (scale > 0) & (np.abs(micros) <= float(FURTHEST))
    return np.where(sound, micros, 0.0).astype(np.int64), missing | ~sound


def _whole_texts(array: pa.Array) -> pa.Array:
    """Text that is a whole number, as one; null where it is not."""
    fits = pc.match_substring_regex(array, WHOLE)
    bare = pc.utf8_ltrim(pc.utf8_trim(array, " \t"), "+")
    return pc.if_else(fits, bare, pa.scalar(None, bare.type)).cast(pa.int64())


def _pointed(array: pa.Array) -> pa.StructArray:
    """Text that is a number with a point, in its parts."""
    found = pc.extract_regex(array, r"^[ \t]*(?P<sign>[+-]?)(?P<whole>[0-9]{1,18})\.(?P<rest>[0-9]{1,18})[ \t]*\z")
    return pa.StructArray.from_arrays(found.flatten(), names=["sign", "whole", "rest"])


def _powered(array: pa.Array) -> pa.Array:
    """Text that is a number with a power of ten, as one; null where it is not."""
    fits = pc.match_substring_regex(array, POWERED)
    bare = pc.utf8_ltrim(pc.utf8_trim(array, " \t"), "+")
    return pc.if_else(fits, bare, pa.scalar(None, bare.type)).cast(pa.float64())


def _of_digits(array: pa.Array, unit: str | None) -> Times:
    """Text that is a number, with a point or without; a fraction is cut to whole microseconds, exactly."""
    whole = _whole_texts(array)
    times, missing = _of_whole(whole.fill_null(0).to_numpy(zero_copy_only=False), nulls_of(whole), unit)
    powered = _powered(array)
    if powered.null_count < len(powered):
        found, none = _of_floats(powered.fill_null(0).to_numpy(zero_copy_only=False), nulls_of(powered), unit)
        times, missing = np.where(none, times, found), missing & none
    parts = _pointed(array)
    cut = parts.field("whole").cast(pa.int64())
    if cut.null_count == len(cut):
        return times, missing
    size, none = cut.fill_null(0).to_numpy(zero_copy_only=False), nulls_of(cut)
    found, bad = _of_whole(size, none, unit)
    digits = pc.utf8_slice_codeunits(pc.utf8_rpad(parts.field("rest").fill_null("0"), 6, "0"), 0, 6)
    more = digits.cast(pa.int64()).to_numpy(zero_copy_only=False)
    lost = np.zeros(len(size), np.int64)
    for one, (least, beyond) in zip(UNITS, SIZES, strict=True):
        fits = (size >= least) & (size <= beyond - 1) if unit is None else np.full(len(size), one == unit)
        lost = np.where(fits, 10 ** (6 - DIGITS[one]), lost)
    found = found + more // np.maximum(lost, 1)
    negative = pc.equal(parts.field("sign"), "-").fill_null(False).to_numpy(zero_copy_only=False)
    return np.where(bad, times, np.where(negative, -found, found)), missing & bad


def _of_text(array: pa.Array, unit: str | None) -> Times:
    times, missing = _of_written(array)
    if not missing.any():
        return times, missing
    found, none = _of_digits(array, unit)
    return np.where(missing, found, times), missing & none


def _of_format(array: pa.Array, form: str) -> Times:
    """Text of a format that was given."""
    how = format_of(form)
    found = pc.extract_regex(array, how.named)
    parts = dict(zip(how.groups, found.flatten(), strict=True))
    missing = nulls_of(found)
    filled = {name: part.fill_null("") for name, part in parts.items()}
    texts = {name: pc.if_else(pa.array(missing), pa.scalar("", part.type), part) for name, part in filled.items()}
    times, bad = how.micros({name: _parts_of(name, part) for name, part in texts.items()}, len(array))
    return np.where(missing | bad, 0, times), missing | bad


def _parts_of(name: str, texts: pa.Array) -> NDArray[np.int64]:
    """A part of a format as numbers: there are few different texts of each."""
    coded = texts.dictionary_encode()
    known = np.array([part_number(name, text) for text in coded.dictionary.to_pylist()], np.int64)
    return known[coded.indices.to_numpy(zero_copy_only=False)] if len(known) else np.zeros(len(texts), np.int64)


def _of_written(array: pa.Array) -> Times:
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
    if not (1 <= month <= 12 and day >= 1 and hour < 24 and minute < 60 and second < 60):
        return None
    offset, days = offset_of(parts[8] or "Z"), days_since_1970(year, month, day)
    if offset == NO_OFFSET or days >= days_since_1970(year + month // 12, month % 12 + 1, 1):
        return None
    seconds = ((days * 24 + hour) * 60 + minute - offset) * 60 + second
    return seconds * 1_000_000 + int(f"{parts[7] or '':0<6}"[:6])


# The first and the last time, without strays.

#: Times at each end that are kept, which bounds what a few are.
_KEPT: Final = 100_000
_HOUR: Final = 3_600_000_000
_YEAR: Final = 366 * DAY


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From the first to the last time. `before` and `after` are how many lie far from all others, on either side.

    `odd` are the first and the last of those.
    """

    first: int
    last: int
    before: int = 0
    after: int = 0
    odd: tuple[int, int] | None = None

    @property
    def strays(self) -> int:
        """Records that are set aside."""
        return self.before + self.after


@dataclass(slots=True)
class TimeEnds:
    """The ends of times that go by."""

    many: int = 0
    low: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    high: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, times: NDArray[np.int64]) -> None:
        """Some times."""
        keep = _KEPT + 1
        low, high = np.concatenate([self.low, times]), np.concatenate([self.high, times])
        self.low = np.partition(low, keep)[:keep] if len(low) > keep else low
        self.high = np.partition(high, len(high) - keep)[-keep:] if len(high) > keep else high
        self.many += len(times)

    def range(self) -> TimeRange | None:
        """From where to where; None where there was no time."""
        return time_range(np.sort(self.low), np.sort(self.high), self.many) if self.many else None


def time_range(low: NDArray[np.int64], high: NDArray[np.int64], many: int) -> TimeRange:
    """The range of so many times, of which those at both ends are given in their order: as many as are a few, and one.

    Strays are a few at one end that a gap divides from the rest: longer than an hour, and than three times what all
    but a few at each end span. Of fewer than 100 times the gap is a year at least.

    >>> hour = list(range(0, 3_600_000_000, 36_000_000))
    >>> times = np.array([*hour, 10**16], np.int64)
    >>> time_range(times, times, len(times))
    TimeRange(first=0, last=3564000000, before=0, after=1, odd=(10000000000000000, 10000000000000000))
    """
    few = few_of(many)
    low, high = low[: few + 1], high[len(high) - few - 1 :]
    # In Python's numbers: the furthest times are further apart than 64 bits hold.
    span = max(0, int(high[0]) - int(low[-1]))
    reach = max(3 * span, _HOUR if many >= 100 else _YEAR)
    gaps = low[1:].astype(np.float64) - low[:-1]
    before = int(np.flatnonzero(gaps >= reach)[-1]) + 1 if few and (gaps >= reach).any() else 0
    gaps = high[1:].astype(np.float64) - high[:-1]
    after = len(gaps) - int(np.flatnonzero(gaps >= reach)[0]) if few and (gaps >= reach).any() else 0
    odd = [*low[:before].tolist(), *high[len(high) - after :].tolist()] if before + after else []
    return TimeRange(
        int(low[before]), int(high[len(high) - 1 - after]), before, after, (odd[0], odd[-1]) if odd else None
    )

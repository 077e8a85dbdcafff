"""Times as Spark columns: microseconds since 1970 (UTC), by the rule of `keys.times`, to the last of them.

micros_of     a column of times, whatever it holds; null where there is no time
unit_in       the unit of a column's numbers, by their sizes
range_in      the first and the last time of a column, and how many lie far from all others
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, FloatType

from keylane.keys.read import FURTHEST, TICKS
from keylane.keys.time_forms import MONTHS, UNITS, format_of
from keylane.keys.times import (
    DAY,
    DIGITS,
    POINTED,
    POWERED,
    SIZES,
    TEXT_TIME,
    WHOLE,
    TimeRange,
    few_of,
    no_times,
    time_range,
    unit_of,
    unread_times,
)
from keylane.spark.keys import floor_divided

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from keylane.keys.times import Unit
    from keylane.spark.keys import Field

_STAMPS: Final = ("timestamp", "timestamp_ntz", "void")
_AT: Final = "keylane_time"
#: Equal parts of the span of all times; strays leave all but a few of them in some neighbouring ones.
_PARTS: Final = 64


def micros_of(field: Field, form: str | None) -> Column:
    """The times of a column; a column that cannot hold times is refused."""
    if field.written == "date":
        return F.unix_date(field.column).cast("bigint") * DAY
    if field.kind in _STAMPS:
        micros = F.unix_micros(field.column.cast("timestamp"))
        return F.when(micros.between(-FURTHEST, FURTHEST), micros)
    return _of_written(field, form)


def _of_written(field: Field, form: str | None) -> Column:
    """Text and numbers, which are written in some way."""
    if form is not None and form not in UNITS and field.kind in ("integer", "string"):
        return _of_format(field.column.cast("string"), form)
    unit = form if form in UNITS else None
    if field.kind == "integer":
        return _of_whole(field.column.cast("bigint"), unit)
    if isinstance(field.held, DoubleType | FloatType):
        return _of_floats(field.column.cast("double"), unit)
    if isinstance(field.held, DecimalType):
        return _of_digits(field.column.cast("string"), unit)
    if field.kind != "string":
        raise no_times(field.name, field.written)
    written = F.when(field.column.rlike(TEXT_TIME), F.unix_micros(field.column.try_cast("timestamp")))
    return F.coalesce(written, _of_digits(field.column, unit))


def tick_of(field: Field) -> int:
    """The shortest time between two times of a column: days lie a day apart."""
    return DAY if field.written == "date" else 1


def _by_unit(unit: str | None, fits: Callable[[int, int], Column], made: Callable[[str], Column]) -> Column:
    """What is made of a number of a unit; without one, by the unit that its size has."""
    if unit is not None:
        return made(unit)
    choices = [F.when(fits(*sizes), made(one)) for one, sizes in zip(UNITS, SIZES, strict=True)]
    return F.coalesce(*choices)


def _sized(number: Column, least: int, beyond: int) -> Column:
    return number.between(least, beyond - 1) | number.between(1 - beyond, -least)


def _of_whole(number: Column, unit: str | None) -> Column:
    def made(one: str) -> Column:
        if one == "ns":
            return floor_divided(number, 1000)
        most = FURTHEST // TICKS[one]
        return F.when(number.between(-most, most), number) * TICKS[one]

    return _by_unit(unit, lambda *sizes: _sized(number, *sizes), made)


def _of_floats(number: Column, unit: str | None) -> Column:
    def made(one: str) -> Column:
        micros = F.rint(number / 1000.0 if one == "ns" else number * float(TICKS[one]))
        return F.when(F.abs(micros) <= float(FURTHEST), micros.cast("bigint"))

    sound = F.when(~F.isnan(number), number)
    found = _by_unit(unit, lambda *sizes: (F.abs(sound) >= float(sizes[0])) & (F.abs(sound) < float(sizes[1])), made)
    return F.when(sound.isNotNull(), found)


def _of_digits(text: Column, unit: str | None) -> Column:
    """Text that is a number, with a point or without; a fraction is cut to whole microseconds, exactly."""
    whole = F.when(text.rlike(WHOLE), F.trim(F.translate(text, "\t", " ")).try_cast("bigint"))
    has = text.rlike(POINTED)
    size = F.when(has, F.regexp_extract(text, POINTED, 2).try_cast("bigint"))
    rest = F.rpad(F.substring(F.regexp_extract(text, POINTED, 3), 1, 6), 6, "0").try_cast("bigint")

    def made(one: str) -> Column:
        return _of_whole(size, one) + floor_divided(rest, 10 ** (6 - DIGITS[one]))

    found = _by_unit(unit, lambda least, beyond: size.between(least, beyond - 1), made)
    signed = F.when(F.regexp_extract(text, POINTED, 1) == "-", -found).otherwise(found)
    return F.coalesce(_of_whole(whole, unit), signed, _of_floats(_powered(text), unit))


def _powered(text: Column) -> Column:
    return F.when(text.rlike(POWERED), F.trim(F.translate(text, "\t", " ")).try_cast("double"))


def _of_format(text: Column, form: str) -> Column:
    how = format_of(form)
    parts = {name: F.regexp_extract(text, how.java, at + 1) for at, name in enumerate(how.groups)}

    def number(name: str) -> Column:
        return parts[name].try_cast("int") if name in parts else F.lit(0)

    if "year" in parts:
        year = number("year")
    else:
        year = F.when(number("short") < 69, number("short") + 2000).otherwise(number("short") + 1900)
    month = number("month")
    if "named" in parts:
        month = F.array_position(F.array(*map(F.lit, MONTHS)), F.lower(F.substring(parts["named"], 1, 3))).cast("int")
    hour = number("hour")
    if "hour12" in parts:
        twelve = F.when(number("hour12").between(1, 12), number("hour12"))
        hour = twelve % 12 + F.when(F.lower(F.substring(parts["half"], 1, 1)) == "p", 12).otherwise(0)
    second = F.when(number("second") < 60, number("second"))
    stamp = F.try_make_timestamp(year, month, number("day"), hour, number("minute"), second, F.lit("UTC"))
    micros = F.unix_micros(stamp)
    if "fraction" in parts:
        micros = micros + F.rpad(F.substring(parts["fraction"], 1, 6), 6, "0").try_cast("bigint")
    if "zone" in parts:
        micros = micros - _offset(parts["zone"]) * 60_000_000
    return F.when(text.rlike(how.java), micros)


def _offset(zone: Column) -> Column:
    """Minutes east of UTC; null where there are none such."""
    digits = F.translate(F.substring(zone, 2, 5), ":", "")
    hours, minutes = F.substring(digits, 1, 2).try_cast("bigint"), F.substring(digits, 3, 2)
    both = hours * 60 + F.when(minutes == "", F.lit(0)).otherwise(minutes.try_cast("bigint"))
    sound = F.when((both <= 18 * 60) & ((minutes == "") | (minutes.try_cast("bigint") < 60)), both)
    return (
        F.when(zone.isin("Z", "UTC"), F.lit(0).cast("bigint"))
        .when(F.substring(zone, 1, 1) == "-", -sound)
        .otherwise(sound)
    )


# What the values of a whole column show.


def unit_in(frame: DataFrame, field: Field, unread: Column | None = None) -> tuple[Unit | None, list[int]]:
    """The unit of a column's numbers, and what `keys.times.sizes_of` counts; neither where it has none."""
    text = field.kind == "string"
    sized = _sized_number(field)
    if sized is None:
        return None, []
    number = sized if unread is None else F.when(~unread, sized)
    sizes = [F.count_if(_sized(number, *ends)) for ends in SIZES]
    written = field.column.rlike(TEXT_TIME) if text else F.lit(False)
    marks = F.count_if(number.isin(0, -1))
    (found,) = frame.agg(
        *sizes, F.count(number), marks, F.count_if(written if unread is None else written & ~unread)
    ).collect()
    *units, numbers, stands, dated = (int(one) for one in found)
    counts = [*units, numbers - sum(units) - stands, stands, dated]
    return unit_of(field.name, counts, text=text), counts


def _sized_number(field: Field) -> Column | None:
    """The number whose size shows the unit of a value; None for a column whose type has no numbers."""
    if field.kind == "integer":
        return field.column.cast("bigint")
    if isinstance(field.held, DoubleType | FloatType):
        return _cut(field.column.cast("double"))
    if field.kind == "string" or isinstance(field.held, DecimalType):
        text = field.column.cast("string")
        whole = F.when(text.rlike(WHOLE), F.trim(F.translate(text, "\t", " ")).try_cast("bigint"))
        cut = F.concat(F.regexp_extract(text, POINTED, 1), F.regexp_extract(text, POINTED, 2)).try_cast("bigint")
        return F.coalesce(whole, F.when(text.rlike(POINTED), cut), _cut(_powered(text)))
    return None


def _cut(value: Column) -> Column:
    """The whole part of a double; null of one that is no number."""
    near = F.when(F.abs(value) < 2.0**62, value).otherwise(F.lit(1.0))
    return F.when(~F.isnan(value) & (F.abs(value) != float("inf")), near.cast("bigint"))


def range_in(frame: DataFrame, at: Column, time: Field, form: str | None) -> tuple[TimeRange, int]:
    """The range of a column of times that there are, and how many rows have none; without a time an error.

    Ends are looked for in an order of all times only where it may have strays: where all but a few of the records lie
    in neighbouring parts of the whole span.
    """
    times = frame.select(at.alias(_AT))
    ((low, high, many, rows),) = times.agg(F.min(_AT), F.max(_AT), F.count(_AT), F.count(F.lit(1))).collect()
    if low is None:
        held = time.column if time.kind == "string" else F.lit(None).cast("string")
        shown = [row[0] for row in frame.where(held.isNotNull()).select(held).limit(100).collect()]
        raise unread_times(time.name, time.written, form, shown)
    few = few_of(many)
    if few and low != high and _may_stray(times, low, high, few):
        lowest, highest = (_first(times, order, few + 1) for order in (F.asc(_AT), F.desc(_AT)))
        return time_range(lowest, highest[::-1], many), rows - many
    return TimeRange(int(low), int(high)), rows - many


def _may_stray(times: DataFrame, low: int, high: int, few: int) -> bool:
    """Whether a gap may divide a few times from the rest: three times what the rest spans, so most parts are empty."""
    width = max(1, -(-(high - low + 1) // _PARTS))
    part = F.call_function("div", F.col(_AT) - F.lit(low), F.lit(width).cast("bigint"))
    counts = np.zeros(_PARTS, np.int64)
    for number, many in times.where(F.col(_AT).isNotNull()).groupBy(part.alias("part")).count().collect():
        counts[number] = many
    below, above = np.cumsum(counts), np.cumsum(counts[::-1])[::-1]
    # The parts in which all lie but a few at each end.
    first, last = int(np.flatnonzero(below > few)[0]), int(np.flatnonzero(above > few)[-1])
    return (last - first - 1) * 4 <= _PARTS


def _first(times: DataFrame, order: Column, many: int) -> Any:
    rows = times.where(F.col(_AT).isNotNull()).orderBy(order).limit(many).collect()
    return np.array([row[0] for row in rows], np.int64)

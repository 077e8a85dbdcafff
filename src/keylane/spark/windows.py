"""A time column -> the number of its window: the rule of `keylane.keys.window`.

Times are bounded as they are there, before anything is multiplied; and windows are whole milliseconds long, so they
are counted in milliseconds, where the longest fits too. ANSI mode has nothing to refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.keys.window import FURTHEST, TICKS
from keylane.spark.kinds import choose

if TYPE_CHECKING:
    from pyspark.sql import Column

    from keylane.contract.model import Window
    from keylane.spark.kinds import Field, Kind

__all__ = ["floor_divided", "window_number"]

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND


def window_number(time: Field, window: Window) -> tuple[Column, Column]:
    """The number that stands for the window in the key, and which rows hold something that is no time."""
    micros, size = _micros(time, window), window.micros // 1000
    index = floor_divided(floor_divided(micros, 1000), size)
    number = {"index": index, "start_ms": index * size, "start_s": floor_divided(index * size, 1000)}[window.as_]
    return number, time.column.isNotNull() & micros.isNull()


def floor_divided(number: Column, by: int) -> Column:
    """Rounded down; Spark's `div` rounds towards zero, and its `/` goes through doubles."""
    quotient = F.call_function("div", number, F.lit(by).cast("bigint"))
    return quotient - F.when(number % by < 0, 1).otherwise(0)


def _micros(time: Field, window: Window) -> Column:
    """Microseconds since 1970-01-01 UTC; null where there is no time, or none that counts."""
    ticks = TICKS[window.unit]
    choices: dict[Kind, Column] = {
        "integer": _within(time.column.cast("bigint"), FURTHEST // ticks) * ticks,
        "timestamp": _within(F.unix_micros(time.column.cast("timestamp")), FURTHEST),
    }
    if time.kind is not None:
        # Left out while the kind is unknown: Spark refuses the other choices for this type before it can choose.
        choices["timestamp_ntz"] = _within(_wall_clock(time.column), FURTHEST)
    return choose(time, "times", choices)


def _within(number: Column, most: int) -> Column:
    return F.when(number.between(-most, most), number)


def _wall_clock(time: Column) -> Column:
    """Take a naive time as UTC, part by part: every cast to a timestamp would read it in the session's zone."""
    seconds = (F.date_part(F.lit("SECOND"), time) * SECOND).cast("bigint")
    minutes = F.hour(time).cast("bigint") * 60 + F.minute(time)
    days = F.try_multiply(F.unix_date(time.cast("date")).cast("bigint"), F.lit(DAY))
    return F.try_add(days, minutes * (60 * SECOND) + seconds)

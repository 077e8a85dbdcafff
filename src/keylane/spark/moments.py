"""A column of times, whatever it holds, as microseconds since 1970 (UTC); null where there is no time.

What it may hold: timestamps, days, whole numbers of a unit that somebody names, and text. Text is a time when it begins
with a day as ISO 8601 writes it (`2026-11-15`, `2026-11-15T08:30:00Z`), and a number only where a unit is named:
nothing is guessed. Without a zone it is UTC, which is the zone of the session (`pipelines.session`). The windows that
are part of a contract's key: `windows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.errors import DataError, UsageError
from keylane.keys.window import FURTHEST, TICKS

if TYPE_CHECKING:
    from pyspark.sql import Column

    from keylane.spark.kinds import Field

__all__ = ["DAY", "micros_of", "tick_of"]

DAY: Final = 86_400_000_000
_ISO: Final = r"^\s*\d{4}-\d\d-\d\d"
_WHOLE: Final = r"^\s*[+-]?\d{1,18}\s*$"
_STAMPS: Final = ("timestamp", "timestamp_ntz", "void")


def micros_of(field: Field, unit: str | None) -> Column:
    """The times of a column; a column that can hold none is refused."""
    if field.kind in _STAMPS or field.written == "date":
        return F.unix_micros(field.column.cast("timestamp"))
    if field.kind == "integer":
        return _counted(field.column.cast("bigint"), _named(field, unit))
    if field.kind != "string":
        allowed = "timestamp, date, whole numbers, text"
        raise DataError.of(f"column {field.name!r} holds no times", got=field.written, allowed=allowed)
    text = F.when(field.column.rlike(_ISO), F.unix_micros(field.column.try_cast("timestamp")))
    if unit is None:
        return text
    number = F.when(field.column.rlike(_WHOLE), F.trim(field.column).try_cast("bigint"))
    return F.coalesce(_counted(number, unit), text)


def tick_of(field: Field) -> int:
    """The shortest time between two times of a column: days lie a day apart."""
    return DAY if field.written == "date" else 1


def _named(field: Field, unit: str | None) -> str:
    if unit is None:
        what = f"column {field.name!r} holds whole numbers, and nothing says what they count"
        raise UsageError.of(what, allowed=", ".join(TICKS), hint="--time-unit ms")
    return unit


def _counted(number: Column, unit: str) -> Column:
    most = FURTHEST // TICKS[unit]
    return F.when(number.between(-most, most), number) * TICKS[unit]

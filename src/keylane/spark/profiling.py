"""Records -> one row for each key, with its records in each window: the one aggregation that a profile is made of.

Two windows share a sum: window 2i counts in the low 32 bits of `keylane_w<i>`, window 2i+1 in the high ones. Half the
sums are half the buffers of the aggregation, and those are what more windows cost. A counter holds 2**31 - 1 records;
where a source has more in all, each window has a sum of its own (`packing` 1).

Which records: `scan`, `messages`. What is done with the rows: `systems.profiles`. Sketches instead of rows:
`sketches`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.spark.calls import java_way
from keylane.spark.files import MALFORMED
from keylane.spark.keys import read_keys
from keylane.spark.kinds import column_named, field_of
from keylane.spark.scan import LANE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from keylane.contract.model import Key
    from keylane.measure.profile import Windows

__all__ = ["AT", "SIZE", "UNTIMED", "Counting", "canonical", "counted", "packing_for", "window_of"]

#: Columns of a frame that is to be counted: time or position, and the record's length.
AT: Final = "keylane_at"
SIZE: Final = "keylane_bytes"
UNTIMED: Final = "keylane_untimed"
#: What a 32-bit counter cannot hold.
MOST: Final = 2**31


@dataclass(frozen=True, slots=True)
class Counting:
    """What is counted, and how: the key, the windows, sums for one window or two, and whether a time may be missing."""

    key: Key
    windows: Windows
    packing: int = 2
    untimed: bool = False


def packing_for(records: int | None) -> int:
    """Windows in one sum: 2, unless one key could have more records in a window than half a sum holds."""
    return 1 if records is not None and records >= MOST else 2


def counted(frame: DataFrame, how: Counting) -> DataFrame:
    """One row for each key, and for each lane it was seen in where the frame has lanes.

    The frame has the fields of the key, `keylane_at`, and of `keylane_bytes`, `keylane_lane`, `keylane_malformed` those
    that can be told. Unreadable records have a null key, and are counted once more in `keylane_malformed`.
    """
    read_keys(how.key, frame.schema, java_way(frame.sparkSession))  # refuses columns that can hold no such key
    fields = canonical(frame, how.key)
    has = set(frame.columns)
    if MALFORMED in has:
        fields = [F.when(~F.col(MALFORMED), field) for field in fields]
    named = [field.alias(name) for field, name in zip(fields, how.key.fields, strict=True)]
    lane = [LANE] if LANE in has else []
    rows = frame.select(
        *named, window_of(F.col(AT), how.windows).alias("keylane_w"), *lane, *_kept(has, untimed=how.untimed)
    )
    sums = [*_windows(len(how.windows), how.packing), *_sums(rows)]
    groups = [*map(column_named, how.key.fields), *map(F.col, lane)]
    return rows.groupBy(*groups).agg(*sums)


def window_of(at: Column, windows: Windows) -> Column:
    """The number of the window. What lies outside is in the first or the last; what has no time is in the first.

    Edges are the caller's: a time window is `edges[1] - edges[0]` long, positions are cut into equal numbers.
    """
    first, count = windows.edges[0], len(windows)
    if windows.kind == "time":
        number = F.call_function("div", at - F.lit(first), F.lit(windows.edges[1] - first).cast("bigint"))
    else:
        number = F.call_function("div", at * F.lit(count), F.lit(windows.edges[-1]).cast("bigint"))
    return F.coalesce(F.least(F.greatest(number, F.lit(0)), F.lit(count - 1)), F.lit(0)).cast("int")


def canonical(frame: DataFrame, key: Key) -> list[Column]:
    """The fields of the key, with values that are the same bytes made the same value.

    A UUID and a cell may be written in capitals, and a registry's header is no part of a key that strips it: left as
    they are, one key would be two rows.
    """
    fields = [field_of(name, frame.schema) for name in key.fields]
    out = []
    for field, encoding in zip(fields, key.encodings, strict=True):
        column = field.column
        if field.kind == "string" and encoding in ("uuid", "h3"):
            column = F.lower(column)
            column = F.regexp_replace(column, "^0(?=.{15}$)", "") if encoding == "h3" else column
        if key.registry_header == "strip":
            headed = F.startswith(column, F.lit(b"\x00")) & (F.octet_length(column) >= 5)
            column = F.when(headed, F.concat(F.lit(bytes(5)), F.substring(column, 6, 2**31 - 1))).otherwise(column)
        out.append(column)
    return out


def _kept(has: set[str], *, untimed: bool) -> list[Column]:
    kept = [F.col(name) for name in (SIZE, MALFORMED) if name in has]
    return [*kept, *([F.col(AT).isNull().alias(UNTIMED)] if untimed else [])]


def _windows(count: int, packing: int) -> list[Column]:
    window = F.col("keylane_w")
    if packing == 1:
        return [F.sum(F.when(window == i, F.lit(1).cast("bigint")).otherwise(0)).alias(_name(i)) for i in range(count)]
    pair = F.shiftright(window, 1)
    one = F.expr("shiftleft(1L, 32 * (keylane_w & 1))")  # the API takes only a constant number of bits
    zero = F.lit(0).cast("bigint")
    return [F.sum(F.when(pair == i, one).otherwise(zero)).alias(_name(i)) for i in range(-(-count // 2))]


def _name(number: int) -> str:
    return f"keylane_w{number}"


def _sums(rows: DataFrame) -> list[Column]:
    sums = {SIZE: F.col(SIZE), MALFORMED: F.col(MALFORMED).cast("bigint"), UNTIMED: F.col(UNTIMED).cast("bigint")}
    return [F.sum(column).alias(name) for name, column in sums.items() if name in rows.columns]

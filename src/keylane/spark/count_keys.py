"""Records -> one row for each key, with its records in each window: the one aggregation that a profile is made of.

Two windows share a sum: window 2i counts in the low 32 bits of `keylane_w<i>`, window 2i+1 in the high ones. Half the
sums are half the buffers of the aggregation, and those are what more windows cost. A counter holds 2**31 - 1 records;
where a source has more in all, each window has a sum of its own (`packing` 1).

Which records: `scan`, `messages`. What is done with the rows: `systems.profiles`. Sketches instead of rows: below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane.spark.java_calls import java_backend
from keylane.spark.keys import column_named, field_of, read_keys
from keylane.spark.read_parquet import LANE, MALFORMED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.contract.model import Key
    from keylane.profile.model import Windows

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

    The frame has the fields of the key, `keylane_at`, and `keylane_bytes`, `keylane_lane`, `keylane_malformed` as far
    as they are known. Unreadable records have a null key, and are counted once more in `keylane_malformed`.
    """
    read_keys(how.key, frame.schema, java_backend(frame.sparkSession))  # refuses columns that cannot hold such a key
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

    A UUID and a cell may be written in capitals, and a registry's header is not part of a key that strips it: otherwise
    one key would be two rows.
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


# Records -> one row for each window, with sketches of its keys: a profile where keys are more than memory holds.

#: Kinds of a single field that the sketch takes as they are.
ONE_FIELD: Final = ("string", "integer")
_WORD: Final = "keylane_word"
_KEYED: Final = f"{_WORD} is not null and keylane_state = 0"


def sketched(frame: DataFrame, key: Key, windows: Windows, tracked: int, precision: int) -> list[dict[str, Any]]:
    """One row for each window that has records: its sketches, and what is counted exactly.

    `heavy` are pairs of a key and its records: the key itself where it is one text or number, otherwise the JSON of its
    fields, bytes in hex.
    """
    keys = read_keys(key, frame.schema, java_backend(frame.sparkSession))
    unread = F.col(MALFORMED) if MALFORMED in frame.columns else F.lit(False)
    misfit = unread if keys.malformed is None else unread | F.coalesce(keys.malformed, F.lit(False))
    empty = F.octet_length(keys.base.binary) == 0
    # 0 a key, 1 null, 2 empty, 3 malformed.
    state = F.when(misfit, 3).when(keys.base.binary.isNull(), 1).when(empty, 2).otherwise(0)
    size = [F.col(SIZE)] if SIZE in frame.columns else []
    rows = frame.select(
        # Records without a time are spread over all windows.
        F.coalesce(
            F.when(F.col(AT).isNotNull(), window_of(F.col(AT), windows)),
            F.pmod(F.xxhash64(_word(frame, key)), F.lit(len(windows))).cast("int"),
        ).alias("keylane_w"),
        _word(frame, key).alias(_WORD),
        state.alias("keylane_state"),
        F.col(AT).isNull().alias("keylane_untimed"),
        *size,
    )
    made = rows.groupBy("keylane_w").agg(
        F.expr(f"approx_top_k({_WORD}, {tracked}, {tracked}) filter (where {_KEYED})").alias("heavy"),
        F.expr(f"hll_sketch_agg({_WORD}, {precision}) filter (where {_KEYED})").alias("distinct"),
        F.count(F.lit(1)).alias("records"),
        *(
            F.count_if(F.col("keylane_state") == n).alias(name)
            for n, name in enumerate(("keyed", "null", "empty", "malformed"))
        ),
        F.count_if("keylane_untimed").alias("untimed"),
        *([F.sum(SIZE).alias("bytes")] if size else []),
    )
    return [row.asDict(recursive=True) for row in made.sort("keylane_w").collect()]


def _word(frame: DataFrame, key: Key) -> Column:
    """The key as the one text or number that a sketch takes."""
    fields = [field_of(name, frame.schema) for name in key.fields]
    columns = canonical(frame, key)
    if len(fields) == 1 and fields[0].kind in ONE_FIELD:
        return columns[0]
    plain = [F.hex(c) if f.kind == "binary" else c for f, c in zip(fields, columns, strict=True)]
    named = [column.alias(field.name) for field, column in zip(fields, plain, strict=True)]
    return F.to_json(F.struct(*named), {"ignoreNullFields": "false"})


def distinct_keys(spark: SparkSession, sketches: list[bytes | None]) -> tuple[list[int], list[int]]:
    """Distinct keys of each sketch, and of each with all before it."""
    rows = [(n, bytes(sketch)) for n, sketch in enumerate(sketches) if sketch is not None]
    if not rows:
        return [0] * len(sketches), [0] * len(sketches)
    frame = spark.createDataFrame(rows, "n int, sketch binary")
    own = {row[0]: row[1] for row in frame.selectExpr("n", "hll_sketch_estimate(sketch)").collect()}
    running = frame.alias("a").join(frame.alias("b"), F.expr("b.n <= a.n")).groupBy("a.n")
    until = {row[0]: row[1] for row in running.agg(F.expr("hll_sketch_estimate(hll_union_agg(b.sketch))")).collect()}
    sums, last = [], 0
    for n in range(len(sketches)):
        last = max(last, int(until.get(n, last)))
        sums.append(last)
    return [int(own.get(n, 0)) for n in range(len(sketches))], sums

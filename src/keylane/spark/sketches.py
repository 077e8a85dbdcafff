"""Records -> one row for each window, with sketches of its keys: a profile where keys are more than memory holds.

The sketches are Spark's own: `approx_top_k` keeps the heavy keys, `hll_sketch_agg` counts distinct ones. Each takes as
much memory as it is told, however many keys there are. What they promise is in `measure.sketched`. Exact counts:
`profiling`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane.spark.calls import java_way
from keylane.spark.files import MALFORMED
from keylane.spark.keys import read_keys
from keylane.spark.kinds import field_of
from keylane.spark.profiling import AT, SIZE, canonical, window_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.contract.model import Key
    from keylane.measure.profile import Windows

__all__ = ["ONE_FIELD", "distinct_keys", "sketched"]

#: Kinds of a single field that the sketch takes as they are.
ONE_FIELD: Final = ("string", "integer")
_WORD: Final = "keylane_word"
_KEYED: Final = f"{_WORD} is not null and keylane_state = 0"


def sketched(frame: DataFrame, key: Key, windows: Windows, tracked: int, precision: int) -> list[dict[str, Any]]:
    """One row for each window that has records: its sketches, and what is counted exactly.

    `heavy` are pairs of a key and its records: the key itself where it is one text or number, else the JSON of its
    fields, bytes in hex.
    """
    keys = read_keys(key, frame.schema, java_way(frame.sparkSession))
    unread = F.col(MALFORMED) if MALFORMED in frame.columns else F.lit(False)
    misfit = unread if keys.malformed is None else unread | F.coalesce(keys.malformed, F.lit(False))
    empty = F.octet_length(keys.base.binary) == 0
    # 0 a key, 1 null, 2 empty, 3 malformed.
    state = F.when(misfit, 3).when(keys.base.binary.isNull(), 1).when(empty, 2).otherwise(0)
    size = [F.col(SIZE)] if SIZE in frame.columns else []
    rows = frame.select(
        window_of(F.col(AT), windows).alias("keylane_w"),
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
    rows = [(n, bytes(one)) for n, one in enumerate(sketches) if one is not None]
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

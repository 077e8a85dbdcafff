"""The history checker over a cluster: rows are distributed to buckets by a shuffle, and judged by the same functions.

The rules, the dealing and the verdict are `keylane.history`'s; nothing is decided here. A frame of rows has the
columns of a history, as described in `keylane.history.rows`.
"""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from keylane.history.check import JUDGEMENTS, dealt
from keylane.history.rows import SCHEMA, normal
from keylane.history.verdict import BucketResult, added, verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from keylane.history.verdict import Settings, Verdict

#: Spark's names for the types of a history's columns.
_NAMES: Final = {"int8": "tinyint", "int32": "int", "int64": "bigint", "bool": "boolean"}
ROWS_DDL: Final = ", ".join(f"{field.name} {_NAMES.get(str(field.type), field.type)}" for field in SCHEMA)
_DEALT: Final = pa.schema([("judgement", pa.int32()), ("bucket", pa.int32()), *SCHEMA])
#: Records that one Python worker judges at once, about.
AT_ONCE: Final = 250_000


def bits_for(records: int | None) -> int:
    """How many buckets, as a power of two, for that many records; a medium number where it is not known."""
    return 8 if records is None else max(1, min(12, ceil(log2(max(1, records / AT_ONCE)))))


def judged(rows: DataFrame, settings: Settings, bits: int = 6) -> Verdict:
    """The verdict on a frame of rows."""
    dealt_rows = rows.mapInArrow(_dealer(bits), f"judgement int, bucket int, {ROWS_DDL}")
    founds = dealt_rows.groupBy("judgement", "bucket").applyInArrow(_judge(settings), "found string")
    texts = (row[0] for row in founds.toLocalIterator())
    return verdict_of(added(map(BucketResult.from_text, texts), settings.keep), settings)


def _dealer(bits: int) -> Any:
    def deal(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            given = normal(batch)
            for number, judgement in enumerate(JUDGEMENTS):
                mine, bucket = dealt(judgement, given, bits=bits)
                if len(mine):
                    yield _wide(mine, number, bucket)

    return deal


def _wide(batch: pa.RecordBatch, number: int, bucket: Any) -> pa.RecordBatch:
    """With every column, null where the judgement does not read it: one shuffle for all judgements."""
    there = batch.schema.names
    columns = [batch.column(f.name) if f.name in there else pa.nulls(len(batch), f.type) for f in SCHEMA]
    which = pa.repeat(pa.scalar(number, pa.int32()), len(batch))
    return pa.RecordBatch.from_arrays([which, pa.array(bucket, pa.int32()), *columns], schema=_DEALT)


def _judge(settings: Settings) -> Any:
    def judge(table: pa.Table) -> pa.Table:
        judgement = JUDGEMENTS[table.column("judgement")[0].as_py()]
        mine = pa.schema([SCHEMA.field(name) for name in judgement.columns])
        found = judgement.judge(table.select(list(judgement.columns)).cast(mine).combine_chunks(), settings)
        return pa.table({"found": [found.as_text()]})

    return judge

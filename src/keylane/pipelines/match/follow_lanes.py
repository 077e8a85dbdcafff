"""The two steps of a batch that have state: drivers' home lanes, block by block, and their positions, lane by lane.

    pings           -> the block of a driver's id -> stays, and tombstones for lanes that were left    (`timeline`)
    pings, tombstones, copies of requests -> the lane -> what the lane knows, and its answers          (`lanes`)

Either is one exchange by lane keys, so that task i of n has the lanes i, i + n, i + 2n and so on, all tasks are used,
and a task knows its lanes by its number; with as many tasks as lanes, lane i is task i. A lane with no record of
this batch is there too: it is thinned out, and kept. How many tasks there are may change from run to run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.taskcontext import TaskContext

from keylane.matching.tables import Kind
from keylane.pipelines.match.follow_state import load, save
from keylane.placement.lane_keys import lane_keys
from keylane.spark.read_parquet import picked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame

    Batches = Iterator[pa.RecordBatch]

#: Kinds of rows beside those of `matching.tables.Kind`: a request, and one that was answered before.
ASK: Final = 3
KEPT_AGAIN: Final = 4
LANE_ROWS: Final = ("kind", "id", "ts", "offset", "lat", "lng", "lane", "copies")
_TEXT, _LONG, _INT, _DOUBLE = pa.string(), pa.int64(), pa.int32(), pa.float64()
#: Tombstones; and a row for each block: with no driver, `ts` the oldest ping that still counts.
_TOMBSTONES: Final = pa.schema([("driver", _TEXT), ("ts", _LONG), ("offset", _LONG), ("lane", _INT), ("stays", _LONG)])
_COUNTS: Final = ("entries", "asked", "border", "copies", "tombstones", "changed")
#: Pairs of a lane; and a row of counts for each lane, which has no rider.
ANSWERS: Final = pa.schema(
    [
        ("lane", _INT),
        ("rider", _TEXT),
        ("rider_ts", _LONG),
        ("driver", _TEXT),
        ("distance_m", _DOUBLE),
        ("driver_ts", _LONG),
        ("driver_offset", _LONG),
        ("rider_offset", _LONG),
        *((name, _LONG) for name in _COUNTS),
    ]
)


@dataclass(frozen=True, slots=True)
class Step:
    """What a task has to know: where the state is, which of its files were true and which will be, and the question."""

    state: str
    before: str
    after: str
    lanes: int
    tasks: int
    kept_from: int
    radius: float
    nearest: int | None
    expire: int | None
    matching: bool = True

    def mine(self) -> range:
        """The lanes of the task that asks."""
        context = TaskContext.get()
        assert context is not None
        return range(context.partitionId(), self.lanes, self.tasks)


def by_task(frame: DataFrame, column: str, tasks: int) -> DataFrame:
    """Rows whose lane is i modulo the tasks, in partition i."""
    keys = picked(list(lane_keys(tasks)), "int", F.col(column) % tasks)
    return frame.withColumn("task_key", keys).repartition(tasks, "task_key").drop("task_key")


def homes(pings: DataFrame, step: Step) -> DataFrame:
    """The tombstones of these pings, and a row for each block of drivers."""
    block = F.pmod(F.hash("driver"), F.lit(step.lanes))
    slim = pings.select("driver", "ts", "offset", "lane", block.alias("block"))
    return by_task(slim, "block", step.tasks).mapInArrow(_homes(step), from_arrow_schema(_TOMBSTONES))


def _homes(step: Step) -> Callable[[Batches], Batches]:
    def moved(batches: Batches) -> Batches:
        from keylane.matching.tables import STAYS
        from keylane.matching.timeline import moves, stays_pruned

        pings = _whole(batches, STAYS)
        folder = f"{step.state}/blocks"
        for block in step.mine():
            known = load(folder, block, step.before, STAYS)
            stays, gone = moves(known, _of(pings, "block", block))
            kept = stays_pruned(stays, step.kept_from, step.expire)
            save(folder, block, step.after, kept)
            told = pa.table({"ts": pa.array([_oldest(kept)], _LONG), "stays": pa.array([len(kept)], _LONG)})
            yield from _shaped([told, gone], _TOMBSTONES).to_batches()

    return moved


def _oldest(stays: pa.Table) -> int | None:
    """The ts of the oldest ping that a request may still see."""
    found: int | None = pc.min(stays.column("ts")).as_py()
    return found


def answers(rows: DataFrame, step: Step) -> DataFrame:
    """What the lanes answer; rows have the columns `LANE_ROWS`."""
    return by_task(rows.select(*LANE_ROWS), "lane", step.tasks).mapInArrow(_answers(step), from_arrow_schema(ANSWERS))


def _answers(step: Step) -> Callable[[Batches], Batches]:
    def answered(batches: Batches) -> Batches:
        from keylane.matching.tables import ENTRIES

        rows, folder = _whole(batches, None), f"{step.state}/lanes"
        for lane in step.mine():
            known = load(folder, lane, step.before, ENTRIES)
            kept, pairs, counts = _lane(known, _of(rows, "lane", lane), step)
            save(folder, lane, step.after, kept)
            yield from _told(lane, pairs, counts).to_batches()

    return answered


def _lane(known: pa.Table, rows: pa.Table, step: Step) -> tuple[pa.Table, pa.Table, dict[str, int]]:
    """What a lane knows after these rows, its pairs, and its counts."""
    from keylane.matching.near import near
    from keylane.matching.tables import PAIRS
    from keylane.matching.timeline import merged, pruned

    kinds = rows.column("kind").to_numpy() if len(rows) else np.zeros(0, np.int8)
    news = rows.filter(pa.array(kinds <= Kind.AVAILABLE)).rename_columns(["kind", "driver", *LANE_ROWS[2:]])
    asked = rows.filter(pa.array(kinds == ASK))
    again = rows.filter(pa.array(kinds == KEPT_AGAIN))
    entries = merged(known, news)
    pairs = PAIRS.empty_table()
    if step.matching and len(asked):
        pairs = near(entries, _requests(asked), step.radius, step.expire, step.nearest)
    copies = asked.column("copies").to_numpy() if len(asked) else np.zeros(0, np.int32)
    kept = pruned(entries, step.kept_from, step.expire)
    counts = {
        "entries": len(kept),
        "asked": int((copies > 0).sum()),
        "border": int((copies > 1).sum()),
        "copies": len(copies),
        "tombstones": int((kinds == Kind.LEFT).sum()),
        "changed": _changed(known, news, again, step) if len(again) and len(news) else 0,
    }
    return kept, pairs, counts


def _changed(known: pa.Table, news: pa.Table, again: pa.Table, step: Step) -> int:
    """How many of the new pings would have changed an answer that was given before: they came too late for it."""
    from keylane.matching.near import near
    from keylane.matching.timeline import merged

    asked = _requests(again)
    moved = news.column("driver").unique()
    before = merged(known.filter(pc.is_in(known.column("driver"), moved)), news.slice(0, 0))
    keys = ["rider", "rider_ts", "driver", "driver_ts", "driver_offset"]
    then, now = (near(one, asked, step.radius, step.expire).select(keys) for one in (before, merged(before, news)))
    drivers = pa.concat_tables(
        [then.join(now, keys, join_type="left anti"), now.join(then, keys, join_type="left anti")]
    )
    late = pc.less_equal(news.column("ts"), pc.max(again.column("ts")))
    pings = news.filter(pc.and_(late, pc.is_in(news.column("driver"), drivers.column("driver").unique())))
    return int(pc.sum(pc.greater(pings.column("kind"), 0)).as_py() or 0)


def _requests(rows: pa.Table) -> pa.Table:
    return rows.rename_columns(["kind", "rider", *LANE_ROWS[2:]])


def _told(lane: int, pairs: pa.Table, counts: dict[str, int]) -> pa.Table:
    row = pa.table({"lane": pa.array([lane], _INT), **{name: pa.array([one], _LONG) for name, one in counts.items()}})
    return _shaped([row, pairs.add_column(0, "lane", pa.array(np.full(len(pairs), lane, np.int32)))], ANSWERS)


def _shaped(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """All of them with the columns of a schema, null where one has none: all batches of a task must have one schema."""
    whole = pa.concat_tables([schema.empty_table(), *tables], promote_options="default")
    return pa.Table.from_arrays([whole.column(name) for name in schema.names], schema=schema)


def ping_rows(pings: DataFrame) -> DataFrame:
    """Pings as rows of their lanes."""
    kind = F.when(F.col("available"), F.lit(int(Kind.AVAILABLE))).otherwise(F.lit(int(Kind.UNAVAILABLE)))
    return pings.select(kind.cast("tinyint").alias("kind"), F.col("driver").alias("id"), *LANE_ROWS[2:7], _no_copies())


def tombstone_rows(stays: DataFrame) -> DataFrame:
    """The tombstones of `homes` as rows of the lanes that were left."""
    left = F.lit(int(Kind.LEFT)).cast("tinyint").alias("kind")
    nowhere = [F.lit(0.0).alias(name) for name in ("lat", "lng")]
    told = stays.where(F.col("driver").isNotNull())
    return told.select(left, F.col("driver").alias("id"), "ts", "offset", *nowhere, "lane", _no_copies())


def copy_rows(copies: DataFrame, kind: int) -> DataFrame:
    """Copies of requests as rows of their lanes; the one at home knows how many there are."""
    many = F.when(F.col("home"), F.col("copies")).otherwise(F.lit(0)).cast("int").alias("copies")
    return copies.select(F.lit(kind).cast("tinyint").alias("kind"), F.col("rider").alias("id"), *LANE_ROWS[2:7], many)


def _no_copies() -> Column:
    return F.lit(0).cast("int").alias("copies")


def _whole(batches: Batches, schema: pa.Schema | None) -> pa.Table:
    """All rows of a task; of none, a table with the columns that are asked for."""
    found = [batch for batch in batches if len(batch)]
    if found:
        return pa.Table.from_batches(found)
    if schema is not None:
        return schema.append(pa.field("block", pa.int32())).empty_table()
    kinds = (pa.int8(), _TEXT, _LONG, _LONG, _DOUBLE, _DOUBLE, _INT, _INT)
    return pa.schema(list(zip(LANE_ROWS, kinds, strict=True))).empty_table()


def _of(table: pa.Table, column: str, number: int) -> pa.Table:
    return table.filter(pc.equal(table.column(column), number)) if len(table) else table

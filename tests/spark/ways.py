"""The two ways a case is placed: by the router over Arrow, which is right by definition, and by Spark.

Used by the tests, and by the process that speaks Spark Connect for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from keylane.router import Router
from keylane.spark.arrow import placements
from keylane.spark.frames import ADDED, lane, route

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.cases import Case


class Row(NamedTuple):
    stream: str
    lane: int | None
    routing_key: bytes | None
    reason: str | None


def by_router(case: Case) -> list[Row]:
    batch = case.table.combine_chunks().to_batches()[0]
    positions = batch.column("at") if case.positions else None
    rows = placements(Router(case.contract, lanes=case.lanes), batch, positions).to_pylist()
    return [Row(**row) for row in rows]


def by_spark(spark: SparkSession, case: Case) -> list[Row]:
    """`route`, and in the same query `lane` alone, which must say the same."""
    given: dict[str, Any] = {"lanes": case.lanes, "position": "at" if case.positions else None}
    frame = route(spark.createDataFrame(case.table), case.contract, **given)
    alone = [lane(case.contract, **given).alias("alone")] if case.asked_alone else []
    rows = [row.asDict() for row in frame.select(*ADDED, *alone).collect()]
    assert [row.get("alone", row["lane"]) for row in rows] == [row["lane"] for row in rows], "lane and route differ"
    return [Row(row["stream"], row["lane"], _bytes(row["routing_key"]), row["reason"]) for row in rows]


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)

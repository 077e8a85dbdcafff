"""The ways to place the records of a case: one by one, as Arrow batches in six layouts, on Spark. All must agree.

`by_record` is the one that the others are held against. Spark is asked for many cases in one query, because a query
costs what a hundred cases cost; the process that speaks Spark Connect (`connect_client`) uses the same function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from keylane.errors import UnplacedError
from keylane.records import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from tests.parity.cases.case import Case

    from keylane.router import Router

    Way = Callable[[Case], list["Outcome"]]


class Outcome(NamedTuple):
    stream: str
    lane: int | None
    routing_key: bytes | None
    reason: str | None


def expected(case: Case) -> list[Outcome]:
    """What every way is held against; worked out once for each case."""
    if id(case) not in _EXPECTED:
        _EXPECTED[id(case)] = case, by_record(case) if case.by_record else LAYOUTS["batch"](case)
    return _EXPECTED[id(case)][1]


#: The case too, so that no other can take its place in memory.
_EXPECTED: dict[int, tuple[Case, list[Outcome]]] = {}


# One by one


def by_record(case: Case) -> list[Outcome]:
    """`Router.place`, record by record; `Router.lane` must say the same."""
    router, records = case.router, case.table.to_pylist()
    at = case.at if case.positions else [None] * len(records)
    placed = [router.place(record, position) for record, position in zip(records, at, strict=True)]
    lanes = [_lane_or_reason(router, record, position) for record, position in zip(records, at, strict=True)]
    silent = (None, Reason.NO_POSITION)
    assert lanes == [p.lane if p.reason in silent else p.reason for p in placed], "lane and place differ"
    return [Outcome(p.stream, p.lane, p.routing_key, p.reason and str(p.reason)) for p in placed]


def _lane_or_reason(router: Router, record: Mapping[str, Any], position: int | None) -> int | Reason | None:
    try:
        return router.lane(record, position)
    except UnplacedError as error:
        return error.reason


# As batches


def by_batch(lay_out: Callable[[pa.Table], Any], times: int = 1) -> Way:
    """`Router.placements` over the records in one layout of Arrow, which repeats them so many times."""

    def place(case: Case) -> list[Outcome]:
        batch, at = lay_out(case.table), case.at * times
        outcomes = unplaced = _placements(case, batch, None)
        if case.positions:
            placed = _placements(case, batch, [position or 0 for position in at])
            pairs = zip(at, placed, unplaced, strict=True)
            outcomes = [there if position is not None else without for position, there, without in pairs]
        first = outcomes[: len(case.table)]
        assert outcomes == first * times, "the same rows have other outcomes further down"
        return first

    return place


def _placements(case: Case, batch: Any, positions: Sequence[int] | None) -> list[Outcome]:
    """`Router.placements`; `Router.lanes` must say the same."""
    router = case.router
    placed = router.placements(batch, positions).to_pylist()
    lanes = router.lanes(batch, positions).to_pylist()
    assert lanes == [row["lane"] for row in placed], "lanes and placements differ"
    return [Outcome(**row) for row in placed]


def _batch(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def _wide(table: pa.Table) -> pa.RecordBatch:
    return _retyped(table, {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()})


def _views(table: pa.Table) -> pa.RecordBatch:
    return _retyped(table, {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()})


def _retyped(table: pa.Table, types: Mapping[pa.DataType, pa.DataType]) -> pa.RecordBatch:
    return _batch(table.cast(pa.schema([field.with_type(types.get(field.type, field.type)) for field in table.schema])))


def _dictionaries(table: pa.Table) -> pa.RecordBatch:
    arrays = [column if pa.types.is_null(column.type) else column.dictionary_encode() for column in table.columns]
    return _batch(pa.table(arrays, names=table.column_names))


def _slice(table: pa.Table) -> pa.RecordBatch:
    return _tenfold(table).slice(len(table), len(table))


def _chunks(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


def _tenfold(table: pa.Table) -> pa.RecordBatch:
    return _batch(pa.concat_tables([table] * 10))


LAYOUTS: dict[str, Way] = {
    "batch": by_batch(_batch),
    "wide batch": by_batch(_wide),
    "batch of views": by_batch(_views),
    "batch of dictionaries": by_batch(_dictionaries),
    "slice": by_batch(_slice),
    "table of chunks": by_batch(_chunks),
    "batch with every row ten times": by_batch(_tenfold, 10),
}


# On Spark


def by_spark(spark: SparkSession, cases: Sequence[Case]) -> list[list[Outcome]]:
    """`route` for each case, and where it is asked `lane` alone, which must say the same. All in one query."""
    frames = [_routed(spark, case, number) for number, case in enumerate(cases)]
    union = frames[0]
    for frame in frames[1:]:
        union = union.union(frame)
    found: list[list[Outcome]] = [[] for _ in cases]
    for number, alone, stream, lane, routing_key, reason in union.collect():
        assert not cases[number].asked_alone or alone == lane, f"lane and route differ: {cases[number].spec}"
        found[number].append(Outcome(stream, lane, None if routing_key is None else bytes(routing_key), reason))
    return found


def _routed(spark: SparkSession, case: Case, number: int) -> DataFrame:
    from pyspark.sql import functions as F

    from keylane.spark import lane
    from keylane.spark import with_placements as route
    from keylane.spark.keys import ADDED

    given: dict[str, Any] = {"position": "at" if case.positions else None}
    source: Any = case.contract if case.key_space is None else case.router
    if case.key_space is None:
        given["lanes"] = case.lanes
    frame = route(spark.createDataFrame(case.frame), source, **given)
    alone = lane(source, **given) if case.asked_alone else F.lit(None)
    return frame.select(F.lit(number).alias("case"), alone.cast("int").alias("alone"), *ADDED)

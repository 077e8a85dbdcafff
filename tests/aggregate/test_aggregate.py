"""`aggregate` on files: equal to a plain loop over the events, whatever the batches; late events are counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.aggregate.reference import MINUTE, QUERIES, START, events, expected, results, write_lines
from tests.aggregate.runs import follow, registered, run

from keylane.aggregation.expressions import FUNCTIONS
from keylane.aggregation.lanes import lane_of
from keylane.aggregation.query import query_of
from keylane.documents.aggregate import RunningDivision
from keylane.errors import DataError, TargetError, UsageError
from keylane.pipelines.aggregate.events import EventReader
from keylane.pipelines.aggregate.explain import explain_load, plan_load
from keylane.pipelines.aggregate.matching import AggregatePlan
from keylane.pipelines.aggregate.options import AggregateOptions
from keylane.pipelines.aggregate.run import aggregate
from keylane.pipelines.aggregate.verify import verify_results
from keylane.systems.files.frames import spark_files
from keylane.systems.query_registry import checked, open_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def letters(folder: Path) -> list[dict[str, Any]]:
    found = sorted((folder / "out" / "_dead").rglob("*.parquet"))
    return [row for path in found for row in pq.read_table(path, partitioning=None).to_pylist()]


@pytest.mark.parametrize("by", [pytest.param("query", marks=pytest.mark.faults), "query-window"])
def test_results_equal_a_plain_loop(spark: SparkSession, tmp_path: Path, by: Any) -> None:
    given = events(1_500)
    write_lines(tmp_path / "in" / "a.jsonl", given[:1_000])
    write_lines(tmp_path / "in" / "b.jsonl", given[1_000:])
    told = list[dict[str, Any]]()
    document = run(spark, tmp_path, registered(tmp_path), by=by, tell=told.append)
    assert results(tmp_path / "out") == expected(given)
    assert (document.records, document.dead, document.late, document.errors) == (1_500, 0, 0, 0)
    assert document.windows == len(expected(given))
    # What is to be watched, by query, of each batch; and how its windows were divided.
    newest = max(event["ts"] for event in given) * 1000
    assert {query: mark >= newest for query, mark in told[-1]["watermarks"].items()} == {
        one.id: True for one in QUERIES
    }
    assert set(told[-1]["lag_s"]) == {one.id for one in QUERIES}
    assert max(one["state_bytes"] for one in told) > 0
    planned = plan_load(str(tmp_path / "out"), None)
    assert planned.running == RunningDivision(by=by, partial=True, lanes=3)
    assert (planned.chosen.lanes, planned.advice) == (3, explain_load(str(tmp_path / "out"), 3).advice)


@pytest.mark.faults
def test_a_wrong_result_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    """The twin of the comparison: one event less gives other results."""
    given = events(300)
    write_lines(tmp_path / "in" / "a.jsonl", given)
    run(spark, tmp_path, registered(tmp_path))
    assert results(tmp_path / "out") == expected(given)
    lost = next(number for number, event in enumerate(given) if QUERIES[0].matches(event))
    assert results(tmp_path / "out") != expected(given[:lost] + given[lost + 1 :])


@pytest.mark.faults
def test_parquet_with_nanoseconds_and_events_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    given = events(400)
    table = pa.Table.from_pylist(given)
    stamps = pa.array([event["ts"] * 1_000_000 for event in given], pa.timestamp("ns"))
    (tmp_path / "in").mkdir()
    pq.write_table(table.set_column(table.schema.get_field_index("ts"), "ts", stamps), tmp_path / "in" / "a.parquet")
    run(spark, tmp_path, registered(tmp_path), partial=False)
    assert results(tmp_path / "out") == expected(given)


@pytest.mark.faults
def test_unreadable_lines_and_the_far_future_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    given = events(300)
    future = {**given[0], "ts": 4_000_000_000_000}
    timeless = {name: value for name, value in given[1].items() if name != "ts"}
    write_lines(tmp_path / "in" / "a.jsonl", [*given[:150], "{broken", future, timeless])
    registry = registered(tmp_path)
    with open_queries(registry):
        pass
    first = run(spark, tmp_path, registry)
    assert sorted(letter["reason"] for letter in letters(tmp_path)) == ["far-future", "malformed", "no-time"]
    assert json.loads(next(one for one in letters(tmp_path) if one["reason"] == "far-future")["original"])["ts"] > START
    assert first.late == 0
    assert results(tmp_path / "out") == expected(given[:150])


@pytest.mark.faults
def test_an_event_of_the_far_future_makes_nobody_late(spark: SparkSession, tmp_path: Path) -> None:
    early, late = (events(200, seed, START + at * MINUTE, START + (at + 2) * MINUTE) for seed, at in ((1, 0), (2, 2)))
    write_lines(tmp_path / "in" / "a.jsonl", [*early, {**early[0], "ts": 4_000_000_000_000}])
    registry = registered(tmp_path)
    follow(spark, tmp_path, registry, batches=[lambda: write_lines(tmp_path / "in" / "b.jsonl", late)])
    document = run(spark, tmp_path, registry)
    assert document.late == 0
    assert results(tmp_path / "out") == expected([*early, *late])
    assert document.dead == 1


def test_late_events_are_dropped_or_corrected_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    dropping = {**QUERIES[0].definition, "lateness": "30 seconds"}
    correcting = {**QUERIES[2].definition, "late": "correct"}
    registry = registered(tmp_path, dropping, correcting)
    first = events(300, 1, START, START + MINUTE)
    second = events(300, 2, START + 9 * MINUTE, START + 10 * MINUTE)
    behind = events(300, 3, START, START + MINUTE)
    write_lines(tmp_path / "in" / "a.jsonl", first)
    follow(
        spark,
        tmp_path,
        registry,
        [
            lambda: write_lines(tmp_path / "in" / "b.jsonl", second),
            lambda: write_lines(tmp_path / "in" / "c.jsonl", behind),
        ],
    )
    document = run(spark, tmp_path, registry)
    queries = [QUERIES[0], QUERIES[2]]
    assert results(tmp_path / "out") == expected([*first, *second], queries)
    late = {query.id: [event for event in behind if query.matches(event)] for query in queries}
    found = {one.query_id: (one.dropped, one.corrected) for one in document.queries}
    assert found == {"clicks": (len(late["clicks"]), 0), "unindexed": (0, len(late["unindexed"]))}
    assert results(tmp_path / "out", "corrections") == expected(late["unindexed"], [QUERIES[2]])


def test_a_query_that_fails_on_some_events_counts_them_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    failing = {"id": "fails", "filter": "100 / items > 30", "aggregates": {"n": "count(*)"}, "window": "1 hour"}
    unfit = {"id": "unfit", "filter": "country", "aggregates": {"n": "count(*)"}, "window": "1 hour"}
    strange = {"id": "strange", "filter": "nowhere = 'x'", "aggregates": {"n": "count(*)"}, "window": "1 hour"}
    given = events(300)
    write_lines(tmp_path / "in" / "a.jsonl", given)
    definitions = [failing, unfit, strange, *(query.definition for query in QUERIES)]
    document = run(spark, tmp_path, registered(tmp_path, *definitions))
    figures = {one.query_id: one for one in document.queries}
    assert figures["fails"].errors == sum(event["items"] == 0 for event in given)
    assert "DIVIDE_BY_ZERO" in str(figures["fails"].error)
    assert figures["fails"].events == sum(event["items"] > 0 and 100 / event["items"] > 30 for event in given)
    assert figures["unfit"].unfit
    assert "strange" not in figures, "a field that no event has is null, and matches nothing"
    own = {row["query_id"]: row for row in results_of_all(tmp_path)}
    assert own["fails"]["n"] == figures["fails"].events
    assert [row for row in results_of_all(tmp_path) if row["query_id"] == "clicks"]


def results_of_all(folder: Path) -> list[dict[str, Any]]:
    found = sorted((folder / "out" / "results").rglob("*.parquet"))
    return [row for path in found for row in pq.read_table(path, partitioning=None).to_pylist()]


@pytest.mark.faults
@pytest.mark.xfail(strict=True, reason="results get their digests with the target's own log")
def test_a_value_that_was_changed_after_delivery_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", events(50))
    run(spark, tmp_path, registered(tmp_path, QUERIES[0].definition))
    file = next((tmp_path / "out" / "results").rglob("*.parquet"))
    table = pq.ParquetFile(file).read()
    at = table.column_names.index("n")
    pq.write_table(table.set_column(at, "n", pc.add(table.column("n"), 1)), file)
    assert not verify_results(str(tmp_path / "out")).is_right


@pytest.mark.faults
def test_a_registry_that_was_restored_and_changed_again_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """It has the version that the aggregation knows, and a query is gone from it."""
    registry = registered(tmp_path, QUERIES[0].definition)
    copy, newest = Path(registry).read_bytes(), b""
    write_lines(tmp_path / "in" / "a.jsonl", events(50))
    with open_queries(registry) as found:
        found.add([query_of(QUERIES[1].definition)])
    run(spark, tmp_path, registry)
    newest = Path(registry).read_bytes()
    Path(registry).write_bytes(copy)
    Path(f"{registry}.last").unlink()
    with open_queries(registry) as found:
        found.add([query_of(QUERIES[2].definition)])
    write_lines(tmp_path / "in" / "b.jsonl", events(50, 1))
    with pytest.raises(DataError, match="restored from an older copy and has changed since"):
        run(spark, tmp_path, registry)
    Path(registry).write_bytes(newest)
    Path(f"{registry}.last").unlink()
    run(spark, tmp_path, registry)


@pytest.mark.faults
def test_the_registry_changes_at_the_border_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    registry = registered(tmp_path, QUERIES[0].definition, QUERIES[1].definition)
    parts = [events(200, seed, START + seed * MINUTE, START + (seed + 1) * MINUTE) for seed in range(3)]
    write_lines(tmp_path / "in" / "0.jsonl", parts[0])

    def pause() -> None:
        with open_queries(registry) as found:
            found.change(["clicks"], "pause")
        write_lines(tmp_path / "in" / "1.jsonl", parts[1])

    def add() -> None:
        with open_queries(registry) as found:
            found.add([query_of(QUERIES[2].definition)])
        write_lines(tmp_path / "in" / "2.jsonl", parts[2])

    follow(spark, tmp_path, registry, [pause, add])
    run(spark, tmp_path, registry)
    of_clicks, of_other = expected(parts[0], [QUERIES[0]]), expected(parts[2], [QUERIES[2]])
    every = [event for part in parts for event in part]
    assert results(tmp_path / "out") == [*of_clicks, *expected(every, [QUERIES[1]]), *of_other]


@pytest.mark.faults
def test_whole_numbers_may_become_doubles(spark: SparkSession, tmp_path: Path) -> None:
    registry = registered(tmp_path)
    first = [{**event, "amount": 20 + event["items"]} for event in events(200)]
    write_lines(tmp_path / "in" / "a.jsonl", first)
    second = events(200, 2)
    follow(spark, tmp_path, registry, [lambda: write_lines(tmp_path / "in" / "b.jsonl", second)], max_files=1)
    document = run(spark, tmp_path, registry)
    assert document.dead == 0
    assert document.records == 400


@pytest.mark.faults
def test_run_again_it_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    registry = registered(tmp_path)
    first, second = events(200, 1, START, START + 3 * MINUTE), events(200, 2, START + 30 * MINUTE, START + 33 * MINUTE)
    write_lines(tmp_path / "in" / "a.jsonl", first)
    run(spark, tmp_path, registry)
    same = run(spark, tmp_path, registry)
    assert (same.records, results(tmp_path / "out")) == (200, expected(first))
    write_lines(tmp_path / "in" / "b.jsonl", second)
    told = list[dict[str, Any]]()
    assert run(spark, tmp_path, registry, tell=told.append).records == 400
    assert (told[0]["restored"] > 0, told[0]["restore_s"] > 0) == (True, True), "how long a rebuild took is a metric"
    assert results(tmp_path / "out") == expected([*first, *second])


def test_a_foreign_or_older_state_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    registry = registered(tmp_path)
    write_lines(tmp_path / "in" / "a.jsonl", events(100))
    run(spark, tmp_path, registry)
    with pytest.raises(TargetError, match="another aggregation"):
        run(spark, tmp_path, registry, by="query")
    with pytest.raises(UsageError, match="lane count"):
        run(spark, tmp_path, registry, lanes=5)
    newest = max((tmp_path / "out" / "_state" / "batches").glob("*.json"))
    newest.rename(tmp_path / "kept")
    with pytest.raises(TargetError, match="older than the target"):
        run(spark, tmp_path, registry)
    changed = json.loads((tmp_path / "kept").read_text())
    changed["counts"]["total"]["records"] += 1
    newest.write_text(json.dumps(changed))
    with pytest.raises(TargetError, match="seal"):
        run(spark, tmp_path, registry)
    (tmp_path / "kept").rename(newest)
    before = results(tmp_path / "out")
    run(spark, tmp_path, registry)
    assert results(tmp_path / "out") == before
    # A registry of the same version, in which an id means another query: it has another digest.
    for path in tmp_path.glob("queries.sqlite*"):
        path.unlink()
    registered(tmp_path, {**QUERIES[0].definition, "aggregates": {"n": "max(type)"}})
    write_lines(tmp_path / "in" / "b.jsonl", events(10))
    with pytest.raises(DataError, match="the registry of queries"):
        run(spark, tmp_path, registry)
    assert results(tmp_path / "out") == before


def test_a_target_that_is_not_ours_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.jsonl", events(10))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "theirs").write_text("x")
    with pytest.raises(TargetError, match="not empty"):
        run(spark, tmp_path, registered(tmp_path))
    with pytest.raises(UsageError, match="lies in the source"):
        aggregate(str(tmp_path), str(tmp_path / "res"), registered(tmp_path), AggregateOptions(), spark=spark)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["theirs"]


def test_the_lanes_in_java_are_those_in_python(spark: SparkSession) -> None:
    plan = AggregatePlan.of(spark, 4).plan
    for number, query in enumerate(["a", "query-17", "größe", "🙂", ""]):
        for by_window in (True, False):
            start, slide = (number - 2) * 7 * MINUTE * 1000, MINUTE * 1000
            found = plan.lane(query, start, slide, 64, by_window)
            assert found == lane_of(query, start // slide, 64, by_window=by_window)


@pytest.mark.faults
def test_what_is_allowed_is_allowed_by_sparks_parser_too(spark: SparkSession, tmp_path: Path) -> None:
    filters = [
        "country in ('de', 'fr') or not (amount between 1 and 2)",
        "user like 'a%' and upper(user) <> 'X' and user not ilike '%q%'",
        "case when items > 1 then true else false end",
        "cast(items as int) = 1 and try_cast(user as double) > 0.5 and amount <=> amount",
        "timestamp_millis(ts) > timestamp '2024-01-01' and date_trunc('day', timestamp_millis(ts)) is null",
        "coalesce(amount, items, 0) % 2 = 0 and abs(-items) div 2 = 1 and items & 1 = 1 and user || 'x' = 'y'",
    ]
    write_lines(tmp_path / "in" / "a.jsonl", events(50))
    usual = {"aggregates": {"n": "count(*)"}, "window": "1 minute"}
    queries = [{"id": f"q{number}", "filter": text, **usual} for number, text in enumerate(filters)]
    document = run(spark, tmp_path, registered(tmp_path, *queries))
    assert [(one.query_id, one.error) for one in document.queries if one.unfit or one.errors] == []
    assert {name for name in FUNCTIONS if not spark.catalog.functionExists(name)} <= {"cast", "try_cast"}


@pytest.mark.faults
def test_sparks_parser_refuses_what_the_other_was_not_asked(spark: SparkSession, tmp_path: Path) -> None:
    """The twin: a definition that never went through the first check is stopped by the second."""
    write_lines(tmp_path / "in" / "a.jsonl", events(50))
    registry = registered(tmp_path, *[query.definition for query in QUERIES])
    plan = AggregatePlan.of(spark, 2)
    reader = EventReader(spark, AggregateOptions())
    files = spark_files(spark, tmp_path / "in", None)
    with open_queries(registry) as found:
        queries = checked(found.snapshot().active)
    taken = reader.of_files(files, "json", tmp_path / "in", queries)
    texts = ["java_method('java.lang.System', 'nanoTime') > 1", "rand() > 2", "exists (select 1)"]
    planted = [replace(queries[0], id=f"bad{number}", filter=text) for number, text in enumerate(texts)]
    bound = plan.bound(taken, [*queries, *planted])
    assert set(bound.errors) == {"bad0", "bad1", "bad2"}
    assert set(bound.columns) == {query.id for query in queries}

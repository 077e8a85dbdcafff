"""Results as columns, and what `verify` and `explain` read off a target, without Spark."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane.aggregation.query import query_of
from keylane.errors import DataError, TargetError
from keylane.pipelines.aggregate.explain import explain_load
from keylane.pipelines.aggregate.results import ResultRow, ResultRows, columns_of, messages_of, micros_of, table_of
from keylane.pipelines.aggregate.verify import verify_results
from keylane.pipelines.stateful.state_folder import write_sealed
from keylane.report.aggregate_page import aggregate_page

if TYPE_CHECKING:
    from pathlib import Path

MINUTE = 60_000_000
COLUMNS = {"a": {"n": "bigint"}, "b": {"country": "string", "n": "bigint"}}


def rows() -> list[list[ResultRow]]:
    """Three batches: of one query a window a batch, of the other two groups."""
    return [
        [
            ResultRow("a", n * MINUTE, (n + 1) * MINUTE, n, 10, 2, [10]),
            ResultRow("b", n * MINUTE, (n + 1) * MINUTE, 2 * n, 5, 1, ["de", 5]),
            ResultRow("b", n * MINUTE, (n + 1) * MINUTE, 2 * n + 1, 5, 1, ["fr", 5]),
        ]
        for n in range(3)
    ]


def by_column(batch: list[ResultRow]) -> ResultRows:
    return ResultRows(*zip(*batch, strict=True))


def written(folder: Path, batches: list[list[ResultRow]]) -> str:
    for number, batch in enumerate(batches):
        made = folder / "results" / f"batch={number}"
        made.mkdir(parents=True)
        pq.write_table(table_of(by_column(batch), COLUMNS), made / "part-00000.parquet")
    (folder / "_state" / "batches").mkdir(parents=True)
    groups = {"a": [], "b": ["country"]}
    counts = {"queries": {"a": {"windows": 3}, "b": {"windows": 6}}, "groups": groups}
    write_sealed(folder / "_state" / "batches" / "0000000002.json", {"counts": counts})
    return str(folder)


def test_results_that_are_whole_and_in_order_are_right(tmp_path: Path) -> None:
    found = verify_results(written(tmp_path, rows()))
    assert (found.is_right, found.results, found.queries, found.compared_with_state) == (True, 9, 2, True)


def test_a_result_that_is_missing_twice_or_out_of_order_is_found(tmp_path: Path) -> None:
    lost, twice, turned, short = rows(), rows(), rows(), rows()
    del lost[1][0]
    twice[2].append(twice[0][1])
    turned[0], turned[2] = turned[2], turned[0]
    del short[2][2]
    assert verify_results(written(tmp_path / "lost", lost)).missing
    assert verify_results(written(tmp_path / "twice", twice)).twice
    assert verify_results(written(tmp_path / "turned", turned)).out_of_order
    assert verify_results(written(tmp_path / "short", short)).missing
    with pytest.raises(DataError, match="not a target"):
        verify_results(str(tmp_path / "nowhere"))


def test_the_types_of_results_follow_from_those_of_the_events() -> None:
    query = query_of(
        {
            "id": "q",
            "filter": "a = 1",
            "group_by": ["day"],
            "aggregates": {
                "n": "count(*)",
                "whole": "sum(a)",
                "money": "sum(b)",
                "mean": "avg(a)",
                "last": "max(at)",
                "halves": "percentile(a, array(0.5, 0.9))",
                "middle": "median(a)",
                "often": "top_k(c, 2)",
            },
            "window": "1 minute",
        }
    )
    types = ["date", "", "int", "decimal(10,2)", "double", "timestamp", "bigint", "bigint", "string"]
    columns = columns_of(query, types)
    values = [3, 2**70, "12.30", 1.5, 1_700_000_000_000_000, [1.0, 2.5], [1.0], [["x", 2], ["y", 1]]]
    given = by_column([ResultRow("q", 0, MINUTE, 0, 3, 1, [19_000, *values])])
    (row,) = table_of(given, {"q": columns}).to_pylist()
    assert row == {
        "query_id": "q",
        "window_start": datetime.fromtimestamp(0, UTC),
        "window_end": datetime.fromtimestamp(60, UTC),
        "day": datetime.fromtimestamp(19_000 * 86_400, UTC).date(),
        "n": 3,
        "whole": None,
        "money": Decimal("12.30"),
        "mean": 1.5,
        "last": datetime.fromtimestamp(1_700_000_000, UTC),
        "halves": [1.0, 2.5],
        "middle": 1.0,
        "often": [{"item": "x", "count": 2}, {"item": "y", "count": 1}],
        "sequence": 0,
    }
    named = ["n", "whole", "money", "mean", "last", "halves", "middle", "often"]
    assert list(row) == ["query_id", "window_start", "window_end", "day", *named, "sequence"], "and in this order"


def test_columns_of_one_name_and_two_types_are_widened() -> None:
    columns = {"a": {"x": "bigint", "y": "string"}, "b": {"x": "double", "y": "bigint"}}
    given = [ResultRow("a", 0, 1, 0, 1, 1, [1, "t"]), ResultRow("b", 0, 1, 0, 1, 1, [0.5, 7])]
    table = table_of(by_column(given), columns)
    assert (table.schema.field("x").type, table.schema.field("y").type) == (pa.float64(), pa.string())
    assert table.column("y").to_pylist() == ["t", "7"]


def test_rows_are_read_in_the_order_and_with_the_values_they_were_written_with() -> None:
    texts = [f'["q{n}",{n},{n + 1},{n},3,1,["ü",NaN,{n}.5,null,[["x",2]]]]' for n in range(450)]
    read = [*ResultRows.of(texts)]
    assert [(row.query, row.start, row.end, row.sequence) for row in read] == [
        (f"q{n}", n, n + 1, n) for n in range(450)
    ]
    assert all(
        (row.events, row.partials, row.cells[0], row.cells[3:]) == (3, 1, "ü", (None, [["x", 2]])) for row in read
    )
    assert [row.cells[2] for row in read] == [n + 0.5 for n in range(450)]
    assert isinstance(read[0].cells, tuple)
    assert not len(ResultRows.of([]))


def test_the_load_of_lanes_is_explained_by_what_was_delivered(tmp_path: Path) -> None:
    (tmp_path / "_load" / "batch=0").mkdir(parents=True)
    hot = [("hot", number, 1_000, 2) for number in range(64)]
    cold = [(f"cold-{query}", number, 1, 1) for query in range(50) for number in range(64)]
    names = ("query_id", "window", "events", "partials")
    table = pa.table([list(values) for values in zip(*hot, *cold, strict=True)], names)
    pq.write_table(table, tmp_path / "_load" / "batch=0" / "a.parquet")
    found = explain_load(str(tmp_path), 64)
    uneven = {one.division: one.max_over_mean for one in found.divisions}
    assert uneven["query"] > 10
    assert uneven["query-window"] < 1.2
    assert (found.queries, found.queries_with_90_percent, found.hottest[0].query_id) == (51, 1, "hot")
    assert "--by query-window" in found.advice
    page = aggregate_page(found)
    assert ("Hot queries" in page, "Late queries" in page, "Failing queries" in page) == (True, False, False)
    charts = page.split("<h3>")[1:]
    tallest = [max(float(one) for one in re.findall(r'<rect[^>]* height="([0-9.]+)"', chart)) for chart in charts]
    assert tallest[0] > 100 > 10 * tallest[1] > 10, "one scale: the fullest lane by query beside an even one"
    usual = {"events": 5, "windows": 1, "dropped": 0, "corrected": 0, "errors": 0}
    queries = {
        "late": {**usual, "dropped": 3},
        "fails": {**usual, "errors": 2, "error": "<b>boom"},
        "ok": usual,
    }
    (tmp_path / "_state" / "batches").mkdir(parents=True)
    write_sealed(tmp_path / "_state" / "batches" / "0000000007.json", {"batch": 7, "counts": {"queries": queries}})
    (tmp_path / "_metrics").mkdir()
    metrics = {"open_windows": 4, "state_bytes": 99, "restore_s": 0.5, "lag_s": {"ok": 90.0}}
    (tmp_path / "_metrics" / "0000000007.json").write_text(json.dumps(metrics))
    running = explain_load(str(tmp_path), 64)
    assert [one.query_id for one in (*running.late, *running.failing)] == ["late", "fails"]
    page = aggregate_page(running)
    assert all(text in page for text in ("Late queries", "Failing queries", "99 bytes of state"))
    assert "<b>boom" not in page, "an error cannot become markup"
    with pytest.raises(DataError, match="no delivered windows"):
        explain_load(str(tmp_path / "none"), 64)


def test_values_that_do_not_fit_are_null_and_times_are_text_of_their_own() -> None:
    columns = {"a": {"v": "decimal(38,2)", "w": "date"}, "b": {"w": "string"}}
    given = [
        ResultRow("a", 0, 1, 0, 1, 1, ["9" * 36 + ".99", 18_262]),
        ResultRow("a", 1, 2, 1, 1, 1, ["9" * 37 + ".99", None]),
    ]
    table = table_of(by_column(given), columns)
    assert table.column("v").to_pylist() == [Decimal("9" * 36 + ".99"), None]
    assert table.column("w").to_pylist() == ["2020-01-01", None]


def test_messages_may_have_any_time() -> None:
    far = ResultRow("a", -9_000_000_000_000_000_000 // 2, 0, 0, 1, 1, [-4_000_000_000_000_000_000, -800_000_000])
    (message,) = messages_of(by_column([far]), {"a": {"low": "timestamp", "day": "date"}}, "out")
    found = json.loads(message.value or b"")
    assert micros_of(found["window_start"]) == far.start
    assert (found["window_start"][0], found["day"]) == ("-", "-2188356-05-24")


def test_a_file_that_cannot_be_read_and_a_folder_that_is_no_batch_are_named(tmp_path: Path) -> None:
    target = written(tmp_path, rows())
    path = tmp_path / "results" / "batch=1" / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TargetError, match=r"batch=1/part-00000.parquet cannot be read"):
        verify_results(target)
    path.parent.rename(tmp_path / "results" / "batch=x")
    with pytest.raises(TargetError, match="batch=x is no folder of a batch"):
        verify_results(target)

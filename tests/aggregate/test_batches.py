"""Results do not depend on the batches: fields that come and go, change their types, or are there twice; odd times."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.aggregate.random_queries import RandomRun
from tests.aggregate.reference import MINUTE, START
from tests.aggregate.runs import registered, run

from keylane.pipelines.aggregate.verify import verify_results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

COMMON = {"filter": "type = 'click'", "window": "10 minutes"}
ALL = {"n": "count(*)", "s": "sum(x)", "a": "avg(x)", "low": "min(x)", "d": "count(distinct x)", "often": "top_k(x, 2)"}


def click(**more: Any) -> dict[str, Any]:
    return {"type": "click", "ts": START, **more}


def put(folder: Path, parts: Sequence[Sequence[dict[str, Any] | str] | pa.Table]) -> None:
    """A file for each part, one later than the other."""
    folder.mkdir(parents=True)
    for number, part in enumerate(parts):
        if isinstance(part, pa.Table):
            path = folder / f"{number:02d}.parquet"
            pq.write_table(part, path)
        else:
            path = folder / f"{number:02d}.jsonl"
            path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in part))
        os.utime(path, (1_700_000_000 + number,) * 2)


def rows(folder: Path) -> list[dict[str, Any]]:
    """The results by query and sequence, without what a query does not have."""
    found = [row for path in folder.glob("out/results/*/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    kept = [{name: value for name, value in row.items() if value is not None} for row in found]
    return sorted(kept, key=lambda row: (row["query_id"], row["sequence"]))


def both(spark: SparkSession, folder: Path, parts: Sequence[Any], *queries: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a batch for each file, which are those of one batch of all files."""
    found = []
    for name, most in (("each", 1), ("all", 100)):
        put(folder / name / "in", parts)
        document = run(spark, folder / name, registered(folder / name, *queries), max_files=most, lanes=2)
        assert not [one.error for one in document.queries if one.error or one.unfit]
        assert (document.batches >= len(parts)) == (most == 1)
        assert document.dead == 0
        assert verify_results(str(folder / name / "out")).is_right
        found.append(rows(folder / name))
    assert found[0] == found[1]
    return found[0]


def test_fields_that_come_later_or_twice_give_the_same_in_any_batches(spark: SparkSession, tmp_path: Path) -> None:
    parts = [
        [click(), click(x=None, k=1)],
        [click(x=2.5, user={"city": "x"}, k=1.0)],
        [
            f'{{"type": "click", "ts": {START}, "x": 7, "x": 1.5, "k": 2.5, "o": {{"a": 1, "a": 2}}}}',
            click(user={"city": "x", "zip": "7"}),
        ],
    ]
    found = both(
        spark,
        tmp_path,
        parts,
        {"id": "all", **COMMON, "aggregates": ALL},
        {"id": "city", **COMMON, "group_by": ["user.zip"], "aggregates": {"n": "count(*)"}},
        {"id": "k", **COMMON, "group_by": ["k"], "aggregates": {"n": "count(*)"}},
        {"id": "o", **COMMON, "filter": "o.a = 2", "aggregates": {"n": "count(*)"}},
        {"id": "zip", **COMMON, "filter": "user.zip = '7'", "aggregates": {"n": "count(*)"}},
    )
    short = [{name: row[name] for name in row if not name.startswith("window")} for row in found]
    assert short[0]["often"] == [{"item": 1.5, "count": 1}, {"item": 2.5, "count": 1}]
    assert {name: short[0][name] for name in ("n", "s", "a", "low", "d")} == {
        "n": 5,
        "s": 4,
        "a": 2,
        "low": 1.5,
        "d": 2,
    }
    assert [(row["query_id"], row.get("user.zip"), row.get("k"), row["n"]) for row in short[1:]] == [
        ("city", None, None, 4),
        ("city", "7", None, 1),
        ("k", None, None, 2),
        ("k", None, 1.0, 2),
        ("k", None, 2.5, 1),
        ("o", None, None, 1),
        ("zip", None, None, 1),
    ]


@pytest.mark.faults
def test_parquet_files_with_other_types_of_numbers(spark: SparkSession, tmp_path: Path) -> None:
    parts = [pa.Table.from_pylist([click(x=12.5)]), pa.Table.from_pylist([click(x=3)]), pa.Table.from_pylist([click()])]
    (found,) = both(spark, tmp_path, parts, {"id": "all", **COMMON, "aggregates": ALL})
    assert (found["n"], found["s"], found["low"], found["d"]) == (3, 15.5, 3.0, 2)


@pytest.mark.faults
def test_sums_beyond_the_largest_double_have_no_order(spark: SparkSession, tmp_path: Path) -> None:
    parts = [[click(x=1e308), click(x=0.5)], [click(x=1e308)], [click(x=-1e308)], [click(x=-1e308)]]
    (found,) = both(spark, tmp_path, parts, {"id": "all", **COMMON, "aggregates": ALL})
    assert (found["s"], found["a"]) == (0.5, 0.1)


@pytest.mark.faults
def test_a_time_that_is_none_stops_no_other_query(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", [[click(sent={"at": 1}), click(ts=-4_000_000_000_000_000), click(ts=-9_200_000_000_000_000)]])
    bad = {"id": "bad", **COMMON, "time": "sent", "aggregates": {"n": "count(*)"}}
    good = {"id": "good", **COMMON, "aggregates": {"n": "count(*)"}}
    document = run(spark, tmp_path, registered(tmp_path, bad, good), lanes=2)
    figures = {one.query_id: one for one in document.queries}
    assert figures["bad"].error == "the time field sent is no time but struct<at:bigint>"
    assert (figures["good"].windows, document.dead, document.late) == (2, 1, 0)
    assert verify_results(str(tmp_path / "out")).is_right
    # Where no event of a batch has a time, they are dead letters as well.
    (tmp_path / "in" / "later.jsonl").write_text('{"type": "click", "ts": null}\n{}\n')
    assert run(spark, tmp_path, registered(tmp_path, bad, good), lanes=2).dead == 3


@pytest.mark.faults
def test_like_takes_a_time_that_grows_with_the_text(spark: SparkSession, tmp_path: Path) -> None:
    """And means what it means in SQL. Spark's own takes a minute for sixty letters of the first."""
    patterns = {
        "%a%a%a%a%a%a%a%b": None,
        "%ab%": None,
        "a%a": None,
        "_": None,
        "__": None,
        "%_b%": None,
        "a\\%b": None,
        "": None,
    }
    texts = ["a" * 100_000, "a", "ab", "aa", "a%b", "x\nab", "🙂", "", "axb"]
    put(tmp_path / "in", [[click(s=text) for text in texts]])
    usual = {"window": "10 minutes", "aggregates": {"n": "count(*)"}}
    queries = [
        {"id": f"q{n}", "filter": f"s like '{p}'".replace("\\", "\\\\"), **usual} for n, p in enumerate(patterns)
    ]
    document = run(spark, tmp_path, registered(tmp_path, *queries), lanes=2)
    found = {one.query_id: one.events for one in document.queries}
    for number, pattern in enumerate(patterns):
        if number:
            parts = re.split(r"(\\.|%|_)", pattern)
            regex = "".join({"%": ".*", "_": "."}.get(part, re.escape(part.removeprefix("\\"))) for part in parts)
            many = sum(re.fullmatch(regex, text, re.DOTALL) is not None for text in texts)
            assert found.get(f"q{number}", 0) == many, pattern
    assert "q0" not in found


@pytest.mark.faults
def test_the_end_of_a_source_closes_the_windows_that_had_begun(spark: SparkSession, tmp_path: Path) -> None:
    """A query with days for windows makes nothing late for one with minutes."""
    usual = {"filter": "type = 'click'", "aggregates": {"n": "count(*)"}}
    registry = registered(
        tmp_path, {"id": "days", **usual, "window": "7 days"}, {"id": "minutes", **usual, "window": "1 minute"}
    )
    put(tmp_path / "in", [[click()]])
    run(spark, tmp_path, registry, lanes=2)
    later = [click(ts=START + 60 * MINUTE), click(ts=START + 1), click(ts=START - MINUTE)]
    (tmp_path / "in" / "later.jsonl").write_text("".join(json.dumps(one) + "\n" for one in later))
    document = run(spark, tmp_path, registry, lanes=2)
    assert {one.query_id: (one.windows, one.dropped) for one in document.queries} == {"days": (1, 3), "minutes": (2, 2)}
    assert verify_results(str(tmp_path / "out")).is_right


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(8))
def test_random_queries_over_random_events_in_random_batches(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    given = RandomRun.of(seed)
    put(tmp_path / "in", given.parts())
    document = run(spark, tmp_path, registered(tmp_path, *given.queries), lanes=2, **given.options)
    assert (document.dead, document.late, document.errors) == (0, 0, 0)
    assert not [one.query_id for one in document.queries if one.unfit]
    found = rows(tmp_path)
    assert found == given.expected()
    assert verify_results(str(tmp_path / "out")).is_right

"""A route over what is there: exactly once, in order, and on from where the last run ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import LANES, contract, faults, write_files

from keylane.pipelines.route import Options, route
from keylane.testing.folders import dead_letters, files_of, seen

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FILES = 5


@pytest.fixture(scope="module")
def routed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Any]:
    """Five files in batches of two."""
    base = tmp_path_factory.mktemp("routed")
    write_files(base / "in", range(FILES))
    found = route(contract(), str(base / "in"), str(base / "out"), options=Options(max_files=2), spark=spark)
    return base / "in", base / "out", found


def test_every_record_is_there_once_in_its_lane_in_order(routed: tuple[Path, Path, Any]) -> None:
    source, target, _ = routed
    assert faults(target, source) == []


def test_files_that_time_and_size_do_not_tell_apart(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are given their file by these, unless two files share them."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows = pa.table(
            {"k": [f"{number}-{row:03d}" for row in range(100)], "n": range(number * 100, number * 100 + 100)}
        )
        file = tmp_path / "in" / f"f{number}.parquet"
        pq.write_table(rows, file, compression="none", use_dictionary=False)
        os.utime(file, (1_763_000_000, 1_763_000_000))
    assert len({file.stat().st_size for file in (tmp_path / "in").iterdir()}) == 1
    route(contract(), str(tmp_path / "in"), str(tmp_path / "out"), spark=spark)
    routed = ds.dataset(tmp_path / "out", partitioning="hive").to_table(["n", "keylane_source"]).to_pylist()
    expected = [(n, {"file": f"f{n // 100}.parquet", "row": n % 100}) for n in range(300)]
    assert sorted((row["n"], row["keylane_source"]) for row in routed) == expected


def test_the_counts_add_up(routed: tuple[Path, Path, Any]) -> None:
    _, target, found = routed
    assert (found.counts.in_, found.counts.out, found.counts.dead) == (500, 490, 10)
    assert sum(found.lanes["orders"]) == 490 == len(seen(target))
    assert found.batches == 3


def test_a_batch_adds_at_most_one_file_to_a_lane(routed: tuple[Path, Path, Any]) -> None:
    _, target, _ = routed
    names = {f"part-{batch:010d}.parquet" for batch in range(3)}
    assert all(file.name in names for file in files_of(target))
    assert len(files_of(target)) <= 3 * LANES


def test_records_keep_their_columns_for_every_plain_reader(routed: tuple[Path, Path, Any], spark: SparkSession) -> None:
    _, target, _ = routed
    columns = {"k", "n", "keylane_offset", "keylane_source", "stream", "lane"}
    frame = pd.read_parquet(target)
    assert set(frame.columns) == columns
    assert sorted(frame["n"]) == sorted(n for n in range(500) if n % 50 != 49)
    assert set(spark.read.parquet(str(target)).columns) == columns
    assert spark.read.parquet(str(target / "stream=orders")).where("lane = 1").count() > 0
    assert ds.dataset(target, partitioning="hive").count_rows() == 490
    everywhere = [path for path in target.rglob("*.parquet") if "checkpoint" not in path.parts]
    assert sorted(everywhere) == files_of(target), "a pattern that knows no hidden folders finds the same"


def test_dead_letters_say_what_and_why(routed: tuple[Path, Path, Any], spark: SparkSession) -> None:
    _, target, _ = routed
    letters = dead_letters(target)
    assert letters is not None
    first = letters.to_pylist()[0]
    assert first["reason"] == "null-key"
    assert first["original"] == b'{"k":null,"n":49}'
    assert first["keylane_source"] == {"file": "f000.parquet", "row": 49}
    assert first["fingerprint"] == contract().fingerprint
    assert letters["keylane_offset"].to_pylist() == list(range(10))
    assert spark.read.parquet(str(target / "_dead")).count() == 10 == len(pd.read_parquet(target / "_dead"))


def test_run_again_it_takes_what_is_new_and_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write_files(source, range(2))
    route(contract(), str(source), str(target), spark=spark)
    before = seen(target)
    again = route(contract(), str(source), str(target), spark=spark)
    assert again.counts.in_ == 0
    assert seen(target) == before
    # Older than all that was seen, and by more than the week after which Spark would pass it over.
    write_files(source, range(-1_000_000, -999_999))
    more = route(contract(), str(source), str(target), spark=spark)
    assert (more.counts.in_, more.total.in_) == (100, 300)
    assert before < seen(target)


def test_one_run_or_several_give_the_same(spark: SparkSession, tmp_path: Path, routed: tuple[Path, Path, Any]) -> None:
    source, target, _ = routed
    other = tmp_path / "out"
    route(contract(), str(source), str(other), options=Options(max_files=1000), spark=spark)
    assert seen(other) == seen(target)


def test_the_users_session_keeps_its_settings(routed: tuple[Path, Path, Any], spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    assert spark.conf.get("spark.sql.caseSensitive") == "false"

"""A session that the user brings: used as it is, left as it is, and what is missing in it is said."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession
from tests.route.killable_routes import contract, faults, write_files

from keylane.errors import DataError, UsageError
from keylane.pipelines.route import Options, route
from keylane.spark import context as sessions
from keylane.spark.context import session_beside
from keylane.testing.folders import seen

if TYPE_CHECKING:
    from pathlib import Path

ZONE = "spark.sql.session.timeZone"


def said(spark: SparkSession, master: str | None = None, **conf: str) -> list[str]:
    told: list[str] = []
    session_beside(spark, master, {name.replace("__", "."): value for name, value in conf.items()}, told.append)
    return told


def test_a_session_that_lacks_nothing_gets_no_warning(spark: SparkSession) -> None:
    assert said(spark) == []
    assert said(spark, str(spark.sparkContext.master), spark__sql__session__timeZone="UTC") == []


def test_another_time_zone_is_reported_and_left(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", range(1))
    theirs = spark.newSession()
    theirs.conf.set(ZONE, "Asia/Kolkata")
    words = "keylane: time zone is Asia/Kolkata; keylane reads and writes times in UTC anyway"
    with pytest.warns(UserWarning, match=words) as warned:
        route(contract(), str(tmp_path / "in"), str(tmp_path / "out"), spark=theirs)
    assert theirs.conf.get(ZONE) == "Asia/Kolkata"
    assert warned[0].filename == __file__, "the warning points at whoever gave the session"
    assert faults(tmp_path / "out", tmp_path / "in") == []


def test_the_active_session_stays_the_users(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("k,n\na,1\n")
    given = Options(schema="n int")
    spark.createDataFrame([], "n int")  # which makes it the active one
    route(contract(), str(tmp_path / "in.csv"), str(tmp_path / "out"), options=given, spark=spark)
    assert SparkSession.getActiveSession() is spark
    spark.newSession().createDataFrame([], "n int")
    assert SparkSession.getActiveSession() is not spark, "a frame of another session does take its place"
    spark.createDataFrame([], "n int")


@pytest.mark.parametrize("schema", ["n banana", "bigint"])
def test_a_schema_that_is_none(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    (tmp_path / "in.csv").write_text("k,n\na,1\n")
    with pytest.raises(UsageError, match="columns and types"):
        route(contract(), str(tmp_path / "in.csv"), str(tmp_path / "o"), options=Options(schema=schema), spark=spark)


def test_another_python_is_reported(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/elsewhere/python")
    (told,) = said(spark)
    assert "'/elsewhere/python'" in told
    assert sys.executable in told


def test_options_that_come_too_late_are_reported(spark: SparkSession) -> None:
    master, memory = said(spark, "spark://elsewhere:1", spark__executor__memory="4g")
    assert "spark://elsewhere:1" in master
    assert "spark.executor.memory=4g" in memory


def test_options_against_what_the_records_need_are_reported(spark: SparkSession) -> None:
    (note,) = said(spark, spark__sql__adaptive__enabled="true")
    assert "spark.sql.adaptive.enabled=true" in note
    own = session_beside(spark, None, {"spark.sql.files.maxPartitionBytes": "12345"})
    assert own.conf.get("spark.sql.files.maxPartitionBytes") == "12345"
    assert spark.conf.get("spark.sql.files.maxPartitionBytes") != "12345"


def test_what_would_lose_records_is_set_back(spark: SparkSession) -> None:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    own = session_beside(theirs, None, {"spark.sql.files.ignoreMissingFiles": "false"})
    for name, value in sessions.NEEDED.items():
        assert own.conf.get(name) == value
    assert theirs.conf.get("spark.sql.files.ignoreCorruptFiles") == "true"


def test_a_file_that_changes_while_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.jsonl").write_text('{"k":"a"}\n')

    def grow(point: str, _batch: int) -> None:
        if point == "begun":
            with (source / "a.jsonl").open("a") as file:
                file.write('{"k":"b"}\n')

    with pytest.raises(DataError, match=r"a.jsonl .*got '20 bytes .*allowed: 10 bytes"):
        route(contract(), str(source), str(target), spark=spark, probe=grow)
    assert seen(target) == set(), "the batch is not committed"
    assert route(contract(), str(source), str(target), spark=spark).counts.out == 2


def test_a_file_that_has_changed_since_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write_files(source, range(2))
    route(contract(), str(source), str(target), spark=spark)
    told: list[str] = []
    route(contract(), str(source), str(target), spark=spark, say=told.append)
    assert told == []
    write_files(source, range(1), rows=200)
    (source / "f001.parquet").unlink()
    with pytest.raises(DataError, match=r"have changed since they were read.*: f000\.parquet \(") as caught:
        route(contract(), str(source), str(target), spark=spark)
    assert "f001" not in str(caught.value), "one that is gone has done its work"


def test_files_of_one_age_in_two_batches_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    write_files(source, range(16), rows=2, nulls=False)
    for path in source.iterdir():
        os.utime(path, (1_700_000_000,) * 2)
    told: list[str] = []
    out = route(contract(), str(source), str(tmp_path / "a"), spark=spark, say=told.append)
    assert (out.counts.out, told) == (32, []), "one batch is in order of the names"
    route(contract(), str(source), str(tmp_path / "b"), options=Options(max_files=8), spark=spark, say=told.append)
    in_order = faults(tmp_path / "b", source, rows=2) == []
    assert in_order == (told == []), "said when it is so, and only then"

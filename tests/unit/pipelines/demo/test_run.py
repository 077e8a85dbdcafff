"""A disk that is full and a Spark that fails: said in keylane's words, with the folder and what to do."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from keylane.errors import DataError, SparkError, TargetError
from keylane.pipelines.demo import run
from keylane.pipelines.demo.traffic import Sizes

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Sizes(merchants=50, orders=20, rides=20, queries=50, query_events=20)


class FailingSpark:
    """A session whose first read fails."""

    version = "4.2.0"

    @property
    def read(self) -> Any:
        raise PySparkException("Job aborted\n  at many lines of Java")


def steps() -> tuple[list[str], Any]:
    said: list[str] = []
    return said, said.append


def test_a_full_disk_is_reported_with_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    said, say = steps()
    with (
        pytest.raises(TargetError, match=f"No space left on device: got {str(tmp_path)!r}"),
        run.errors_translated(tmp_path),
    ):
        run.run_demo(FailingSpark(), tmp_path, 1, SMALL, say)  # type: ignore[arg-type]  # no session at all
    assert said == []


def test_a_failure_of_spark_is_one_line(tmp_path: Path) -> None:
    said, say = steps()
    with pytest.raises(SparkError, match=r"got 'Job aborted'$"), run.errors_translated(tmp_path):
        run.run_demo(FailingSpark(), tmp_path, 1, SMALL, say)  # type: ignore[arg-type]  # no session at all
    assert len(said) == 3


def test_an_error_in_keylane_s_words_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^mine$"), run.errors_translated(tmp_path):
        raise DataError("mine")

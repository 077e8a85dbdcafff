"""The files of a running match against what Spark says of them: away at a restart, passed over, changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.match.batch_traffic import geo_contract
from tests.match.stream_traffic import World, matches, world

from keylane.errors import DataError
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.options import Options
from keylane.systems.files.spark_log import SparkLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from keylane.systems.files.spark_log import LoggedFile

HOW = Following(max_files=1, available_now=True, tasks=2)


def run(spark: SparkSession, folder: Path, probe: Callable[[str, int], None] = lambda *_: None) -> Any:
    sides = str(folder / "in" / "drivers"), str(folder / "in" / "riders")
    given = Options(radius=3000.0)
    return follow(*sides, str(folder / "out"), given, HOW, contract=geo_contract(4), spark=spark, probe=probe)


def right(folder: Path, made: World) -> bool:
    return matches(folder / "out") == made.expected(3000.0, made.watermark)


class StoppedError(Exception):
    """As if it were killed there."""


@pytest.mark.parametrize(
    "leaves_out", [False, pytest.param(True, id="twin: as Spark does it", marks=pytest.mark.faults)]
)
def test_a_file_that_is_away_when_its_batch_is_made_again_is_named_and_never_left_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves_out: bool
) -> None:
    made = world(files=2)
    drivers, _ = made.write(tmp_path / "in")

    def stop(point: str, batch: int) -> None:
        if (point, batch) == ("read", 1):
            raise StoppedError

    with pytest.raises(StoppedError):
        run(spark, tmp_path, stop)
    away = drivers / "0001.parquet"
    away.rename(tmp_path / "away")
    if leaves_out:
        logged = SparkLog.of_batch

        def there(self: SparkLog, batch: int) -> list[LoggedFile]:
            return [file for file in logged(self, batch) if Path(file.path).exists()]

        monkeypatch.setattr(SparkLog, "of_batch", there)
        run(spark, tmp_path)
        assert not right(tmp_path, made)
        return
    with pytest.raises(DataError, match=r"0001\.parquet"):
        run(spark, tmp_path)
    (tmp_path / "away").rename(away)
    run(spark, tmp_path)
    assert right(tmp_path, made)


def test_files_that_spark_would_pass_over_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    made = world(files=2)
    drivers, _ = made.write(tmp_path / "in")
    hidden = drivers / "12:00.parquet"
    (drivers / "0001.parquet").rename(hidden)
    with pytest.raises(DataError, match=r"12:00\.parquet"):
        run(spark, tmp_path)
    hidden.rename(drivers / "12-00.parquet")
    run(spark, tmp_path)
    assert right(tmp_path, made)


def test_a_file_that_is_written_on_after_it_was_read_ends_the_run(spark: SparkSession, tmp_path: Path) -> None:
    made = world(files=2)
    drivers, _ = made.write(tmp_path / "in")

    def write_on(point: str, batch: int) -> None:
        if (point, batch) == ("put", 0):
            with (drivers / "0000.parquet").open("ab") as file:
                file.write(b"more")

    with pytest.raises(DataError, match=r"have changed since they were read.*0000\.parquet"):
        run(spark, tmp_path, write_on)

"""`match --follow` with its checkpoint on another file system: what is known is there alone, and is compared."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.match.batch_traffic import geo_contract
from tests.match.stream_traffic import matches, world

from keylane.errors import TargetError, UsageError
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

FEW = Following(max_files=1, available_now=True, tasks=2)


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> Callable[[str], tuple[str, Path]]:
    """Addresses of a file system that Hadoop knows and Python does not; and where it keeps its files."""
    jsc: Any = spark.sparkContext._jsc
    # Hadoop keeps a file system by its host for as long as the process lives.
    host, kept = f"match{tmp_path.stat().st_ino}", tmp_path / "elsewhere"
    kept.mkdir()
    jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{host}.link./match", kept.as_uri())
    return lambda name: (f"viewfs://{host}/match/{name}", kept / name)


def run(spark: SparkSession, folder: Path, checkpoint: str, to: str = "out", **more: Any) -> Any:
    sides = str(folder / "in" / "drivers"), str(folder / "in" / "riders")
    how = replace(FEW, checkpoint=checkpoint, **more)
    return follow(*sides, str(folder / to), Options(radius=3000.0), how, contract=geo_contract(4), spark=spark)


def test_what_is_known_is_on_the_file_system_of_the_checkpoint_and_an_older_one_is_refused(
    spark: SparkSession, tmp_path: Path, elsewhere: Callable[[str], tuple[str, Path]]
) -> None:
    made, (address, kept) = world(files=2, drivers=20, riders=30), elsewhere("one")
    made.write(tmp_path / "in", range(1))
    run(spark, tmp_path, address)
    older = shutil.copytree(kept, tmp_path / "older")
    made.write(tmp_path / "in")
    document = run(spark, tmp_path, address)
    assert matches(tmp_path / "out") == made.expected(3000.0, made.watermark)
    assert document.pings == made.pings.num_rows
    assert {path.name for path in kept.iterdir()} >= {"metadata", "offsets", "commits", "state"}
    assert not (tmp_path / "out" / "_state" / "checkpoint").exists()
    with pytest.raises(TargetError, match=f"checkpoint: '{address}', now "):
        run(spark, tmp_path, elsewhere("two")[0])
    with pytest.raises(TargetError, match=f"not empty.*{address}"):
        run(spark, tmp_path, address, to="other")
    shutil.rmtree(kept)
    with pytest.raises(TargetError, match=f"not the one they were written with: {address}"):
        run(spark, tmp_path, address)
    older.rename(kept)
    with pytest.raises(TargetError, match=f"older than the target.*{address}"):
        run(spark, tmp_path, address)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"checkpoint": "s3a://canary:canary@bucket/match"}, "login"),
        ({"state": "hdfs://canary@host/match"}, "--checkpoint"),
    ],
)
def test_addresses_that_are_no_place_for_it_are_refused_before_anything_is_written(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    sides = world(files=1, drivers=2, riders=2).write(tmp_path / "in")
    places = str(sides[0]), str(sides[1]), str(tmp_path / "out")
    with pytest.raises(UsageError, match=message) as refused:
        follow(*places, Options(radius=3000.0), replace(FEW, **given))
    assert "canary" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_file_system_that_spark_does_not_have_is_named(spark: SparkSession, tmp_path: Path) -> None:
    world(files=1, drivers=2, riders=2).write(tmp_path / "in")
    with pytest.raises(TargetError, match=r"nowhere://host/match.*No FileSystem for scheme.*spark\.jars"):
        run(spark, tmp_path, "nowhere://host/match")

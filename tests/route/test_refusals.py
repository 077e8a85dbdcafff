"""What route and compact refuse, in clear words, with nothing harmed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import contract, faults, write_files

from keylane.errors import CountError, DataError, KeylaneError, TargetError, UsageError
from keylane.pipelines.route import route
from keylane.spark import session as sessions
from keylane.spark import write_lanes
from keylane.systems.folders.compaction import compact
from keylane.systems.folders.folder import hold
from keylane.testing.folders import seen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


def everything(folder: Path) -> dict[str, bytes]:
    """Every file's bytes; the lock's are its holder's."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def routed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("refusals")
    write_files(base / "in", range(1))
    route(contract(), str(base / "in"), str(base / "out"), spark=spark)
    return base / "in", base / "out"


@pytest.fixture
def copied(routed: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A target that may be damaged."""
    shutil.copytree(routed[1], tmp_path / "copy")
    return routed[0], tmp_path / "copy"


def refused(error: type[KeylaneError], words: str, target: Path, *args: Any, **kwargs: Any) -> None:
    """A route that is refused with these words, and leaves the target as it was."""
    before = everything(target)
    with pytest.raises(error, match=words):
        route(*args, **kwargs)
    assert everything(target) == before


def test_a_folder_that_is_not_keylanes(tmp_path: Path) -> None:
    write_files(tmp_path / "in", range(1))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("mine")
    words = "changed: got '.*out'"
    refused(TargetError, words, tmp_path / "out", contract(), str(tmp_path / "in"), str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious.txt"]
    with pytest.raises(TargetError, match="not a keylane folder"):
        compact(tmp_path / "out")


def test_a_target_that_is_a_file(tmp_path: Path) -> None:
    write_files(tmp_path / "in", range(1))
    (tmp_path / "out").write_text("a file")
    with pytest.raises(TargetError, match="not a folder"):
        route(contract(), str(tmp_path / "in"), str(tmp_path / "out"))


def test_a_target_of_another_contract(routed: tuple[Path, Path]) -> None:
    source, target = routed
    other = contract(**{"lanes: 4": "lanes: 8"})
    words = "another contract: got 'fingerprint: [0-9a-f]{64} here"
    refused(TargetError, words, target, other, str(source), str(target))


def test_a_target_of_another_source(routed: tuple[Path, Path], tmp_path: Path) -> None:
    _, target = routed
    write_files(tmp_path / "in", range(1))
    refused(TargetError, "was made from another source", target, contract(), str(tmp_path / "in"), str(target))


def test_a_target_in_use(routed: tuple[Path, Path]) -> None:
    source, target = routed
    with hold(target):
        words = r"got '.*out, .*process \d+"
        refused(TargetError, words, target, contract(), str(source), str(target))
        with pytest.raises(TargetError, match="another keylane"):
            compact(target)


def test_a_target_whose_checkpoint_is_gone(copied: tuple[Path, Path]) -> None:
    source, copy = copied
    shutil.rmtree(copy / "_keylane" / "checkpoint")
    refused(TargetError, "checkpoint", copy, contract(), str(source), str(copy))


def test_a_checkpoint_without_its_identity(copied: tuple[Path, Path]) -> None:
    source, copy = copied
    (copy / "_keylane" / "checkpoint" / "metadata").unlink()
    refused(TargetError, "checkpoint", copy, contract(), str(source), str(copy))


def test_a_checkpoint_that_would_repeat_records(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write_files(source, range(1))
    route(contract(), str(source), str(target), spark=spark)
    for name in ("offsets", "commits", "sources"):
        shutil.rmtree(target / "_keylane" / "checkpoint" / name)
    write_files(source, range(1, 2))
    before = seen(target)
    with pytest.raises(TargetError, match="it would repeat"):
        route(contract(), str(source), str(target), spark=spark)
    assert seen(target) == before


def test_a_damaged_manifest(copied: tuple[Path, Path]) -> None:
    source, copy = copied
    next((copy / "_keylane" / "batches").iterdir()).write_text("{half")
    refused(TargetError, "is damaged", copy, contract(), str(source), str(copy))


def test_a_head_of_a_later_form(copied: tuple[Path, Path]) -> None:
    source, copy = copied
    head = copy / "_keylane" / "target.json"
    head.write_text(json.dumps({**json.loads(head.read_text()), "format": "keylane.folder/9"}))
    refused(TargetError, "got 'keylane.folder/9'", copy, contract(), str(source), str(copy))


def test_systems_without_the_ability_are_not_dialled(tmp_path: Path, bare: str) -> None:
    write_files(tmp_path / "in", range(1))
    with pytest.raises(UsageError, match="nothing was contacted"):
        route(contract(), str(tmp_path / "in"), bare)
    with pytest.raises(UsageError, match="nothing was contacted"):
        route(contract(), bare, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("source", "target"), [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_source_and_target_within_each_other(tmp_path: Path, source: str, target: str) -> None:
    write_files(tmp_path / "a" / "b", range(1))
    with pytest.raises(UsageError, match="lie within each other"):
        route(contract(), str(tmp_path / source), str(tmp_path / target))


def test_a_source_that_is_not_there_or_not_clear(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such source"):
        route(contract(), str(tmp_path / "nowhere"), str(tmp_path / "out"))
    (tmp_path / "in").mkdir()
    with pytest.raises(DataError, match=r"known kind'.*--format"):
        route(contract(), str(tmp_path / "in"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_reserved_and_missing_columns(spark: SparkSession, tmp_path: Path) -> None:
    for name, table, words in (
        ("lane", {"k": ["a"], "Lane": [1]}, "reserved names: got 'Lane'"),
        ("key", {"other": ["a"]}, "got 'k'; allowed: other"),
    ):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(table), tmp_path / name / "a.parquet")
        with pytest.raises(DataError, match=words):
            route(contract(), str(tmp_path / name), str(tmp_path / f"{name}-out"), spark=spark)


def test_a_file_that_is_not_of_its_format_stops_the_route_until_it_is_fixed(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write_files(source, range(2))
    whole = (source / "f001.parquet").read_bytes()
    (source / "f001.parquet").write_bytes(b"PAR1 not any more")
    with pytest.raises(DataError, match=r"f001.parquet .*Parquet"):
        route(contract(), str(source), str(target), spark=spark)
    assert seen(target) == set()
    (source / "f001.parquet").write_bytes(whole)
    route(contract(), str(source), str(target), spark=spark)
    assert faults(target, source) == []


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of its own that is soon full."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a full disk needs the right to mount one")
    try:
        yield path
    finally:
        # Lazily: a reader of Spark's may still have a file open for a moment.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_a_full_disk(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    write_files(source, [0], rows=100)
    with small_disk(tmp_path / "disk", "1m") as disk:
        target = disk / "out"
        route(contract(), str(source), str(target), spark=spark)
        before = seen(target)
        (disk / "ballast").write_bytes(b"x" * 500_000)
        noise = pa.array([os.urandom(100) for _ in range(20_000)])
        pq.write_table(pa.table({"k": [f"key-{n}" for n in range(20_000)], "noise": noise}), source / "f001.parquet")
        with pytest.raises(TargetError, match=r"disk.*batch 1"):
            route(contract(), str(source), str(target), spark=spark)
        assert seen(target) == before
        (disk / "ballast").unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        found = route(contract(), str(source), str(target), spark=spark)
        assert (found.counts.in_, found.total.in_) == (20_000, 20_100)
        assert before < seen(target)


def test_counts_that_do_not_add_up_fail(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "in", range(1), nulls=False)
    monkeypatch.setattr(write_lanes, "write_dead", lambda *_: None)
    whole = write_lanes.write_lanes
    monkeypatch.setattr(write_lanes, "write_lanes", lambda frame, *rest: whole(frame.where("n < 90"), *rest))
    with pytest.raises(CountError, match="got 'in 100, out 90, dead 0, filtered 0'"):
        route(contract(), str(tmp_path / "in"), str(tmp_path / "out"), spark=spark)
    assert seen(tmp_path / "out") == set()


def test_spark_connect_is_refused_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_files(tmp_path / "in", range(1))
    monkeypatch.setattr(sessions, "is_remote", lambda: True)
    session: Any = object()
    with pytest.raises(UsageError, match="classic Spark session"):
        route(contract(), str(tmp_path / "in"), str(tmp_path / "out"), spark=session)

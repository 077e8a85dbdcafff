"""Every file of a target, damaged in five ways: named in an error, found by `verify`, or harmless. Never a wrong one.

Harmless means: the route goes on with a new file of its source, and the auditor finds nothing wrong.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import contract, faults, write_files

from keylane.errors import KeylaneError, TargetError
from keylane.pipelines.route import Options, route
from keylane.pipelines.verify import verify
from keylane.systems.folders import folder
from keylane.systems.folders.compaction import compact
from keylane.systems.journal import read_document, write_document
from keylane.testing.folders import files_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

WAYS = ["gone", "empty", "cut", "flipped", "older"]
BATCHES = 3
ROWS = 50


class Routed(NamedTuple):
    """A target of three batches; its source has a fourth file by now. `before` is the target before its last batch."""

    source: Path
    target: Path
    before: Path


@pytest.fixture(scope="module")
def routed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Routed:
    base = tmp_path_factory.mktemp("damage")
    made = Routed(base / "in", base / "out", base / "before")
    for batch in range(BATCHES):
        if made.target.exists():
            shutil.rmtree(made.before, ignore_errors=True)
            shutil.copytree(made.target, made.before)
        write_files(made.source, [batch], rows=ROWS)
        route(contract(), str(made.source), str(made.target), spark=spark)
    write_files(made.source, [BATCHES], rows=ROWS)
    return made


def damage(file: Path, way: str, routed: Routed, copy: Path) -> bool:
    """Damage a file; whether that changes anything."""
    whole = file.read_bytes()
    if way == "gone":
        file.unlink()
    elif way == "empty":
        file.write_bytes(b"")
    elif way == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif way == "flipped":
        at = len(whole) // 3
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] if whole else b"")
    else:
        file.write_bytes(older(file, routed, copy))
    return not file.exists() or file.read_bytes() != whole


def older(file: Path, routed: Routed, copy: Path) -> bytes:
    """The file as it was a batch ago; of one that was not there, the one before it in its folder."""
    before = routed.before / file.relative_to(copy)
    if before.exists() and before.read_bytes() != file.read_bytes():
        return before.read_bytes()
    same = sorted(
        p for p in file.parent.iterdir() if p.is_file() and p.suffix == file.suffix and len(p.name) == len(file.name)
    )
    return same[same.index(file) - 1].read_bytes()


def outcome(routed: Routed, copy: Path, file: Path, spark: SparkSession) -> str:
    """How a damage ends. What is neither named nor found must have left no trace."""
    name = file.name.removeprefix(".").removesuffix(".crc")
    try:
        route(contract(), str(routed.source), str(copy), spark=spark, options=Options(max_files=1))
    except KeylaneError as error:
        assert name in str(error) or file.parent.name in str(error) or str(copy) in str(error), error  # noqa: PT017  either is right
        return "named"
    try:
        found = verify(str(routed.source), str(copy), contract())
    except KeylaneError as error:
        assert name in str(error), error  # noqa: PT017  either is right
        return "found by verify"
    if not found.ok:
        return "found by verify"
    assert faults(copy, routed.source, rows=ROWS) == []
    assert values(copy) == values_of_source(routed.source)
    return "harmless"


def values(target: Path) -> list[int]:
    return sorted(n for file in files_of(target) for n in pq.ParquetFile(file).read()["n"].to_pylist())


def values_of_source(source: Path) -> list[int]:
    tables = (pq.ParquetFile(file).read() for file in source.glob("f*.parquet"))
    return sorted(row["n"] for table in tables for row in table.to_pylist() if row["k"] is not None)


def damaged(routed: Routed, tmp_path: Path, name: str) -> Iterator[tuple[str, Path, Path]]:
    """A copy of the target for each way in which this file can be damaged."""
    for way in WAYS:
        copy = tmp_path / way
        shutil.copytree(routed.target, copy)
        if damage(copy / name, way, routed, copy):
            yield way, copy, copy / name
        shutil.rmtree(copy)


def own(name: str) -> str:
    return f"_keylane/{name}"


@pytest.mark.parametrize("name", ["batches/0000000002.json", "batches/0000000001.json", "target.json"])
def test_what_keylane_records_is_named(routed: Routed, tmp_path: Path, spark: SparkSession, name: str) -> None:
    """By `route`, and by the commands that read a target without its lock."""
    for way, copy, file in damaged(routed, tmp_path, own(name)):
        with pytest.raises(
            TargetError, match=file.name if "batches" not in name or way != "gone" else "target|missing"
        ):
            route(contract(), str(routed.source), str(copy), spark=spark)
        if way not in {"gone", "older"}:
            with pytest.raises(TargetError, match=file.name):
                verify(str(routed.source), str(copy), contract())
            with pytest.raises(TargetError, match=file.name):
                compact(copy)


def test_a_page_of_a_lane_that_has_changed_is_found_by_verify(routed: Routed, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(routed.target, copy)
    file = files_of(copy)[0]
    keys = pq.ParquetFile(file).metadata.row_group(0).column(0)
    at = (keys.dictionary_page_offset or keys.data_page_offset) + keys.total_compressed_size - 1
    whole = file.read_bytes()
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(KeylaneError, match=file.name):
        verify(str(routed.source), str(copy), contract())


def every_file() -> list[str]:
    log = ["0", "1", "2", ".0.crc", ".1.crc", ".2.crc"]
    logs = [f"checkpoint/{name}/{file}" for name in ("offsets", "commits", "sources/0") for file in log]
    names = ["target.json", "lock", *(f"batches/{n:010d}.json" for n in range(BATCHES))]
    return [own(name) for name in (*names, "checkpoint/metadata", "checkpoint/.metadata.crc", *logs)]


@pytest.mark.faults
@pytest.mark.parametrize("name", every_file())
def test_every_file_of_a_target_in_every_way(routed: Routed, tmp_path: Path, spark: SparkSession, name: str) -> None:
    for way, copy, file in damaged(routed, tmp_path, name):
        found = outcome(routed, copy, file, spark)
        assert found in {"named", "harmless"}, (way, name)
        if file.suffix == ".json":
            assert found == "named", (way, name)


@pytest.mark.faults
@pytest.mark.parametrize("which", ["lane=0", "lane=1", "lane=2", "lane=3", "_dead"])
def test_every_file_of_a_lane_in_every_way(routed: Routed, tmp_path: Path, spark: SparkSession, which: str) -> None:
    for path in sorted(file for file in routed.target.rglob("part-*") if which in file.parts):
        for way, copy, file in damaged(routed, tmp_path, str(path.relative_to(routed.target))):
            assert outcome(routed, copy, file, spark) in {"named", "found by verify", "harmless"}, (way, path)


@pytest.mark.faults
def test_the_list_of_files_is_complete(routed: Routed) -> None:
    files = {str(path.relative_to(routed.target)) for path in routed.target.rglob("*") if path.is_file()}
    assert files - set(every_file()) == {name for name in files if "/part-" in name}


# Larger parts that are older than the rest.


@pytest.mark.parametrize("part", ["_keylane", "_keylane/checkpoint", "_keylane/batches"])
def test_a_part_of_a_target_from_an_older_backup_is_refused(
    routed: Routed, tmp_path: Path, spark: SparkSession, part: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(routed.target, copy)
    shutil.rmtree(copy / part)
    shutil.copytree(routed.before / part, copy / part)
    with pytest.raises(TargetError, match=r"older than|after batch 1.*older than the lanes"):
        route(contract(), str(routed.source), str(copy), spark=spark)


@pytest.mark.faults
def test_a_whole_target_from_an_older_backup_goes_on(routed: Routed, tmp_path: Path, spark: SparkSession) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(routed.before, copy)
    found = route(contract(), str(routed.source), str(copy), spark=spark)
    assert found.counts.in_ == 2 * ROWS
    assert faults(copy, routed.source, rows=ROWS) == []


@pytest.mark.faults
def test_twin_without_the_offsets_of_its_last_batch_a_target_takes_an_older_checkpoint(
    routed: Routed, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older checkpoint and a manifest that is rewritten to fit it: the lanes tell."""
    copy = tmp_path / "copy"
    shutil.copytree(routed.target, copy)
    shutil.rmtree(copy / "_keylane" / "checkpoint")
    shutil.copytree(routed.before / "_keylane" / "checkpoint", copy / "_keylane" / "checkpoint")
    (copy / "_keylane" / "batches" / "0000000002.json").unlink()
    with pytest.raises(TargetError, match="files of batches after batch 1"):
        route(contract(), str(routed.source), str(copy), spark=spark)
    monkeypatch.setattr(folder, "_check_not_newer", lambda *_: None)
    with pytest.raises(TargetError, match="in the way"):
        route(contract(), str(routed.source), str(copy), spark=spark)


def test_a_manifest_without_a_field_is_damaged(routed: Routed, tmp_path: Path, spark: SparkSession) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(routed.target, copy)
    file = copy / "_keylane" / "batches" / "0000000002.json"
    document = read_document(file)
    del document["next"]
    write_document(file, document)
    with pytest.raises(TargetError, match=r"0000000002\.json.*KeyError: 'next'"):
        route(contract(), str(routed.source), str(copy), spark=spark)

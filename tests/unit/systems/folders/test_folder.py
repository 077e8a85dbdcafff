"""A commit that dies at any of its steps, without Spark: what is left is all of a batch or nothing, and heals.

The process that dies is a fork that leaves by `os._exit` in the middle of a step: no `finally`, no clean-up, as a kill
leaves it.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane.errors import TargetError
from keylane.systems.folders import folder
from keylane.systems.folders.folder import (
    Counts,
    Head,
    Manifest,
    Placed,
    Target,
    check_agrees,
    dead_file,
    lane_file,
    open_target,
)
from keylane.testing.folders import files_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAD = Head("orders", 1, "f" * 64, {"orders": 3}, "/in", "parquet", "*")
STEPS = ["forced", "committed", "renamed", "renamed 2", "renamed 3", "moved"]


def stage(target: Target, batch: int) -> Manifest:
    """A batch with one file for two lanes and one of dead letters."""
    staging = target.staging(batch)
    finals = [lane_file("orders", 0, batch), lane_file("orders", 2, batch), dead_file(batch)]
    for n in range(3):
        pq.write_table(pa.table({"n": [batch * 10 + n]}), staging / f"{n}.parquet")
    placed = tuple(Placed(f"{n}.parquet", final, 1) for n, final in enumerate(finals))
    before = target.latest() or Manifest.before_all(HEAD)
    counts = Counts(3, 2, 1, 0)
    offsets = {"orders": [before.next["orders"][0] + 1, 0, before.next["orders"][2] + 1]}
    total = before.total + counts
    return Manifest(
        batch, "q", HEAD.fingerprint, staging.name, counts, total, offsets, batch + 1, placed, (), 0, 0, 0, ""
    )


def in_a_process_that_dies(path: Path, work: Callable[[Target], None]) -> None:
    child = os.fork()
    if child == 0:  # pragma: no cover - the child leaves without telling anybody
        with open_target(path, HEAD) as target:
            work(target)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 9


def dying_at(step: str) -> Callable[[Target], None]:
    name, _, times = step.partition(" ")
    left = [int(times or 1)]

    def probe(point: str, _batch: int) -> None:
        if point == name:
            left[0] -= 1
            if not left[0]:
                os._exit(9)

    def work(target: Target) -> None:
        last = target.latest()
        target.commit(stage(target, 0 if last is None else last.batch + 1), probe)

    return work


def found(path: Path) -> dict[str, list[int]]:
    files = [*files_of(path), *sorted((path / "_dead").glob("*"))]
    return {str(file.relative_to(path)): pq.ParquetFile(file).read()["n"].to_pylist() for file in files}


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_leaves_all_of_a_batch_or_nothing(tmp_path: Path, step: str) -> None:
    with open_target(tmp_path / "out", HEAD) as target:
        target.commit(stage(target, 0))
    first = found(tmp_path / "out")
    in_a_process_that_dies(tmp_path / "out", dying_at(step))
    between = found(tmp_path / "out")
    assert first.items() <= between.items()
    with open_target(tmp_path / "out", HEAD) as target:
        last = target.recover()
        assert last is not None
        if last.batch == 0:
            assert step == "forced", "only a batch whose manifest is missing may be made again"
            target.commit(stage(target, 1))
        assert not any((target.journal.own / "staging").iterdir())
    after = found(tmp_path / "out")
    assert between.items() <= after.items(), "what a reader has seen never goes and never changes"
    assert sorted(value for values in after.values() for value in values) == [0, 1, 2, 10, 11, 12]


def test_a_kill_while_a_batch_is_staged_leaves_nothing(tmp_path: Path) -> None:
    def work(target: Target) -> None:
        stage(target, 0)
        os._exit(9)

    in_a_process_that_dies(tmp_path / "out", work)
    with open_target(tmp_path / "out", HEAD) as target:
        assert target.recover() is None
        assert not any((target.journal.own / "staging").iterdir())
    assert found(tmp_path / "out") == {}


def test_recovery_can_die_and_be_tried_again(tmp_path: Path) -> None:
    in_a_process_that_dies(tmp_path / "out", dying_at("renamed"))

    def half(target: Target) -> None:
        last = target.latest()
        assert last is not None
        target._move(last, lambda point, _: os._exit(9) if point == "renamed" else None)

    in_a_process_that_dies(tmp_path / "out", half)
    with open_target(tmp_path / "out", HEAD) as target:
        target.recover()
    assert len(found(tmp_path / "out")) == 3


def test_a_first_start_that_died_before_its_head_is_no_foreign_folder(tmp_path: Path) -> None:
    def work(target: Target) -> None:
        (target.journal.own / "target.json").unlink()
        os._exit(9)

    in_a_process_that_dies(tmp_path / "out", work)
    with open_target(tmp_path / "out", HEAD) as target:
        assert target.head() == HEAD


def test_a_file_of_the_last_batch_that_is_gone_is_not_passed_over(tmp_path: Path) -> None:
    in_a_process_that_dies(tmp_path / "out", dying_at("renamed 2"))
    (tmp_path / "out" / lane_file("orders", 0, 0)).unlink()
    with open_target(tmp_path / "out", HEAD) as target, pytest.raises(TargetError, match="last batch"):
        target.recover()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", range(1, 9))
def test_a_disk_that_fails_at_any_fsync_leaves_all_of_a_batch_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: int
) -> None:
    """Every call of fsync in a commit fails once; when the disk is well again, the batch is there once."""
    with open_target(tmp_path / "out", HEAD) as target:
        target.commit(stage(target, 0))
        manifest, calls = stage(target, 1), [0]

        def failing(_handle: int) -> None:
            calls[0] += 1
            if calls[0] == call:
                raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", failing)
            with pytest.raises(OSError, match=os.strerror(code)):
                target.commit(manifest)
    with open_target(tmp_path / "out", HEAD) as target:
        last = target.recover()
        assert last is not None
        if last.batch == 0:
            target.commit(stage(target, 1))
    values = sorted(value for values in found(tmp_path / "out").values() for value in values)
    assert values == [0, 1, 2, 10, 11, 12]


def test_a_disk_that_is_full_at_the_manifest_recovers_when_there_is_space(tmp_path: Path) -> None:
    """A real limit, in a process of its own: the manifest is larger than any file may be."""

    def work(target: Target) -> None:
        manifest = replace(stage(target, 0), schema="x" * 200_000)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            target.commit(manifest)
        except OSError as error:
            os._exit(9 if error.errno == errno.EFBIG else 1)

    in_a_process_that_dies(tmp_path / "out", work)
    with open_target(tmp_path / "out", HEAD) as target:
        assert target.recover() is None
        target.commit(stage(target, 0))
    assert len(found(tmp_path / "out")) == 3


def test_a_name_that_no_folder_can_have_is_refused_before_the_manifest(tmp_path: Path) -> None:
    """The manifest was there first, and every later start failed to make the folder."""
    with open_target(tmp_path / "out", HEAD) as target:
        manifest = stage(target, 0)
        long = replace(manifest.placed[0], final=lane_file("s" * 249, 0, 0))
        with pytest.raises(OSError, match="too long"):
            target.commit(replace(manifest, placed=(long, *manifest.placed[1:])))
        assert target.recover() is None
    with pytest.raises(TargetError, match=r"too long for a folder.*248"):
        check_agrees(tmp_path / "new", replace(HEAD, streams={"s" * 249: 1}))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kept", [0, 1])
def test_lanes_that_are_newer_than_the_manifests_are_refused(tmp_path: Path, kept: int) -> None:
    """Offsets began again at the number of the older manifest, or at 0."""
    with open_target(tmp_path / "out", HEAD) as target:
        for batch in range(3):
            target.commit(stage(target, batch))
        for batch in range(kept, 3):
            (target.journal.own / "batches" / f"{batch:010d}.json").unlink()
        with pytest.raises(TargetError, match=f"after batch {kept - 1}, .*older than the lanes"):
            target.recover()


def test_a_file_that_a_power_failure_left_in_both_folders_is_moved(tmp_path: Path) -> None:
    in_a_process_that_dies(tmp_path / "out", dying_at("committed"))
    staged = next((tmp_path / "out" / "_keylane" / "staging").rglob("0.parquet"))
    final = tmp_path / "out" / lane_file("orders", 0, 0)
    shutil.copy(staged, final)
    with open_target(tmp_path / "out", HEAD) as target:
        target.recover()
    assert len(found(tmp_path / "out")) == 3


def test_only_the_last_manifests_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "KEPT_MANIFESTS", 3)
    with open_target(tmp_path / "out", HEAD) as target:
        for batch in range(6):
            target.commit(stage(target, batch))
        kept = sorted(path.name for path in (target.journal.own / "batches").iterdir())
        last = target.latest()
    assert kept == [f"{batch:010d}.json" for batch in (3, 4, 5)]
    assert last is not None
    assert last.total == Counts(18, 12, 6, 0)
    assert len(found(tmp_path / "out")) == 18

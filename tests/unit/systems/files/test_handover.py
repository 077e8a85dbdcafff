"""What Spark hands over, compared with its log, with the source, and with what was taken before; without Spark."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.systems.files.written_logs import compact, write_batch, write_entry

from keylane.errors import DataError, TargetError
from keylane.spark.read_parquet import SourceFile
from keylane.systems.files import handover
from keylane.systems.files.handover import Handover, check_names, check_unchanged
from keylane.systems.files.spark_log import SparkLog
from keylane.systems.folders.folder import TakenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class World:
    """A source, a checkpoint, and a run over them."""

    def __init__(self, base: Path) -> None:
        self.source, self.checkpoint = base / "in", base / "checkpoint"
        self.source.mkdir()

    def add(self, *names: str, text: str = "{}\n", modified: int = 1_700_000_000) -> list[Path]:
        paths = [self.source / name for name in names]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, (modified, modified))
        return paths

    def log(self, batch: int, paths: Sequence[Path]) -> None:
        write_entry(self.checkpoint, batch, paths)
        write_batch(self.checkpoint, batch, batch)

    def begun(self, *taken: TakenFile, encoding: str = "UTF-8") -> Handover:
        run = Handover.of(self.source, "json", encoding)
        run.begin(SparkLog(self.checkpoint), taken)
        return run


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def names(files: Sequence[Any]) -> list[str]:
    return [file.name for file in files]


# A batch is what Spark's log says.


def test_a_batch_is_the_entries_since_the_batch_before(world: World) -> None:
    paths = world.add("a.jsonl", "day=1/b.jsonl", "c d%20#?ü.jsonl", "d\u2028e\x85f.jsonl")
    for entry, path in enumerate(paths):
        write_entry(world.checkpoint, entry, [path])
    write_batch(world.checkpoint, 0, 0)
    write_batch(world.checkpoint, 1, 3)
    run = world.begun()
    assert names(run.of_batch(0)) == ["a.jsonl"]
    assert names(run.of_batch(1)) == ["c d%20#?ü.jsonl", "day=1/b.jsonl", "d\u2028e\x85f.jsonl"]


@pytest.mark.parametrize("keep", [True, False])
def test_entries_that_spark_has_merged(world: World, keep: bool) -> None:
    paths = world.add(*(f"{n:02d}.jsonl" for n in range(14)))
    for n, path in enumerate(paths):
        world.log(n, [path])
    compact(world.checkpoint, 9, keep=keep)
    log = SparkLog(world.checkpoint)
    assert [[file.path for file in log.of_batch(n)] for n in range(14)] == [[str(path)] for path in paths]
    assert len(log.refresh()) == len(log.known) == 14
    assert log.refresh() == []
    more = world.add("new.jsonl")
    world.log(14, more)
    assert [file.path for file in log.refresh()] == [str(more[0])]


def test_a_log_of_many_files_is_read_quickly_and_once(world: World) -> None:
    """All of it is parsed once, and later only what is new."""
    log_folder = world.checkpoint / "sources" / "0"
    log_folder.mkdir(parents=True)
    form = '{{"path":"file:///in/part-{0:06d}.jsonl","timestamp":1700000000000,"batchId":{1}}}'
    merged = "\n".join(["v1", *(form.format(n, n // 20) for n in range(20_000))])
    (log_folder / "999.compact").write_text(merged, encoding="utf-8")
    log = SparkLog(world.checkpoint)
    began = time.process_time()
    assert len(log.refresh()) == 20_000
    first = time.process_time() - began
    (log_folder / "1000").write_text("v1\n" + form.format(20_000, 1000), encoding="utf-8")
    began = time.process_time()
    assert len(log.refresh()) == 1
    assert time.process_time() - began < max(0.05, first / 10)


def test_a_file_that_an_earlier_batch_has_read_is_refused(world: World) -> None:
    a, b = world.add("a.jsonl", "b.jsonl")
    world.log(0, [a])
    world.log(1, [b, a])
    run = world.begun()
    run.batch = 0
    run.read(run.of_batch(0))
    assert names(run.of_batch(0)) == ["a.jsonl"], "a batch may be made again"
    with pytest.raises(TargetError, match=r"hands over again files that were read: a.jsonl: hint: restore"):
        run.of_batch(1)
    with pytest.raises(TargetError, match=r"hands over again files that were read: a.jsonl"):
        world.begun(TakenFile("a.jsonl", 3, 1_700_000_000_000, 1)).of_batch(1)


def test_a_log_whose_older_entry_names_another_file_is_refused(world: World) -> None:
    """Spark would hand over the one again, and the other never."""
    a, b, _ = world.add("a.jsonl", "b.jsonl", "c.jsonl")
    taken = [TakenFile(name, 3, 1_700_000_000_000, 1) for name in ("a.jsonl", "b.jsonl")]
    world.log(0, [a])
    world.log(1, [b])
    world.begun(*taken)
    write_entry(world.checkpoint, 0, [world.source / "c.jsonl"])
    with pytest.raises(TargetError, match=r"does not name files that were read: a.jsonl: hint: restore"):
        world.begun(*taken)


@pytest.mark.parametrize("damage", ["", "v2\n", "v1\n{", 'v1\n{"path":3,"batchId":0}', None])
def test_a_damaged_log_is_refused(world: World, damage: str | None) -> None:
    world.log(0, world.add("a.jsonl"))
    file = world.checkpoint / "sources" / "0" / "0"
    file.unlink() if damage is None else file.write_text(damage)
    with pytest.raises(TargetError, match=r"checkpoint is damaged: .*/sources/0/0"):
        world.begun().of_batch(0)


@pytest.mark.parametrize("gone", [0, 1])
def test_a_batch_without_its_ends_is_refused(world: World, gone: int) -> None:
    for n, path in enumerate(world.add("a.jsonl", "b.jsonl")):
        world.log(n, [path])
    (world.checkpoint / "offsets" / str(gone)).unlink()
    with pytest.raises(TargetError, match=f"checkpoint is damaged: .*/offsets/{gone}"):
        world.begun().of_batch(1)


# Files that are away when their batch is made.


@pytest.mark.parametrize("how", ["gone", "unmounted", "a folder", "link"])
def test_a_file_that_is_away_is_named_and_not_left_out(world: World, how: str) -> None:
    paths = world.add("a.jsonl", "b.jsonl")
    world.log(0, paths)
    run = world.begun()
    if how == "unmounted":
        world.source.rename(world.source.with_name("mount"))
        world.source.mkdir()
    elif how == "link":
        paths[0].unlink()
        paths[0].symlink_to(world.source.with_name("nowhere"))
    else:
        paths[0].unlink()
        if how == "a folder":
            paths[0].mkdir()
    got = "a.jsonl (gone), b.jsonl (gone)" if how == "unmounted" else f"a.jsonl ({'gone' if how == 'link' else how})"
    with pytest.raises(DataError) as caught:
        run.of_batch(0)
    assert got in str(caught.value)
    assert "put an empty file in its place" in str(caught.value)
    if how == "gone":
        paths[0].touch()
        assert names(run.of_batch(0)) == ["b.jsonl", "a.jsonl"], "left out for good, and known as empty"


def test_files_come_by_the_age_that_spark_has_logged_and_empty_ones_last(world: World) -> None:
    old, new, same = world.add("old.jsonl", "new.jsonl", "also.jsonl")
    empty = world.add("empty.jsonl", text="")[0]
    write_entry(world.checkpoint, 0, [old, new, same, empty], {old: 1, new: 3, same: 3, empty: 0})
    write_batch(world.checkpoint, 0, 0)
    files = world.begun().of_batch(0)
    assert names(files) == ["old.jsonl", "also.jsonl", "new.jsonl", "empty.jsonl"]
    assert [file.size for file in files] == [3, 3, 3, 0]


def test_what_spark_lists_and_does_not_count_is_left_out(world: World) -> None:
    (plain,) = world.add("plain.jsonl")
    (world.source / "latest.jsonl").symlink_to("plain.jsonl")
    run = world.begun()
    (world.source / "back").symlink_to(world.source)
    spark = [plain, world.source / "latest.jsonl", world.source / "back" / "plain.jsonl"]
    world.log(0, [*spark, *world.add("_metadata", "x._COPYING_", "other.txt")])
    assert names(run.of_batch(0)) == ["plain.jsonl"]
    run.check_complete()


def test_a_second_name_of_a_file_that_was_read_is_refused(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_text("{}\n")
    (world.source / "one.jsonl").symlink_to(outside)
    run = world.begun()
    (world.source / "two.jsonl").symlink_to(outside)
    world.log(0, [world.source / "two.jsonl"])
    with pytest.raises(DataError, match=r"one.jsonl and two.jsonl are links to the same"):
        run.of_batch(0)


# Files that change after they were read.


CHANGES = ["grown", "truncated", "replaced", "touched", "filled"]


def change(path: Path, how: str) -> None:
    if how == "touched":
        os.utime(path, (1_700_000_001, 1_700_000_001))
        return
    path.write_text({"grown": "{}\n{}\n", "truncated": "{}", "replaced": "[]\n", "filled": "{}\n"}[how])


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("when", ["next start", "end", "followed"])
def test_a_file_that_changes_after_it_was_read_is_an_error(
    world: World, how: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = world.add("a.jsonl", text="" if how == "filled" else "{}\n")
    world.log(0, [path])
    run = world.begun()
    files = run.of_batch(0)
    run.read(files)
    run.check_complete()
    taken = [TakenFile(file.name, file.size, file.modified, 1) for file in files]
    world.begun(*taken)
    change(path, how)
    monkeypatch.setattr(handover, "LOOK_SECONDS", 0.0)
    run._next_look = 0.0
    checks: dict[str, Callable[[], Any]] = {
        "next start": lambda: world.begun(*taken),
        "end": run.check_complete,
        "followed": lambda: run.look(lambda: None),
    }
    with pytest.raises(
        DataError,
        match=r"have changed since they were read.*a.jsonl \(\d bytes of 2023-11-14T22:13:20.000\+00:00 then",
    ):
        checks[when]()
    path.unlink()
    world.begun(*taken)


@pytest.mark.parametrize("change_", ["grown", "touched", "gone"])
def test_a_file_that_changes_while_it_is_read(world: World, change_: str) -> None:
    (path,) = world.add("a.jsonl")
    file = SourceFile(str(path), path.as_uri(), "a.jsonl", 3, 1_700_000_000_000)
    check_unchanged([file, file])
    if change_ == "gone":
        path.unlink()
    else:
        change(path, change_)
    with pytest.raises(DataError, match=r"allowed: 3 bytes of 2023-11-14T22:13:20.000\+00:00"):
        check_unchanged([file])


def test_many_changed_files_are_counted(world: World) -> None:
    world.log(0, world.add(*(f"{n}.jsonl" for n in range(5))))
    taken = [TakenFile(f"{n}.jsonl", 1, 1, 1) for n in range(5)]
    with pytest.raises(
        DataError,
        match=r"2\.jsonl \(1 bytes of 1970-01-01T00:00:00.001.* then, 3 bytes of 2023-11-14T22:.* now\) and 2 more",
    ):
        world.begun(*taken)


# Files that Spark does not see.


def test_a_run_does_not_end_while_a_file_was_not_handed_over(world: World) -> None:
    paths = world.add("a.jsonl", "b.jsonl", "c.jsonl")
    run = world.begun()
    world.log(0, paths[:1])
    with pytest.raises(DataError, match=r"Spark does not see files of the source, .*: b.jsonl, c.jsonl"):
        run.check_complete()
    paths[1].unlink()
    world.log(1, paths[2:])
    world.add("late.jsonl")
    run.check_complete()


def test_a_source_that_a_spark_stream_wrote_names_what_was_not_committed(world: World) -> None:
    world.add("a.jsonl", "_spark_metadata/0")
    with pytest.raises(DataError, match="did not commit them"):
        world.begun().check_complete()


def progress(began: datetime, *, new: bool) -> Any:
    return SimpleNamespace(
        timestamp=began.isoformat().replace("+00:00", "Z"),
        sources=[SimpleNamespace(startOffset='{"logOffset":0}', endOffset=f'{{"logOffset":{int(new)}}}')],
    )


@pytest.mark.parametrize(
    ("seconds", "new", "refused"), [(60, False, True), (60, True, False), (-60, False, False), (None, False, False)]
)
def test_while_it_is_followed_a_file_may_wait_until_spark_has_listed_again(
    world: World, monkeypatch: pytest.MonkeyPatch, seconds: int | None, new: bool, refused: bool
) -> None:
    monkeypatch.setattr(handover, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(handover, "_PART_OF_TIME", 0)
    first, waits = world.add("a.jsonl", "waits.jsonl")
    run = world.begun()
    world.log(0, [first])
    at = None if seconds is None else progress(datetime.now(UTC) + timedelta(seconds=seconds), new=new)
    run.look(lambda: at)
    if refused:
        with pytest.raises(DataError, match=r"does not see.*: waits.jsonl"):
            run.look(lambda: at)
        return
    run.look(lambda: at)
    world.log(1, [waits])
    run.look(lambda: progress(datetime.now(UTC) + timedelta(seconds=60), new=False))


def test_a_stream_that_is_never_idle_passes_nothing_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes the oldest first: a younger file that came later shows that it has not seen the older one."""
    monkeypatch.setattr(handover, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(handover, "_PART_OF_TIME", 0)
    world.add("unseen.jsonl")
    run = world.begun()
    run.look(lambda: None)
    older = world.add("older.jsonl", modified=1_600_000_000)
    world.log(0, older)
    run.look(lambda: None)
    world.log(1, world.add("younger.jsonl", modified=1_700_000_100))
    with pytest.raises(DataError, match=r"not read: unseen.jsonl"):
        run.look(lambda: None)


def test_a_look_takes_its_time_only_now_and_then(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    run = world.begun()

    def listed(source: Path, _kind: str | None) -> tuple[()]:
        looked.append(source)
        return ()

    monkeypatch.setattr(handover, "listed", listed)
    for _ in range(3):
        run.look(lambda: None)
    assert looked == [], "the run has just begun"
    now = run._next_look + 1
    monkeypatch.setattr(time, "monotonic", lambda: now)
    run.look(lambda: None)
    run.look(lambda: None)
    assert len(looked) == 1


# Names that Spark cannot read.


@pytest.mark.parametrize(
    ("name", "encoding", "refused"),
    [
        ("plain.jsonl", "ANSI_X3.4-1968", ""),
        ("größe.jsonl", "UTF-8", ""),
        ("größe.jsonl", "ANSI_X3.4-1968", "Java of this Spark session cannot read.*LC_ALL=C.UTF-8"),
        (os.fsdecode(b"bad\xff.jsonl"), "UTF-8", "not UTF-8, which Spark cannot read.*hint: rename"),
        ("a:b.jsonl", "UTF-8", "with a colon"),
        ("a:b/c.jsonl", "UTF-8", ""),
    ],
)
def test_names_that_spark_cannot_read(world: World, name: str, encoding: str, refused: str) -> None:
    world.add(name)
    if not refused:
        world.begun(encoding=encoding)
        return
    with pytest.raises(DataError, match=refused):
        world.begun(encoding=encoding)


def test_a_python_that_reads_names_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "iso8859-1")
    check_names(["plain.jsonl"], "UTF-8")
    with pytest.raises(DataError, match="PYTHONUTF8=1"):
        check_names(["größe.jsonl"], "UTF-8")

"""Spark's checkpoint read as files: what makes a batch, what is forced, and which checkpoint belongs to a target."""

from __future__ import annotations

import json
import shutil
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from keylane.errors import TargetError
from keylane.systems import atomic
from keylane.systems.checkpoint import (
    batch_offsets,
    check_checkpoint,
    check_sums,
    drop_unforced,
    force_batch,
    query_id,
)

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = '{"raw":{"0":%d}}'
FILES = '{"logOffset":%d}'


def log(path: Path, *lines: str) -> None:
    """A file of Spark's, and the one with its checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *lines]))
    path.with_name(f".{path.name}.crc").write_bytes(b"crc")


def batch_of(checkpoint: Path, batch: int, offset: str, *, committed: bool = True) -> None:
    log(checkpoint / "offsets" / str(batch), '{"batchTimestampMs":1}', offset)
    if committed:
        log(checkpoint / "commits" / str(batch), '{"nextBatchWatermarkMs":0}')


def entry(number: int, *names: str) -> list[str]:
    return [json.dumps({"path": f"file:///in/{name}", "timestamp": 5, "batchId": number}) for name in names]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Three batches of files, the second of two entries."""
    path = tmp_path / "checkpoint"
    path.mkdir()
    (path / "metadata").write_text('{"id":"q"}')
    for number, names in enumerate((["a"], ["b"], ["c", "d"], ["e"])):
        log(path / "sources" / "0" / str(number), *entry(number, *names))
    for batch, last in enumerate((0, 2, 3)):
        batch_of(path, batch, FILES % last)
    return path


def test_a_batch_is_its_offsets_without_time_and_settings(tmp_path: Path) -> None:
    batch_of(tmp_path, 0, TOPIC % 7)
    before = batch_offsets(tmp_path, 0)
    assert before == TOPIC % 7
    log(tmp_path / "offsets" / "0", '{"batchTimestampMs":2,"conf":{}}', TOPIC % 7)
    assert batch_offsets(tmp_path, 0) == before


def test_a_batch_of_files_has_all_their_names(checkpoint: Path) -> None:
    before = [batch_offsets(checkpoint, batch) for batch in range(3)]
    log(checkpoint / "sources" / "0" / "1", *entry(1, "other"))
    after = [batch_offsets(checkpoint, batch) for batch in range(3)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]


def test_entries_that_spark_has_merged_are_still_found(checkpoint: Path) -> None:
    before = [batch_offsets(checkpoint, batch) for batch in range(3)]
    source = checkpoint / "sources" / "0"
    log(source / "3.compact", *(line for n in range(4) for line in (source / str(n)).read_text().splitlines()[1:]))
    for number in range(4):
        (source / str(number)).unlink()
    assert [batch_offsets(checkpoint, batch) for batch in range(3)] == before


def test_an_entry_that_is_gone_or_damaged_is_named(checkpoint: Path) -> None:
    file = checkpoint / "sources" / "0" / "3"
    for text in ("", "v1\n{half", "v1\n{}", "v1\n7", "v2\n{}"):
        file.write_text(text)
        with pytest.raises(TargetError, match=r"damaged: .*sources/0/3"):
            batch_offsets(checkpoint, 2)
    file.unlink()
    with pytest.raises(TargetError, match=r"sources/0/3.*missing"):
        batch_offsets(checkpoint, 2)


def agrees(checkpoint: Path, batch: int, offsets: str) -> None:
    check_checkpoint(checkpoint, batch, "q" if batch >= 0 else "", offsets)


def test_a_checkpoint_at_the_last_batch_or_in_the_next_one(checkpoint: Path) -> None:
    agrees(checkpoint, 2, batch_offsets(checkpoint, 2))
    (checkpoint / "commits" / "2").unlink()
    agrees(checkpoint, 2, batch_offsets(checkpoint, 2))
    agrees(checkpoint, 1, batch_offsets(checkpoint, 1))


def test_an_older_checkpoint_is_refused(checkpoint: Path) -> None:
    for log_name in ("offsets", "commits"):
        (checkpoint / log_name / "2").unlink()
    with pytest.raises(TargetError, match=r"older than the target.*hint: restore the newest"):
        agrees(checkpoint, 2, "{}")


def test_a_checkpoint_with_other_records_under_the_same_number_is_refused(checkpoint: Path) -> None:
    known = batch_offsets(checkpoint, 2)
    log(checkpoint / "sources" / "0" / "3", *entry(3, "e", "f"))
    with pytest.raises(TargetError, match="older than the target"):
        agrees(checkpoint, 2, known)


def test_twin_without_the_names_another_batch_of_files_would_pass(checkpoint: Path) -> None:
    known = batch_offsets(checkpoint, 2)
    log(checkpoint / "sources" / "0" / "3", *entry(3, "e", "f"))
    assert known.partition(" ")[0] == batch_offsets(checkpoint, 2).partition(" ")[0]


def test_a_target_that_is_older_than_the_checkpoint_is_refused(checkpoint: Path) -> None:
    with pytest.raises(TargetError, match=r"the target is older than.*got 'batch 2 .*, batch 1 in the target"):
        agrees(checkpoint, 1, batch_offsets(checkpoint, 1))
    shutil.rmtree(checkpoint / "commits")
    with pytest.raises(TargetError, match="does not belong to this target"):
        agrees(checkpoint, 0, batch_offsets(checkpoint, 0))
    batch_of(checkpoint, 0, FILES % 0)
    with pytest.raises(TargetError, match="the target is older"):
        agrees(checkpoint, -1, "")


def test_what_was_never_forced_and_is_cut_is_removed(checkpoint: Path) -> None:
    batch_of(checkpoint, 3, FILES % 4)
    cut = [checkpoint / "offsets" / "3", checkpoint / "commits" / "2", checkpoint / "sources" / "0" / "4"]
    (checkpoint / "commits" / "3").unlink()
    for file in cut:
        file.write_text("")
    assert sorted(drop_unforced(checkpoint, 2, 2)) == sorted(cut)
    assert not any(file.exists() or file.with_name(f".{file.name}.crc").exists() for file in cut)
    agrees(checkpoint, 2, batch_offsets(checkpoint, 2))


@pytest.mark.parametrize("name", ["offsets/2", "commits/1", "sources/0/3", "metadata"])
def test_what_a_batch_depends_on_is_never_removed(checkpoint: Path, name: str) -> None:
    known = batch_offsets(checkpoint, 2)
    (checkpoint / name).write_text("")
    with suppress(TargetError):
        assert drop_unforced(checkpoint, 2, 2) == []
    assert (checkpoint / name).exists()
    if name != "commits/1":
        with pytest.raises(TargetError, match="checkpoint"):
            agrees(checkpoint, 2, known)


def test_before_anything_depends_on_it_an_empty_identity_is_recreated(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_text("")
    assert drop_unforced(checkpoint, -1, -1) == [checkpoint / "metadata"]
    assert query_id(checkpoint) == ""


@pytest.mark.parametrize(
    ("trouble", "known"), [(TargetError("cannot be reached"), None), (FileNotFoundError("metadata"), "")], ids=str
)
def test_a_file_system_that_does_not_answer_is_not_a_checkpoint_without_an_identity(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception, known: str | None
) -> None:
    """What is asked for is committed with the batch: an empty one would refuse all runs to come."""

    def read_text(*_: object, **__: object) -> str:
        raise trouble

    assert query_id(checkpoint)
    monkeypatch.setattr(type(checkpoint), "read_text", read_text)
    if known is None:
        with pytest.raises(TargetError):
            query_id(checkpoint)
    else:
        assert query_id(checkpoint) == known


def test_the_offsets_at_which_a_topic_began_are_kept(tmp_path: Path) -> None:
    """The connector writes a zero byte before its version."""
    began = tmp_path / "sources" / "0" / "0"
    log(began, "{}")
    began.write_text('\0v1\n{"raw":{"0":40}}')
    batch_of(tmp_path, 0, TOPIC % 7, committed=False)
    assert drop_unforced(tmp_path, -1, -1) == []


def test_everything_up_to_the_start_of_a_batch_is_forced(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch_of(checkpoint, 3, FILES % 4, committed=False)
    log(checkpoint / "sources" / "0" / "4", *entry(4, "f"))
    forced: set[str] = set()
    monkeypatch.setattr(
        atomic, "force", lambda path: forced.add(str(path.relative_to(checkpoint.parent)) if path != checkpoint else "")
    )
    force_batch(checkpoint, 3)
    names = {
        *("metadata", "offsets", "offsets/3", "offsets/.3.crc", "commits", "commits/2", "commits/.2.crc"),
        *("sources", "sources/0", "sources/0/4", "sources/0/.4.crc"),
    }
    assert forced == {"", ".", *(f"checkpoint/{name}" for name in names)}


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda _: None, None),
        (lambda at: at.write_bytes(b"x" * 1023 + b"y"), "checksum differs"),
        (lambda at: at.write_bytes(b"x" * 1023), "checksum differs"),
        (lambda at: at.write_bytes(b""), "checksum differs"),
        (lambda at: at.unlink(), "missing"),
        (lambda at: at.with_name(".1.zip.crc").write_bytes(b"crc\0\0\0\2\0" + b"z" * 8), "checksum differs"),
        (lambda at: at.with_name(".1.zip.crc").write_bytes(b"crc\0\2\0\2\0" + b"z" * 8), "does not begin as"),
        (lambda at: at.with_name(".1.zip.crc").unlink(), None),
    ],
    ids=[
        "twin: as it was",
        "flipped",
        "cut",
        "empty",
        "gone",
        "the checksum itself",
        "length of a chunk",
        "no checksum",
    ],
)
def test_a_file_that_is_not_what_its_checksum_says_is_named(tmp_path: Path, damage: Any, named: str | None) -> None:
    path = tmp_path / "state" / "0" / "1.zip"
    path.parent.mkdir(parents=True)
    for name, content in (("0.zip", b""), ("1.zip", b"x" * 1024), ("2.zip", b"short")):
        (path.with_name(name)).write_bytes(content)
        sums = b"".join(zlib.crc32(content[at : at + 512]).to_bytes(4, "big") for at in range(0, len(content), 512))
        path.with_name(f".{name}.crc").write_bytes(b"crc\0\0\0\2\0" + sums)
    damage(path)
    if named is None:
        check_sums(tmp_path)
        return
    with pytest.raises(TargetError, match=rf"1\.zip.*{named}"):
        check_sums(tmp_path)

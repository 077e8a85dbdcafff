from __future__ import annotations

import ctypes
import errno
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from keylane.errors import TargetError
from keylane.systems import atomic
from keylane.systems.atomic import beside_folder, exchange, force, force_all, write_json, write_text

if TYPE_CHECKING:
    from pathlib import Path


def test_a_document_is_there_whole_and_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[bool] = []
    whole = os.fsync

    def fsync(handle: int) -> None:
        forced.append((tmp_path / "a.json").exists())
        whole(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_json(tmp_path / "a.json", {"é": 1})
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == {"é": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert forced == [False, True], "the file before it has its name, and the name after"


def test_a_write_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "a.json", 1)

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_json(tmp_path / "a.json", 2)
    assert json.loads((tmp_path / "a.json").read_text()) == 1


def test_each_path_is_forced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[Path] = []
    monkeypatch.setattr(atomic, "force", forced.append)
    force_all([tmp_path, tmp_path / "a", tmp_path])
    assert forced == [tmp_path, tmp_path / "a"]


def test_what_is_not_there_cannot_be_forced(tmp_path: Path) -> None:
    force(tmp_path)
    with pytest.raises(FileNotFoundError):
        force(tmp_path / "nowhere")


def test_folders_change_places(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange(tmp_path / "one", tmp_path / "other")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["other"]
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["one"]
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "one", tmp_path / "nowhere")


def test_where_they_cannot_it_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def __init__(self, *_: object, **__: object) -> None: ...

        def renameat2(self, *_: object) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.setattr(ctypes, "get_errno", lambda: errno.EINVAL)
    with pytest.raises(TargetError, match="exchange two"):
        exchange(tmp_path / "one", tmp_path / "other")


def kept(tmp_path: Path) -> list[str]:
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("moment", ["before the page", "before the folder", "after the folder", "never"])
def test_a_file_is_put_in_place_with_its_folder_or_not_at_all(tmp_path: Path, moment: str) -> None:
    """Interrupted at each step between the two."""

    def at(now: str) -> None:
        if now == moment:
            raise KeyboardInterrupt

    making = tmp_path / ".making"
    making.mkdir()
    with suppress(KeyboardInterrupt), beside_folder(tmp_path / "a.profile", tmp_path / "a.html") as write:
        at("before the page")
        write(making, "a page")
        at("before the folder")
        making.rename(tmp_path / "a.profile")
        at("after the folder")
    both = moment in {"after the folder", "never"}
    assert kept(tmp_path) == (["a.html", "a.profile"] if both else [".making"])
    assert not both or (tmp_path / "a.html").read_text() == "a page"


def test_twin_a_folder_that_somebody_else_made_gets_no_page(tmp_path: Path) -> None:
    making, other = tmp_path / ".making", tmp_path / "a.profile"
    making.mkdir()
    other.mkdir()
    (tmp_path / "a.html").write_text("the old one")
    with beside_folder(other, tmp_path / "a.html") as write:
        write(making, "a page")
    assert (tmp_path / "a.html").read_text() == "the old one"


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as found:
        write_text(tmp_path / "none" / "page.html", "text")
    assert found.value.filename == str(tmp_path / "none" / "page.html")

from __future__ import annotations

import ctypes
import errno
import json
import os
from typing import TYPE_CHECKING

import pytest

from keylane.errors import TargetError
from keylane.systems import atomic
from keylane.systems.atomic import exchange, force, force_all, write_json

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


def test_where_they_cannot_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def __init__(self, *_: object, **__: object) -> None: ...

        def renameat2(self, *_: object) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.setattr(ctypes, "get_errno", lambda: errno.EINVAL)
    with pytest.raises(TargetError, match="exchange two"):
        exchange(tmp_path / "one", tmp_path / "other")

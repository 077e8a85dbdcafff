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
from keylane.systems.atomic import (
    beside_folder,
    exchange,
    force,
    force_all,
    replace_text,
    write_bytes,
    write_json,
    write_text,
)
from keylane.systems.hash_key_registry import open_registry
from keylane.systems.profiles import DOCUMENT, KEYS, staged

if TYPE_CHECKING:
    from collections.abc import Callable
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


def page_beside(path: Path) -> None:
    made = path.parent / "a.profile"
    with beside_folder(made, path) as write:
        made.mkdir()
        write(made, "2")


#: Every writer of a file.
WRITERS: dict[str, Callable[[Path], object]] = {
    "json": lambda path: write_json(path, 2),
    "bytes": lambda path: write_bytes(path, b"2"),
    "text": lambda path: write_text(path, "2"),
    "replaced": lambda path: replace_text(path, "2", lambda: None),
    "beside": page_beside,
}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", WRITERS)
def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path, name: str, there: bool) -> None:
    """Over two links and another folder; also to a file that is not there yet."""
    (tmp_path / "shared").mkdir()
    real, near, far = tmp_path / "shared" / "real", tmp_path / "shared" / "near", tmp_path / "far"
    near.symlink_to("real")
    far.symlink_to("shared/near")
    if there:
        real.write_text("1")
        real.chmod(0o640)
    WRITERS[name](far)
    assert real.read_text() == "2"
    assert far.is_symlink()
    assert near.is_symlink()
    assert sorted(path.name for path in real.parent.iterdir()) == ["near", "real"]
    if there:
        assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", WRITERS)
def test_twin_a_writer_that_takes_the_link_for_the_file_is_noticed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "behind", lambda path: path)
    with pytest.raises(AssertionError):
        test_a_link_leads_to_the_file_that_is_written(tmp_path, name, there=True)


@pytest.mark.parametrize("name", WRITERS)
def test_links_in_a_circle_are_an_error_that_names_the_link(tmp_path: Path, name: str) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / one).symlink_to(other)
    with pytest.raises(OSError, match="symbolic links") as found:
        WRITERS[name](tmp_path / "a")
    assert found.value.filename == str(tmp_path / "a")


def test_a_file_with_a_second_name_is_not_replaced_under_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    with pytest.raises(TargetError, match="hard link"):
        replace_text(tmp_path / "a", "2", lambda: None)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_nobody_may_write_is_not_replaced(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("1")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError) as found:
        WRITERS[name](tmp_path / "a")
    assert found.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "1"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_profile_behind_a_link_is_replaced_there(tmp_path: Path) -> None:
    real, link = tmp_path / "real.profile", tmp_path / "link.profile"
    for text in ("1", "2"):
        with staged(link if text == "2" else real, replace=True) as folder:
            (folder / KEYS).mkdir()
            (folder / DOCUMENT).write_text(text)
        if text == "1":
            link.symlink_to(real)
    assert link.is_symlink()
    assert (real / DOCUMENT).read_text() == "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.profile", "real.profile"]


def test_a_registry_is_made_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    with open_registry(tmp_path / "link", create=True) as registry:
        registry.add("acme")
    assert (tmp_path / "real").is_file()
    assert (tmp_path / "link").is_symlink()

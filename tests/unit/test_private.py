"""Folders that others cannot write to, caches that load nothing of theirs, temporary folders that no kill leaves."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from keylane import private
from keylane.errors import CacheError
from keylane.private import PREFIX, check_file, make_folder, new_folder, own_folder, problem_of, remove_left
from keylane.spark.jvm import Java, archive_options, cache_folder, compiled

if TYPE_CHECKING:
    from collections.abc import Callable

STRANGER = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder like a user's home: theirs, and nobody else can write to it."""
    (tmp_path / "home").mkdir(mode=0o755)
    return tmp_path / "home"


# Who could change what is at a path


def made(folder: Path, mode: int, owner: int | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    if owner is not None:
        os.chown(folder, owner, owner)
    folder.chmod(mode)
    return folder


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o500])
def test_a_folder_of_this_user_alone_is_safe(home: Path, mode: int) -> None:
    assert problem_of(made(home / "c", mode)) is None


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777, 0o702])
def test_a_folder_that_others_can_write_to_is_not(home: Path, mode: int) -> None:
    assert "others can write to" in str(problem_of(made(home / "c", mode)))


@as_root
def test_a_folder_of_a_group_is_safe_only_if_the_group_is_this_user_alone(home: Path) -> None:
    own, shared = made(home / "own", 0o770), made(home / "shared", 0o770)
    os.chown(shared, 0, STRANGER)
    assert problem_of(own) is None, "root is alone in the group root"
    assert "mode 770, others can write to" in str(problem_of(shared))


@as_root
def test_what_belongs_to_somebody_else_is_not_safe(home: Path) -> None:
    made(home / "theirs", 0o755, STRANGER)
    assert problem_of(home / "theirs") == f"user {STRANGER} owns {home / 'theirs'}"
    assert problem_of(home / "theirs" / "below" / "not-yet") == f"user {STRANGER} owns {home / 'theirs'}"


def test_a_folder_above_that_others_can_write_to_makes_it_unsafe_unless_it_is_sticky(home: Path) -> None:
    made(home / "above", 0o777)
    made(home / "above" / "c", 0o700)
    assert problem_of(home / "above" / "c") == f"mode 777, others can write to {home / 'above'}"
    assert problem_of(home / "above" / "not-yet") is not None
    (home / "above").chmod(0o1777)
    assert problem_of(home / "above" / "c") is None, "as in /tmp: nobody else can rename it"


def test_a_link_is_followed(home: Path) -> None:
    made(home / "open", 0o777)
    (home / "link").symlink_to(home / "open")
    assert "others can write to" in str(problem_of(home / "link"))
    assert "others can write to" in str(problem_of(home / "link" / "below"))


@as_root
def test_a_link_that_somebody_else_made_is_not_safe(home: Path) -> None:
    made(home / "mine", 0o700)
    made(home / "tmp", 0o1777)
    (home / "tmp" / "cache").symlink_to(home / "mine")
    os.lchown(home / "tmp" / "cache", STRANGER, STRANGER)
    assert f"user {STRANGER} owns " in str(problem_of(home / "tmp" / "cache"))


def test_a_file_is_no_folder(home: Path) -> None:
    (home / "file").touch()
    assert problem_of(home / "file") == f"not a folder: {home / 'file'}"


def test_a_folder_is_made_for_its_user_alone_with_all_above_it(home: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(home / "a" / "b" / "c")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((home / part).stat().st_mode) for part in ("a", "a/b", "a/b/c")]
    assert modes == [0o700, 0o700, 0o700]


def test_a_file_that_others_can_write_to_is_refused(home: Path) -> None:
    (home / "x.jar").touch()
    check_file(home / "x.jar")
    (home / "x.jar").chmod(0o666)
    with pytest.raises(CacheError, match=r"mode 666, others can write to .*hint: remove .*x\.jar"):
        check_file(home / "x.jar")


# The cache


def test_a_cache_that_others_can_write_to_is_refused(home: Path) -> None:
    made(home / "cache", 0o777)
    with pytest.raises(
        CacheError, match=r"mode 777.*KEYLANE_CACHE=DIR names a folder of your own; KEYLANE_CACHE= turns"
    ):
        cache_folder({"KEYLANE_CACHE": str(home / "cache")})
    (home / "cache").chmod(0o755)
    assert cache_folder({"KEYLANE_CACHE": str(home / "cache")}) == home / "cache"


@as_root
def test_a_cache_of_somebody_else_is_refused(home: Path) -> None:
    made(home / "cache", 0o755, STRANGER)
    with pytest.raises(CacheError, match=f"user {STRANGER} owns "):
        cache_folder({"KEYLANE_CACHE": str(home / "cache")})


def test_a_home_that_others_can_write_to_is_passed_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(made(home / "tmp", 0o1777)))
    made(home / "open", 0o777)
    monkeypatch.setenv("HOME", str(home / "open"))
    own = home / "tmp" / f"keylane-cache-{os.geteuid()}"
    assert cache_folder({}) == own
    assert cache_folder({"XDG_CACHE_HOME": str(home / "open")}) == own
    assert cache_folder({"XDG_CACHE_HOME": str(home / "xdg")}) == home / "xdg" / "keylane"
    made(own, 0o777)
    with pytest.raises(CacheError, match="KEYLANE_CACHE=DIR"):
        cache_folder({})


def test_a_user_without_a_home_has_a_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(tempfile, "tempdir", str(made(home / "tmp", 0o1777)))
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert cache_folder({}) == home / "tmp" / f"keylane-cache-{os.geteuid()}"


JAVA = Java(Path("/some/java"), "17.0.15")


@pytest.mark.parametrize("planted", ["finished", "part"])
def test_a_class_archive_that_others_could_have_written_is_refused(home: Path, planted: str) -> None:
    environ = {"KEYLANE_CACHE": str(home / "cache")}
    part = Path(archive_options(JAVA, environ=environ)[0].removeprefix("-XX:ArchiveClassesAtExit="))
    archive = part if planted == "part" else part.with_name(part.name.partition(".jsa")[0] + ".jsa")
    archive.write_bytes(b"\xa8\xab\x0b\xf0")
    archive.chmod(0o666)
    with pytest.raises(CacheError, match="mode 666"):
        archive_options(JAVA, environ=environ)


CLASSES = {"keylane/A.class": b"code of A", "keylane/B.class": b"code of B"}


def test_compiled_classes_are_kept(home: Path) -> None:
    jar = compiled(home / "java", "keylane-0123", lambda: CLASSES)
    assert compiled(home / "java", "keylane-0123", pytest.fail) == jar
    assert compiled(home / "java", "keylane-4567", lambda: CLASSES).read_bytes() == jar.read_bytes(), "no times in it"


@pytest.mark.parametrize("damage", ["empty", "cut", "one bit", "another jar"])
def test_a_jar_that_is_not_what_was_compiled_is_compiled_again(home: Path, damage: str) -> None:
    jar = compiled(home / "java", "keylane-0123", lambda: CLASSES)
    whole = jar.read_bytes()
    other = compiled(home / "other", "keylane-0123", lambda: {"keylane/A.class": b"planted"}).read_bytes()
    changed = {"empty": b"", "cut": whole[:-9], "one bit": bytes([whole[0] ^ 1]) + whole[1:], "another jar": other}
    jar.write_bytes(changed[damage])
    assert compiled(home / "java", "keylane-0123", lambda: CLASSES).read_bytes() == whole


def test_a_jar_that_others_could_have_written_is_refused(home: Path) -> None:
    jar = compiled(home / "java", "keylane-0123", lambda: CLASSES)
    jar.chmod(0o666)
    with pytest.raises(CacheError, match="mode 666"):
        compiled(home / "java", "keylane-0123", lambda: CLASSES)


@as_root
def test_a_jar_of_somebody_else_is_refused_whatever_its_name(home: Path) -> None:
    jar = compiled(home / "java", "keylane-0123", lambda: CLASSES)
    os.chown(jar, STRANGER, STRANGER)
    with pytest.raises(CacheError, match=f"user {STRANGER} owns "):
        compiled(home / "java", "keylane-0123", lambda: CLASSES)


def test_what_is_compiled_is_forced_before_it_gets_its_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    force, replace = os.fsync, Path.replace

    def forced(handle: int) -> None:
        steps.append(f"force {Path(f'/proc/self/fd/{handle}').readlink().suffix or 'folder'}")
        force(handle)

    def renamed(path: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", forced)
    monkeypatch.setattr(Path, "replace", renamed)
    compiled(home / "java", "keylane-0123", lambda: CLASSES)
    assert steps == ["force .part", "rename", "force folder"]


# Temporary folders


def left(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.glob(f"{PREFIX}*"))


def test_a_temporary_folder_is_for_this_user_alone_and_ends_with_its_use(home: Path) -> None:
    with own_folder(home) as folder:
        assert list(folder.iterdir()) == []
        outer = folder.parent
        assert (outer.parent, stat.S_IMODE(outer.stat().st_mode)) == (home, 0o700)
        assert [stat.S_IMODE(path.stat().st_mode) for path in sorted(outer.iterdir())] == [0o700, 0o600]
        (folder / "record").write_text("canary")
    assert left(home) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from keylane.private import new_folder
folder = new_folder(Path(sys.argv[1]))
(folder.path / "record").write_text("canary")
print(folder.path.name, flush=True)
if sys.argv[2] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


def begun(parent: Path, how: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-c", KILLED, str(parent), how]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(home: Path) -> None:
    living, kept = begun(home, "live")
    killed, gone = begun(home, "kill")
    try:
        assert killed.wait(120) == -signal.SIGKILL
        assert left(home) == sorted((kept, gone))
        with own_folder(home):
            assert kept in left(home)
            assert gone not in left(home)
    finally:
        living.communicate()
        killed.communicate()
    remove_left(home)
    assert left(home) == []


def test_twin_without_the_lock_a_living_one_would_be_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new_folder(home)
    remove_left(home)
    assert folder.path.exists()
    monkeypatch.setattr(private, "_locked", lambda *_, **__: os.open(os.devnull, os.O_RDONLY))
    remove_left(home)
    assert not folder.path.exists()
    os.close(folder.handle)


def test_only_folders_of_this_user_are_removed(home: Path, tmp_path: Path) -> None:
    made(tmp_path / "precious", 0o755)
    (tmp_path / "precious" / "data").touch()
    (home / f"{PREFIX}link").symlink_to(tmp_path / "precious")
    (home / f"{PREFIX}file").touch()
    made(home / "another-name", 0o700)
    if os.geteuid() == 0:
        made(home / f"{PREFIX}theirs", 0o777, STRANGER)
    before = sorted(home.iterdir())
    remove_left(home)
    assert sorted(home.iterdir()) == before
    assert (tmp_path / "precious" / "data").exists()


def busy(parent: Path, rounds: int, lost: Callable[[int], None]) -> None:
    for _ in range(rounds):
        folder = new_folder(parent)
        (folder.path / "record").touch()
        remove_left(parent)
        lost(0 if (folder.path / "record").exists() else 1)
        folder.remove()


def test_many_processes_at_once_never_remove_each_others(home: Path) -> None:
    context = multiprocessing.get_context("fork")
    lost = context.SimpleQueue()
    workers = [context.Process(target=busy, args=(home, 25, lost.put)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert sum(lost.get() for _ in range(100)) == 0
    assert left(home) == []

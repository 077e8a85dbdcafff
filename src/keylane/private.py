"""Folders and files that no other user of this machine can change or read, and temporary ones that no kill leaves.

    check_folder, check_file   refuse what somebody else could change: code and class archives are loaded from there
    make_folder                a folder for this user alone
    OwnFolder, own_folder      a temporary folder of this process: its name is unknown before, only this user can enter
                               it, and when the process was killed, a later one removes it

A temporary folder holds records, so it may not be left behind. It is locked for as long as its process lives; the
system releases the lock however the process ends, also in another container that shares the folder, where process
numbers mean something else. Where caches are: `spark.jvm`. What a target's lock is: `systems.atomic`.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.errors import CacheError

if TYPE_CHECKING:
    from collections.abc import Iterator

OWNER_ONLY: Final = 0o700
_WAY_OUT: Final = "KEYLANE_CACHE=DIR names a folder of your own; KEYLANE_CACHE= turns caching off"
_GROUP_OR_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


# Who could change what is at a path.


def check_folder(folder: Path) -> None:
    """Refuse a folder, there or not yet, that another user could fill or replace."""
    problem = problem_of(folder)
    if problem is not None:
        raise CacheError.of(
            "the cache folder is not safe: another user could have keylane load their code",
            got=problem,
            allowed="folders of your own that only you can write to",
            hint=_WAY_OUT,
        )


def check_file(path: Path) -> None:
    """Refuse a file that another user could have written."""
    about = path.stat()
    problem = _changeable(path, about)
    if problem is not None or not stat.S_ISREG(about.st_mode):
        raise CacheError.of(
            "a file of the cache is not safe to load: another user could have written it",
            got=problem or f"not a file: {path}",
            allowed="files of your own that only you can write to",
            hint=f"remove {path}",
        )


def problem_of(folder: Path) -> str | None:
    """Why another user could change what is in a folder, or put another in its place; None when none could.

    Of a folder that is not there yet the part that is there is looked at. Every folder above counts, on the way to a
    link and behind it: who may write to one of them may rename what is in it, unless its sticky bit is set.
    """
    given, real = folder.absolute(), folder.resolve()
    # A set of both ways, so that each path is asked once.
    for path in dict.fromkeys((*reversed((given, *given.parents)), *reversed((real, *real.parents)))):
        try:
            about = path.lstat()
        except OSError:
            continue
        shared = path not in {given, real} and bool(about.st_mode & stat.S_ISVTX)
        problem = _foreign(path, about) if shared or stat.S_ISLNK(about.st_mode) else _changeable(path, about)
        if problem is not None:
            return problem
    return f"not a folder: {real}" if real.exists() and not real.is_dir() else None


def _changeable(path: Path, about: os.stat_result) -> str | None:
    if problem := _foreign(path, about):
        return problem
    open_to = about.st_mode & _GROUP_OR_OTHERS
    if open_to & stat.S_IWOTH or (open_to and not _is_alone(about.st_gid)):
        return f"mode {stat.S_IMODE(about.st_mode):o}, others can write to {path}"
    return None


def _foreign(path: Path, about: os.stat_result) -> str | None:
    return None if about.st_uid in _trusted() else f"user {about.st_uid} owns {path}"


@cache
def _trusted() -> frozenset[int]:
    """This user and root; also the number that stands for root where that has none, in a user namespace."""
    own = {os.geteuid(), 0}
    try:
        ranges = [list(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text("ascii").splitlines()]
        nobody = int(Path("/proc/sys/kernel/overflowuid").read_text("ascii"))
    except (OSError, ValueError):
        return frozenset(own)
    is_mapped = any(first <= nobody < first + count for first, _, count in ranges)
    return frozenset(own if is_mapped else own | {nobody})


@cache
def _is_alone(group: int) -> bool:
    """Whether a group is that of this user alone, as many systems make one for each user."""
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (user.pw_gid, user.pw_name) == (group, found.gr_name) and set(found.gr_mem) <= {user.pw_name}


def make_folder(folder: Path) -> Path:
    """The folder, made for this user alone where it is not there, and refused where it is not safe."""
    check_folder(folder)
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=OWNER_ONLY, exist_ok=True)
    # Another process may have made it in between, and not for itself alone.
    check_folder(folder)
    return folder


def can_use(folder: Path) -> bool:
    """Whether this user can read a folder, or make it, and nobody else can change it."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    wanted = os.R_OK | os.X_OK if there == folder else os.W_OK | os.X_OK
    return os.access(there, wanted) and problem_of(folder) is None


# Temporary folders: of one process, and gone with it.

PREFIX: Final = "keylane-tmp-"
_LOCK: Final = "process"


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A temporary folder of this process. `handle` is its lock, which a child process may inherit to share it."""

    path: Path
    handle: int

    def remove(self) -> None:
        """Remove it and release its lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self.handle)


@contextmanager
def own_folder(within: Path | None = None) -> Iterator[Path]:
    """A temporary folder for as long as this is open."""
    folder = new_folder(within)
    # Apart from the lock: whoever lists it finds what they put there.
    inner = folder.path / "data"
    inner.mkdir(mode=OWNER_ONLY)
    try:
        yield inner
    finally:
        folder.remove()


def new_folder(within: Path | None = None) -> OwnFolder:
    """A temporary folder, after those of killed processes are removed; the caller removes it."""
    parent = within or Path(tempfile.gettempdir())
    remove_left(parent)
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        handle = _locked(path, wait=True)
        if handle is not None:
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            return OwnFolder(path, handle)


def remove_left(parent: Path) -> None:
    """Remove the temporary folders of this user's processes that have ended."""
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            about = path.lstat()
            # Others can make folders with such a name: theirs are not ours to enter.
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid():
                handle = _locked(path, wait=False)
                if handle is not None:
                    OwnFolder(path, handle).remove()


def _locked(path: Path, *, wait: bool) -> int | None:
    """The lock of a folder; None when another process has it, or has removed the folder while this one waited."""
    import fcntl

    try:
        handle = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        # Held by another; or a file system without locks, where nobody gets one and so nobody removes the folder.
        if wait:
            return handle
        os.close(handle)
        return None
    if not _is_at(handle, path / _LOCK):
        os.close(handle)
        return None
    return handle


def _is_at(handle: int, path: Path) -> bool:
    try:
        held, there = os.fstat(handle), path.stat()
    except OSError:
        return False
    return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)

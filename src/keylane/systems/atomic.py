"""Atomic writes, locks, and which process a pid is: what journals and folders are built on. POSIX file systems only.

A file is written under another name, forced to the disk and renamed; a rename within one file system is one step for
every reader. Through a symbolic link it is the file behind the link that is replaced, and what is replaced keeps its
mode: a file that nobody may write is refused. Which files there are, and why in that order: `folders`.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from keylane.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_AT_CWD: Final = -100
_RENAME_EXCHANGE: Final = 2
#: Files that are forced at a time.
_AT_ONCE: Final = 16
#: So few are forced one after the other: threads would cost more.
_FEW: Final = 2


def force(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def force_all(paths: Iterable[Path]) -> None:
    """Force each path once. Several at a time: a disk writes what waits for it in one go."""
    each = dict.fromkeys(paths)
    if len(each) <= _FEW:
        for path in each:
            force(path)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # Taken from the iterator, so that the error of any of them is raised here.
        for _ in pool.map(force, each):
            pass


def make_folder(path: Path) -> None:
    """Create a folder, and those above it, so that their names survive a power failure."""
    make_folders([path])


def make_folders(paths: Iterable[Path]) -> None:
    """Create folders, and those above them, so that their names survive a power failure; each parent is forced once."""
    missing: dict[Path, None] = {}
    for path in paths:
        above = [folder for folder in (path, *path.parents) if folder not in missing]
        missing |= dict.fromkeys(reversed(list(takewhile(lambda folder: not folder.is_dir(), above))))
    for path in missing:
        path.mkdir(exist_ok=True)
    force_all(path.parent for path in missing)


def write_json(path: Path, document: Any) -> None:
    """Write a document so that a reader sees the old one or the new one, also after the power fails."""
    _replace(path, json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def write_bytes(path: Path, data: bytes) -> None:
    """The same for bytes."""
    _replace(path, data)


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file for a person, whole or not at all; what is no file, as a pipe or a terminal, just gets the text.

    A private one only its owner can read, at every moment.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
    else:
        _replace(path, text, private=private)


def behind(path: Path) -> Path:
    """The file that a name stands for, through every symbolic link: one that is there, or one that can be made."""
    found = Path(os.path.realpath(path))
    if found.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return found


def _waiting(path: Path, name: str, *, private: bool = False) -> Path:
    """An empty file beside a file, to take its place, with its owner and mode."""
    there = path.exists()
    if there and not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    waiting = path.with_name(name)
    waiting.unlink(missing_ok=True)
    waiting.touch(mode=0o600 if private else 0o666)
    if there and not private:
        found = path.stat()
        with suppress(OSError):
            os.chown(waiting, found.st_uid, found.st_gid)
        waiting.chmod(found.st_mode & 0o7777)
    return waiting


def _replace(given: Path, content: str | bytes, *, private: bool = False) -> None:
    path = behind(given)
    waiting = path.with_name(f".{path.name}.new")
    try:
        _waiting(path, waiting.name, private=private)
        with waiting.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        waiting.replace(path)
    except BaseException as error:  # noqa: BLE001  it is raised, under the name that was asked for
        with suppress(OSError):
            waiting.unlink(missing_ok=True)
        raise named(error, given) from None
    force(path.parent)


@contextmanager
def beside_folder(folder: Path, path: Path) -> Iterator[Callable[[Path, str], None]]:
    """A file that is put in place with a folder: when the folder is there, so is the file, and otherwise neither.

    Call what this gives with the folder in the making and the text, before the folder becomes `folder`.
    """
    path = behind(path)
    waiting = path.with_name(f".{path.name}.new")
    is_stream = path.exists() and not path.is_file()  # a pipe or a terminal, which has no name to change
    made: list[tuple[int, str]] = []

    def write(making: Path, text: str) -> None:
        if not is_stream:
            try:
                _waiting(path, waiting.name).write_text(text, encoding="utf-8")
                force(waiting)
            except OSError as error:
                raise named(error, path) from None
        made.append((making.stat().st_ino, text))

    try:
        yield write
    finally:
        # Also after an interrupt: the folder may have its name already.
        if made and folder.exists() and folder.stat().st_ino == made[0][0]:
            if is_stream:
                path.write_text(made[0][1], encoding="utf-8")
            else:
                waiting.replace(path)
                force(path.parent)
        waiting.unlink(missing_ok=True)


def named(error: BaseException, path: Path) -> BaseException:
    """An error of the system about the file that was asked for: nobody knows the name it is written under first."""
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, error.strerror, str(path))
    return error


def replace_text(given: Path, text: str, check: Callable[[], object]) -> None:
    """Put a text in the place of a file that `check` still accepts: a reader sees the old text or the new one.

    Two that replace one file do so one after the other: the second one's check sees what the first has written. A file
    with a second name (a hard link) is refused: the other name would keep the old text.
    """
    path = behind(given)
    name = f".{path.name}.{uuid4().hex[:12]}"
    there = path.exists()
    try:
        with path.open("rb") if there else nullcontext() as held:
            if held is not None:
                fcntl.flock(held, fcntl.LOCK_EX)
            check()
            if there and path.stat().st_nlink > 1:
                hint = "a copy of it under this name, or a symbolic link to the other one"
                what = "the file has another name, a hard link, that would keep the old text; nothing was written"
                raise TargetError.of(what, got=str(given), hint=hint)
            waiting = _waiting(path, name)
            waiting.write_text(text, encoding="utf-8")
            force(waiting)
            if there:
                waiting.replace(path)
            else:
                path.hardlink_to(waiting)
    except OSError as error:
        raise named(error, given) from None
    finally:
        with suppress(OSError):
            path.with_name(name).unlink(missing_ok=True)
    force(path.parent)


def exchange(one: Path, other: Path) -> None:
    """Swap two folders in one step: a reader sees one or the other under a name, never neither or both."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise _cannot_exchange(one)
    if call(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        if code in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV}:
            raise _cannot_exchange(one)
        raise OSError(code, os.strerror(code), str(one))
    force_all((one.parent, other.parent))


def _cannot_exchange(path: Path) -> TargetError:
    return TargetError.of(
        "this file system cannot exchange two folders in one step, which readers depend on",
        got=str(path),
        allowed="ext4, XFS, Btrfs, tmpfs on Linux",
        hint="larger batches make fewer files: --max-files",
    )


# Which process has a pid: its start time distinguishes it from a later one with the same pid.

PROC = Path("/proc")


def started(pid: int) -> str | None:
    """When a process started, in the units of the system; None when it is gone, a zombie, or not visible."""
    return _from_proc(pid) if PROC.is_dir() else _from_ps(pid)


def _from_proc(pid: int) -> str | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else fields[19]


def _from_ps(pid: int) -> str | None:
    """For systems without /proc, such as macOS."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  the system's ps
    state, _, start = done.stdout.strip().partition(" ")
    return start.strip() or None if not state.startswith("Z") else None


# One writer to a target at a time: a lock that ends with its process, however it ends.

#: Spark gives up within about 4 s when its Python driver is gone.
ORPHAN_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that is held. Its holder is written into it, for the error that a second process gets."""

    handle: int

    def note(self, **what: Any) -> None:
        """Record the holder."""
        own = {"host": socket.gethostname(), "pid": os.getpid(), "started": started(os.getpid())}
        text = json.dumps({**own, **what}).encode()
        os.ftruncate(self.handle, 0)
        os.pwrite(self.handle, text, 0)

    def note_java(self, pid: int) -> None:
        """Record the Java process too, so that a later route can wait for its end."""
        self.note(java=pid, java_started=started(pid))


@contextmanager
def locked(path: Path, orphan_seconds: float = ORPHAN_SECONDS) -> Iterator[Lock]:
    """Hold the lock file at `path`, two folders below what it guards; a second holder is refused at once."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _take(handle, path)
        _wait_for_orphan(_noted(handle), orphan_seconds)
        lock = Lock(handle)
        lock.note()
        try:
            yield lock
        finally:
            # A note that outlives its process is a sign of a kill; every other end clears it.
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _take(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _held(path, _noted(handle)) from None
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(handle), path.stat()):
            return
    # Its holder has removed it, with all that it guards, since it was opened here.
    raise _held(path, {})


def check_not_held(path: Path) -> None:
    """Refuse a lock file that a process of this machine holds, by its note: the lock itself is left alone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        holder = _noted(handle)
    finally:
        os.close(handle)
    pid, since = holder.get("pid"), holder.get("started")
    if isinstance(pid, int) and since and holder.get("host") == socket.gethostname() and started(pid) == since:
        raise _held(path, holder)


def _held(path: Path, holder: dict[str, Any]) -> TargetError:
    return TargetError.of(
        "another keylane is writing to this target",
        got=f"{path.parent.parent}, held by process {holder.get('pid', '?')} on {holder.get('host', '?')}",
        hint="wait for it or stop it; the lock is released when its process ends",
    )


def _noted(handle: int) -> dict[str, Any]:
    try:
        noted = json.loads(os.pread(handle, 4096, 0) or b"{}")
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) else {}


def _wait_for_orphan(holder: dict[str, Any], seconds: float) -> None:
    """Wait for the Java process of a killed route; its pid alone proves nothing, so its start time is compared."""
    java = holder.get("java")
    if not isinstance(java, int) or holder.get("host") != socket.gethostname():
        return
    until = time.monotonic() + seconds
    while started(java) is not None and started(java) == holder.get("java_started"):
        if time.monotonic() > until:
            raise TargetError.of("the Java process of an earlier route is still running", got=java, hint=f"kill {java}")
        time.sleep(0.2)

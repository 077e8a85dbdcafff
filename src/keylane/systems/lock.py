"""One writer to a target at a time: a lock that ends with its process, however that ends.

The lock is the operating system's (flock), so that a killed route leaves nothing to clean up. A killed route may leave
its Java process behind for some seconds, and that one still holds Spark's checkpoint: the next route waits for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import TargetError
from keylane.systems.process import started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Lock", "locked"]

#: Spark gives up within about 4 s when its Python driver is gone.
ORPHAN_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that is held. Who holds it is written into it, for the message that the second comer gets."""

    handle: int

    def note(self, **what: Any) -> None:
        """Write down who holds it."""
        text = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), **what}).encode()
        os.ftruncate(self.handle, 0)
        os.pwrite(self.handle, text, 0)

    def note_java(self, pid: int) -> None:
        """Write down the Java process too, so that a later route can wait for its end."""
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
            # A note that outlives its process tells of a kill; every other end clears it.
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _take(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _noted(handle)
        raise TargetError.of(
            "another keylane is writing to this target",
            got=f"{path.parent.parent}, held by process {holder.get('pid', '?')} on {holder.get('host', '?')}",
            hint="wait for it or stop it; the lock goes with its process",
        ) from None


def _noted(handle: int) -> dict[str, Any]:
    try:
        return dict(json.loads(os.pread(handle, 4096, 0) or b"{}"))
    except ValueError:
        return {}


def _wait_for_orphan(holder: dict[str, Any], seconds: float) -> None:
    """Wait for the Java process of a killed route; its number alone proves nothing, so its start time is compared."""
    java = holder.get("java")
    if java is None or holder.get("host") != socket.gethostname():
        return
    until = time.monotonic() + seconds
    while started(java) is not None and started(java) == holder.get("java_started"):
        if time.monotonic() > until:
            raise TargetError.of("the Java process of an earlier route is still running", got=java, hint=f"kill {java}")
        time.sleep(0.2)

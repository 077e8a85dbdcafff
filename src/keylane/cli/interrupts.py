"""Ctrl-C: one line, exit code 130, no process left behind, at whatever moment it comes.

The first one prints `interrupted`, ends the processes that the command has started, and raises KeyboardInterrupt in the
main thread, so that what was begun is undone on the way out. A second one ends the process at once. Where the main
thread does not come back from a library in time, the process ends by itself.

Java is ended first: what is undone on the way out may ask Spark for something, and gets an error at once instead of an
answer to another question. A process in a session of its own, as a broker of `dev kafka` is, is not ours to end.

A command that ends between two batches takes the signals over meanwhile: `route.Stopping`.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from keylane.cli import terminal
from keylane.errors import visible

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

INTERRUPTED: Final = 130
LINE: Final = "interrupted"
#: Seconds after which the process ends by itself.
PATIENCE: Final = 5.0
#: How long a process that was asked to end gets for it.
GRACE: Final = 2.0
_PROC: Final = Path("/proc")


class Interrupts:
    """What Ctrl-C does in this process."""

    def __init__(self) -> None:
        self.came = False
        #: How long the way out may take; more for a command that has to put a cluster back in order.
        self.patience = PATIENCE
        self.line = LINE
        self._told = threading.Lock()
        self._raised_at = 0.0
        self._elsewhere, self._passed_at = False, 0.0

    def listen(self) -> None:
        """Take the signal over, for the whole process."""
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            return  # started in the background, as by `nohup` or a script: not ours to take
        signal.signal(signal.SIGINT, self._interrupt)
        sys.unraisablehook = self._unraisable
        threading.excepthook = self._in_thread
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        # Both ends are kept for as long as the process lives.
        threading.Thread(target=self._watch, args=(ours, theirs), name="keylane-interrupts", daemon=True).start()

    def take(self) -> None:
        """A command takes the signal over: it will ask for an end in order."""
        self._elsewhere = True

    def give_back(self) -> None:
        """The command has taken one signal, or is done; the next one is an interrupt."""
        self._elsewhere, self._passed_at = False, time.monotonic()

    @contextmanager
    def costly(self, line: str, patience: float) -> Iterator[None]:
        """For work whose way out takes long: what its one line says, and how many seconds it has."""
        self.line, self.patience = line, patience
        try:
            yield
        except Exception:
            self.line, self.patience = LINE, PATIENCE
            raise
        # An interrupt leaves them as they are: its line may still have to be printed.
        self.line, self.patience = LINE, PATIENCE

    def end(self) -> None:
        """The result is out: there is nothing left to interrupt."""
        if not self.came and signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def leave(self) -> NoReturn:
        """End the process, after what is to be done at its end; nothing prints any more."""
        with suppress(BaseException):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        with suppress(BaseException):
            end_children()
        with suppress(BaseException):
            atexit._run_exitfuncs()  # noqa: SLF001  the only way to run them and still leave no word behind
        with suppress(BaseException):
            sys.stdout.flush()
        os._exit(INTERRUPTED)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self.came and time.monotonic() - self._raised_at > 0.3:
            end_children(grace=0.0)
            os._exit(INTERRUPTED)
        if not self.came:
            self._tell()
            self.came = True
            ask_children_to_end()
        self._raised_at = time.monotonic()
        raise KeyboardInterrupt

    def _tell(self) -> None:
        """Print the line, once; from a signal handler or from the watching thread, so past every buffer."""
        if not self._told.acquire(blocking=False):
            return
        logging.disable(logging.CRITICAL)
        guarded = sys.stderr
        if isinstance(guarded, terminal.GuardedStream):
            guarded.muted = True
        terminal.line.stop()
        again = b"\r\x1b[K" if guarded.isatty() else b""
        with suppress(OSError, ValueError):
            os.write(guarded.fileno(), again + f"{visible(self.line)}\n".encode())

    def _watch(self, ours: socket.socket, _theirs: socket.socket) -> None:
        """See a signal at once, also while the main thread is in a library that does not come back."""
        while True:
            numbers = ours.recv(64)
            was_taken = self._elsewhere or time.monotonic() - self._passed_at < 0.5
            if signal.SIGINT in numbers and not was_taken and signal.getsignal(signal.SIGINT) == self._interrupt:
                self._tell()
                time.sleep(self.patience)
                end_children(grace=0.0)
                os._exit(INTERRUPTED)

    def _unraisable(self, found: Any) -> None:
        """An interrupt that came where nothing can be raised, as in a destructor, comes again a moment later."""
        if isinstance(found.exc_value, KeyboardInterrupt):
            threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
        elif terminal.shown.verbose:
            sys.__unraisablehook__(found)

    def _in_thread(self, found: Any) -> None:
        """A thread that fails says so only where it was asked for: what the command makes of it is the answer."""
        if terminal.shown.verbose and not self.came:
            threading.__excepthook__(found)


interrupts: Final = Interrupts()


# The processes that this one has started, and those that they have: Java behind a script, Python workers behind Java.


def children() -> list[int]:
    """All of them that are in this session; where the system does not list processes, Spark's Java."""
    if not _PROC.is_dir():
        gateway = getattr(sys.modules.get("pyspark"), "SparkContext", None)
        java = getattr(getattr(gateway, "_gateway", None), "proc", None)
        return [java.pid] if java is not None and java.poll() is None else []
    parents = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                text = (entry / "stat").read_text(encoding="ascii", errors="replace")
                state, parent, _, session = text[text.rindex(")") + 2 :].split()[:4]
                if state != "Z" and int(session) == os.getsid(0):
                    parents[int(entry.name)] = int(parent)
    found: list[int] = []
    level = [os.getpid()]
    while level := [pid for pid, parent in parents.items() if parent in level]:
        found += level
    return found


def ask_children_to_end() -> list[int]:
    """Send each the signal that lets it put away its files."""
    return _signalled(children(), signal.SIGTERM)


def end_children(grace: float = GRACE) -> None:
    """Ask them to end, and after a while end those that have not."""
    there = ask_children_to_end() if grace else children()
    until = time.monotonic() + grace
    while there and time.monotonic() < until:
        time.sleep(0.02)
        _reap()
        there = children()
    _signalled(there, signal.SIGKILL)
    _reap()


def _signalled(pids: list[int], number: int) -> list[int]:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)
    return pids


def _reap() -> None:
    """Know of Java's end, where it is our child: its folders are removed when it is gone."""
    gateway = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_gateway", None)
    java = getattr(gateway, "proc", None)
    if java is not None:
        with suppress(Exception):
            java.poll()

"""Progress of a long read or of a route: a line on stderr, on a terminal only."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from keylane.pipelines.route import Done

#: A walk over a large source takes a while: not after every batch.
LOOK_SECONDS: Final = 2.0


class StatusLine:
    """One line on stderr that is written over; on a terminal only, or every `seconds` a line of its own elsewhere."""

    def __init__(self, seconds: float | None = None) -> None:
        self.watched = sys.stderr.isatty()
        self._seconds = seconds
        self._last: float | None = None

    def show(self, text: str) -> None:
        """Put this in place of what is there."""
        now = time.monotonic()
        if self.watched:
            terminal.overwrite(text)
        elif self._seconds is None or (self._last is not None and now - self._last < self._seconds):
            return
        else:
            terminal.say(text)
        self._last = now

    def clear(self) -> None:
        """Leave no line behind."""
        if self.watched and self._last is not None:
            terminal.overwrite()


def counted(batches: Iterable[Any], what: str) -> Iterator[Any]:
    """Pass batches through and show how many rows have gone by."""
    rows, line = 0, StatusLine()
    for batch in batches:
        rows += len(batch)
        line.show(f"{what}: {rows:,} rows")
        yield batch
    line.clear()


@contextmanager
def spark_progress(what: str) -> Iterator[None]:
    """Show how far Spark is, in tasks, for as long as this is open."""
    over, line = threading.Event(), StatusLine()
    if not line.watched:
        yield
        return
    watcher = threading.Thread(target=_watch, args=(what, over, line), name="keylane-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(1.0)
        line.clear()


def _watch(what: str, over: threading.Event, line: StatusLine) -> None:
    while not over.wait(0.5):
        # What is counted in this process never loads Spark, and to ask how far it is must not do so.
        session = sys.modules.get("keylane.spark.session")
        done, all_ = session.tasks_running() if session is not None and hasattr(session, "tasks_running") else (0, 0)
        if all_:
            line.show(f"{what}: {done} of {all_} tasks")


class RouteProgress:
    """Batch, records, rate, lag and the time until the lag is gone, after each batch."""

    def __init__(self, source: str) -> None:
        self._source = Path(source.removeprefix("file://"))
        self._began = self._looked = time.monotonic()
        self._first: float | None = None
        self._line = StatusLine()
        self._records, self._bytes = 0, 0
        self._there: tuple[int, int] | None = None

    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def show(self, done: Done) -> None:
        """Show where the route is, now that a batch is done."""
        if not self._line.watched:
            return
        now = time.monotonic()
        if self._first is None:
            self._first, self._bytes = now - done.seconds, done.taken_bytes - done.batch_bytes
        self._records += done.counts.in_
        self._look(now, done.kind)
        self._line.show(progress_line(done, self._records, self._bytes, now - self._first, self._there))

    def say(self, text: str) -> None:
        """Say something that stays, also where nobody watches."""
        self.clear()
        terminal.say(f"route: {text}")

    def clear(self) -> None:
        """Leave no line behind."""
        self._line.clear()

    def _look(self, now: float, kind: str | None) -> None:
        from keylane.systems.files.listing import weigh

        if self._there is None or now - self._looked > LOOK_SECONDS:
            self._there = weigh(self._source, kind)
            self._looked = now


def progress_line(done: Done, records: int, bytes_before: int, seconds: float, there: tuple[int, int] | None) -> str:
    """One line: batch, records, rate, lag, and how long the lag will take at this rate."""
    rate = records / seconds if seconds > 0 else 0.0
    files, size = there or (done.taken_files, done.taken_bytes)
    lag, left = max(0, files - done.taken_files), max(0, size - done.taken_bytes)
    speed = (done.taken_bytes - bytes_before) / seconds if seconds > 0 else 0.0
    eta = f", ETA {left / speed:,.0f} s" if left and speed else ""
    begun = f"route: batch {done.batch}, {records:,} records, {rate:,.0f}/s"
    return f"{begun}, lag {lag:,} file(s) {left / 1e6:,.1f} MB{eta}" if done.taken_files else begun


# What `demo` and `demo_lesson` share: a folder that is theirs to fill, and their steps on stderr.

PAGE: Final = "index.html"
FIGURES: Final = "figures.json"


def progress(began: float) -> Callable[[str], None]:
    """Each step on stderr, with the seconds since the start."""

    def say(text: str) -> None:
        terminal.say(f"[{time.monotonic() - began:6.1f} s] {text}")

    return say


def ready(to: Path, schema: str = "keylane.demo/1") -> None:
    """Make the folder, or take one that an earlier demo of this kind filled; refuse any other."""
    from keylane.errors import UsageError

    to.mkdir(parents=True, exist_ok=True)
    if any(to.iterdir()) and not _is_ours(to / FIGURES, schema):
        raise UsageError.of("not an empty folder, and not a demo's", got=str(to), hint="--to another folder")
    # An old page must not stand for a new run that fails; and a run that was cut off can be run again.
    (to / PAGE).unlink(missing_ok=True)
    (to / FIGURES).write_text(json.dumps({"schema": schema, "finished": False}), encoding="utf-8")


def _is_ours(file: Path, schema: str) -> bool:
    kind = schema.partition("/")[0]
    try:
        return str(json.loads(file.read_text(encoding="utf-8")).get("schema", "")).startswith(f"{kind}/")
    except (OSError, ValueError, AttributeError):
        return False

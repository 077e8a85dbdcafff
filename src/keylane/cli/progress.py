"""Progress of a long read or of a route: a line on stderr, on a terminal only."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from keylane.pipelines.batch import Done

__all__ = ["RouteProgress", "counted", "spark_progress"]

#: A walk over a large source takes a while: not after every batch.
LOOK_SECONDS: Final = 2.0


def counted(batches: Iterable[Any], what: str) -> Iterator[Any]:
    """Pass batches through and show how many rows have gone by."""
    rows, shown = 0, sys.stderr.isatty()
    for batch in batches:
        rows += len(batch)
        if shown:
            click.echo(f"\r{what}: {rows:,} rows", nl=False, err=True)
        yield batch
    if shown:
        click.echo("\r\x1b[K", nl=False, err=True)


@contextmanager
def spark_progress(what: str) -> Iterator[None]:
    """Show how far Spark is, in tasks, for as long as this is open."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(what, over), name="keylane-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(1.0)
        click.echo("\r\x1b[K", nl=False, err=True)


def _watch(what: str, over: threading.Event) -> None:
    from keylane.spark.session import tasks_running

    while not over.wait(0.5):
        done, all_ = tasks_running()
        if all_:
            click.echo(f"\r\x1b[K{what}: {done} of {all_} tasks", nl=False, err=True)


class RouteProgress:
    """Batch, records, rate, lag and the time until the lag is gone, after each batch."""

    def __init__(self, source: str) -> None:
        self._source = Path(source.removeprefix("file://"))
        self._began = self._looked = time.monotonic()
        self._first: float | None = None
        self._shown = sys.stderr.isatty()
        self._records, self._bytes = 0, 0
        self._there: tuple[int, int] | None = None

    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def show(self, done: Done) -> None:
        """Show where the route is, now that a batch is done."""
        if not self._shown:
            return
        now = time.monotonic()
        if self._first is None:
            self._first, self._bytes = now - done.seconds, done.taken_bytes - done.batch_bytes
        self._records += done.counts.in_
        self._look(now, done.kind)
        line = progress_line(done, self._records, self._bytes, now - self._first, self._there)
        click.echo(f"\r\x1b[K{line}", nl=False, err=True)

    def say(self, text: str) -> None:
        """Say something that stays, also where nobody watches."""
        self.clear()
        click.echo(f"route: {text}", err=True)

    def clear(self) -> None:
        """Leave no line behind."""
        if self._shown and self._records:
            click.echo("\r\x1b[K", nl=False, err=True)

    def _look(self, now: float, kind: str | None) -> None:
        from keylane.systems.sources import weigh

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

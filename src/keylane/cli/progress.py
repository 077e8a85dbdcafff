"""Progress of a running command: what its line on stderr says. On a terminal only; how it is drawn: `terminal`.

working          a step without a count: what is done, and for how long
counted          batches that pass: rows, rate, and the time left where their number is known
counting         the same for work that calls back with its number of rows
spark_progress   Spark: that it starts, then tasks, records, rate and time left
RouteProgress    a route or a match that follows: batches, records, lag
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.cli import terminal
from keylane.numbers import count, duration, percent, plural, rate, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from keylane.pipelines.route import Done
    from keylane.spark.session import SparkWork

#: A walk over a large source takes a while: not after every batch.
LOOK_SECONDS: Final = 2.0
#: How long to wait before guessing how much longer something takes.
_GUESS_AFTER: Final = 2.0


class StatusLine:
    """One line on stderr that is written over; on a terminal only, or every `seconds` a line of its own elsewhere."""

    def __init__(self, seconds: float | None = None) -> None:
        self.watched = terminal.line.watched
        self._seconds = seconds
        self._last: float | None = None

    def show(self, text: str) -> None:
        """Put this in place of what is there."""
        now = time.monotonic()
        if self.watched:
            terminal.line.begin(lambda _: text)
            terminal.line.draw()
        elif terminal.shown.quiet or self._seconds is None or (self._last and now - self._last < self._seconds):
            return
        else:
            terminal.say(text)
        self._last = now

    def clear(self) -> None:
        """Leave no line behind."""
        if self.watched and self._last is not None:
            terminal.line.end()


def working(what: str) -> None:
    """Show what is being done, and for how long, until something else is shown."""
    terminal.line.begin(lambda seconds: f"{what}, {seconds:.0f} s")


def counted(batches: Iterable[Any], what: str, total: int | None = None) -> Iterator[Any]:
    """Pass batches through and show how many rows have gone by, of `total` where that is known, or they know it."""
    rows, total = 0, total or getattr(batches, "total", None)
    terminal.line.begin(lambda seconds: rows_line(what, rows, seconds, total))
    try:
        for batch in batches:
            rows += len(batch)
            yield batch
    finally:
        terminal.line.end()


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Show how many rows have gone by, for work that calls back with their number."""
    rows = 0

    def count_to(number: int) -> None:
        nonlocal rows
        rows = number

    terminal.line.begin(lambda seconds: rows_line(what, rows, seconds))
    try:
        yield count_to
    finally:
        terminal.line.end()


def rows_line(what: str, rows: int, seconds: float, total: int | None = None) -> str:
    """Rows so far, their rate, and the time left.

    >>> rows_line("check", 0, 0.8), rows_line("check", 300, 3.0, 1_200)
    ('check: reading, 1 s', 'check: 300 of 1,200 rows (25.0%), 100/s, about 9.0 s left')
    """
    if not rows:
        return f"{what}: reading, {seconds:.0f} s"
    of = f" of {count(total)}" if total else ""
    done = f" ({percent(min(1.0, rows / total))})" if total else ""
    left = _left(seconds, rows, total) if total else ""
    return f"{what}: {count(rows)}{of} rows{done}, {rate(rows, seconds)}{left}"


def _left(seconds: float, done: float, total: float) -> str:
    """How much longer, if it goes on as it did; nothing where that would be a guess from too little."""
    if not 0 < done < total or seconds < _GUESS_AFTER:
        return ""
    return f", about {duration(seconds * (total - done) / done)} left"


@contextmanager
def spark_progress(what: str) -> Iterator[None]:
    """Show how far Spark is for as long as this is open: that it starts, then its tasks, records and the time left."""
    terminal.line.begin(SparkProgress(what))
    try:
        yield
    finally:
        terminal.line.end()


class SparkProgress:
    """The line of work on Spark, asked of Spark itself whenever it is drawn."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._stages: tuple[int, ...] = ()
        self._began = clock()

    def __call__(self, seconds: float) -> str:
        """What is shown after so many seconds."""
        return f"{self._what}: {self.doing(spark_work(), seconds)}"

    def doing(self, work: SparkWork | None, seconds: float) -> str:
        """What Spark is at."""
        if work is None or (not work.starting and not work.tasks):
            return f"working, {seconds:.0f} s"
        if work.starting:
            return f"starting Spark (first time: up to 20 s), {seconds:.0f} s"
        if work.stages != self._stages:
            self._stages, self._began = work.stages, self._clock()
        passed = self._clock() - self._began
        parts = [f"{count(work.done)} of {count(work.tasks)} tasks"]
        if work.records:
            parts.append(f"{count(work.records)} records")
            parts += [rate(work.records, passed)] if passed >= _GUESS_AFTER else []
        return ", ".join(parts) + _left(passed, work.done, work.tasks)


def spark_work() -> SparkWork | None:
    """What Spark is at, where this process has loaded it; loading it takes a second, and is not done for this."""
    session = sys.modules.get("keylane.spark.session")
    ask = getattr(session, "work_now", None)
    found: SparkWork | None = ask() if ask else None
    return found


class RouteProgress:
    """Batch, records, rate, lag and the time until the lag is gone; or that it follows, and how to end it.

    Before the first batch and within one, what Spark is at.
    """

    def __init__(self, source: str, what: str = "route", *, follow: bool = False) -> None:
        self._source = Path(source.removeprefix("file://"))
        self._what, self._follow = what, follow
        self._began = self._looked = time.monotonic()
        self._first: float | None = None
        self._batches, self._records, self._bytes = 0, 0, 0
        self._there: tuple[int, int] | None = None
        self._text, self._at = "", 0.0
        self._following = False
        self._spark = SparkProgress(what)
        terminal.line.begin(self._line)

    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def following(self) -> None:
        """Spark is up, and records are waited for."""
        self._following = self._follow

    def show(self, done: Done) -> None:
        """Show where the route is, now that a batch is done."""
        if not terminal.line.watched:
            return
        now = time.monotonic()
        if self._first is None:
            self._first, self._bytes = now - done.seconds, done.taken_bytes - done.batch_bytes
        self._batches += 1
        self._records += done.counts.in_
        self._look(now, done.kind)
        self._text = progress_line(done, self._records, self._bytes, now - self._first, self._there)
        self._at = now
        terminal.line.draw()

    def reached(self, records: int) -> None:
        """Show that a batch is done, and that it makes so many records in all, where nothing else is known of it."""
        self._batches, self._records, self._at = self._batches + 1, records, time.monotonic()

    def say(self, text: str) -> None:
        """Say something that stays, also where nobody watches."""
        terminal.note(f"{self._what}: {text}")

    def clear(self) -> None:
        """Leave no line behind."""
        terminal.line.end()

    def _line(self, seconds: float) -> str:
        if self._following:
            return following_line(self._what, self._batches, self._records, time.monotonic() - self._at)
        return self._text or self._spark(seconds)

    def _look(self, now: float, kind: str | None) -> None:
        from keylane.systems.files.listing import weigh

        if self._there is None or now - self._looked > LOOK_SECONDS:
            self._there = weigh(self._source, kind)
            self._looked = now


def following_line(what: str, batches: int, records: int, ago: float) -> str:
    """One line of a command that follows: what it has done, and how to end it.

    >>> following_line("route", 0, 0, 9.0)
    'route: following, nothing yet; Ctrl-C ends it'
    >>> following_line("route", 3, 40_000, 2.0)
    'route: following, Ctrl-C ends it: 40,000 records in 3 batches, the last 2.0 s ago'
    """
    if not batches:
        return f"{what}: following, nothing yet; Ctrl-C ends it"
    # How to end it comes first: a terminal of 80 columns cuts the line's end off.
    done = f"{plural(records, 'record')} in {plural(batches, 'batch')}, the last {duration(ago)} ago"
    return f"{what}: following, Ctrl-C ends it: {done}"


def progress_line(done: Done, records: int, bytes_before: int, seconds: float, there: tuple[int, int] | None) -> str:
    """One line: batch, records, rate, lag, and how long the lag will take at this rate."""
    files, bytes_there = there or (done.taken_files, done.taken_bytes)
    lag, left = max(0, files - done.taken_files), max(0, bytes_there - done.taken_bytes)
    speed = (done.taken_bytes - bytes_before) / seconds if seconds > 0 else 0.0
    eta = f", about {duration(left / speed)} left" if left and speed else ""
    begun = f"route: batch {done.batch}, {count(records)} records, {rate(records, seconds) or '0/s'}"
    return f"{begun}, lag {plural(lag, 'file')} {size(left)}{eta}" if done.taken_files else begun


# What `demo` and `demo_lesson` share: a folder that is theirs to fill, and their steps on stderr.

PAGE: Final = "index.html"
FIGURES: Final = "figures.json"


def progress(began: float) -> Callable[[str], None]:
    """Each step on stderr, with the seconds since the start."""

    def say(text: str) -> None:
        terminal.note(f"[{time.monotonic() - began:6.1f} s] {text}")

    return say


def ready(to: Path, schema: str = "keylane.demo/1") -> None:
    """Make the folder, or take one that an earlier demo of this kind filled; refuse any other."""
    from keylane.errors import UsageError
    from keylane.systems.atomic import write_text

    to.mkdir(parents=True, exist_ok=True)
    if any(to.iterdir()) and not _is_ours(to / FIGURES, schema):
        raise UsageError.of("not an empty folder, and not a demo's", got=str(to), hint="--to another folder")
    # An old page must not stand for a new run that fails; and a run that was cut off can be run again.
    (to / PAGE).unlink(missing_ok=True)
    write_text(to / FIGURES, json.dumps({"schema": schema, "finished": False}))


def _is_ours(file: Path, schema: str) -> bool:
    kind = schema.partition("/")[0]
    try:
        return str(json.loads(file.read_text(encoding="utf-8")).get("schema", "")).startswith(f"{kind}/")
    except (OSError, ValueError, AttributeError, RecursionError):
        return False

"""What the line of a running command says, and when: on a terminal, within a second, and gone afterwards."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext
from pyspark.core import context as core_context
from tests.terminals import on_a_terminal

from keylane.cli import terminal
from keylane.cli.progress import RouteProgress, SparkProgress, StatusLine, counted, progress_line, spark_work
from keylane.pipelines.route import Done
from keylane.spark import session
from keylane.spark.session import SparkWork, work_now
from keylane.systems.folders.folder import Counts

if TYPE_CHECKING:
    from pathlib import Path

#: After each batch it goes on when its line was drawn; at once where there is no line.
SLOW = """
import threading
from keylane.cli import terminal
from keylane.cli.progress import counted
terminal.PATIENCE, drawn, draw = 0.0, threading.Event(), terminal.overwrite
def noted(text=""):
    draw(text)
    if text:
        drawn.set()
terminal.overwrite = noted
def shown():
    drawn.clear()
    assert not terminal.line.watched or drawn.wait(100)
    drawn.clear()
    assert not terminal.line.watched or drawn.wait(100)
def batches():
    yield "ab"
    shown()
    yield "cde"
    shown()
list(counted(batches(), "read"))
"""


def test_batches_pass_through_in_silence_when_nobody_watches() -> None:
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, check=True, timeout=120)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert list(counted(["ab", "cde"], "read")) == ["ab", "cde"]


def test_rows_are_counted_on_a_terminal_and_wiped() -> None:
    seen = on_a_terminal(sys.executable, "-c", SLOW)
    assert "read: 2 rows, " in seen.text
    assert "read: 5 rows, " in seen.text
    assert seen.lines == [], "the line is left behind"


def test_a_dumb_terminal_gets_no_line() -> None:
    assert on_a_terminal(sys.executable, "-c", SLOW, TERM="dumb").text == ""


# A line that cannot be made


def test_the_line_survives_what_it_asks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    asked = []

    def text(seconds: float) -> str:
        asked.append(seconds)
        if len(asked) == 1:
            raise AttributeError("'SparkContext' object has no attribute '_jsc'")
        return f"asked {len(asked)} times"

    line = terminal.LiveLine()
    line.begin(text)
    until = time.monotonic() + 120
    while len(asked) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    line.end()
    err = capsys.readouterr().err
    assert "asked 2 times" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "context",
    [
        pytest.param(SimpleNamespace(), id="starting"),
        pytest.param(SimpleNamespace(_jsc=None), id="stopped"),
        pytest.param(SimpleNamespace(_jsc=SimpleNamespace()), id="another Spark"),
    ],
)
def test_a_spark_that_is_not_ready_says_nothing(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    assert work_now() is None
    assert SparkProgress("profile")(3.0) == "profile: working, 3 s"


def test_twin_a_context_without_its_java_fails_whoever_asks_it() -> None:
    with pytest.raises(AttributeError, match="_jsc"):
        SparkContext.statusTracker(object.__new__(SparkContext))


def test_a_spark_that_starts_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with session._being_started():
        assert SparkProgress("profile")(3.4) == "profile: starting Spark (first time: up to 20 s), 3 s"
    assert spark_work() is None


def test_a_program_keeps_its_handler_of_interrupts_when_spark_starts() -> None:
    import signal

    def own(*_: Any) -> None: ...

    before = signal.signal(signal.SIGINT, own)

    def of_pyspark() -> None:
        """What `SparkContext` does at the end of its start, seconds before the session is there."""
        theirs = vars(core_context)["signal"]
        theirs.signal(theirs.SIGINT, lambda *_: None)

    try:
        with session._being_started():
            of_pyspark()
            assert signal.getsignal(signal.SIGINT) is own, "a Ctrl-C now would print a traceback of py4j"
        assert signal.getsignal(signal.SIGINT) is own
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with session._being_started():
            of_pyspark()
        assert signal.getsignal(signal.SIGINT) is not own, "a notebook has PySpark's, which ends the jobs"
        signal.signal(signal.SIGINT, own)
        of_pyspark()
        assert signal.getsignal(signal.SIGINT) is not own, "twin: outside of a start nothing is held back"
    finally:
        signal.signal(signal.SIGINT, before)


def test_tasks_records_rate_and_time_left() -> None:
    now = [100.0]
    progress = SparkProgress("plan", clock=lambda: now[0])
    assert progress.doing(SparkWork(stages=(1,), tasks=48), 1) == "0 of 48 tasks"
    now[0] += 4
    work = SparkWork(stages=(1,), done=12, tasks=48, records=1_200_000)
    assert progress.doing(work, 5) == "12 of 48 tasks, 1,200,000 records, 300,000/s, about 12 s left"
    work = SparkWork(stages=(2,), done=1, tasks=2, records=10)
    assert progress.doing(work, 5) == "1 of 2 tasks, 10 records", "another stage begins anew"


# Routes

DONE = Done(3, Counts(1_000, 990, 10, 0), 2.0, 500_000, 4, 2_000_000, "csv")


def test_a_line_of_a_route() -> None:
    line = progress_line(DONE, 4_000, 0, 8.0, (10, 5_000_000))
    assert line == "route: batch 3, 4,000 records, 500/s, lag 6 files 2.9 MiB, about 12 s left"
    assert progress_line(DONE, 4_000, 1_000_000, 8.0, (10, 5_000_000)).endswith("24 s left"), "by this run's own speed"


@pytest.mark.parametrize("there", [None, (4, 2_000_000), (1, 10)])
def test_without_a_lag_there_is_no_end_to_wait_for(there: tuple[int, int] | None) -> None:
    assert progress_line(DONE, 4_000, 0, 8.0, there).endswith("lag 0 files 0 B")
    assert "left" not in progress_line(DONE, 0, 0, 0.0, (9, 9_000_000))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A terminal, and a source of which one file in three counts."""
    for name, length in (("a.csv", 3_000_000), ("b.parquet", 50), ("_hidden.csv", 70)):
        (tmp_path / name).write_bytes(bytes(length))
    monkeypatch.setattr(terminal.LiveLine, "watched", property(lambda _: not terminal.shown.quiet))
    monkeypatch.setattr(terminal.LiveLine, "_draw_on", lambda _: None)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_a_route_is_shown_and_wiped(watched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = RouteProgress(str(watched))
    progress.show(DONE)
    progress.say("something")
    progress.clear()
    told = capsys.readouterr()
    assert told.out == ""
    assert "batch 3, 1,000 records" in told.err
    assert "lag 0 files 976.6 KiB" in told.err, "files of another kind were counted"
    assert told.err.endswith("\rroute: something\n")


def test_a_route_that_follows_says_so_what_it_did_and_how_to_end_it(
    watched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = RouteProgress(str(watched), follow=True)
    terminal.line.draw()
    assert "route: working" in capsys.readouterr().err
    progress.following()
    terminal.line.draw()
    assert "route: following, nothing yet; Ctrl-C ends it" in capsys.readouterr().err
    progress.show(DONE)
    assert "route: following, Ctrl-C ends it: 1,000 records in 1 batch, the last 0.0 s ago" in capsys.readouterr().err
    progress.clear()


def test_nothing_is_shown_when_nobody_watches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unwatched = RouteProgress(f"file://{tmp_path}")
    unwatched.show(DONE)
    unwatched.clear()
    assert capsys.readouterr().err == ""
    unwatched.say("something")
    assert capsys.readouterr().err == "route: something\n"
    assert unwatched.seconds() >= 0


def test_quiet_leaves_out_notes_and_lines(
    watched: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal.shown, "quiet", True)
    progress = RouteProgress(str(watched))
    progress.show(DONE)
    progress.say("something")
    StatusLine(seconds=0.0).show("status")
    progress.clear()
    assert capsys.readouterr().err == ""
    terminal.fail("a failure")
    assert capsys.readouterr().err == "error: a failure\n"


def test_where_nobody_watches_a_status_is_a_line_of_its_own_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    line = StatusLine(seconds=3_600.0)
    for text in ("first", "second"):
        line.show(text)
    line.clear()
    assert capsys.readouterr().err == "first\n"
    often, never = StatusLine(seconds=0.0), StatusLine()
    for text in ("first", "second"):
        often.show(text)
        never.show(text)
    assert capsys.readouterr().err == "first\nsecond\n"

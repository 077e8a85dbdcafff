from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from keylane.cli.progress import RouteProgress, StatusLine, counted, progress_line
from keylane.pipelines.route import Done
from keylane.systems.folders.folder import Counts

if TYPE_CHECKING:
    from pathlib import Path

WATCHED = "from keylane.cli.progress import counted; list(counted(['ab', 'cde'], 'read'))"


def test_batches_pass_through_in_silence_when_nobody_watches() -> None:
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, check=True, timeout=20)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert list(counted(["ab", "cde"], "read")) == ["ab", "cde"]


def test_rows_are_counted_on_a_terminals_stderr_and_wiped() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", WATCHED], stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        assert running.wait(20) == 0
        shown = os.read(ours, 4_096)
        os.close(ours)
        assert running.stdout is not None
        assert running.stdout.read() == b""
    assert b"\rread: 2 rows\rread: 5 rows\r" in shown.replace(b"\x1b[K", b"")
    assert shown.endswith(b"\x1b[K")


DONE = Done(3, Counts(1_000, 990, 10, 0), 2.0, 500_000, 4, 2_000_000, "csv")


def test_a_line_of_a_route() -> None:
    line = progress_line(DONE, 4_000, 0, 8.0, (10, 5_000_000))
    assert line == "route: batch 3, 4,000 records, 500/s, lag 6 file(s) 3.0 MB, ETA 12 s"
    assert progress_line(DONE, 4_000, 1_000_000, 8.0, (10, 5_000_000)).endswith("ETA 24 s"), "by this run's own speed"


@pytest.mark.parametrize("there", [None, (4, 2_000_000), (1, 10)])
def test_without_a_lag_there_is_no_end_to_wait_for(there: tuple[int, int] | None) -> None:
    assert progress_line(DONE, 4_000, 0, 8.0, there).endswith("lag 0 file(s) 0.0 MB")
    assert "ETA" not in progress_line(DONE, 0, 0, 0.0, (9, 9_000_000))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RouteProgress:
    """A route that a terminal watches, over a source of which one file in three counts."""
    for name, size in (("a.csv", 3_000_000), ("b.parquet", 50), ("_hidden.csv", 70)):
        (tmp_path / name).write_bytes(bytes(size))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    return RouteProgress(str(tmp_path))


def test_a_route_is_shown_and_wiped(watched: RouteProgress, capsys: pytest.CaptureFixture[str]) -> None:
    watched.show(DONE)
    watched.say("something")
    watched.clear()
    told = capsys.readouterr()
    assert told.out == ""
    assert "batch 3, 1,000 records" in told.err
    assert "lag 0 file(s) 1.0 MB" in told.err, "files of another kind were counted"
    assert "\rroute: something\n" in told.err
    assert told.err.endswith("\r")


def test_nothing_is_shown_when_nobody_watches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unwatched = RouteProgress(f"file://{tmp_path}")
    unwatched.show(DONE)
    unwatched.clear()
    assert capsys.readouterr().err == ""
    unwatched.say("something")
    assert capsys.readouterr().err == "route: something\n"
    assert unwatched.seconds() >= 0


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

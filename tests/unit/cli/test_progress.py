from __future__ import annotations

import os
import pty
import subprocess
import sys

from keylane.cli.progress import counted

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
    assert b"\rread: 2 rows\rread: 5 rows\r" in shown
    assert shown.endswith(b"\x1b[K")

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from keylane.errors import TargetError
from keylane.systems import atomic
from keylane.systems.atomic import locked

if TYPE_CHECKING:
    from pathlib import Path

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_second_holder_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        locked(path),
        pytest.raises(TargetError, match=rf"process {os.getpid()} on {socket.gethostname()}"),
        locked(path),
    ):
        pass
    with locked(path):
        pass


def test_its_note_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path) as lock:
        lock.note_java(os.getpid())
        assert json.loads(path.read_text())["java"] == os.getpid()
    assert path.read_text() == ""


def test_it_goes_also_when_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = os.fork()
    if child == 0:  # pragma: no cover - the child leaves without telling anybody
        with locked(path):
            os._exit(9)
    os.waitpid(child, 0)
    assert json.loads(path.read_text())["pid"] == child
    with locked(path):
        pass


def noted(path: Path, pid: int, started: str | None, host: str | None = None) -> None:
    path.write_text(json.dumps({"host": host or socket.gethostname(), "pid": 1, "java": pid, "java_started": started}))


def test_the_java_of_a_killed_route_is_waited_for(tmp_path: Path) -> None:
    path, sleeper = tmp_path / "lock", subprocess.Popen(SLEEPER)
    try:
        noted(path, sleeper.pid, atomic.started(sleeper.pid))
        with pytest.raises(TargetError, match=f"still running: got {sleeper.pid}; hint: kill"), locked(path, 0.3):
            pass
    finally:
        sleeper.kill()
    with locked(path, 120):
        pass
    sleeper.wait()


def test_another_process_of_its_number_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class WaitedError(Exception):
        pass

    def wait(_: float) -> None:
        raise WaitedError

    path, own = tmp_path / "lock", atomic.started(os.getpid())
    monkeypatch.setattr(time, "sleep", wait)
    for started, host in (("1", None), (own, "elsewhere")):
        noted(path, os.getpid(), started, host)
        with locked(path, 600):
            pass
    noted(path, os.getpid(), own)
    with pytest.raises(WaitedError), locked(path, 600):  # twin: it is that process
        pass


def test_a_note_that_is_none_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("{half")
    with locked(tmp_path / "lock"):
        pass


def test_a_zombie_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    until = time.monotonic() + 120
    while atomic.started(child.pid) is not None:
        assert time.monotonic() < until
        time.sleep(0.02)
    child.wait()
    assert atomic.started(child.pid) is None

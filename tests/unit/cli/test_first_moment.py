"""Ctrl-C while the command is still being imported: one line and 130, at whichever import it comes.

The signal is raised by the process itself at the n-th import, so that a slow machine tries the same moments. On a
terminal at moments by the clock: `tests/terminal`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Interrupted = Callable[..., tuple[int, str]]

#: Python runs it before anything else: raises the signal when this module, or the n-th after it, is about to be loaded.
HOOK = """
import _signal, os, sys
after, left = os.environ["AFTER"], [None]
def look(event, given):
    if event != "import":
        return
    if left[0] is not None:
        left[0] -= 1
    elif given[0] == after:
        left[0] = int(os.environ["IMPORTS"])
    if left[0] == 0:
        left[0] = -1
        _signal.raise_signal(_signal.SIGINT)
sys.addaudithook(look)
"""


@pytest.fixture
def interrupted_at(tmp_path: Path) -> Interrupted:
    (tmp_path / "sitecustomize.py").write_text(HOOK)

    def run(command: list[str], imports: int, after: str = "keylane.first_moment") -> tuple[int, str]:
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "AFTER": after, "IMPORTS": str(imports)}
        with interruptible():
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
        assert done.stdout == ""
        return done.returncode, done.stderr

    return run


@pytest.fixture(params=["module", "script"])
def door(request: pytest.FixtureRequest, keylane: str) -> list[str]:
    """`python -m keylane`, and the installed command."""
    return [sys.executable, "-m", "keylane"] if request.param == "module" else [keylane]


@pytest.mark.parametrize("imports", [1, 2, 3, 5, 10, 20, 50, 100])
def test_an_interrupt_at_an_import_is_one_line(door: list[str], imports: int, interrupted_at: Interrupted) -> None:
    assert interrupted_at([*door, "profile", "nowhere.csv", "-k", "k"], imports) == (130, "interrupted\n")


def test_twin_an_interrupt_before_that_is_a_traceback(door: list[str], interrupted_at: Interrupted) -> None:
    """The hook does raise what a terminal would: without the first moment this is what all of them look like."""
    code, said = interrupted_at([*door, "profile", "nowhere.csv", "-k", "k"], 0)
    assert code == -signal.SIGINT
    assert said.endswith("KeyboardInterrupt\n")
    assert "Traceback" in said


def test_a_program_that_imports_keylane_keeps_its_signals(interrupted_at: Interrupted) -> None:
    code, said = interrupted_at([sys.executable, "-c", "import keylane, keylane.errors, json"], 3)
    assert code == -signal.SIGINT
    assert said.endswith("KeyboardInterrupt\n")

"""The command line as a process of its own, against a server on loopback."""

from __future__ import annotations

import os
import subprocess
import sys

COMMAND = ("-m", "keylane")


def run(*arguments: str, command: tuple[str, ...] = COMMAND) -> subprocess.CompletedProcess[str]:
    """What it printed, and how it ended."""
    line = [sys.executable, *command, *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=120, env=dict(os.environ))

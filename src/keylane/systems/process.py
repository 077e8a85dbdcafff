"""Which process has a number: its start time tells it from a later one with the same number."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["started"]

PROC = Path("/proc")


def started(pid: int) -> str | None:
    """When a process started, in the system's own count; None when it is gone, a zombie, or not to be seen."""
    return _from_proc(pid) if PROC.is_dir() else _from_ps(pid)


def _from_proc(pid: int) -> str | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else fields[19]


def _from_ps(pid: int) -> str | None:
    """For systems without /proc, as macOS is."""
    done = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    state, _, start = done.stdout.strip().partition(" ")
    return start.strip() or None if not state.startswith("Z") else None

"""The command line in this process: its exit code, and what it prints.

In a process of its own: `tests.integration.commands`.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from keylane.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["SCALE", "DemoRun", "Ended", "keylane"]

#: A fiftieth of the day: every step runs, none of them for long.
SCALE = 0.02


class Ended(NamedTuple):
    """A command that has ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class DemoRun:
    """A finished `keylane demo`: its folder, what it printed, and the figures it left."""

    folder: Path
    out: str
    err: str

    @property
    def page(self) -> Path:
        return self.folder / "index.html"

    @property
    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "figures.json").read_text(encoding="utf-8"))
        return found


def keylane(*arguments: object) -> Ended:
    """Run a command as it is typed."""
    out, err = io.StringIO(), io.StringIO()
    with _typed(arguments), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            return Ended(int(left.code or 0), out.getvalue(), err.getvalue())
    raise AssertionError("the command did not leave with a code")


@contextmanager
def _typed(arguments: Sequence[object]) -> Iterator[None]:
    """As if it were typed on a terminal of 80 columns: help is wrapped to its width."""
    line = ["keylane", *map(str, arguments)]
    with patch.object(sys, "argv", line), patch.dict(os.environ, {"COLUMNS": "80"}):
        yield

"""The command line in this process, and what it prints as a snapshot."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from tests.net.internals import main
from tests.net.snapshots import held, held_text, normalised, normalised_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["DemoRun", "Ended", "command", "document_held", "keylane", "refusals_held", "words_held"]

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


def command(arguments: Sequence[object], *places: Path) -> str:
    """The line as it is typed, without temporary folders."""
    return normalised_text(" ".join(["keylane", *map(str, arguments)]), *places).strip()


def document_held(name: str, *arguments: object, places: Sequence[Path] = ()) -> dict[str, Any]:
    """Hold the exit code and the JSON of a command; the document as it was printed."""
    ended = keylane(*arguments, "-o", "json")
    assert ended.out, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    held(name, {"exit_code": ended.code, "document": normalised(document, *places)})
    return document


def words_held(name: str, *arguments: object, places: Sequence[Path] = ()) -> None:
    """Hold the table that a person reads, in a file of words."""
    ended = keylane(*arguments)
    held_text(name, normalised_text(f"exit code {ended.code}\n{ended.out}", *places))


def refusals_held(name: str, asked: Sequence[Sequence[object]], *places: Path) -> None:
    """Hold the exit codes of commands that refuse, and in a file of words what they say; nothing goes to stdout."""
    ended = [(command(arguments, *places), keylane(*arguments)) for arguments in asked]
    held(name, {line: {"exit_code": one.code, "stdout": bool(one.out)} for line, one in ended})
    text = "\n".join(f"$ {line}\n{one.err}" for line, one in ended)
    held_text(name, normalised_text(text, *places))

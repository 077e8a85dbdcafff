"""A walk: the commands that a user types, one after the other, on a pseudo-terminal, and what they see; recorded.

What is typed is counted and timed. With KEYLANE_FIRST_HOUR set to a folder each walk leaves its transcript there, from
which `make first-hour` writes docs/first-hour.md.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.terminals import on_a_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.terminals import Seen

#: What a walk may take.
MOST_COMMANDS = 4
#: As wide as the transcript is shown.
COLUMNS = 120
#: What nobody wants to see on a terminal.
UGLY = re.compile(r"Traceback|Exception|ERROR:|py4j|^\s+at \S+\(|File \"", re.MULTILINE)
RECORD = "KEYLANE_FIRST_HOUR"


@dataclass
class Walk:
    """What was typed in a folder, and what was shown; the seconds are those that the user waited."""

    title: str
    folder: Path
    commands: int = 0
    seconds: float = 0.0
    shown: list[str] = field(default_factory=list)

    def types(self, line: str, code: int = 0) -> str:
        """Type a command, and wait until it has ended with this code; what is then on the screen."""
        program, *words = shlex.split(line)
        assert program == "keylane", line
        seen = on_a_terminal(
            sys.executable, "-m", "keylane", *words, cwd=self.folder, columns=COLUMNS, timeout=400, NO_COLOR="1"
        )
        self.commands += 1
        self.seconds += seen.seconds
        screen = "\n".join(line.rstrip() for line in seen.lines)
        self.shown.append(f"$ {line}\n{screen}\n")
        _is_fine(seen, code)
        return screen

    def says(self, text: str) -> None:
        """What the user, or somebody else, does in between."""
        self.shown.append(f"# {text}\n")

    @property
    def summary(self) -> str:
        """How many commands, and how long they took."""
        return f"walk: {self.title}: {self.commands} commands, {self.seconds:.1f} s"


def _is_fine(seen: Seen, code: int) -> None:
    assert seen.code == code, seen.text
    assert not UGLY.search(seen.text), seen.text
    assert seen.left_behind == []


@contextmanager
def walked(title: str, folder: Path) -> Iterator[Walk]:
    """A walk that is printed when it is over, and kept where that was asked for."""
    walk = Walk(title, folder)
    yield walk
    assert walk.commands <= MOST_COMMANDS, f"{walk.commands} commands are more than a first hour takes"
    print("\n".join([*walk.shown, walk.summary]))
    if kept := os.environ.get(RECORD):
        text = "\n".join([*walk.shown, walk.summary])
        (Path(kept) / f"{title.replace(' ', '-')}.txt").write_text(f"{text}\n", "utf-8")


def proposed(screen: str, verb: str) -> str:
    """The command with this verb that was proposed on a screen, whole."""
    found = re.findall(rf"^ *(keylane {verb} .*)$", screen, re.MULTILINE)
    assert len(found) == 1, screen
    return str(found[0])

"""How a page of documentation is run: its blocks in order, in one namespace, in an empty folder.

python    runs; an expression that ends in `# -> VALUE` must have just that value
py        needs a broker or an account: must be Python, and is not run
console   each `$ keylane …` runs and must end with 0, or with what stands below `$ echo $?`; each line shown must be in
          the real output, in that order. Lines may be left out; `...` says so
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w+)?[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
VALUE = re.compile(r"  # -> (.*)$")
COMMAND, EXIT_CODE, OMISSION = "$ keylane", "$ echo $?", "..."
KEYLANE = (sys.executable, "-c", "from keylane.cli.main import main; main()")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its text, and the line of the page it begins on."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    return [Block(found[2] or "", found[3], page.count("\n", 0, found.start(3)) + 1) for found in FENCE.finditer(page)]


@dataclass(slots=True)
class Page:
    """A page while it is run: what its blocks said that is not so is in `complaints`."""

    namespace: dict[str, Any] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    run_blocks: int = 0

    def run(self, text: str) -> Page:
        for block in blocks(text):
            if block.language == "python":
                self._python(block)
            elif block.language == "py":
                compile(block.text, f"line {block.line}", "exec")
            elif block.language == "console":
                self._console(block)
        return self

    def _python(self, block: Block) -> None:
        self.run_blocks += 1
        lines = block.text.splitlines()
        for statement in ast.parse(block.text).body:
            promised = VALUE.search(lines[(statement.end_lineno or 1) - 1])
            at = f"line {block.line + statement.lineno - 1}"
            if promised and isinstance(statement, ast.Expr):
                got = eval(compile(ast.Expression(statement.value), at, "eval"), self.namespace)
                if repr(got) != promised[1]:
                    self.complaints.append(f"{at}: {promised[1]} is shown, {got!r} is so")
            else:
                exec(compile(ast.Module([statement], []), at, "exec"), self.namespace)

    def _console(self, block: Block) -> None:
        for command, shown, code in _commands(block.text):
            self.run_blocks += 1
            done = subprocess.run(
                [*KEYLANE, *shlex.split(command)[2:]], capture_output=True, text=True, check=False, timeout=300
            )
            if done.returncode != code:
                self.complaints.append(f"`{command}` ends with {done.returncode}, not {code}: {done.stderr}")
            real = iter((done.stdout + done.stderr).splitlines())
            for line in shown:
                if not any(line == one.rstrip() for one in real):
                    self.complaints.append(f"`{command}` does not print, or not there: {line}")
                    break


def _commands(text: str) -> Iterator[tuple[str, list[str], int]]:
    """Each command of a console block, the lines shown below it, and the exit code it should end with."""
    for part in re.split(r"^(?=\$ keylane)", text, flags=re.MULTILINE):
        if part.startswith(COMMAND):
            said, _, code = part.partition(EXIT_CODE)
            command, *shown = said.splitlines()
            lines = [line.rstrip() for line in shown if line.strip() and line.strip() != OMISSION]
            yield command, lines, int(code or 0)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture
def run_page(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Page]:
    """Run a page's text in an empty folder. A page that asks for a Spark session gets that of the whole run."""
    monkeypatch.chdir(tmp_path)

    def run(text: str) -> Page:
        if "local_session()" in text:
            request.getfixturevalue("spark")
        return Page().run(text)

    return run

"""How a page of documentation is run: its blocks in order, in one namespace, in an empty folder.

python    runs; an expression that ends in `# -> VALUE` must have just that value
py        needs a broker or an account: must be Python, and is not run
sh        is not run: the title of its fence says why, beginning with "not run"
console   each `$ keylane …` runs and must end with 0, or with what stands below `$ echo $?`; each line shown must be in
          the real output, in that order. Lines may be left out; `...` says so

A block whose fence has a title that begins with "needs a broker" runs where there is one (`make test-faults`), in its
place among the others; of README and the quick start no other block is left out.

The README's commands run in processes of their own, as its readers have them; those of other pages in this one, where
Spark has been started once and for all.
"""

from __future__ import annotations

import ast
import io
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import pytest

from keylane.cli.main import _run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w+)?([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
#: How the reason begins for which a block is not run here, or is not run at all.
NEEDS_A_BROKER, NOT_RUN = "needs a broker", "not run"
VALUE = re.compile(r"  # -> (.*)$")
COMMAND, EXIT_CODE, OMISSION = "$ keylane", "$ echo $?", "..."
KEYLANE = (sys.executable, "-c", "from keylane.cli.main import main; main()")
#: Commands that start Spark.
ON_SPARK = re.compile(r"local_session\(\)|^\$ keylane (?:route|profile|plan|match|geo table) ", re.MULTILINE)


class Ended(NamedTuple):
    """A command that has ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str


def in_a_process(arguments: list[str]) -> Ended:
    done = subprocess.run([*KEYLANE, *arguments], capture_output=True, text=True, check=False, timeout=300)
    return Ended(done.returncode, done.stdout, done.stderr)


def in_this_process(arguments: list[str]) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", ["keylane", *arguments]), redirect_stdout(out), redirect_stderr(err):
        return Ended(_run(), out.getvalue(), err.getvalue())


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its text, the line of the page it begins on, and the title of its fence."""

    language: str
    text: str
    line: int
    title: str = ""

    @property
    def left_out(self) -> bool:
        """Whether nothing runs it, and it does not say why."""
        runs = self.language in {"python", "console"} or self.title.startswith(NOT_RUN)
        return not runs or (
            self.language == "console" and bool(re.search(r"^\$ (?!keylane|echo)", self.text, re.MULTILINE))
        )


def blocks(page: str) -> list[Block]:
    return [
        Block(
            found[2] or "",
            found[4],
            page.count("\n", 0, found.start(4)) + 1,
            title[1] if (title := TITLE.search(found[3])) else "",
        )
        for found in FENCE.finditer(page)
    ]


@dataclass(slots=True)
class Page:
    """A page while it is run: what its blocks said that is not so is in `complaints`."""

    keylane: Callable[[list[str]], Ended]
    namespace: dict[str, Any] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    run_blocks: int = 0
    #: The port of a broker that blocks may start; without one they are passed over.
    port: int | None = None

    def run(self, text: str) -> Page:
        for block in blocks(text):
            if block.title.startswith(NEEDS_A_BROKER):
                if self.port is not None:
                    self._console(replace(block, text=block.text.replace("9092", str(self.port))))
            elif block.language == "python":
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
            done = self.keylane(shlex.split(command)[2:])
            if done.code != code:
                self.complaints.append(f"`{command}` ends with {done.code}, not {code}: {done.err}")
            real = iter((done.out + done.err).splitlines())
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
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Page]:
    """Run a page's text in an empty folder, as a reader would."""
    monkeypatch.chdir(tmp_path)
    return lambda text: Page(in_a_process).run(text)


@pytest.fixture
def run_page_here(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Page]:
    """The same in this process. A page that asks for a Spark session gets that of the whole run."""
    monkeypatch.chdir(tmp_path)

    def run(text: str) -> Page:
        if ON_SPARK.search(text):
            _move_spark(request.getfixturevalue("spark"), tmp_path)
        return Page(in_this_process).run(text)

    return run


def _move_spark(spark: Any, folder: Path) -> None:
    """Java has no way to change its folder: paths that are not absolute would be those of where Spark was started."""
    jvm, conf = spark._jvm, spark._jsc.hadoopConfiguration()
    jvm.org.apache.hadoop.fs.FileSystem.get(conf).setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(str(folder)))

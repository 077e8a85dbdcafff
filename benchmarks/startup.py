"""How long `keylane --help` and `keylane explain` take on a warm disk, and what they import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import Figure, best

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYLANE = str(Path(sys.executable).with_name("keylane"))
EXPLAIN = ["explain", "TT0124", "--lanes", "15"]
HEAVY = ("numpy", "pyarrow", "pydantic", "yaml", "pyspark")
BUDGET = """
import sys
sys.argv = ["keylane", "explain", "TT0124", "--lanes", "15", "-o", "json"]
from keylane.cli.main import _run
import io, contextlib
with contextlib.redirect_stdout(io.StringIO()):
    _run()
print(len(sys.modules), *(name for name in {heavy!r} if name in sys.modules))
"""


def run() -> Iterator[Figure]:
    """Wall time of whole processes, the bare interpreter among them, then the import budget."""
    seconds = best(
        15,
        python=lambda: _call([sys.executable, "-c", "pass"]),
        help=lambda: _call([KEYLANE, "--help"]),
        explain=lambda: _call([KEYLANE, *EXPLAIN]),
    )
    yield Figure("python -c pass", seconds["python"], "s")
    yield Figure("keylane --help", seconds["help"], "s", at_most=0.3)
    yield Figure("keylane explain", seconds["explain"], "s", at_most=0.3)
    count, *heavy = _call([sys.executable, "-c", BUDGET.format(heavy=HEAVY)]).split()
    yield Figure("modules that explain imports", int(count), "modules")
    yield Figure(f"of them heavy ({', '.join(HEAVY)})", len(heavy), "modules", at_most=0)
    yield from _slowest()


def _call(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _slowest() -> Iterator[Figure]:
    """The five imports that cost most, each with what it brings along."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", KEYLANE, *EXPLAIN], capture_output=True, text=True, check=True
    )
    lines = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")][1:]
    ours = [(int(total), name.strip()) for _, total, name in lines if name.strip().startswith(("keylane", "click"))]
    for micros, name in sorted(ours, reverse=True)[:5]:
        yield Figure(f"import {name}", micros / 1000, "ms")

"""Every command on a pseudo-terminal: shows something within a second, prints no traceback, and ends on Ctrl-C.

It is let run to its end, and interrupted early, in the middle and late. After a Ctrl-C there is one line, the exit code
130, no process and no half file.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.terminal.commands_on_files import CALLS, Call, damaged, files
from tests.terminals import Seen, on_a_terminal

from keylane.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYLANE = (sys.executable, "-m", "keylane")
MOMENTS = ("early", "middle", "late")
#: What nobody wants to see on a terminal.
UGLY = re.compile(r"Traceback|Exception|ERROR:|py4j|^\s+at \S+\(|File \"", re.MULTILINE)
#: In `make test`: those without Java, and one with it.
CHEAP = ("explain", "identify", "check", "profile")

_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("terminal")
    files(made)
    route = [*KEYLANE, "route", made / "c.yaml", "--from", made / "day", "--to", made / "lanes"]
    subprocess.run([str(word) for word in route], check=True, capture_output=True, timeout=200)
    return made


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without what needs Spark to be made."""
    made = tmp_path_factory.mktemp("small")
    files(made)
    return made


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("kafka")
    up = [*KEYLANE, "dev", "kafka", "up", "--dir", str(place), "-o", "jsonl"]
    subprocess.run(up, check=True, capture_output=True, timeout=200)
    asked = subprocess.run(
        [*KEYLANE, "dev", "kafka", "status", "--dir", str(place), "-o", "json"], capture_output=True, check=True
    )
    found = re.search(r'"bootstrap": "([^"]+)"', asked.stdout.decode())
    assert found
    yield found[1]
    subprocess.run([*KEYLANE, "dev", "kafka", "down", "--dir", str(place)], check=True, capture_output=True)


def let_run(call: Call, folder: Path, broker: str = "") -> Seen:
    out = folder / f"out{next(_numbers)}"
    out.mkdir()
    seen = on_a_terminal(*KEYLANE, *call.arguments(folder, out, broker), cwd=out, timeout=300)
    _end_broker(call, out)
    return seen


def _end_broker(call: Call, out: Path) -> None:
    if call.words.startswith("dev kafka up"):
        subprocess.run(
            [*KEYLANE, "dev", "kafka", "down", "--dir", str(out / "kafka")], check=False, capture_output=True
        )


def is_fine(seen: Seen, codes: tuple[int, ...]) -> None:
    assert seen.code in codes, seen.text
    assert not UGLY.search(seen.text), seen.text
    assert seen.left_behind == []
    if seen.seconds > seen.ready_at + 3:
        assert seen.first_at() < 2.0, "nothing was shown for more than a second"


def interrupted(call: Call, folder: Path, after: float, broker: str = "") -> None:
    """Interrupt it: it has ended by itself, or as Ctrl-C should end it."""
    out = folder / f"out{next(_numbers)}"
    out.mkdir()
    seen = on_a_terminal(
        *KEYLANE, *call.arguments(folder, out, broker), interrupt_after=after, cwd=out, timeout=300, times=2
    )
    try:
        assert not UGLY.search(seen.text), f"interrupted after {after:.2f} s: {seen.text}"
        assert seen.left_behind == []
        assert damaged(out) == []
        if seen.code in call.codes or "ending after this batch" in seen.text:
            assert seen.code in {*call.codes, 130}
            return
        assert seen.code == 130, f"interrupted after {after:.2f} s: {seen.text}"
        said = [line for line in seen.after if line and "ending after this batch" not in line]
        assert said == ["interrupted"], seen.text
        assert seen.seconds - (seen.interrupted_at or 0) < 8, "it took its time"
    finally:
        _end_broker(call, out)


def moments(seconds: float, start: float) -> dict[str, float]:
    """Seconds after its start at which to interrupt what takes so long."""
    return {"early": 0.0, "middle": max(0.0, seconds - start) * 0.5, "late": max(0.0, seconds - start) * 0.9}


@pytest.fixture(scope="module")
def start() -> float:
    """How long the command takes that does nothing."""
    return on_a_terminal(*KEYLANE, "--version").seconds


@pytest.mark.parametrize("name", CHEAP)
def test_a_cheap_command(name: str, small: Path, start: float, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue("folder") if "lanes" in CALLS[name].words else small
    seen = let_run(CALLS[name], folder)
    is_fine(seen, CALLS[name].codes)
    for after in moments(seen.seconds, start).values():
        interrupted(CALLS[name], folder, after)


def test_a_command_on_spark_in_the_middle(small: Path) -> None:
    call, out = CALLS["route"], small / "route"
    out.mkdir()
    seen = on_a_terminal(
        *KEYLANE, *call.arguments(small, out), interrupt_on="tasks", interrupt_after=60.0, cwd=out, timeout=120
    )
    assert "starting Spark (first time: up to 20 s)" in seen.text
    assert (seen.code, seen.left_behind) == (130, [])
    said = next(line for line in seen.after if line)
    assert said in {"route: ending after this batch; once more to end at once", "interrupted"}
    assert not UGLY.search(seen.text)
    assert seen.first_at() < 2.0


@pytest.mark.faults
@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if not call.follows])
def test_every_command_at_every_moment(name: str, folder: Path, start: float, request: pytest.FixtureRequest) -> None:
    call = CALLS[name]
    broker = request.getfixturevalue("broker") if "{broker}" in call.words else ""
    seen = let_run(call, folder, broker)
    is_fine(seen, call.codes)
    for after in moments(seen.seconds, start).values():
        interrupted(call, folder, after, broker)
    # While Java starts, when its process is not known yet; and a little later.
    for after in (1.0, 2.5, 4.0) if call.spark or call.broker else ():
        interrupted(call, folder, after, broker)


@pytest.mark.faults
@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.follows])
def test_a_command_that_follows_reports_it_and_ends_in_order(name: str, folder: Path) -> None:
    call, out = CALLS[name], folder / f"out{next(_numbers)}"
    out.mkdir()
    seen = on_a_terminal(*KEYLANE, *call.arguments(folder, out), interrupt_on="Ctrl-C ends it", cwd=out, timeout=200)
    assert not UGLY.search(seen.text), seen.text
    assert seen.code == 0, seen.text
    assert "following, " in seen.text
    assert seen.left_behind == []
    for after in (0.5, 3.0):
        interrupted(call, folder, after)


def test_every_command_is_in_the_matrix() -> None:
    tried = {call.words.split()[0] for call in CALLS.values()}
    assert set(COMMANDS) <= tried


@pytest.mark.parametrize(
    "shown",
    ["Traceback (most recent call last):", "ERROR:root:Exception while sending command.", "\tat java.lang.X(Y)"],
)
def test_twin_what_is_ugly_is_found(shown: str) -> None:
    assert UGLY.search(shown.replace("\t", "    "))


def test_twin_a_process_that_is_left_behind_is_found() -> None:
    seen = on_a_terminal(sys.executable, "-c", "import subprocess; subprocess.Popen(['sleep', '4'])", grace=0.5)
    assert seen.left_behind == ["sleep 4 "]

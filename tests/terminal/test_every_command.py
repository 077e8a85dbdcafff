"""Every command on a pseudo-terminal: shows something within a second, prints no traceback, and ends on Ctrl-C.

It is let run to its end, and interrupted early, in the middle and late. After a Ctrl-C there is one line, the exit code
130, no process and no half file.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
from tests.terminal.commands_on_files import CALLS, Call, damaged, files
from tests.terminals import Seen, on_a_terminal

from keylane.cli.main import COMMANDS, cli

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

KEYLANE = (sys.executable, "-m", "keylane")
#: What nobody wants to see on a terminal.
UGLY = re.compile(r"Traceback|Exception|ERROR:|py4j|^\s+at \S+\(|File \"", re.MULTILINE)
#: In `make test`: those without Java, and one with it.
CHEAP = ("identify", "profile")

_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("terminal")
    files(made)
    return made


@pytest.fixture(scope="module")
def routed(folder: Path) -> Path:
    """The same with what Spark has to make."""
    done("route", folder / "c.yaml", "--from", folder / "day", "--to", folder / "lanes")
    return folder


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[dict[str, str]]:
    """Brokers with a topic of two hundred thousand records."""
    place = tmp_path_factory.mktemp("kafka")
    done("dev", "kafka", "up", "--dir", place)
    done("dev", "kafka", "load", folder / "data.parquet", "-k", "k", "-t", "t", "--dir", place)
    asked = json.loads(done("dev", "kafka", "status", "--dir", place, "-o", "json"))
    yield {"kafka": asked["bootstrap"], "dir": str(place)}
    done("dev", "kafka", "down", "--dir", place)


def done(*words: object, check: bool = True) -> bytes:
    """What a command prints that is not tried, but has to be done."""
    line = [*KEYLANE, *map(str, words)]
    return subprocess.run(line, check=check, capture_output=True, timeout=300).stdout


def in_a_folder(call: Call, folder: Path, request: pytest.FixtureRequest, **how: Any) -> tuple[Seen, Path]:
    """Run it on a terminal in a new folder, after what comes before it."""
    out = folder / f"out{next(_numbers)}"
    out.mkdir()
    names = {"f": str(folder), "out": str(out), "name": out.name}
    for needed in call.needs:
        there = request.getfixturevalue(needed)
        if needed == "kafka":
            names |= there
        elif needed == "kinesalite":
            names["stream"] = there.address(there.fresh_stream(4))
    if call.first:
        done(*call.first.format(**names).split(), check=False)
    try:
        return on_a_terminal(*KEYLANE, *call.words.format(**names).split(), cwd=out, timeout=300, **how), out
    finally:
        if "dev kafka up" in (call.first + call.words):
            done("dev", "kafka", "down", "--dir", out / "kafka", check=False)


def is_fine(seen: Seen, codes: tuple[int, ...], *, timed: bool) -> None:
    assert seen.code in codes, seen.text
    assert not UGLY.search(seen.text), seen.text
    assert seen.left_behind == []
    if timed and seen.seconds > seen.ready_at + 3:
        assert seen.first_at() < 2.0, "nothing was shown for more than a second"


def interrupted(call: Call, folder: Path, after: float, request: pytest.FixtureRequest, *, timed: bool = True) -> None:
    """Interrupt it: it has ended by itself, or as Ctrl-C should end it; `timed`, soon."""
    seen, out = in_a_folder(call, folder, request, interrupt_after=after, times=2)
    assert not UGLY.search(seen.text), f"interrupted after {after:.2f} s: {seen.text}"
    assert seen.left_behind == []
    assert damaged(out) == []
    if seen.code in call.codes or "ending after this batch" in seen.text:
        assert seen.code in {*call.codes, 130}
        return
    assert seen.code == 130, f"interrupted after {after:.2f} s: {seen.text}"
    said = [line for line in seen.after if line and "ending after this batch" not in line]
    assert (said[-1:] if call.is_long else said) == ["interrupted"], seen.text
    if timed:
        assert seen.seconds - (seen.interrupted_at or 0) < 8, "it took its time"


def moments(seconds: float, start: float) -> dict[str, float]:
    """Seconds after its start at which to interrupt what takes so long."""
    return {"early": 0.0, "middle": max(0.0, seconds - start) * 0.5, "late": max(0.0, seconds - start) * 0.9}


@pytest.fixture(scope="module")
def start() -> float:
    """How long the command takes that does nothing."""
    return on_a_terminal(*KEYLANE, "--version").seconds


@pytest.mark.parametrize("name", CHEAP)
def test_a_cheap_command(name: str, folder: Path, start: float, request: pytest.FixtureRequest) -> None:
    at_every_moment(CALLS[name], folder, start, request, timed=False)


def at_every_moment(
    call: Call, folder: Path, start: float, request: pytest.FixtureRequest, *, timed: bool = True
) -> None:
    """Let it run to its end, and then interrupt it early, in the middle and late."""
    seen, _ = in_a_folder(call, folder, request)
    is_fine(seen, call.codes, timed=timed)
    for after in moments(seen.seconds, start).values():
        interrupted(call, folder, after, request, timed=timed)


def test_a_command_on_spark_in_the_middle(folder: Path, request: pytest.FixtureRequest) -> None:
    seen, _ = in_a_folder(CALLS["route"], folder, request, interrupt_on="tasks", interrupt_after=60.0)
    assert "starting Spark (first time: up to 20 s)" in seen.text
    assert (seen.code, seen.left_behind) == (130, [])
    said = next(line for line in seen.after if line)
    assert said in {"route: ending after this batch; once more to end at once", "interrupted"}
    assert not UGLY.search(seen.text)


@pytest.mark.faults
@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if not call.follows])
def test_every_command_at_every_moment(name: str, folder: Path, start: float, request: pytest.FixtureRequest) -> None:
    call = CALLS[name]
    at_every_moment(call, folder, start, request)
    # While Java starts, when its process is not known yet; and a little later.
    for after in (1.0, 2.5, 4.0) if call.spark or call.broker else ():
        interrupted(call, folder, after, request)


@pytest.mark.faults
@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.follows])
def test_a_command_that_follows_reports_it_and_ends_in_order(
    name: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    seen, _ = in_a_folder(CALLS[name], folder, request, interrupt_on="Ctrl-C ends it")
    assert not UGLY.search(seen.text), seen.text
    assert seen.code == 0, seen.text
    assert "following, " in seen.text
    assert seen.left_behind == []
    for after in (0.5, 3.0):
        interrupted(CALLS[name], folder, after, request)


@pytest.mark.faults
def test_a_topic_that_was_not_filled_is_gone(kafka: dict[str, str], folder: Path) -> None:
    """An interrupted load leaves no half topic: the same command can be given again."""
    load = ("dev", "kafka", "load", folder / "data.parquet", "-k", "k", "-t", "half", "--dir", kafka["dir"])
    seen = on_a_terminal(*KEYLANE, *load, interrupt_on="load: ", interrupt_after=60.0)
    assert seen.code == 130, seen.text
    assert "200,000 records" in done(*load).decode()


def lines_of(command: click.Command, *words: str) -> Iterator[str]:
    """Every command line within a command: a group that does something itself is one too."""
    inner: dict[str, click.Command] = getattr(command, "commands", {})
    if not inner or (isinstance(command, click.Group) and command.invoke_without_command):
        yield " ".join(words)
    for name, one in inner.items():
        yield from lines_of(one, *words, name)


def missing(calls: Iterable[Call]) -> set[str]:
    """Command lines that none of these is."""
    context = click.Context(cli)
    there = {line for name in COMMANDS for line in lines_of(cli.get_command(context, name) or cli, name)}
    tried = {call.words + " " for call in calls}
    return {line for line in there if not any(one.startswith(line + " ") for one in tried)}


def test_every_command_is_in_the_matrix() -> None:
    assert missing(CALLS.values()) == set()


def test_twin_a_command_within_another_that_is_not_tried_is_found() -> None:
    assert missing(call for call in CALLS.values() if "dev kafka load" not in call.words) == {"dev kafka load"}


@pytest.mark.parametrize(
    "shown",
    ["Traceback (most recent call last):", "ERROR:root:Exception while sending command.", "\tat java.lang.X(Y)"],
)
def test_twin_what_is_ugly_is_found(shown: str) -> None:
    assert UGLY.search(shown.replace("\t", "    "))


def test_twin_a_process_that_is_left_behind_is_found() -> None:
    seen = on_a_terminal(sys.executable, "-c", "import subprocess; subprocess.Popen(['sleep', '30'])", grace=0.5)
    assert seen.left_behind == ["sleep 30 "]

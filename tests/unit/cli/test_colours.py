"""Colour: on a terminal unless it is not wanted; `--color` decides over everything else."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest
from tests.terminals import on_a_terminal

from keylane.cli.terminal import colours, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]

KEYLANE = (sys.executable, "-m", "keylane")
COLOUR = "\x1b[3"
GREEN_OK = "\x1b[32mok\x1b[0m: "


@pytest.fixture(autouse=True)
def _nothing_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command was asked for is the process's: not the next test's."""
    monkeypatch.setattr(shown, "color", "auto")


class Terminal(io.StringIO):
    """A stream that is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "environment", "coloured"),
    [
        pytest.param("auto", {}, True, id="a terminal"),
        pytest.param("auto", {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param("auto", {"TERM": "dumb"}, False, id="a terminal without colours"),
        pytest.param("never", {}, False, id="never"),
        pytest.param("always", {"NO_COLOR": "1"}, True, id="always, over NO_COLOR"),
    ],
)
def test_a_terminal_gets_the_colours_that_are_wanted(
    choice: str, environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "color", choice)
    for name, value in {"TERM": "xterm", "NO_COLOR": "", **environment}.items():
        monkeypatch.setenv(name, value)
    assert colours(Terminal()) is coloured
    assert colours(io.StringIO()) is (choice == "always"), "twin: a pipe"


@pytest.mark.parametrize(("given", "head"), [({}, GREEN_OK), ({"lanes": 0}, COLOUR)], ids=["fine", "wrong"])
def test_a_command_has_them(given: dict[str, int], head: str, contract_file: ContractFile) -> None:
    seen = on_a_terminal(*KEYLANE, "check", contract_file(**given), NO_COLOR="")
    assert head in seen.text


@pytest.mark.parametrize(("choice", "coloured"), [("auto", False), ("never", False), ("always", True)])
@pytest.mark.parametrize("before", [True, False], ids=["before the command", "behind it"])
def test_a_pipe_gets_colours_only_when_always_is_asked_for(
    before: bool, choice: str, coloured: bool, run: Run, contract_file: ContractFile
) -> None:
    asked = ("--color", choice)
    _, out, _ = run(*(asked if before else ()), "check", contract_file(), *(() if before else asked))
    assert (GREEN_OK in out) is coloured
    _, _, err = run(*(asked if before else ()), "check", "nowhere.yaml", *(() if before else asked))
    assert (COLOUR in err) is coloured
    _, out, _ = run("check", contract_file(), *asked, "-o", "json")
    assert COLOUR not in out


@pytest.mark.parametrize("option", ["sometimes", ""])
def test_another_choice_is_refused(option: str, run: Run, contract_file: ContractFile) -> None:
    code, _, err = run("check", contract_file(), "--color", option)
    assert code == 2
    assert "allowed: auto, always, never" in err

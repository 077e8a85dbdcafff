"""docs/guarantees.md: every promise names a test that is there and that `make test` runs; others are marked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "guarantees.md"
_TEST = re.compile(r"`(tests/[^`:]+\.py)(?:::(\w+))?`( \(`make test-faults`\))?")
_FAULTS = "pytest.mark.faults"


def promises(text: str) -> list[tuple[str, str]]:
    """Each promise with the cell that names what holds it."""
    section = text.partition("## What is promised\n")[2]
    rows = [[cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in section.splitlines() if "|" in line]
    return [(row[0], row[-1]) for row in rows if row[0] not in {"promise", ""} and not row[0].startswith("---")]


def unheld(text: str) -> list[str]:
    """The promises that name no test of `make test`, one that is not there, or one whose mark is missing or wrong."""
    out = []
    for promise, held_by in promises(text):
        named = _TEST.findall(held_by)
        missing = [file for file, test, _ in named if not _there(file, test)]
        wrong = [file for file, test, mark in named if file not in missing and _is_long(file, test) != bool(mark)]
        if missing or wrong or all(mark for *_, mark in named):
            out.append(f"{promise}: {missing or wrong or 'no test of `make test`'}")
    return out


def _is_long(file: str, test: str) -> bool:
    """Whether `make test` leaves out a test, or all of a file."""
    syntax = ast.parse((_ROOT / file).read_text(encoding="utf-8"))
    marks = [ast.unparse(node) for node in syntax.body if isinstance(node, ast.Assign)]
    tests = [node for node in syntax.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    asked = [one for one in tests if test in {"", one.name}]
    marked = [_FAULTS in map(ast.unparse, one.decorator_list) for one in asked]
    return (bool(marked) and all(marked)) or any(_FAULTS in mark for mark in marks if mark.startswith("pytestmark"))


def _there(file: str, test: str) -> bool:
    path = _ROOT / file
    return path.exists() and (not test or f"def {test}(" in path.read_text(encoding="utf-8"))


def test_every_promise_names_a_test_that_is_there() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    assert len(promises(text)) > 5
    assert unheld(text) == []


@pytest.mark.parametrize(
    "row",
    [
        "| nothing is lost | a kill | |",
        "| nothing is lost | a kill | `tests/route/test_gone.py` |",
        "| nothing is lost | a kill | `tests/route/test_kill.py::test_gone` |",
        "| nothing is lost | a kill | `tests/route/test_kill.py::test_killed_by_the_clock` |",
        "| nothing is lost | a kill | `tests/route/test_kill.py::test_killed_by_the_clock` (`make test-faults`) |",
        "| nothing is lost | a kill | `tests/route/test_kill.py` (`make test-faults`) |",
    ],
)
def test_a_promise_without_a_test_is_named(row: str) -> None:
    assert unheld(f"## What is promised\n\n| promise | tried under | held by |\n|---|---|---|\n{row}\n") != []

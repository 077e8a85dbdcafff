"""docs/guarantees.md: every promise names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "guarantees.md"
_TEST = re.compile(r"`(tests/[^`:]+\.py)(?:::(\w+))?`")


def promises(text: str) -> list[tuple[str, str]]:
    """Each promise with the cell that names what holds it."""
    section = text.partition("## What is promised\n")[2]
    rows = [[cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in section.splitlines() if "|" in line]
    return [(row[0], row[-1]) for row in rows if row[0] not in {"promise", ""} and not row[0].startswith("---")]


def unheld(text: str) -> list[str]:
    """The promises that name no test, or one that is not there."""
    out = []
    for promise, held_by in promises(text):
        named = _TEST.findall(held_by)
        missing = [file for file, test in named if not _there(file, test)]
        if not named or missing:
            out.append(f"{promise}: {missing or 'no test'}")
    return out


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
    ],
)
def test_a_promise_without_a_test_is_named(row: str) -> None:
    assert unheld(f"## What is promised\n\n| promise | tried under | held by |\n|---|---|---|\n{row}\n") != []

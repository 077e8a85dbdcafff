"""A check that is switched off on a line says why there: every `noqa` and every `type: ignore` has a reason."""

from __future__ import annotations

import re
import tokenize
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "scripts", "benchmarks")
#: A switch with its codes: what is left of the comment without these is the reason.
SWITCH = re.compile(r"\b(?:ruff: )?noqa(?:: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)*)?|\btype: ignore(?:\[[a-z, -]+\])?")


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Every comment with its line."""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def without_reason(source: str) -> list[int]:
    """Lines with a switch and no word beside it."""
    if not SWITCH.search(source):
        return []
    return [
        line
        for line, comment in comments(source)
        if SWITCH.search(comment) and not re.search(r"[A-Za-z]{2}", SWITCH.sub("", comment))
    ]


def test_what_is_switched_off_has_its_reason_beside_it() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 500
    bare = [f"{file.relative_to(ROOT)}:{line}" for file in files for line in without_reason(file.read_text("utf-8"))]
    assert bare == []


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("x = 1  # noqa: S603", True),
        ("x = 1  # noqa", True),
        ("x = 1  # type: ignore[arg-type]", True),
        ("x = 1  # type: ignore[union-attr]  # noqa: SLF001, S603", True),
        ("# ruff: noqa: SLF001", True),
        ("x = 1  # noqa: S603  the user's own Java", False),
        ("x = 1  # noqa: S603 - the user's own Java", False),
        ("x = 1  # type: ignore[arg-type]  # any mapping will do", False),
        ("x = '# noqa: S603'", False),
        ("x = 1  # nothing is switched off", False),
    ],
)
def test_a_switch_without_a_reason_is_noticed(line: str, missing: bool) -> None:
    assert bool(without_reason(f"{line}\n")) is missing

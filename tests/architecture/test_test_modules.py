"""Tests share code by modules that are named after what they hold, never by importing each other."""

from __future__ import annotations

import re
from pathlib import Path


def imported_tests(sources: dict[str, str]) -> list[str]:
    """Test modules that others import: what they share belongs into a module that is named after it."""
    return [
        f"{path} imports {found[1]}"
        for path, source in sources.items()
        for found in re.finditer(r"^\s*(?:from|import) (tests\.(?:\w+\.)*test_\w+)", source, re.MULTILINE)
    ]


def test_no_test_imports_another() -> None:
    root = Path(__file__).parents[1]
    assert imported_tests({str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*.py"))}) == []


def test_a_test_that_imports_another_is_reported() -> None:
    planted = {"a.py": "def f():\n    from tests.unit.test_b import made\n", "c.py": "from tests.unit.b import made\n"}
    assert imported_tests(planted) == ["a.py imports tests.unit.test_b"]

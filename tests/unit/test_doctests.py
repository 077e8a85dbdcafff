from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import keylane
import keylane.api.verbs  # loaded on first use, which would change the package while doctest walks it

ROOT = Path(keylane.__file__).parent
MODULES = sorted(
    ".".join(("keylane", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if path.name != "__main__.py"
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_there_are_examples_to_hold() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(import_module(name)) if test.examples]
    assert len(found) > 10

"""A class name means one thing in the whole of keylane: a reader who looks for it opens the right file."""

from __future__ import annotations

import ast
from collections import Counter

from scripts.house import parsed

#: Names that still stand twice or more, and how often. A name leaves this list and never enters it.
STILL: dict[str, int] = {
    "Box": 2,
    "ClientPlacement": 2,
    "Node": 2,
    "Options": 3,
}


def repeated(sources: dict[str, str]) -> dict[str, int]:
    """Class names that are defined more than once, and how often; classes inside functions are nobody else's."""
    names = Counter(
        node.name for source in sources.values() for node in parsed(source).body if isinstance(node, ast.ClassDef)
    )
    return {name: count for name, count in sorted(names.items()) if count > 1}


def test_class_names_are_unique(sources: dict[str, str]) -> None:
    now = repeated(sources)
    assert {name: count for name, count in now.items() if count > STILL.get(name, 1)} == {}


def test_a_name_that_became_unique_leaves_the_list(sources: dict[str, str]) -> None:
    now = repeated(sources)
    assert {name: count for name, count in STILL.items() if now.get(name, 1) < count} == {}


def test_a_second_class_of_one_name_is_reported() -> None:
    planted = {"keylane.a": "class Plan:\n    pass\nclass Other:\n    pass", "keylane.b": "class Plan:\n    pass"}
    assert repeated(planted) == {"Plan": 2}

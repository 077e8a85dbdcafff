"""No module needs itself to be imported: neither at the top nor inside a function."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from scripts.house import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Packages that still have a cycle. One leaves this list and none enters it.
STILL: set[str] = set()


def imported(source: str) -> Iterator[str]:
    """What a source imports at run time: modules, and names of modules."""
    tree = parsed(source)
    guards = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    guarded = {id(inner) for guard in guards for inner in ast.walk(guard)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in guarded:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and id(node) not in guarded:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def cycle(sources: dict[str, str]) -> list[str]:
    """The modules of one cycle of imports, at run time; nothing where there is none."""
    graph = {
        module: {name if name in sources else name.rpartition(".")[0] for name in imported(source)} - {module}
        for module, source in sources.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others(sources: dict[str, str]) -> None:
    kept = {module: source for module, source in sources.items() if module.rpartition(".")[0] not in STILL}
    assert cycle(kept) == []


def test_a_package_without_a_cycle_leaves_the_list(sources: dict[str, str]) -> None:
    for package in STILL:
        assert cycle({module: source for module, source in sources.items() if module.startswith(package)}) != []


def test_a_planted_cycle_is_reported_also_inside_a_function() -> None:
    planted = {
        "keylane.a": "from keylane.b import f",
        "keylane.b": "def f():\n    from keylane import c",
        "keylane.c": "import keylane.a",
    }
    assert set(cycle(planted)) == set(planted)


def test_an_import_for_types_is_no_cycle() -> None:
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from keylane.a import A"
    assert cycle({"keylane.a": "from keylane.b import f", "keylane.b": guarded}) == []

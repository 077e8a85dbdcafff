"""Large enough to be worth opening and small enough to read: modules and functions."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from scripts.house import parsed
from tests.architecture.import_graph import import_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_MODULE_LINES, MOST_FUNCTION_LINES, FEWEST_MODULE_LINES = 700, 60, 60
DRAWERS = {"utils", "util", "misc", "helpers", "common"}
#: A file a hash, a file a command, a file an assignor, however short: they are looked for by name.
ONE_EACH = ("keylane.hashing", "keylane.cli", "keylane.api", "keylane.groups.assignors")
#: Short modules with one importer that is their package: its names load late, or more of it will come. Add none.
SHORT = {"keylane.moved"}


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Every function, and the lines of its body without its docstring: a signature of many options is a list."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node.name, node.end_lineno - node.body[0].lineno + 1 - _docstring_lines(node)


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or first.lineno) - first.lineno + 1 if is_docstring else 0


def long_functions(sources: dict[str, str]) -> dict[str, int]:
    return {
        f"{module}.{name}": lines
        for module, source in sources.items()
        for name, lines in functions(source)
        if lines > MOST_FUNCTION_LINES
    }


def long_modules(sources: dict[str, str]) -> dict[str, int]:
    lengths = {module: len(source.splitlines()) for module, source in sources.items()}
    return {module: lines for module, lines in lengths.items() if lines > MOST_MODULE_LINES}


def crumbs(sources: dict[str, str]) -> set[str]:
    """Modules that are short and have one importer, so that they could be a part of it; packages are none."""
    graph = import_graph(sources)
    importers = Counter(target for module, targets in graph.items() for target in targets)
    packages = {module.rpartition(".")[0] for module in sources}
    return {
        module
        for module, source in sources.items()
        if len(source.splitlines()) < FEWEST_MODULE_LINES
        and importers[module] == 1
        and module not in packages
        and not module.startswith(ONE_EACH)
        and not module.endswith("__main__")
    }


def test_functions_are_short(sources: dict[str, str]) -> None:
    assert long_functions(sources) == {}


def test_a_long_function_is_reported() -> None:
    body = "    pass\n" * MOST_FUNCTION_LINES
    assert long_functions({"m": f"def f():\n{body}    pass\n"}) == {"m.f": MOST_FUNCTION_LINES + 1}
    assert long_functions({"m": f'def f(\n    a: int,\n):\n    """One.\n\n    Two.\n    """\n{body}'}) == {}


def test_modules_are_short(sources: dict[str, str]) -> None:
    assert long_modules(sources) == {}


def test_a_long_module_is_reported() -> None:
    assert long_modules({"m": "\n" * MOST_MODULE_LINES, "n": "\n" * (MOST_MODULE_LINES + 1)}) == {"n": 701}


def test_no_module_is_a_crumb_of_another(sources: dict[str, str]) -> None:
    assert crumbs(sources) - SHORT == set()


def test_a_crumb_is_reported() -> None:
    sources = {
        "keylane.a": "def f():\n    from keylane.b import g\n",
        "keylane.b": "g = 1\n",
        "keylane.c": "from keylane import d, e\n",
        "keylane.d": "from keylane.e import h\n" + "\n" * FEWEST_MODULE_LINES,
        "keylane.e": "h = 1\n",
        "keylane.hashing.crc": "i = 1\n",
    }
    assert crumbs(sources) == {"keylane.b"}


def test_every_module_says_what_it_is_for(sources: dict[str, str]) -> None:
    assert [module for module, source in sources.items() if not ast.get_docstring(parsed(source))] == []


def test_no_module_is_a_drawer(sources: dict[str, str]) -> None:
    assert [module for module in sources if module.rpartition(".")[2] in DRAWERS] == []

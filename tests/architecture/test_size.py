"""Small enough to read: short functions, short modules, each with a word on what it is for."""

from __future__ import annotations

import ast
from statistics import median, quantiles

MOST_LINES = 700
DRAWERS = {"utils", "util", "misc", "helpers", "common"}


def function_lengths(source: str) -> list[int]:
    """Lines of every function, without its docstring."""
    return [
        node.end_lineno - node.lineno + 1 - _docstring_lines(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    ]


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or first.lineno) - first.lineno + 1 if is_docstring else 0


def test_functions_are_short(sources: dict[str, str]) -> None:
    lengths = [length for source in sources.values() for length in function_lengths(source)]
    assert median(lengths) < 8
    assert quantiles(lengths, n=10)[-1] < 30


def test_modules_are_short(sources: dict[str, str]) -> None:
    lengths = {module: len(source.splitlines()) for module, source in sources.items()}
    assert {module: length for module, length in lengths.items() if length > MOST_LINES} == {}


def test_every_module_says_what_it_is_for(sources: dict[str, str]) -> None:
    assert [module for module, source in sources.items() if not ast.get_docstring(ast.parse(source))] == []


def test_no_module_is_a_drawer(sources: dict[str, str]) -> None:
    assert [module for module in sources if module.rpartition(".")[2] in DRAWERS] == []


def test_a_docstring_is_not_counted() -> None:
    assert function_lengths('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n') == [2]

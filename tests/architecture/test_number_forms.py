"""Shares, counts and sizes are written by `keylane.numbers` and nowhere else, so that they look alike everywhere."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest
from scripts.house import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The one module that writes numbers.
FORMS = "keylane.numbers"
#: A format of its own: thousands apart, or percents. Not a fill, an alignment or a number of digits.
SPEC = re.compile(r"[,_][^%]*$|%$")
#: The same in a text for `str.format`, wherever that is called.
IN_TEXT = re.compile(r"\{\w*:(?:[<>^]?\d*[,_](?:\.\d+[fg])?|[<>^]?[.\d]*%)\}")
#: A plural left open, which `plural` writes out. In an f-string, where a number is before it, or in a text for one.
OPEN_PLURAL = re.compile(r"\w\(e?s\)")
#: Units of sizes: who names one beside a number has divided by hand.
SIZES = re.compile(r" ?(?:[KMGT]i?B|bytes)\b")


def form_problems(module: str, source: str) -> list[str]:
    """Where a number gets a form of the module's own."""
    return [f"{module}:{line} {what}" for line, what in _found(parsed(source))]


def _found(tree: ast.AST) -> Iterator[tuple[int, str]]:
    specs = {id(node.format_spec) for node in ast.walk(tree) if isinstance(node, ast.FormattedValue)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in specs:
            yield from _in_text(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and IN_TEXT.search(node.value):
            yield node.lineno, f"formats {node.value!r}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and OPEN_PLURAL.search(node.value):
            yield node.lineno, f"leaves a plural open in {node.value!r}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "format":
            spec = node.args[1] if len(node.args) > 1 else None
            if isinstance(spec, ast.Constant) and SPEC.search(str(spec.value)):
                yield node.lineno, f"formats by {spec.value!r}"


def _in_text(text: ast.JoinedStr) -> Iterator[tuple[int, str]]:
    for value, after in zip(text.values, [*text.values[1:], ast.Constant("")], strict=True):
        if not isinstance(value, ast.FormattedValue):
            continue
        spec = _constants(value.format_spec)
        behind = str(after.value) if isinstance(after, ast.Constant) else ""
        if SPEC.search(spec):
            yield value.lineno, f"formats by {spec!r}"
        elif re.match(r" ?%", behind):
            yield value.lineno, "writes % behind a number"
        elif spec and SIZES.match(behind):
            yield value.lineno, "writes a unit of size behind a number"


def _constants(spec: ast.expr | None) -> str:
    parts = spec.values if isinstance(spec, ast.JoinedStr) else []
    return "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def test_every_share_count_and_size_is_written_by_one_module(sources: dict[str, str]) -> None:
    judged = {module: source for module, source in sources.items() if module != FORMS}
    assert [line for module, source in judged.items() for line in form_problems(module, source)] == []


@pytest.mark.parametrize(
    "planted",
    [
        'f"{share:.1%}"',
        'f"{share:.{digits}%}"',
        'f"{share:>8.2%}"',
        'f"{count:,}"',
        'f"{count:,.0f}"',
        'f"{count:_}"',
        'f"{100 * share:.1f}%"',
        'f"{100 * share:.3g} %"',
        'f"{size / 2**20:.1f} MiB"',
        'f"{size / 1e6:.0f} MB"',
        '"{:,} lanes".format(count)',
        'format(share, ".1%")',
        'f"{count(records)} record(s) lost"',
        'what = "batch(es) lost"',
    ],
)
def test_a_form_of_its_own_is_found(planted: str) -> None:
    assert len(form_problems("keylane.planted", planted)) == 1


@pytest.mark.parametrize(
    "planted",
    [
        'f"{plural(found, name)}"',
        'f"{count(lanes)} lanes"',
        'f"{value:.2f}"',
        'f"{name:<8}"',
        'f"{number:02x}"',
        'f"{share(part)} of it"',
    ],
)
def test_a_form_that_says_nothing_of_thousands_or_percents_is_allowed(planted: str) -> None:
    assert form_problems("keylane.planted", planted) == []

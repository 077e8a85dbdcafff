"""Which module of keylane imports which, at the top, inside a function or for its types, read from the syntax."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from scripts.house import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator


def import_graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """Module -> the modules it imports, itself left out."""
    return {module: set(_imported(source, sources)) - {module} for module, source in sources.items()}


def _imported(source: str, known: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module

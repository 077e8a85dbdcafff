"""A generator or a reference that shares code with what it judges proves nothing: only `face` imports keylane."""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent


def imported(text: str) -> set[str]:
    """The first names of all modules that a text imports, and of those of this folder by their path."""
    nodes = list(ast.walk(ast.parse(text)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_only_the_face_imports_keylane() -> None:
    for path in sorted(HERE.glob("*.py")):
        names = imported(path.read_text(encoding="utf-8"))
        if path.name != "face.py" and not path.name.startswith("test_"):
            assert not [name for name in names if name.split(".")[0] == "keylane"], path.name
            assert "tests.worlds.face" not in names, path.name


def test_an_import_inside_a_function_is_seen() -> None:
    assert imported("def f():\n    from keylane.hashing import crc32\n") == {"keylane.hashing"}

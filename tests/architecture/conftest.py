"""The sources of keylane as the architecture tests read them: as syntax, never imported."""

from __future__ import annotations

from pathlib import Path

import pytest

import keylane


@pytest.fixture(scope="session")
def sources() -> dict[str, str]:
    """Module name -> source text."""
    root = Path(keylane.__file__).parent
    return {
        ".".join(("keylane", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__"): path.read_text(
            encoding="utf-8"
        )
        for path in sorted(root.rglob("*.py"))
    }

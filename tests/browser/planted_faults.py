"""Faults planted into a page, so that a test can show that it would notice them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["broken", "planted", "without_policy"]


def planted(page: Path, folder: Path, what: str, *, policy: bool = True) -> Path:
    """The page with something at the end of its body, with or without the policy that would forbid it."""
    text = page.read_text(encoding="utf-8").replace("</body>", f"{what}</body>")
    made = folder / "planted.html"
    made.write_text(text if policy else without_policy(text), encoding="utf-8")
    return made


def broken(page: Path, folder: Path, good: str, bad: str) -> Path:
    """The page with a fault in its own script, and without the policy, which would not let a changed script run."""
    text = page.read_text(encoding="utf-8")
    assert good in text
    made = folder / "broken.html"
    made.write_text(without_policy(text).replace(good, bad), encoding="utf-8")
    return made


def without_policy(text: str) -> str:
    return re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)

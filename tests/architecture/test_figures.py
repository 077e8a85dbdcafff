"""Figures in pages are those that the benchmarks kept."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
#: Page -> what `python -m benchmarks` calls the question, and whether the page has every figure of it.
PAGES = {
    "how-to/match-stream.md": ("match", True),
    "groups.md": ("simulation", True),
}


def kept(question: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        (ROOT / "benchmarks" / "results" / f"{question}.json").read_text(encoding="utf-8")
    )["figures"]
    return found


def rows(page: str) -> list[tuple[str, str]]:
    """The table of the section on costs: figures with value and unit."""
    section = page.partition("## What it costs")[2].partition("\n## ")[0]
    return [row for row in re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE) if row[0] != "figure"]


def written(figure: dict[str, Any]) -> str:
    rounded = float(f"{float(figure['value']):.3g}")
    return f"{rounded:,.0f} {figure['unit']}" if rounded >= 1e6 else f"{rounded:,g} {figure['unit']}"


def differing(page: str, figures: list[dict[str, Any]], *, every: bool) -> list[str]:
    """Rows that are not what was kept, and figures without a row where the page has to have every one."""
    known = Counter((str(one["name"]).strip(), written(one)) for one in figures)
    found = Counter(rows(page))
    apart = (found - known) + (known - found if every else Counter())
    return sorted({name for name, _ in apart})


@pytest.mark.parametrize("page", PAGES)
def test_the_page_has_the_figures_that_were_kept(page: str) -> None:
    question, every = PAGES[page]
    text, figures = (ROOT / "docs" / page).read_text(encoding="utf-8"), kept(question)
    assert differing(text, figures, every=every) == []
    first = rows(text)[0][0]
    assert differing(text.replace(f"| {first} | ", f"| {first} | 1"), figures, every=every) == [first], (
        "twin: another figure"
    )


@pytest.mark.parametrize("question", ["simulation"])
def test_what_was_kept_meets_its_targets(question: str) -> None:
    figures = kept(question)
    short = [
        one["name"]
        for one in figures
        if (one["at_least"] is not None and one["value"] < one["at_least"])
        or (one["at_most"] is not None and one["value"] > one["at_most"])
    ]
    assert short == []
    assert any(one["at_least"] is not None or one["at_most"] is not None for one in figures)

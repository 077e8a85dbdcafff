"""Figures in pages are those that the benchmarks kept."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from scripts.figures import PAGES, ROOT, kept, rows, with_figures, written


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


@pytest.mark.parametrize("page", PAGES)
def test_the_script_writes_the_table_that_the_page_has(page: str) -> None:
    question, every = PAGES[page]
    text, figures = (ROOT / "docs" / page).read_text(encoding="utf-8"), kept(question)
    name, value = rows(text)[0]
    stale = text.replace(f"| {name} | {value} |", f"| {name} | 1{value} |", 1)
    assert stale != text
    assert with_figures(stale, figures, every=every) == text


@pytest.mark.parametrize("question", ["aggregate", "assign", "match", "migrate", "shards", "simulation"])
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

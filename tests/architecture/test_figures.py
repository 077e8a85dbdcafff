"""Figures of a running match in its page are those that the benchmark kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "match-stream.md"
KEPT = json.loads((ROOT / "benchmarks" / "results" / "match.json").read_text(encoding="utf-8"))["figures"]


def rows(page: str) -> dict[str, str]:
    """The table of the section on costs: figure -> value and unit."""
    section = page.partition("## What it costs")[2]
    return {
        name: value for name, value in re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE) if name != "figure"
    }


def written(figure: dict[str, object]) -> str:
    value = figure["value"]
    assert isinstance(value, float)
    return f"{float(f'{value:.3g}'):,g} {figure['unit']}"


def differing(page: str) -> list[str]:
    """Rows that are not what was kept, and figures without a row."""
    kept = {str(one["name"]).strip(): written(one) for one in KEPT}
    found = rows(page)
    return [name for name in {*kept, *found} if kept.get(name) != found.get(name)]


def test_the_page_has_the_figures_that_were_kept() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert differing(page) == []
    first = next(iter(rows(page)))
    assert differing(page.replace(f"| {first} | ", f"| {first} | 1")) == [first], "twin: another figure"

"""The tables of figures in pages, from what the benchmarks kept: `make figures` writes them.

`python -m benchmarks NAME` keeps its figures in benchmarks/results/NAME.json. A page that shows them has a section
"What it costs" with one table. A page with every figure has them in the order in which they were printed; another one
has the rows that its author chose, by name, and only their values are written.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
HEAD: Final = "## What it costs"
ROW: Final = re.compile(r"^\| (.+?) \| (.+?) \|$", re.MULTILINE)


class Shown(NamedTuple):
    """What a page shows of a question to the benchmarks."""

    question: str
    every: bool


PAGES: Final = {
    "how-to/match-stream.md": Shown("match", every=True),
    "groups.md": Shown("simulation", every=True),
    "commands/aggregate.md": Shown("aggregate", every=True),
    "commands/assign.md": Shown("assign", every=False),
    "commands/migrate.md": Shown("migrate", every=True),
    "commands/shards.md": Shown("shards", every=False),
}


def kept(question: str) -> list[dict[str, Any]]:
    """The figures of a question, as they were printed last."""
    path = ROOT / "benchmarks" / "results" / f"{question}.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return found


def rows(page: str) -> list[tuple[str, str]]:
    """The rows of a page's table: a figure's name, and its value with the unit."""
    section = page.partition(HEAD)[2].partition("\n## ")[0]
    return [(name, value) for name, value in ROW.findall(section) if name != "figure"]


def written(figure: dict[str, Any]) -> str:
    """A figure as a page shows it: three digits that count, and its unit."""
    rounded = float(f"{float(figure['value']):.3g}")
    return f"{rounded:,.0f} {figure['unit']}" if rounded >= 1e6 else f"{rounded:,g} {figure['unit']}"


def with_figures(page: str, figures: list[dict[str, Any]], *, every: bool) -> str:
    """The page with the table as it should be; a row that names no figure is left as it is."""
    known = [(str(one["name"]).strip(), written(one)) for one in figures]
    values = dict(known)
    wanted = known if every else [(name, values.get(name, value)) for name, value in rows(page)]
    table = "\n".join(["| figure | measured |", "|---|---|", *(f"| {name} | {value} |" for name, value in wanted)])
    before, head, after = page.partition(HEAD)
    section, border, rest = after.partition("\n## ")
    section = re.sub(r"^\| figure \| measured \|\n(?:\|.*\n?)*", lambda _: table + "\n", section, flags=re.MULTILINE)
    return before + head + section + border + rest


def main() -> None:
    """Write the table of every page."""
    for name, (question, every) in PAGES.items():
        path = ROOT / "docs" / name
        path.write_text(with_figures(path.read_text(encoding="utf-8"), kept(question), every=every), encoding="utf-8")


if __name__ == "__main__":
    main()

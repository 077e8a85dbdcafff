"""What a route left in a folder, for tests: its records and its dead letters by their source positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keylane.testing.folders import dead_letters, lanes_of

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.pipelines.route import Routed


def records(target: Path) -> list[dict[str, Any]]:
    """Every record with its lane, in the order of the source."""
    rows = [{**row, "lane": lane} for _, lane, table in lanes_of(target) for row in table.to_pylist()]
    return sorted(rows, key=lambda row: (row["keylane_source"]["file"], row["keylane_source"]["row"]))


def letters(target: Path) -> dict[tuple[str, int], dict[str, Any]]:
    table = dead_letters(target)
    rows = [] if table is None else table.to_pylist()
    return {(row["keylane_source"]["file"], row["keylane_source"]["row"]): row for row in rows}


def counts(found: Routed) -> tuple[int, int, int, int]:
    return found.counts.in_, found.counts.out, found.counts.dead, found.counts.filtered

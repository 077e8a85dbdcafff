"""What README and the page of `plan` claim of plans on records they had not seen is what the benchmark recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

#: Public data; what is drawn is not claimed.
DRAWN = ("steady", "wandering")
WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


def recorded(root: Path) -> dict[str, float]:
    found: dict[str, Any] = json.loads((root / "benchmarks/results/promise.json").read_text("utf-8"))
    return {one["name"]: one["value"] for one in found["figures"] if not one["name"].startswith(DRAWN)}


def claims(figures: dict[str, float]) -> dict[str, list[str]]:
    """The words that each page has to have, from the figures."""
    worse, better = (
        [value for name, value in figures.items() if name.endswith(f"{how} than promised by")]
        for how in ("worse", "better")
    )
    plain, planned = (
        figures[f"card payments on 12 lanes, second half, {how}: does the work of"]
        for how in ("murmur2 alone", "as planned")
    )
    fitted, later = (
        figures[f"card payments on 12 lanes, as planned, on {what}"]
        for what in ("what it was fitted on", "the second half")
    )
    named = next(n for name, n in figures.items() if name.startswith("card") and "12 lanes" in name and "named" in name)
    near = sum(max(pair) < 0.1 for pair in zip(worse, better, strict=True))
    who = WORDS[int(named)]
    return {
        "README.md": [f"the work of {plain:.1f} with", f"of {planned:.1f} with the plan", f"names {who} merchants"],
        "docs/commands/plan.md": [
            f"none of {len(worse)} was worse than promised by more than {max(worse):.1%}",
            f"{near} were off by less than a tenth",
            f"the other {WORDS[len(worse) - near]} were better than promised by up to {max(better):.1%}",
            f"{fitted:.2f} times the mean on that half and {later:.2f} times on the second",
            f"the work of {planned:.1f}, with {who} merchants named",
            f"do the work of {plain:.1f}",
        ],
    }


def unclaimed(root: Path, figures: dict[str, float]) -> list[str]:
    pages = {name: " ".join((root / name).read_text("utf-8").split()) for name in claims(figures)}
    return [words for name, wanted in claims(figures).items() for words in wanted if words not in pages[name]]


def test_every_claim_is_what_was_recorded(root: Path) -> None:
    assert unclaimed(root, recorded(root)) == []


def test_twin_a_figure_that_was_recorded_again_and_not_claimed_is_noticed(root: Path) -> None:
    for name, value in recorded(root).items():
        if name.endswith(("does the work of", "on the second half", "on what it was fitted on")):
            assert unclaimed(root, {**recorded(root), name: value + 1})

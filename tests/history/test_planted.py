"""Every planted fault is caught under every seed, and clean histories are judged clean: both modes, any bucket size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.history.generated_histories import ONCE, REPEATED, clean

from keylane.testing.history import RULES, Settings, check

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.history.generated_histories import World

SEEDS = range(8)
EXACTLY, GAPS, AT_LEAST = Settings(dense=True), Settings(), Settings(mode="at-least-once")


@pytest.mark.parametrize("seed", range(25))
def test_a_clean_history_is_clean(seed: int) -> None:
    found = check(clean(seed).batches(), EXACTLY)
    assert found.ok, found.violations
    assert found.unchecked == {}


@pytest.mark.parametrize("seed", range(25))
def test_gaps_are_clean_where_they_are_allowed(seed: int) -> None:
    found = check(clean(seed, gaps=True).batches(), GAPS)
    assert found.ok, found.violations
    assert set(found.unchecked) == {"offset_gaps", "unsorted"}
    assert check(clean(seed, gaps=True).batches(), EXACTLY).counts["offset_gaps"] > 0


@pytest.mark.parametrize("seed", range(25))
def test_rewinds_are_clean_where_they_are_allowed(seed: int) -> None:
    found = check(clean(seed, replays=True).batches(), AT_LEAST)
    assert found.ok, found.violations
    assert found.facts["repeats"] > 0


@pytest.mark.parametrize("damage", ONCE, ids=lambda damage: damage.__name__)
def test_a_planted_fault_is_caught_under_every_seed(damage: Callable[[World], None]) -> None:
    for seed in SEEDS:
        world = clean(seed)
        damage(world)
        found = check(world.batches(), EXACTLY)
        assert found.counts[ONCE[damage]] > 0, seed
        assert {violation.rule for violation in found.violations} == {r for r in RULES if found.counts[r]}


@pytest.mark.parametrize("damage", REPEATED, ids=lambda damage: damage.__name__)
def test_a_planted_fault_is_caught_among_rewinds(damage: Callable[[World], None]) -> None:
    for seed in SEEDS:
        world = clean(seed, replays=True)
        damage(world)
        assert check(world.batches(), AT_LEAST).counts[REPEATED[damage]] > 0, seed


def test_rewinds_are_duplicates_where_each_record_comes_once() -> None:
    for seed in SEEDS:
        assert check(clean(seed, replays=True).batches(), EXACTLY).counts["duplicated"] > 0

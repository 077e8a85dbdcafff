from __future__ import annotations

from itertools import pairwise
from math import comb, exp, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from keylane.measure.evidence import agreement, by_chance, first_fits, log_chance, log_occupancy, shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS = 40_000


def rules(count: int, lanes: int) -> list[NDArray[Any]]:
    """Rules that know nothing of each other."""
    draw = np.random.default_rng(1)
    return [draw.integers(0, lanes, ROWS) for _ in range(count)]


def first_fit_counts(predicted: list[NDArray[Any]], at: NDArray[Any]) -> NDArray[np.int64]:
    left = np.ones(ROWS, bool)
    counts = []
    for rule in predicted:
        counts.append(int((left & (rule == at)).sum()))
        left &= rule != at
    return np.array([*counts, int(left.sum())])


def written(predicted: list[NDArray[Any]], lanes: int, truth: list[float]) -> NDArray[Any]:
    """Lanes of rows each of which was written by one of the rules, or (the last share) by none."""
    draw = np.random.default_rng(2)
    writer = draw.choice(len(truth), ROWS, p=truth)
    return np.choose(writer, [*predicted, draw.integers(0, lanes, ROWS)])


@pytest.mark.parametrize("lanes", [2, 3, 12, 100])
@pytest.mark.parametrize(
    "truth",
    [
        pytest.param([1.0, 0.0], id="one writer"),
        pytest.param([0.95, 0.05, 0.0], id="95 to 5"),
        pytest.param([0.5, 0.5, 0.0], id="even"),
        pytest.param([0.6, 0.3, 0.1, 0.0], id="three"),
        pytest.param([0.7, 0.1, 0.2], id="a fifth unexplained"),
    ],
)
def test_the_shares_of_a_mixture_are_recovered(truth: list[float], lanes: int) -> None:
    predicted = rules(len(truth) - 1, lanes)
    counts = first_fit_counts(predicted, written(predicted, lanes, truth))
    found = shares(counts, first_fits(agreement(predicted), ROWS, lanes))
    assert found == pytest.approx(truth, abs=0.02)
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("truth", [[0.95, 0.05, 0.0], [0.5, 0.5, 0.0]], ids=["95 to 5", "even"])
def test_rules_that_agree_on_half_of_the_keys_are_distinguished(truth: list[float]) -> None:
    one, other = rules(2, 12)
    related = np.where(np.arange(ROWS) % 2 == 0, one, other)
    counts = first_fit_counts([one, related], written([one, related], 12, truth))
    assert shares(counts, first_fits(agreement([one, related]), ROWS, 12)) == pytest.approx(truth, abs=0.02)


def test_the_worked_example_of_the_page() -> None:
    counts = np.array([0.954167, 0.045833, 0.0])
    matrix = np.array([[1, 1 / 12, 1 / 12], [0, 11 / 12, 11 / 144], [0, 0, 121 / 144]])
    assert shares(counts, matrix) == pytest.approx([0.95, 0.05, 0], abs=1e-5)


def test_no_share_is_negative() -> None:
    matrix = first_fits(agreement(rules(2, 12)), ROWS, 12)
    assert (shares(np.array([ROWS, 0, 0]), matrix) >= 0).all()


def exact_tail(hits: int, tries: int, chance: float) -> float:
    """The chance of at least so many hits: the binomial tail, term by term."""
    return sum(comb(tries, k) * chance**k * (1 - chance) ** (tries - k) for k in range(hits, tries + 1))


@pytest.mark.parametrize("lanes", [2, 3, 12, 100])
@pytest.mark.parametrize("tries", [1, 7, 40, 150])
def test_the_bound_on_chance_is_never_below_the_exact_binomial(tries: int, lanes: int) -> None:
    for hits in range(tries + 1):
        assert exp(log_chance(hits, tries, 1 / lanes)) >= exact_tail(hits, tries, 1 / lanes) * (1 - 1e-9)


@pytest.mark.parametrize("lanes", [2, 12, 100])
def test_more_hits_are_never_more_likely_by_chance(lanes: int) -> None:
    bounds = [log_chance(hits, 60, 1 / lanes) for hits in range(61)]
    assert all(later <= earlier for earlier, later in pairwise(bounds))


def test_all_of_k_keys_is_the_familiar_power() -> None:
    assert log_chance(10, 10, 1 / 12) == pytest.approx(-10 * log(12))


@pytest.mark.parametrize(("hits", "tries"), [(0, 0), (0, 50), (4, 48)], ids=["no keys", "no hit", "as chance has it"])
def test_no_better_than_chance_is_no_evidence(hits: int, tries: int) -> None:
    assert log_chance(hits, tries, 1 / 12) == 0.0


def test_the_bound_is_tight_enough_to_be_of_use() -> None:
    """Within a factor of the tries: 30 of 100 keys on 12 lanes."""
    assert exp(log_chance(30, 100, 1 / 12)) <= 100 * exact_tail(30, 100, 1 / 12)


def test_a_fair_rule_fits_strangers_once_in_n() -> None:
    one, other = rules(2, 12)
    assert by_chance(one, other, 12) == pytest.approx(1 / 12, rel=0.01)


@pytest.mark.parametrize("rows", [400, 5_000])
def test_a_rule_that_likes_the_lane_all_data_stands_on_fits_it_as_often(rows: int) -> None:
    """Counted, never below what the rule does by itself, so a crowded lane is no evidence."""
    likes = np.where(np.arange(rows) % 10 == 0, 0, 1 + np.arange(rows) % 11)
    crowded = np.zeros(rows, np.int64)
    assert by_chance(likes, crowded, 12) == pytest.approx(0.1, abs=0.005)
    assert log_chance(int((likes == crowded).sum()), rows, by_chance(likes, crowded, 12)) > -3


def test_keys_that_do_not_fit_a_rule_count_as_no_lane() -> None:
    assert by_chance(np.full(100, -1), np.zeros(100, np.int64), 12) < 1 / 12


def exact_occupancy(keys: int, lanes: int) -> NDArray[Any]:
    """Chance of using just j lanes after `keys` fair keys, for every j: one key at a time."""
    chance = np.zeros(lanes + 1)
    chance[0] = 1.0
    used = np.arange(lanes + 1)
    for _ in range(keys):
        stays = chance * used / lanes
        moves = chance * (lanes - used) / lanes
        chance = stays + np.concatenate([[0.0], moves[:-1]])
    return chance


@pytest.mark.parametrize("lanes", [2, 5, 12, 40])
@pytest.mark.parametrize("keys", [1, 3, 12, 60])
def test_the_bound_on_occupancy_is_never_below_the_exact_chance(keys: int, lanes: int) -> None:
    at_most = np.cumsum(exact_occupancy(keys, lanes))
    for used in range(1, lanes + 1):
        assert exp(log_occupancy(used, keys, lanes)) >= at_most[used] * (1 - 1e-9)


def test_the_bound_on_occupancy_holds_in_simulation() -> None:
    draw = np.random.default_rng(5)
    used = np.array([len(np.unique(draw.integers(0, 12, 20))) for _ in range(4_000)])
    for most in range(5, 13):
        assert (used <= most).mean() <= exp(log_occupancy(most, 20, 12)) + 0.01


def test_twelve_keys_on_one_of_twelve_lanes() -> None:
    assert log_occupancy(1, 12, 12) == pytest.approx(-11 * log(12))


@pytest.mark.parametrize(("used", "keys", "lanes"), [(0, 0, 12), (12, 100, 12), (1, 1, 12)])
def test_what_must_happen_is_certain(used: int, keys: int, lanes: int) -> None:
    assert log_occupancy(used, keys, lanes) == 0.0

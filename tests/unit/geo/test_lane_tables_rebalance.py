"""A table in use is made even by moving little, and left alone where it is even."""

from __future__ import annotations

import numpy as np
import pytest

from keylane.errors import UsageError
from keylane.geo.lane_tables import hour_cvs, pack_by_hour, rebalance


def load(leaves: int = 600, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    day = np.array([np.roll(1.2 + np.sin(np.arange(24) / 24 * 2 * np.pi), int(n)) for n in rng.integers(0, 24, leaves)])
    return rng.pareto(1.8, leaves)[:, None] * day


def drifted(seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    before = load()
    return pack_by_hour(before, 12), before * np.random.default_rng(seed).uniform(0.7, 1.3, (600, 1))


def test_a_drift_is_made_good_by_a_few_moves() -> None:
    lane, now = drifted()
    assert hour_cvs(now, lane, 12)[-1] > 0.01
    found = rebalance(lane, now, 12)
    assert hour_cvs(now, found.lanes, 12)[-1] < 0.01
    assert found.share <= 0.05
    assert found.leaves == (found.lanes != lane).sum() < 60


def test_a_new_table_would_move_nearly_everything() -> None:
    lane, now = drifted()
    anew = pack_by_hour(now, 12)
    assert now[anew != lane].sum() / now.sum() > 0.8


def test_an_even_table_is_left_alone() -> None:
    lane = pack_by_hour(load(), 12)
    found = rebalance(lane, load(), 12, goal=0.01, hour_goal=0.05)
    assert (found.leaves, found.share) == (0, 0.0)


def test_an_hour_alone_is_reason_enough_to_move() -> None:
    """Both lanes have the same day, and each sleeps while the other wakes."""
    hours = np.array([[1.0, 0.0]] * 20 + [[0.0, 1.0]] * 20)
    lane = np.repeat([0, 1], 20)
    assert rebalance(lane, hours.sum(1, keepdims=True), 2, most_moved=1).leaves == 0
    found = rebalance(lane, hours, 2, most_moved=1)
    assert hour_cvs(hours, found.lanes, 2).max() < 0.1


@pytest.mark.parametrize("most", [0.0, 0.001, 0.01])
def test_no_more_moves_than_is_allowed(most: float) -> None:
    lane, now = drifted()
    found = rebalance(lane, now, 12, goal=0.0, hour_goal=0.0, most_moved=most)
    assert found.share <= most + 1e-9
    assert now[found.lanes != lane].sum() / now.sum() == pytest.approx(found.share)


@pytest.mark.parametrize(
    ("lane", "most"),
    [([0, 12], 0.05), ([0, -1], 0.05), ([0], 0.05), ([0, 1], 1.5)],
    ids=["no lane", "none", "few", "more"],
)
def test_what_makes_no_sense_is_refused(lane: list[int], most: float) -> None:
    with pytest.raises(UsageError):
        rebalance(lane, [[1.0], [2.0]], 12, most_moved=most)

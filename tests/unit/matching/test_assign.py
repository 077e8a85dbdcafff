"""One driver to at most one rider: greedy by arrival, and the best there is, held against all that is possible."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.matching.example_tables import pairs, rows

from keylane.matching import assign
from keylane.matching.assign import ASSIGNMENTS, greedy, optimal

if TYPE_CHECKING:
    from collections.abc import Callable

BOTH = pytest.mark.parametrize("way", ASSIGNMENTS.values(), ids=list(ASSIGNMENTS))
CONTESTED = pairs(("r1", 1, "a", 100.0), ("r1", 1, "b", 200.0), ("r2", 2, "a", 150.0))


def chosen(table: pa.Table) -> dict[str, str]:
    return dict(rows(table, "rider", "driver"))


def drawn(seed: int, riders: int = 5, drivers: int = 5, share: float = 0.5) -> pa.Table:
    rng = np.random.default_rng(seed)
    near = [(one, other) for one in range(riders) for other in range(drivers) if rng.random() < share]
    return pairs(*((f"r{one}", one % 3, f"d{other}", float(rng.integers(0, 50))) for one, other in near))


def best(table: pa.Table) -> tuple[int, float]:
    """Served and metres of the best of all choices, tried one by one."""
    cost = {(rider, driver): metres for rider, driver, metres in rows(table, "rider", "driver", "distance_m")}
    riders = sorted({rider for rider, _ in cost})
    drivers = [*sorted({driver for _, driver in cost}), *[""] * len(riders)]
    tried = set(permutations(drivers, len(riders)))
    sums = [[cost[pair] for pair in zip(riders, order, strict=True) if pair in cost] for order in tried]
    served, metres = min((-len(one), sum(one)) for one in sums)
    return -served, metres


def test_greedy_serves_in_the_order_of_asking() -> None:
    assert chosen(greedy(CONTESTED)) == {"r1": "a"}


def test_optimal_serves_the_most_then_the_nearest() -> None:
    assert chosen(optimal(CONTESTED)) == {"r1": "b", "r2": "a"}


def test_greedy_goes_by_the_requests_time_then_rider() -> None:
    assert chosen(greedy(pairs(("z", 1, "a", 9.0), ("b", 2, "a", 1.0)))) == {"z": "a"}
    assert chosen(greedy(pairs(("z", 1, "a", 1.0), ("b", 1, "a", 9.0)))) == {"b": "a"}


@BOTH
def test_nobody_is_assigned_twice(way: Callable[[pa.Table], pa.Table]) -> None:
    table = drawn(3, 40, 30, 0.2)
    done = way(table)
    assert (
        len({rider for (rider,) in rows(done, "rider")}) == len({one for (one,) in rows(done, "driver")}) == len(done)
    )
    assert set(rows(done)) <= set(rows(table))
    assert len(done) > 10


@pytest.mark.parametrize("cells", [assign._MOST_CELLS, 0], ids=["dense", "sparse"])
@pytest.mark.parametrize("seed", range(12))
def test_optimal_is_the_best_of_all_choices(seed: int, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assign, "_MOST_CELLS", cells)
    table = drawn(seed, 4, 4)
    done = optimal(table)
    assert (len(done), sum(one for (one,) in rows(done, "distance_m"))) == best(table)


def test_greedy_is_not_always_the_best() -> None:
    """The twin of the one above: the check can tell the two apart."""
    tables = [drawn(seed, 4, 4) for seed in range(12)]
    got = [(len(done), sum(one for (one,) in rows(done, "distance_m"))) for done in map(greedy, tables)]
    assert got != [best(table) for table in tables]


@BOTH
def test_the_order_of_pairs_does_not_show(way: Callable[[pa.Table], pa.Table]) -> None:
    table = drawn(5, 20, 20, 0.3)
    mixed = table.take(pa.array(np.random.default_rng(1).permutation(len(table))))
    assert way(mixed).equals(way(table))


@BOTH
def test_without_pairs_nobody_is_assigned(way: Callable[[pa.Table], pa.Table]) -> None:
    assert way(pairs()).num_rows == 0


@BOTH
def test_a_rider_that_asks_twice_has_two_requests(way: Callable[[pa.Table], pa.Table]) -> None:
    assert len(way(pairs(("r", 1, "a", 5.0), ("r", 2, "b", 5.0)))) == 2

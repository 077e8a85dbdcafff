"""How even lanes by place are on population-weighted load, on records they were not fitted on; and after a drift.

60 lanes. The load: `population`. A table is fitted on one half of the events and scored on the other. A CV of 60 lanes
strays by a tenth of itself, so halves are drawn eight times more, each is fitted on once, and the mean of all
counts; the tau is chosen on the first draw, and kept. The noise floor is what a table that is perfect for one half has
on the other, sqrt(59 / n) of both halves: nothing that is fitted on one half goes below it but by luck. The worst hour
is that of the first draw. Beside it, on the same events: murmur2 of the ancestors at resolution 3, and the formula
`Math.abs(Long.hashCode(cell)) % n`.

The drift: the load of every leaf by a factor of its own, drawn between 0.7 and 1.3, or lognormal with a deviation of
30 % (mean 1), which has no bounds; then the sticky change of the table.

For matching: the table that `--radius 1000` decides for, its copies of a request and the work of its fullest lane.
"""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.population import Population, population
from benchmarks.timing import Figure, best
from keylane.geo.lane_tables import hour_cvs, rebalance
from keylane.plan.geo_work import RADIUS_M
from keylane.plan.lane_tables import TableScore, Wish, chosen, fitted, hashed, scored

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from keylane.plan.lane_tables import FittedTable

LANES, SEED, DRAWS = 60, 2026, 8
#: A mean of sixteen is at the floor when it is within three of its own deviations of it.
AT_FLOOR: Final = 1 + 3 / np.sqrt(2 * (LANES - 1) * 2 * DRAWS)


def run() -> Iterator[Figure]:
    """The world, two countries, then a drift of the world's table."""
    world = population(SEED)
    yield Figure("world: events", world.total, "events")
    table = yield from _domain("world", world, day=0.8, hour=2.5)
    yield from _beside(world)
    yield from _drifted(table)
    yield from _speed(world)
    yield from _for_matching("world", world, 1.1)
    yield from _for_matching("US", population(SEED, "US"), None)
    for name, country in (("US", "US"), ("India", "IN")):
        yield from _domain(name, population(SEED, country), day=None, hour=None)


def _domain(
    name: str, people: Population, day: float | None, hour: float | None
) -> Generator[Figure, None, FittedTable]:
    rng = np.random.default_rng(SEED)
    table, first, _ = chosen(people.halves(rng), Wish(LANES))
    assert first is not None
    found = [first.cv, *_held_out(people, table, rng)]
    floor = 100 * first.noise_floor
    at_most = AT_FLOOR * floor if day is None else day
    yield Figure(f"{name}: tau chosen", table.tau, "of a lane")
    yield Figure(f"{name}: leaves", len(table.leaves), "leaves")
    yield Figure(f"{name}: noise floor of the held-out CV", floor, "%")
    yield Figure(f"{name}: lane table, held-out CV", 100 * mean(found), "%", at_most=round(at_most, 3))
    yield Figure(f"{name}: lane table, held-out CV, the largest of {len(found)}", 100 * max(found), "%")
    yield Figure(f"{name}: lane table, CV in the worst hour", 100 * _worst(first), "%", at_most=hour)
    yield Figure(f"{name}: noise floor of the worst hour", 100 * (first.hour_noise_floor or 0.0), "%")
    return table


def _held_out(people: Population, table: FittedTable, rng: np.random.Generator) -> Iterator[float]:
    """The CV of the day for tables of other halves, each on what is left."""
    for _ in range(DRAWS):
        half = rng.binomial(people.events, 0.5)
        for fit in (half, people.events - half):
            made = fitted(people.cells, people.hours(fit), Wish(LANES), table.tau)
            yield scored(made.lanes, people.cells, (people.events - fit)[:, None].astype(float)).cv


def _worst(score: TableScore) -> float:
    return max(found for found, _ in score.hours)


def _beside(people: Population) -> Iterator[Figure]:
    load = people.halves(np.random.default_rng(SEED)).test
    for name, at in (("kafka-java", 3), ("kafka-java", 5), ("abs-long-hashcode", 3)):
        score = hashed(name, at, LANES, people.cells, load)
        yield Figure(f"world: {name} of resolution {at}, CV", 100 * score.cv, "%")
        yield Figure(f"world: {name} of resolution {at}, CV in the worst hour", 100 * _worst(score), "%")


def _drifted(table: FittedTable) -> Iterator[Figure]:
    for name, factor in _drifts(len(table.leaves)).items():
        load = table.leaves.loads * factor[:, None]
        before, moved = hour_cvs(load, table.lane, LANES), rebalance(table.lane, load, LANES)
        after = hour_cvs(load, moved.lanes, LANES)
        yield Figure(f"drift of 30 % per leaf, {name}: CV before", 100 * before[-1], "%")
        yield Figure(f"drift of 30 % per leaf, {name}: CV after", 100 * after[-1], "%", at_most=1.0)
        yield Figure(f"drift of 30 % per leaf, {name}: load moved", 100 * moved.share, "%", at_most=5.0)
        yield Figure(f"drift of 30 % per leaf, {name}: leaves moved", moved.leaves, "leaves")
        yield Figure(f"drift of 30 % per leaf, {name}: worst hour before", 100 * before[:-1].max(), "%")
        yield Figure(f"drift of 30 % per leaf, {name}: worst hour after", 100 * after[:-1].max(), "%")
        yield Figure(f"drift of 30 % per leaf, {name}: a new table would move", 100 * _moved_anew(table, load), "%")


def _drifts(leaves: int) -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(SEED)
    spread = np.sqrt(np.log(1 + 0.3**2))
    return {"uniform": rng.uniform(0.7, 1.3, leaves), "lognormal": rng.lognormal(-(spread**2) / 2, spread, leaves)}


def _moved_anew(table: FittedTable, load: NDArray[np.float64]) -> float:
    from keylane.geo.lane_tables import pack_by_hour

    return float(load[pack_by_hour(load, LANES) != table.lane].sum() / load.sum())


def _for_matching(name: str, people: Population, most: float | None) -> Iterator[Figure]:
    """The table that a radius of 1 km decides for."""
    table, held, _ = chosen(people.halves(np.random.default_rng(SEED)), Wish(LANES, radius=RADIUS_M))
    assert held is not None
    assert held.work is not None
    yield Figure(f"{name}: {table.wish.strategy} for 1 km, copies", held.work.copies, "per request", at_most=most)
    yield Figure(f"{name}: {table.wish.strategy} for 1 km, work of the fullest lane", held.work.fullest, "of the mean")
    yield Figure(f"{name}: {table.wish.strategy} for 1 km, held-out CV", 100 * held.cv, "%")
    yield Figure(f"{name}: {table.wish.strategy} for 1 km, CV in the worst hour", 100 * _worst(held), "%")


def _speed(people: Population) -> Iterator[Figure]:
    load, wish = people.hours(), Wish(LANES)
    seconds = best(1, table=lambda: fitted(people.cells, load, wish, 0.3))["table"]
    yield Figure(f"a table of {len(people.cells) / 1e6:.1f} M counted cells, 24 hours", seconds, "s")

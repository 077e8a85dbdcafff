"""The alarm rings as rarely as it says when nothing is wrong, for any number of lanes, and rings when something is."""

from __future__ import annotations

from itertools import product
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from keylane.errors import UsageError
from keylane.measure.chance import ALPHA, Runs, alarm, fair_fullest, keys_chance, records_chance

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

LANES = [2, 3, 5, 12, 64]
#: For tests that draw very often: `make test` has the fewest lanes and a usual number.
DRAWN = [pytest.param(lanes, marks=() if lanes in {2, 12} else pytest.mark.faults) for lanes in LANES]


def keys_ring(key_records: NDArray[Any], loads: NDArray[Any], alpha: float = ALPHA) -> bool:
    """Whether the fullest lane is too full for keys that fall evenly."""
    return bool(keys_chance(Runs.of(key_records), loads)[loads.argmax()] < alpha)


def ringing(records: int, lanes: int, alpha: float = ALPHA) -> int:
    """The fewest records in the fullest lane that ring; one more than there are when nothing can."""
    low, high = records // lanes, records + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if records_chance(middle, records, lanes) < alpha else (middle, high)
    return high


def two_sigma(counts: list[int]) -> bool:
    """The rule in use elsewhere: a lane above the mean by more than two deviations."""
    lanes = np.asarray(counts, float)
    return bool((lanes > lanes.mean() + 2 * lanes.std()).any())


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize("lanes", DRAWN)
def test_even_records_ring_no_more_often_than_stated(lanes: int, alpha: float) -> None:
    looks = 200_000
    drawn = np.random.default_rng(lanes).multinomial(1000, np.full(lanes, 1 / lanes), size=looks).max(axis=1)
    rings = int((drawn >= ringing(1000, lanes, alpha)).sum())
    # Four deviations of the count itself: a rate of alpha is within them, twice alpha is not.
    assert rings <= alpha * looks + 4 * np.sqrt(alpha * looks)
    assert rings >= 0.5 * alpha * looks


@pytest.mark.slow
@pytest.mark.parametrize("lanes", LANES)
def test_a_rule_without_the_correction_for_many_lanes_would_be_noticed(lanes: int) -> None:
    """The twin: the tail of one lane, taken for that of the fullest, rings about as many times too often."""
    alpha, looks = 0.05, 50_000
    drawn = np.random.default_rng(1).multinomial(1000, np.full(lanes, 1 / lanes), size=looks).max(axis=1)
    assert (drawn >= ringing(1000, lanes, alpha * lanes)).mean() > 1.4 * alpha


def test_it_rings_for_three_lanes_with_one_at_sixty_percent() -> None:
    look = alarm([180, 60, 60])
    assert look.rings
    assert (look.lane, look.share) == (0, 0.6)
    assert look.over_mean == pytest.approx(1.8)
    assert look.chance < look.alpha == 0.001


@pytest.mark.parametrize("lanes", [2, 3, 4, 5])
def test_two_sigma_never_rings_for_five_lanes_or_fewer(lanes: int) -> None:
    """The twin: even with every record on one lane, where ours rings; for six lanes two sigma can."""
    assert not two_sigma([10_000, *[0] * (lanes - 1)])
    assert alarm([10_000, *[0] * (lanes - 1)]).rings
    assert two_sigma([10_000, *[0] * 5])


def test_two_sigma_never_rings_for_three_lanes_whatever_they_hold() -> None:
    for counts in product(range(0, 101, 4), repeat=3):
        assert not two_sigma(list(counts))


@pytest.mark.parametrize(("fullest", "records", "lanes"), [(8, 10, 2), (7, 10, 3), (30, 60, 5), (40, 100, 12)])
def test_the_chance_is_the_binomial_tail_times_the_lanes(fullest: int, records: int, lanes: int) -> None:
    tail = sum(comb(records, i) * (lanes - 1) ** (records - i) for i in range(fullest, records + 1)) / lanes**records
    assert records_chance(fullest, records, lanes) == pytest.approx(min(1.0, lanes * tail), rel=1e-9)


def test_a_billion_records_are_as_exact() -> None:
    """Against the normal tail, which is right for so many: 5 deviations, two lanes."""
    records = 10**9
    fullest = records // 2 + round(5 * (records / 4) ** 0.5)
    assert records_chance(fullest, records, 2) == pytest.approx(5.733e-7, rel=0.01)


def test_too_few_records_never_ring() -> None:
    assert ringing(3, 3) == 4
    assert not alarm([3, 0, 0]).rings
    assert not alarm([0, 0]).rings


@pytest.mark.parametrize("counts", [[5], [], [[1, 2], [3, 4]], [3, -1]], ids=str)
def test_what_is_no_two_lanes_is_refused(counts: list[int]) -> None:
    with pytest.raises(UsageError):
        alarm(counts)


@pytest.mark.parametrize("alpha", [0, 1, -0.1])
def test_what_is_no_rate_is_refused(alpha: float) -> None:
    with pytest.raises(UsageError, match="rate"):
        alarm([1, 2], alpha)


def zipf(keys: int, exponent: float) -> NDArray[np.int64]:
    return (20_000 / np.arange(1, keys + 1) ** exponent).astype(np.int64) + 1


KEYED = [
    (40, 0.0, 3),
    (2_000, 1.0, 12),
    *(pytest.param(*case, marks=pytest.mark.faults) for case in [(2_000, 1.0, 2), (500, 0.5, 64), (2_000, 1.2, 3)]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "exponent", "lanes"), KEYED)
def test_a_fair_hash_of_unequal_keys_rings_no_more_often_than_stated(keys: int, exponent: float, lanes: int) -> None:
    records, rng = zipf(keys, exponent), np.random.default_rng(keys + lanes)
    looks, alpha = 1_000, 0.05
    loads = [np.bincount(rng.integers(lanes, size=keys), records, lanes) for _ in range(looks)]
    rings = [keys_ring(records, one, alpha) for one in loads]
    assert sum(rings) <= alpha * looks
    strict = [keys_ring(records, one) for one in loads]
    assert sum(strict) <= 4


@pytest.mark.slow
def test_murmur2_of_random_keys_does_not_ring_though_records_taken_alone_would(
    lanes_by: Callable[..., NDArray[np.int32]],
) -> None:
    """The null that counts: records taken alone ring at every look at a fair hash of unequal keys."""
    rng, records = np.random.default_rng(3), zipf(2_000, 1.0)
    by_keys, by_records, looks = 0, 0, 200
    for _ in range(looks):
        names = [f"key_{number}" for number in rng.integers(2**62, size=len(records))]
        loads = np.bincount(lanes_by("kafka-java", names, 12), records, 12).astype(np.int64)
        by_keys += keys_ring(records, loads, 0.05)
        by_records += alarm(loads, 0.05).rings
    assert by_keys <= 0.05 * looks
    assert by_records == looks


def test_a_hash_that_favours_a_lane_rings() -> None:
    records = np.full(6_000, 10)
    lanes = np.arange(6_000) % 3
    lanes[:400] = 0
    assert keys_ring(records, np.bincount(lanes, records, 3))
    assert not keys_ring(records, np.bincount(np.arange(6_000) % 3, records, 3))


@pytest.mark.parametrize("keys", [[3, 2, 2, 1, 1], [1] * 6, [10, 1, 1, 1], [7]], ids=str)
@pytest.mark.parametrize("lanes", [2, 3, 4])
def test_the_bound_is_above_the_chance_of_all_placements(keys: list[int], lanes: int) -> None:
    """Against every placement there is: no load has a bound below its true chance."""
    fullest = [max(np.bincount(where, keys, lanes)) for where in product(range(lanes), repeat=len(keys))]
    for load in range(1, sum(keys) + 1):
        true = np.mean([one >= load for one in fullest])
        bound = keys_chance(Runs.of(keys), [load, *[0] * (lanes - 1)])[0]
        assert bound >= min(1, true) - 1e-12


def test_the_bound_is_reached_by_equal_keys_on_one_lane() -> None:
    assert keys_chance(Runs.of([1] * 6), [6, 0, 0])[0] == pytest.approx(3**-5, rel=1e-3)


def test_a_bound_with_half_the_keys_would_be_noticed() -> None:
    """The twin: the bound of keys that are twice as heavy and half as many is another one."""
    assert keys_chance(Runs.of([2] * 3), [6, 0, 0])[0] > 5 * keys_chance(Runs.of([1] * 6), [6, 0, 0])[0]


def test_runs_say_how_many_keys_there_are_in_effect() -> None:
    runs = Runs.of([5, 5, 2, 1, 1, 1, 0])
    assert (runs.records.tolist(), runs.keys.tolist()) == ([5, 2, 1], [2, 1, 3])
    assert (runs.total, runs.squares) == (15, 57)
    assert runs.effective == pytest.approx(225 / 57)
    assert runs.below(5).total == 5
    assert Runs.of([]).effective == Runs.of([0, 0]).total == 0


@pytest.mark.parametrize("keys", [[1, 2], [3, -1]], ids=str)
def test_keys_that_do_not_stand_heaviest_first_are_refused(keys: list[int]) -> None:
    with pytest.raises(UsageError, match="heaviest first"):
        Runs.of(keys)


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "exponent", "lanes"), [*KEYED, (5_000, 0.9, 12)])
def test_the_simulated_fullest_lane_is_that_of_a_fair_hash(keys: int, exponent: float, lanes: int) -> None:
    """A tenth, the middle and nine tenths of it, against every key placed by itself: the head and the rest together."""
    records, rng = zipf(keys, exponent), np.random.default_rng(9)
    real = [np.bincount(rng.integers(lanes, size=keys), records, lanes).max() for _ in range(999)]
    simulated = fair_fullest(Runs.of(records), lanes, rng)
    spread = np.std(real)
    for part in (0.1, 0.5, 0.9):
        assert np.quantile(simulated, part) == pytest.approx(np.quantile(real, part), abs=0.35 * spread)


def test_weights_taken_together_keep_every_key_and_record_and_swing_no_less() -> None:
    runs = Runs.of(np.sort(np.random.default_rng(2).integers(1, 10**9, size=20_000))[::-1])
    wide = runs.widened()
    assert len(wide.records) < 5_000 < len(runs.records)
    assert wide.keys.sum() == pytest.approx(runs.keys.sum())
    assert wide.keys.min() >= -1e-6
    assert wide.total == pytest.approx(runs.total)
    assert runs.squares <= wide.squares <= 1.001 * runs.squares


def test_the_bound_of_weights_taken_together_is_hardly_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs.of(np.sort(np.random.default_rng(2).integers(1, 10**9, size=20_000))[::-1])
    loads = runs.total / 12 * np.array([1, 1.02, 1.05, 1.1, *[0.9] * 8])
    wide = keys_chance(runs, loads)
    monkeypatch.setattr("keylane.measure.chance.FINE", 10**9)
    fine = keys_chance(runs, loads)
    assert (wide >= fine * (1 - 1e-9)).all()
    assert wide == pytest.approx(fine, rel=0.02)


def test_few_weights_stay_as_they_are() -> None:
    runs = Runs.of([5, 5, 2, 1])
    assert runs.widened() is runs

"""Each strategy does what it says to keys it has seen, and to no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from keylane.measure.balance import max_over_mean
from keylane.plan import strategies
from keylane.plan.hashed_keys import ProfiledStream, moved_loads

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.plan.strategies import Fitted
    from keylane.profile.model import Profile

    Made = Callable[..., Profile]


def fullest(profile: Profile, lanes: int, fitted: Fitted) -> float:
    hashed = ProfiledStream(profile).hashed("kafka-java", lanes)
    return max_over_mean(moved_loads(hashed, fitted.moves, profile.by_window, fitted.tier_lanes).sum(axis=1))


def fit(name: str, profile: Profile, lanes: int) -> Fitted:
    stream = ProfiledStream(profile)
    return strategies.STRATEGIES[name](stream.hashed("kafka-java", lanes), stream.whole)


@pytest.fixture(scope="module")
def skewed(profile: Made) -> Profile:
    """One key with about a third of all records, a few large ones, many small ones."""
    rng = np.random.default_rng(5)
    return profile(rng.poisson([[4_000] * 8, *[[150] * 8] * 12, *[[3] * 8] * 2_500]))


@pytest.mark.parametrize("name", ["pin", "table"])
def test_whole_keys_come_down_to_the_floor_and_no_further(name: str, skewed: Profile) -> None:
    records = skewed.records
    floor = records[0] * 8 / records.sum()
    assert fullest(skewed, 8, strategies.Fitted()) > floor * 1.1
    stream = ProfiledStream(skewed)
    found = strategies.STRATEGIES[name](stream.hashed("kafka-java", 8), stream.whole, least=0.0)
    assert floor <= fullest(skewed, 8, found) <= floor * 1.02


@pytest.mark.parametrize("name", ["pin", "table"])
def test_keys_too_light_to_fill_a_lane_are_not_named(name: str, skewed: Profile) -> None:
    """The lane of the heaviest key could be emptied of hundreds of light ones."""
    weights = skewed.records * 8 / skewed.records.sum()
    assert all(weights[rank] >= strategies.NAMED for rank in fit(name, skewed, 8).moves)
    stream = ProfiledStream(skewed)
    every = strategies.STRATEGIES[name](stream.hashed("kafka-java", 8), stream.whole, least=0.0)
    assert len(every.moves) > 10 * len(fit(name, skewed, 8).moves)


@pytest.mark.parametrize("name", ["pin", "table"])
def test_whole_keys_have_one_lane(name: str, skewed: Profile) -> None:
    assert {len(lanes) for lanes in fit(name, skewed, 8).moves.values()} == {1}


@pytest.mark.parametrize("name", ["spread", "concentrate"])
def test_a_divided_key_goes_below_the_floor_of_whole_keys(name: str, skewed: Profile) -> None:
    assert fullest(skewed, 8, fit(name, skewed, 8)) < 1.35


def test_a_spread_touches_hot_keys_only(skewed: Profile) -> None:
    assert set(fit("spread", skewed, 8).moves) == {0}


def test_a_spread_is_no_wider_than_it_has_to_be(skewed: Profile) -> None:
    """A third of all records is 2.7 of 8 lanes: in pieces of half a lane, six; all eight would be no better."""
    assert 5 <= len(fit("spread", skewed, 8).moves[0]) <= 8


def test_concentrated_accounts_have_as_many_lanes_as_they_need(skewed: Profile) -> None:
    moves = fit("concentrate", skewed, 8).moves
    assert len(moves[0]) > len(moves[1]) == 1


def test_a_tier_takes_the_hot_keys_out_of_the_stream(skewed: Profile) -> None:
    found = fit("tier", skewed, 8)
    assert all(lane >= 8 for lanes in found.moves.values() for lane in lanes)
    assert found.tier_lanes == 1
    spread = fit("tier-spread", skewed, 8)
    assert spread.moves[0] == tuple(range(8, 8 + spread.tier_lanes))


def test_a_tier_has_no_lane_that_does_not_pay(profile: Made) -> None:
    """Of all widths the one whose fullest lane, for so many lanes, is lowest; two keys do not get five lanes."""
    hot = profile([[900] * 4] * 5 + [[1] * 4] * 1_000)
    found = fit("tier", hot, 4)
    hashed = ProfiledStream(hot).hashed("kafka-java", 4)
    ranks = np.arange(5)
    widths = {
        n: fullest(hot, 4, strategies.Fitted({r: (4 + int(at),) for r, at in enumerate(hashed.fold(ranks, n))}, n))
        for n in range(1, 21)
    }
    assert widths[found.tier_lanes] == pytest.approx(min(widths.values()))
    assert found.tier_lanes < max(n for n in widths if len(set(hashed.fold(ranks, n).tolist())) == 5)


@pytest.mark.parametrize("name", ["pin", "table", "spread", "tier", "tier-spread", "concentrate"])
def test_fewer_names_stay_below_their_limit_and_no_key_is_named_that_stays_home(name: str, profile: Made) -> None:
    rng = np.random.default_rng(3)
    uneven = profile(rng.poisson(np.outer(3_000 / (np.arange(400) + 2), np.ones(4))))
    stream = ProfiledStream(uneven)
    hashed, plain = stream.hashed("kafka-java", 8), fullest(uneven, 8, strategies.Fitted())
    found = fit(name, uneven, 8)
    fewer = strategies.with_fewer(name, hashed, stream.whole, found)
    counts = [len(one.moves) for one in fewer]
    assert len(fewer) == len(strategies.GIVEN_UP)
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < counts[0] or counts[0] < 3
    assert all(set(one.moves) <= set(found.moves) for one in fewer)
    if name.startswith("tier"):
        return  # its lanes are counted anew, so that the mean is another
    best = fullest(uneven, 8, found)
    for part, one in zip(strategies.GIVEN_UP, fewer, strict=True):
        assert fullest(uneven, 8, one) <= max(best * (1 + strategies.NEAR), best + part * (plain - best)) + 1e-9
    home = hashed.fold(np.arange(uneven.keys.num_rows))
    assert all(lanes != (int(home[rank]),) for rank, lanes in fewer[0].moves.items())


@pytest.mark.parametrize("name", ["spread", "tier", "tier-spread", "concentrate"])
def test_where_no_key_is_hot_nothing_is_done(name: str, profile: Made) -> None:
    even = profile(np.full((5_000, 4), 3))
    assert fit(name, even, 8).moves == {}


def test_what_comes_later_is_not_looked_at(profile: Made) -> None:
    """The same past with two different futures gives the same moves; no two keys weigh the same, so none is a tie."""
    past = np.repeat(3_000 - 9 * np.arange(300), 4).reshape(300, 4)
    futures = [np.hstack([past, past]), np.hstack([past, past[::-1]])]
    for name, fit_to in strategies.STRATEGIES.items():
        one, other = (_named_moves(profile(counts), fit_to) for counts in futures)
        assert one == other, name


def _named_moves(profile: Profile, fit_to: Callable[..., Fitted]) -> dict[str, tuple[int, ...]]:
    stream = ProfiledStream(profile)
    halves = next(fold for fold in stream.folds if fold.fit.last == 4)
    moves = fit_to(stream.hashed("kafka-java", 8), halves.fit).moves
    keys = profile.keys.column("k").to_pylist()
    return {keys[rank]: lanes for rank, lanes in moves.items()}

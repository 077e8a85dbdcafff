"""Promises come from records that were not fitted on; figures on all records agree with a router's count."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from keylane.plan.candidates import candidates
from keylane.plan.hashed_keys import ProfiledStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.plan.candidates import Candidate
    from keylane.profile.model import Profile

    Made = Callable[..., Profile]


def by_name(profile: Profile, *counts: int) -> dict[tuple[str, int], Candidate]:
    found = candidates(ProfiledStream(profile, counts), "kafka-java", counts)
    return {(one.strategy, one.lanes): one for one in found}


def test_there_are_twelve_strategies_at_every_lane_count(steady: Profile) -> None:
    found = by_name(steady, 4, 8, 12)
    assert len(found) == 36
    assert {strategy for strategy, _ in found} >= {"hash", "hash-crc32", "hash-fnv1a", "window", "pin", "table"}


def test_no_candidate_loses_a_record(steady: Profile) -> None:
    for one in by_name(steady, 8).values():
        assert one.loads.sum() == pytest.approx(steady.records.sum())


def test_a_steady_stream_keeps_what_is_promised(profile: Made) -> None:
    """The promise from the first half of a stream holds for its second half, within a tenth."""
    from tests.unit.plan.conftest import drawn

    counts = drawn(3_000, 400_000, windows=16, flat=20)
    names = [f"key-{i:05}" for i in range(len(counts))]
    promised = by_name(profile(counts[:, :8], names), 12)["pin", 12]
    whole = by_name(profile(counts, names), 12)["pin", 12]
    later = next(fold for fold in whole.folds if fold.cut == 8)
    assert later.scored == pytest.approx(promised.max_over_mean, rel=0.1)
    assert promised.with_all is not None
    assert promised.with_all.score.max_over_mean <= 1.02
    assert promised.score.max_over_mean <= 1.06
    assert promised.listed < promised.with_all.listed


def test_a_strategy_names_the_keys_that_cause_the_imbalance_and_no_others(profile: Made) -> None:
    """Six heavy keys are on one lane: some of them are named. The twin that gives nothing up names many more."""
    from keylane.plan import strategies

    counts = np.random.default_rng(2).poisson(2, (24_000, 8))
    names = [f"key-{i:05}" for i in range(len(counts))]
    plain = profile(counts, names)
    home = ProfiledStream(plain).hashed("kafka-java", 12).home
    heavy = [plain.keys.column("k")[int(rank)].as_py() for rank in np.flatnonzero(home == 5)[:6]]
    counts[[names.index(name) for name in heavy]] += 350
    uneven = profile(counts, names)
    found = by_name(uneven, 12)["pin", 12]
    assert set(found.fitted.moves) <= set(range(6))
    assert found.title == f"{found.listed} keys pinned, the rest hashed"
    with pytest.MonkeyPatch.context() as planted:
        planted.setattr(strategies, "GIVEN_UP", (0.0,))
        planted.setitem(strategies.STRATEGIES, "pin", partial(strategies.pin, least=0.0))
        all_of_them = by_name(uneven, 12)["pin", 12]
    assert all_of_them.listed > 6
    assert all_of_them.folds[0].share > 0.95 * found.folds[0].share


def test_what_is_written_is_as_even_as_what_was_promised(profile: Made) -> None:
    """Six keys of one lane make a third of a steady stream: the half that was planned on foretells the other."""
    names = [f"shop-{i:05}" for i in range(3_000)]
    home = ProfiledStream(profile(np.ones((3_000, 1)), names)).hashed("kafka-java", 12).home
    weights = np.full(3_000, 0.67 / 3_000)
    weights[np.flatnonzero(home == 7)[:6]] += np.array([0.09, 0.07, 0.06, 0.05, 0.04, 0.02])
    counts = np.random.default_rng(5).poisson(np.outer(weights, np.full(32, 40_000 / 16)))
    for strategy in ("pin", "table"):
        found = by_name(profile(counts[:, :16], names), 12)[strategy, 12]
        kept = {
            names.index(key): found.fitted.moves[rank][0]
            for rank, key in enumerate(ranked(counts, names))
            if rank in found.fitted.moves
        }
        lanes = np.array([kept.get(at, int(home[at])) for at in range(3_000)])
        later = np.bincount(lanes, counts[:, 16:].sum(axis=1), minlength=12)
        assert later.max() / later.sum() == pytest.approx(found.fullest_share, rel=0.08)
        assert found.listed <= 8


def ranked(counts: Any, names: list[str]) -> list[str]:
    """Names in the order of a profile of the first half."""
    order = np.argsort(-counts[:, :16].sum(axis=1), kind="stable")
    return [names[at] for at in order.tolist()]


def test_a_key_that_grows_is_seen_in_the_promise_and_not_in_the_fit(profile: Made) -> None:
    grows = [[1] * 7 + [6_000], *[[20] * 8] * 200]
    one = by_name(profile(grows), 8)["pin", 8]
    assert one.max_over_mean > 2 > one.folds[0].fitted


def test_without_a_later_part_the_promise_is_the_fit(profile: Made) -> None:
    one = by_name(profile([[50], [3], [2]]), 2)["pin", 2]
    assert one.folds == ()
    assert one.max_over_mean == one.score.max_over_mean


def test_the_hottest_share_is_that_of_one_lane(profile: Made) -> None:
    found = by_name(profile([[400, 400], *[[1, 1]] * 400]), 8)
    assert found["hash", 8].hottest_key_share == pytest.approx(0.5)
    width = len(found["spread", 8].fitted.moves[0])
    assert found["spread", 8].hottest_key_share == pytest.approx(0.5 / width)


def test_window_and_key_together_are_evener_than_the_key_alone(profile: Made) -> None:
    found = by_name(profile([[400] * 24, *[[5] * 24] * 500]), 8)
    assert found["window", 8].score.max_over_mean < found["hash", 8].score.max_over_mean
    assert found["keyless", 8].score.max_over_mean == pytest.approx(1.0)


def test_a_worst_window_is_worse_than_the_whole(profile: Made) -> None:
    turns = np.zeros((8, 8), int)
    np.fill_diagonal(turns, 100)
    one = by_name(profile(turns), 8)["pin", 8]
    assert one.score.worst_window == pytest.approx(8.0)

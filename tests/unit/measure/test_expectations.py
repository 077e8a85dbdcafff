"""Chance and expectations: how often a stream that keeps them is called broken, and one that does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from keylane.contract.model import Expect
from keylane.measure.chance import ALPHA
from keylane.measure.expectations import Expectation, KeySample, judged

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Draw = Callable[[np.random.Generator], tuple[Numbers, Numbers]]

LANES, LOOKS = 64, 300


def sample(records: Numbers, lanes: Numbers) -> KeySample:
    """A sample of keys, by the rows of each and its lane."""
    per_lane = np.bincount(lanes, records, LANES).astype(np.int64)
    return KeySample(int(records.sum()), len(records), int(records.max()), 0, per_lane, records, lanes)


def balance(records: Numbers, lanes: Numbers, allowed: float = 1.3) -> Expectation:
    (one,) = judged(Expect(max_over_mean=allowed), sample(records, lanes))
    return one


def judgements(draw: Draw, looks: int = LOOKS) -> Counter[str]:
    rng = np.random.default_rng(15)
    return Counter(balance(*draw(rng)).judgement for _ in range(looks))


def even(keys: int, rows: int = 1) -> Draw:
    return lambda rng: (np.full(keys, rows, np.int64), rng.integers(LANES, size=keys))


def one_lane_at(times: float, keys: int) -> Draw:
    """Keys of a stream one lane of which has `times` its share."""
    shares = np.full(LANES, (1 - times / LANES) / (LANES - 1))
    shares[7] = times / LANES
    return lambda rng: (np.ones(keys, np.int64), rng.choice(LANES, size=keys, p=shares))


def bursts(keys: int) -> Draw:
    return lambda rng: (rng.geometric(0.2, size=keys), rng.integers(LANES, size=keys))


def hot_key(share: float, keys: int) -> Draw:
    weights = np.append(np.ones(keys, np.int64), round(share * keys / (1 - share)))
    return lambda rng: (weights, rng.integers(LANES, size=keys + 1))


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(even(1_000), id="a thousand keys"),
        pytest.param(even(5), id="five rows"),
        pytest.param(even(1_000, 50), id="a thousand keys, fifty rows each", marks=pytest.mark.faults),
        pytest.param(even(100, 20), id="hardly more keys than lanes"),
        pytest.param(bursts(500), id="bursts"),
        pytest.param(one_lane_at(1.3, 1_000), id="a stream that just keeps it"),
        pytest.param(one_lane_at(1.3, 5_000), id="a stream that just keeps it, many keys", marks=pytest.mark.faults),
    ],
)
def test_a_stream_that_keeps_its_contract_is_broken_no_more_often_than_stated(draw: Draw) -> None:
    """Three hundred samples of a rate of one in a thousand: more than two have a chance of 0.4 %."""
    assert judgements(draw)["broken"] <= 2
    assert pytest.approx(0.001) == ALPHA


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(one_lane_at(4, 1_000), id="a lane of four times its share"),
        pytest.param(one_lane_at(1.8, 40_000), id="little beyond, many keys"),
        pytest.param(hot_key(0.05, 3_000), id="a hot key"),
        pytest.param(hot_key(0.9, 2_000), id="a giant"),
        pytest.param(even(40, 1_000), id="too few keys for the lanes, and known ones"),
        pytest.param(even(1, 100_000), id="one key"),
    ],
)
def test_a_stream_that_is_skewed_is_found(draw: Draw) -> None:
    found = judgements(draw, 60)
    assert found["broken"] >= 0.95 * 60, found


def test_the_answer_says_which_part_is_chance_and_how_many_keys_would_do() -> None:
    one = balance(*even(1_000)(np.random.default_rng(3)))
    assert one.judgement == "cannot-tell"
    assert one.usual == pytest.approx(1.6)
    assert one.chance == 1
    assert one.got < one.by_chance < 3
    assert "1,000 keys on 64 lanes show 1.60" in one.says
    assert "cannot tell: about 13,000 more keys needed" in one.says
    more = balance(*even(14_000)(np.random.default_rng(3)))
    assert more.judgement == "kept"


def test_what_is_shown_by_chance_is_where_it_breaks() -> None:
    """The fullest lane, raised key by key: judged broken just beyond `by_chance`."""
    records, lanes = even(2_000)(np.random.default_rng(1))
    seen: dict[str, list[float]] = {"cannot-tell": [], "broken": []}
    for raised in range(40, 90):
        crowded = np.where(np.arange(2_000) < raised, 5, lanes % LANES).astype(np.int64)
        one = balance(records, np.where(np.arange(2_000) < raised, 5, np.where(crowded == 5, 6, crowded)))
        seen[one.judgement].append(one.got)
    limit = balance(records, lanes).by_chance
    assert max(seen["cannot-tell"]) <= limit < min(seen["broken"]) + 0.05


def test_lanes_that_are_no_chance_are_found_beside_one_that_is_fuller() -> None:
    """A giant of too few rows cannot be judged; the crowded lane beside it can."""
    rng = np.random.default_rng(2)
    lanes = np.concatenate([[9], np.full(400, 3), rng.integers(LANES, size=3_000)])
    records = np.concatenate([[99], np.full(3_400, 1)])
    assert balance(records, lanes, 3.0).judgement == "broken"


@pytest.mark.parametrize(
    ("expect", "rows", "heaviest", "without", "distinct", "judgement"),
    [
        ({"max_key_share": 0.02}, 5, 1, 0, 5, "cannot-tell"),
        ({"max_key_share": 0.02}, 1_000, 25, 0, 500, "cannot-tell"),
        ({"max_key_share": 0.02}, 1_000, 60, 0, 500, "broken"),
        ({"max_key_share": 0.02}, 1_000, 20, 0, 500, "kept"),
        ({"max_null_share": 0.01}, 50, 1, 2, 40, "cannot-tell"),
        ({"max_null_share": 0.01}, 5_000, 1, 100, 4_000, "broken"),
        ({"max_null_share": 0.0}, 10, 1, 1, 9, "broken"),
        ({"min_distinct_keys": 40}, 5, 1, 0, 5, "cannot-tell"),
        ({"min_distinct_keys": 40}, 5_000, 200, 0, 39, "broken"),
        ({"min_distinct_keys": 40}, 5_000, 200, 0, 40, "kept"),
        ({"min_distinct_keys": 1_000_000}, 1_000, 1, 0, 1_000, "cannot-tell"),
        ({"min_distinct_keys": 10**12}, 10_000_000, 20_000, 0, 500, "broken"),
    ],
)
def test_shares_and_counts_know_the_size_of_the_sample(
    expect: dict[str, float], rows: int, heaviest: int, without: int, distinct: int, judgement: str
) -> None:
    empty = np.zeros(0, np.int64)
    counted = KeySample(rows, distinct, heaviest, without, np.zeros(LANES, np.int64), empty, empty)
    (one,) = judged(Expect.model_validate(expect), counted)
    assert one.judgement == judgement, one
    assert ("cannot tell" in one.says) == (judgement == "cannot-tell")


def rare(keys: int, rows: int, rng: np.random.Generator) -> KeySample:
    """A sample of keys whose weights fall off by a power, as those of shops do."""
    weights = 1 / np.arange(1, keys + 1)
    records = rng.multinomial(rows, weights / weights.sum())
    records = records[records > 0]
    lanes = np.zeros(len(records), np.int64)
    return replace(sample(records, lanes), once=int((records == 1).sum()))


def counts(allowed: int, keys: int, rows: int, looks: int = 100) -> Counter[str]:
    rng = np.random.default_rng(15)
    expect = Expect(min_distinct_keys=allowed)
    return Counter(one.judgement for _ in range(looks) for one in judged(expect, rare(keys, rows, rng)))


@pytest.mark.parametrize("rows", [30, 300, 2_000, 20_000])
def test_keys_that_are_too_rare_for_a_sample_do_not_break_the_count(rows: int) -> None:
    """The stream has half as many keys again as are asked for, and no sample of these sizes shows them."""
    assert counts(10_000, 15_000, rows) == {"cannot-tell": 100}


def test_keys_that_are_not_there_break_the_count_however_they_weigh() -> None:
    assert counts(1_000, 100, 1_000)["broken"] >= 95
    assert counts(5_000, 1_000, 20_000)["broken"] >= 95


def test_twin_without_the_keys_seen_once_a_stream_that_has_the_keys_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keylane.measure.expectations.FURTHER", 0.0)
    assert counts(10_000, 15_000, 2_000)["broken"] > 95


def test_twin_without_the_hot_keys_set_apart_a_hot_key_is_taken_for_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keylane.measure.expectations.KNOWN", 10**9)
    assert judgements(hot_key(0.05, 3_000), 20)["broken"] == 0


def test_twin_without_the_chance_of_keys_a_thousand_even_keys_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keylane.measure.expectations.share_chance", lambda *_: 0.0)
    assert judgements(even(1_000, 50), 20)["broken"] > 10

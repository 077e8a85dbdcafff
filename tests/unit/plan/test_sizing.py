"""Lane count from throughput: every reason decides somewhere, skew is counted, limits are held, bad input refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from keylane.errors import UnknownNameError, UsageError
from keylane.plan.sizing import LIMITS, Demand, Sizing, lanes_for, limits_of, services

if TYPE_CHECKING:
    from collections.abc import Callable


def even(lanes: int) -> float:
    return 1.0


def twice(lanes: int) -> float:
    return 2.0


def one_key(share: float) -> Callable[[int], float]:
    """One key of this share, the rest spread at will."""
    return lambda lanes: max(1.0, share * lanes)


def sized(demand: Demand, skew: Any = even, **more: Any) -> Sizing:
    return lanes_for(demand, skew, **more)


def test_the_peak_over_what_a_lane_carries() -> None:
    found = sized(Demand(96))
    assert (found.lanes, found.suggested, found.binding) == (14, 16, "writing")
    assert found.fullest_lane_mb_s == 6
    assert "one lane carries 10 MB/s" in found.assumptions[0]
    assert "6.857 of 7 MB/s; suggested: 16" in found.says


def test_skew_is_counted() -> None:
    found = sized(Demand(96), twice)
    assert (found.lanes, found.suggested) == (28, 32)
    assert 96 * 2 / 28 <= 7 < 96 * 2 / 27


def test_a_count_without_the_skew_would_overrun_its_fullest_lane() -> None:
    """The twin: what suffices for even lanes is twice too little when the fullest has twice the mean."""
    blind = sized(Demand(96)).lanes
    assert blind is not None
    assert 96 * 2.0 / blind > 7


@pytest.mark.parametrize(
    ("demand", "binding", "lanes"),
    [
        (Demand(96, reader_mb_s=2), "reading", 69),
        (Demand(96, peak_records_s=70_000, reader_records_s=1_000), "reading-records", 100),
        (Demand(96, readers=40), "readers", 40),
        (Demand(96, lane_mb_s=20, headroom=0), "writing", 5),
        (Demand(96, growth=2), "writing", 28),
        (Demand(70), "writing", 10),
        (Demand(0), "writing", 1),
    ],
)
def test_each_reason_decides_where_it_asks_for_the_most(demand: Demand, binding: str, lanes: int) -> None:
    found = sized(demand)
    assert (found.binding, found.lanes) == (binding, lanes)


def test_wanted_readers_are_not_multiplied_by_skew() -> None:
    assert sized(Demand(1, readers=12), twice).lanes == 12


@pytest.mark.parametrize("known", [None, 0.1])
def test_a_key_that_overruns_a_lane_alone_has_no_lane_count(known: float | None) -> None:
    """With its share told, or found by trying."""
    found = sized(Demand(96), one_key(0.1), hottest_share=known)
    assert (found.lanes, found.suggested, found.parallelism, found.limits) == (None, None, None, ())
    assert found.needs[-1].lanes == 1
    assert "No lane count" in found.says
    assert ("spread that key" in found.says) == (known is not None)


def test_a_key_that_just_fits_has_one() -> None:
    """Its neighbour: 7 MB/s of 96 is what one lane may carry; and the ceiling is told."""
    share = 7 / 96
    found = sized(Demand(96), one_key(share), hottest_share=share)
    assert (found.lanes, found.useful_lanes) == (14, 13)


def test_the_count_does_for_every_reason_at_once_though_skew_does_not_fall() -> None:
    """At 14 lanes even, at 15 and 16 twice the mean: readers want 15, so writing must be asked again."""
    found = sized(Demand(96, readers=15), lambda lanes: 1.0 if lanes == 14 else 2.0)
    assert found.needs[0].lanes == 14
    assert (found.lanes, found.suggested) == (28, 32)


def test_of_a_list_the_first_count_that_does() -> None:
    found = sized(Demand(96), {12: 1.0, 18: 1.3, 24: 1.3, 48: 1.4})
    assert (found.lanes, found.suggested, found.max_over_mean) == (18, 18, 1.3)
    assert sized(Demand(96, readers=20), {12: 1.0, 24: 1.3, 32: 1.3}).suggested == 32
    assert sized(Demand(96), {12: 1.0}).lanes is None
    assert sized(Demand(96, readers=20), {18: 1.0}).lanes is None


def test_each_count_is_asked_once() -> None:
    asked: list[int] = []

    def skew(lanes: int) -> float:
        asked.append(lanes)
        return 1.5

    sized(Demand(96, reader_mb_s=3, readers=9), skew)
    assert len(asked) == len(set(asked))


def test_readers_get_what_the_fullest_lane_lets_them() -> None:
    found = sized(Demand(96), twice, loaded_of=lambda lanes: min(lanes, 20))
    assert (found.useful_readers, found.parallelism) == (20, 16)
    assert sized(Demand(96), loaded_of={16: 9}).useful_readers == 9
    assert sized(Demand(96)).useful_readers == 16


def test_a_shard_takes_what_its_service_lets_it() -> None:
    found = sized(Demand(10, peak_records_s=50_000, service="kinesis"))
    assert {need.reason: need.lanes for need in found.needs} == {
        "writing": 15,
        "reading": 8,
        "service-records": 72,
        "readers": 1,
    }
    assert (found.binding, found.suggested, found.broken) == ("service-records", 128, ())
    assert not any("one lane takes" in text for text in found.assumptions)


def test_a_limit_that_the_answer_would_break_is_named() -> None:
    demand = Demand(96, readers=2_000, service="msk-large", brokers=3)
    found = sized(demand)
    assert found.suggested == 2_048
    assert [check.limit.name for check in found.broken] == [
        "Amazon MSK Standard .large, recommended",
        "Amazon MSK Standard .large, maximum for updates",
    ]
    assert found.broken[0].would_be == 2_048
    assert found.broken[0].says.endswith("2048 of 1000 replicas a broker (recommended): too many")


def test_the_same_answer_on_enough_brokers_breaks_none() -> None:
    assert sized(Demand(96, readers=2_000, service="msk-large", brokers=7)).broken == ()


def test_brokers_that_are_not_counted_are_asked_for() -> None:
    checks = sized(Demand(96, readers=2_000, service="msk-large")).limits
    assert (checks[0].would_be, checks[0].broken) == (None, False)
    assert checks[0].says.endswith("needs 7 brokers or more")


def test_the_lanes_of_other_streams_count() -> None:
    demand = Demand(96, service="confluent-basic", lanes_elsewhere=4_090)
    assert len(sized(demand).broken) == 1
    assert sized(Demand(96, service="confluent-basic", lanes_elsewhere=4_080)).broken == ()


def test_every_service_has_its_limits_and_an_unknown_one_is_named() -> None:
    assert {limit.service for limit in LIMITS} == set(services())
    for service in services():
        assert sized(Demand(1, service=service, brokers=3)).limits
        assert all(limit.most > 0 for limit in limits_of(service))
    with pytest.raises(UnknownNameError, match="did you mean 'kinesis'"):
        sized(Demand(1, service="kinesys"))


@pytest.mark.parametrize(
    "given",
    [
        {"lane_mb_s": 0},
        {"reader_mb_s": -1},
        {"growth": 0},
        {"replication": 0},
        {"readers": 0},
        {"brokers": 0},
        {"peak_records_s": -1},
        {"lanes_elsewhere": -1},
        {"headroom": 1},
        {"headroom": -0.1},
        {"reader_records_s": 5},
    ],
    ids=str,
)
def test_a_demand_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Demand(96, **given)
    with pytest.raises(UsageError):
        Demand(-1)
